package socket

import (
	"encoding/binary"
	"io"
	"math"
	"unicode/utf8"
)

// Code says why a WebSocket was closed.
type Code uint16

// The codes that a server of ours says.
const (
	Normal     Code = 1000
	Protocol   Code = 1002 // the peer broke the protocol
	Policy     Code = 1008 // the peer did what it may not, or has no right any more
	Failed     Code = 1011 // something went wrong inside
	TryAgain   Code = 1013 // later, or elsewhere
	badPayload Code = 1007
)

type opcode byte

const (
	opText  opcode = 1
	opClose opcode = 8
	opPing  opcode = 9
	opPong  opcode = 10

	opData opcode = 2 // the last of those that carry messages

	final    = 0x80
	masked   = 0x80
	reserved = 0x70

	short      = 125 // bytes of the longest payload whose length is one byte, and of a control frame
	twoBytes   = 126
	eightBytes = 127

	maskLength = 4
	maxHead    = 10                           // bytes of a head that is sent
	maxHeard   = maxHead + maskLength + short // bytes of a frame that is heard whole
	codeLength = 2
	maxWhy     = short - codeLength // bytes of the reason in a close frame
)

// AppendHead appends what goes before a text of so many bytes.
func AppendHead(b []byte, length int) []byte { return appendHead(b, opText, length) }

func appendHead(b []byte, op opcode, length int) []byte {
	b = append(b, final|byte(op))
	switch {
	case length <= short:
		return append(b, byte(length)) //nolint:gosec // it was looked at
	case length <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, twoBytes), uint16(length))
	}
	return binary.BigEndian.AppendUint64(append(b, eightBytes), uint64(length))
}

// AppendText appends a text as a message.
func AppendText(b, text []byte) []byte { return append(AppendHead(b, len(text)), text...) }

// AppendMade appends as a message the text that a function appends to what it is given.
func AppendMade(b []byte, text func([]byte) []byte) []byte {
	begin := len(b)
	b = text(append(b, make([]byte, maxHead)...))
	length := len(b) - begin - maxHead
	n := len(AppendHead(b[begin:begin], length)) // in the place that was kept for it, which may be too long
	copy(b[begin+n:], b[begin+maxHead:])
	return b[:begin+n+length]
}

// closing returns a close frame. The reason is cut where it is too long.
func closing(code Code, why string) []byte {
	if len(why) > maxWhy {
		why = why[:maxWhy]
		for !utf8.ValidString(why) {
			why = why[:len(why)-1]
		}
	}
	b := appendHead(nil, opClose, codeLength+len(why))
	return append(binary.BigEndian.AppendUint16(b, uint16(code)), why...)
}

// amiss is what a peer did wrong.
type amiss struct {
	code Code
	why  string
}

func (a *amiss) Error() string { return a.why }

func wrong(why string) error { return &amiss{Protocol, why} }

// heard is a frame of the peer.
type heard struct {
	op      opcode
	payload []byte // of a control frame
}

// next reads a frame, of a message only its head.
func (c *Conn) next() (heard, error) {
	if c.unread > 0 {
		n, err := io.CopyN(io.Discard, c.in, c.unread)
		if c.unread -= n; err != nil {
			return heard{}, err
		}
	}
	start, err := c.in.Peek(2)
	if err != nil {
		return heard{}, err
	}
	op, length := opcode(start[0]&0x0f), uint64(start[1]&^masked)
	switch {
	case start[0]&reserved != 0:
		return heard{}, wrong("reserved bits are set")
	case op > opPong || op > opData && op < opClose:
		return heard{}, wrong("unknown opcode")
	case start[1]&masked == 0:
		return heard{}, wrong("a frame is not masked")
	case op >= opClose && (start[0]&final == 0 || length > short):
		return heard{}, wrong("a control frame is in pieces, or too long")
	}
	return c.rest(op, length)
}

// rest reads what follows the first two bytes of a frame.
func (c *Conn) rest(op opcode, length uint64) (heard, error) {
	size := 2
	switch length {
	case twoBytes:
		size = 4
	case eightBytes:
		size = 10
	}
	start, err := c.in.Peek(size + maskLength)
	if err != nil {
		return heard{}, err
	}
	switch mask := [maskLength]byte(start[size:]); {
	case op >= opClose:
		_, _ = c.in.Discard(size + maskLength)  // it is there
		return c.control(op, int(length), mask) //nolint:gosec // it was looked at
	case length == twoBytes:
		length = uint64(binary.BigEndian.Uint16(start[2:]))
	case length == eightBytes:
		length = binary.BigEndian.Uint64(start[2:])
	}
	if length > math.MaxInt64 {
		return heard{}, wrong("a length is none")
	}
	_, _ = c.in.Discard(size + maskLength) // as above
	c.unread = int64(length)
	return heard{op: op}, nil
}

// control reads the payload of a control frame.
func (c *Conn) control(op opcode, length int, mask [maskLength]byte) (heard, error) {
	f := heard{op, make([]byte, length)}
	_, err := io.ReadFull(c.in, f.payload)
	for i := range f.payload {
		f.payload[i] ^= mask[i%maskLength]
	}
	return f, err
}

// farewell returns with what a peer's close is answered: with the same, if that may be said.
func farewell(payload []byte) []byte {
	if len(payload) == 0 {
		return appendHead(nil, opClose, 0)
	}
	if len(payload) < codeLength || !sayable(Code(binary.BigEndian.Uint16(payload))) {
		return closing(Protocol, "this is no code of a close frame")
	}
	if !utf8.Valid(payload[codeLength:]) {
		return closing(badPayload, "the reason is not UTF-8")
	}
	return append(appendHead(nil, opClose, codeLength), payload[:codeLength]...)
}

// sayable reports whether a close frame may have a code: some say only what was seen.
func sayable(code Code) bool {
	return code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000 && code < 5000
}
