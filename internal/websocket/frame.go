package websocket

import (
	"errors"
	"io"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// Code is the status code of a close frame.
type Code = ws.StatusCode

// The codes that the server sends.
const (
	Normal   = ws.StatusNormalClosure
	Protocol = ws.StatusProtocolError       // the peer broke the protocol
	Policy   = ws.StatusPolicyViolation     // the peer broke a rule, or has lost its access
	Failed   = ws.StatusInternalServerError // internal error
	TryAgain = Code(1013)                   // later, or elsewhere

	codesEnd = Code(5000) // RFC 6455, section 7.4.2
)

const (
	maxHead  = ws.MaxHeaderSize - 4                             // bytes of an outgoing head, which has no mask
	maxHeard = ws.MaxHeaderSize + ws.MaxControlFramePayloadSize // bytes of an incoming control frame
	maxWhy   = ws.MaxControlFramePayloadSize - 2                // bytes of the reason in a close frame
)

// piece is a slice that implements io.Writer.
type piece []byte

func (p *piece) Write(b []byte) (int, error) {
	*p = append(*p, b...)
	return len(b), nil
}

func appendHead(b []byte, op ws.OpCode, length int) []byte {
	_ = ws.WriteHeader((*piece)(&b), ws.Header{Fin: true, OpCode: op, Length: int64(length)}) // memory does not fail, and a length is valid
	return b
}

// AppendHead appends the head of a text message with this many bytes.
func AppendHead(b []byte, length int) []byte { return appendHead(b, ws.OpText, length) }

// AppendText appends a text message.
func AppendText(b, text []byte) []byte { return append(AppendHead(b, len(text)), text...) }

// AppendMade appends a text message with the text that the function appends to its argument.
func AppendMade(b []byte, text func([]byte) []byte) []byte {
	var space [maxHead]byte
	begin := len(b)
	b = text(append(b, space[:]...))
	length := len(b) - begin - maxHead
	n := copy(b[begin:], AppendHead(space[:0], length))
	copy(b[begin+n:], b[begin+maxHead:])
	return b[:begin+n+length]
}

// closing returns a close frame. A reason that is too long is cut.
func closing(code Code, why string) []byte {
	if len(why) > maxWhy {
		why = why[:maxWhy]
		for !utf8.ValidString(why) {
			why = why[:len(why)-1]
		}
	}
	body := ws.NewCloseFrameBody(code, why)
	return append(appendHead(nil, ws.OpClose, len(body)), body...)
}

// amiss is the error for a peer that broke a rule.
type amiss struct {
	code Code
	why  string
}

func (a *amiss) Error() string { return a.why }

// heard is a frame from the peer.
type heard struct {
	op      ws.OpCode
	payload []byte // of a control frame
}

// next reads a control frame, or the head of a message's frame.
func (c *Conn) next() (heard, error) {
	if c.unread > 0 {
		n, err := io.CopyN(io.Discard, c.in, c.unread)
		if c.unread -= n; err != nil {
			return heard{}, err
		}
	}
	h, err := ws.ReadHeader(c.in)
	switch {
	case errors.Is(err, ws.ErrHeaderLengthMSB):
		return heard{}, &amiss{Protocol, err.Error()}
	case err != nil:
		return heard{}, err
	}
	if err := ws.CheckHeader(h, c.state); err != nil {
		return heard{}, &amiss{Protocol, err.Error()}
	}
	if !h.OpCode.IsControl() {
		c.unread, c.state = h.Length, ws.StateServerSide
		if !h.Fin {
			c.state = c.state.Set(ws.StateFragmented)
		}
		return heard{op: h.OpCode}, nil
	}
	f := heard{h.OpCode, make([]byte, h.Length)}
	_, err = io.ReadFull(c.in, f.payload)
	ws.Cipher(f.payload, h.Mask, 0)
	return f, err
}

// farewell returns the answer to a peer's close: the same code, if it may be sent.
func farewell(payload []byte) []byte {
	if len(payload) == 0 {
		return appendHead(nil, ws.OpClose, 0)
	}
	code, why := ws.ParseCloseFrameData(payload)
	switch err := ws.CheckCloseFrameData(code, why); {
	case errors.Is(err, ws.ErrProtocolInvalidUTF8):
		return closing(ws.StatusInvalidFramePayloadData, err.Error())
	case err != nil:
		return closing(Protocol, err.Error())
	case code >= codesEnd:
		return closing(Protocol, "invalid close code")
	}
	return append(appendHead(nil, ws.OpClose, 2), payload[:2]...)
}
