package websocket_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/sockettest"
	"github.com/sluice-io/sluice/internal/websocket"
)

const patience = time.Minute

// handshake returns the one of RFC 6455, 1.3, with some headers in others' place.
func handshake(t *testing.T, headers ...string) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	for _, h := range append([]string{
		"Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	}, headers...) {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	return req
}

func TestHandshake_AnswersByTheStandard(t *testing.T) {
	t.Parallel()
	accept, err := websocket.Accept(handshake(t))
	require.NoError(t, err)
	require.Equal(t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", accept)
}

func TestHandshake_RefusesOtherRequests(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"Connection: ", "Connection: keep-alive", "Connection: xupgrade", "Upgrade: ", "Upgrade: h2c",
		"Sec-WebSocket-Version: ", "Sec-WebSocket-Version: 8",
		"Sec-WebSocket-Key: ", "Sec-WebSocket-Key: short", "Sec-WebSocket-Key: c2hvcnQ=", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==x",
	} {
		_, err := websocket.Accept(handshake(t, header))
		require.Error(t, err, header)
	}
	for name, change := range map[string]func(r *http.Request){
		"two keys":  func(r *http.Request) { r.Header.Add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==") },
		"a POST":    func(r *http.Request) { r.Method = http.MethodPost },
		"HTTP/1.0":  func(r *http.Request) { r.ProtoMinor = 0 },
		"HTTP/2":    func(r *http.Request) { r.ProtoMajor, r.ProtoMinor = 2, 0 },
		"a body":    func(r *http.Request) { r.ContentLength = 1 },
		"in chunks": func(r *http.Request) { r.ContentLength = -1 },
	} {
		req := handshake(t)
		change(req)
		_, err := websocket.Accept(req)
		require.Error(t, err, name)
	}
}

// said is a frame that a peer says, masked.
func said(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xfe), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0xff), uint64(n))
	}
	mask := []byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, mask...)
	for i := range payload {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

// frames reads what a server says: of each frame its first byte and its payload. What is no frame of a server is an error.
func frames(tb testing.TB, b []byte) (all []string) {
	tb.Helper()
	for len(b) > 0 {
		require.GreaterOrEqual(tb, len(b), 2)
		require.Zero(tb, b[1]&0x80, "a server masks nothing")
		size, length := 2, int(b[1])
		switch length {
		case 126:
			size, length = 4, int(binary.BigEndian.Uint16(b[2:]))
		case 127:
			size, length = 10, int(binary.BigEndian.Uint64(b[2:]))
		}
		require.GreaterOrEqual(tb, len(b), size+length)
		all = append(all, string(b[:1])+string(b[size:size+length]))
		b = b[size+length:]
	}
	return all
}

// wire is a connection whose peer said all that it has to say, and takes everything.
type wire struct {
	io.Reader
	net.Conn

	said   bytes.Buffer
	closed bool
}

func (w *wire) Write(p []byte) (int, error) {
	if w.closed {
		return 0, net.ErrClosed
	}
	return w.said.Write(p)
}

func (w *wire) Read(p []byte) (int, error)       { return w.Reader.Read(p) }
func (w *wire) Close() error                     { w.closed = true; return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// answered returns what is answered to what a peer says, until it leaves or the server does.
func answered(tb testing.TB, peer io.Reader) []string {
	tb.Helper()
	w := &wire{Reader: peer}
	c := websocket.New(w, nil, websocket.Options{})
	c.Hear()
	c.Close(websocket.TryAgain, "over")
	require.True(tb, w.closed)
	require.EqualValues(tb, w.said.Len(), c.Sent())
	return frames(tb, w.said.Bytes())
}

func TestPeer_MayOnlyPingPongAndClose(t *testing.T) {
	t.Parallel()
	const noText, protocol, policy = "\x88\x03\xef", "\x88\x03\xea", "\x88\x03\xf0"
	long := strings.Repeat("x", 125)
	tests := []struct {
		name string
		give []byte
		want []string // how the frames begin
	}{
		{"a ping", said(0x89, "a"), []string{"\x8aa"}},
		{"an empty ping", said(0x89, ""), []string{"\x8a"}},
		{"the longest pings", append(said(0x89, long), said(0x89, long)...), []string{"\x8a" + long, "\x8a" + long}},
		{"an unsolicited pong", append(said(0x8a, "x"), said(0x89, "y")...), []string{"\x8ay"}},
		{"nothing behind the close", append(said(0x88, "\x03\xe8"), said(0x89, "x")...), []string{"\x88\x03\xe8"}},
		{"a close with a reason", said(0x88, "\x0f\xa0bye"), []string{"\x88\x0f\xa0"}},
		{"a close without a code", said(0x88, ""), []string{"\x88"}},
		{"a close with half a code", said(0x88, "\x03"), []string{protocol}},
		{"a close with a code that is never sent", said(0x88, "\x03\xed"), []string{protocol}},
		{"a close with an unknown code", said(0x88, "\x13\x88"), []string{protocol}},
		{"a close whose reason is no text", said(0x88, "\x03\xe8\xff"), []string{noText}},

		{"a text", said(0x81, "hello"), []string{policy}},
		{"a long text", said(0x81, strings.Repeat("x", 300)), []string{policy}},
		{"a very long one", said(0x82, strings.Repeat("x", 1<<17)), []string{policy}},
		{"one in pieces", append(said(0x01, "hel"), said(0x80, "lo")...), []string{policy}},

		{"no mask", []byte{0x89, 0}, []string{protocol}},
		{"reserved bits", said(0xc9, ""), []string{protocol}},
		{"a reserved opcode", said(0x83, ""), []string{protocol}},
		{"a reserved opcode of control", said(0x8b, ""), []string{protocol}},
		{"a ping in pieces", said(0x09, "x"), []string{protocol}},
		{"a ping that is too long", said(0x89, long+"x"), []string{protocol}},
		{"a length that is none", append([]byte{0x81, 0xff, 0x80}, make([]byte, 20)...), []string{protocol}},

		{"nothing", nil, nil},
		{"half a head", []byte{0x89}, nil},
		{"half a mask", []byte{0x89, 0x81, 1, 2}, nil},
		{"half a ping", said(0x89, "abc")[:8], nil},
	}
	for _, tt := range tests {
		for name, peer := range map[string]io.Reader{"at once": bytes.NewReader(tt.give), "byte by byte": &slowly{tt.give}} {
			got := answered(t, peer)
			require.Len(t, got, len(tt.want), "%s, %s: %q", tt.name, name, got)
			for i := range got {
				require.True(t, strings.HasPrefix(got[i], tt.want[i]), "%s, %s: %q", tt.name, name, got)
			}
		}
	}
}

// slowly reads byte by byte.
type slowly struct{ rest []byte }

func (s *slowly) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	p[0], s.rest = s.rest[0], s.rest[1:]
	return 1, nil
}

func FuzzHear(f *testing.F) {
	f.Add(said(0x89, "ping"))
	f.Add(append(said(0x89, ""), said(0x88, "\x03\xe8bye")...))
	f.Add(append(said(0x81, "hello"), said(0x88, "")...))
	f.Add([]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, b []byte) {
		got := answered(t, bytes.NewReader(b))
		require.LessOrEqual(t, len(got), len(b)/6+1, "an answer a frame")
		for i, frame := range got {
			require.LessOrEqual(t, len(frame), 126)
			if frame[0] != 0x8a {
				require.Equal(t, byte(0x88), frame[0])
				require.Equal(t, len(got)-1, i, "nothing follows a close")
			}
		}
		require.Equal(t, got, answered(t, &slowly{b}), "for any pieces in which it came")
	})
}

// served has a server do something with each WebSocket of a client, and returns one.
func served(t *testing.T, do func(c *websocket.Conn)) *sockettest.Conn {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept, err := websocket.Accept(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for name, value := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // the client finds out
		}
		read, _ := buffered.Peek(buffered.Reader.Buffered()) // the client may have sent the start of a frame
		c := websocket.New(conn, bytes.Clone(read), websocket.Options{})
		go c.Hear()
		do(c)
		c.CloseNow()
	}))
	t.Cleanup(s.Close)
	conn, _, err := sockettest.Dial(t.Context(), s.Client(), s.URL, nil) //nolint:bodyclose // it is the connection's
	require.NoError(t, err)
	t.Cleanup(conn.CloseNow)
	return conn
}

func TestMessage_OfAnyLengthIsReadByOthers(t *testing.T) {
	t.Parallel()
	var all [][]byte
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20} {
		all = append(all, bytes.Repeat([]byte("x"), n))
	}
	conn := served(t, func(c *websocket.Conn) {
		var b []byte
		for _, text := range all {
			b = websocket.AppendText(b, text)
			b = websocket.AppendMade(b, func(to []byte) []byte { return append(to, text...) })
			b = websocket.AppendHead(b, len(text))
			_ = c.Write(b, text) // the client finds out
			b = b[:0]
		}
		c.Close(websocket.Policy, strings.Repeat("ä", 200))
	})
	for _, want := range all {
		for range 3 {
			got, err := conn.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	_, err := conn.Read(t.Context())
	var why *sockettest.CloseError
	require.ErrorAs(t, err, &why)
	require.Equal(t, websocket.Policy, why.Code)
	require.Equal(t, strings.Repeat("ä", 61), why.Reason, "what is too long is cut")
}

func TestPing_IsAnsweredDuringWrites(t *testing.T) {
	t.Parallel()
	conn := served(t, func(c *websocket.Conn) {
		b := websocket.AppendText(nil, bytes.Repeat([]byte("x"), 10_000))
		for c.Write(b) == nil {
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	read := make(chan error, 1)
	go func() {
		for {
			if _, err := conn.Read(ctx); err != nil {
				read <- err
				return
			}
		}
	}()
	for range 3 {
		require.NoError(t, conn.Ping(ctx))
	}
	require.NoError(t, conn.Close(websocket.Normal, "enough"), "the server answers")
	require.Error(t, <-read)
}

// piped returns a WebSocket that hears, and its peer.
func piped(opts websocket.Options) (*websocket.Conn, net.Conn) {
	ours, theirs := net.Pipe()
	c := websocket.New(ours, nil, opts)
	go c.Hear()
	return c, theirs
}

func TestPeer_StalledOneIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := piped(websocket.Options{})
		begun := time.Now()
		require.Error(t, c.Write(websocket.AppendText(nil, []byte("x"))))
		require.Equal(t, 2*time.Minute, time.Since(begun))
		require.Error(t, c.Write(websocket.AppendText(nil, []byte("y"))), "half of a message may have been taken")
		c.Close(websocket.Normal, "")
		require.Equal(t, 2*time.Minute, time.Since(begun), "no peer is waited for")
	})
}

func TestHurry_EndsCurrentAndLaterWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, peer := piped(websocket.Options{})
		begun := time.Now()
		time.AfterFunc(time.Minute, c.Hurry)
		time.AfterFunc(time.Minute+time.Second, c.Hurry)
		go func() {
			_, _ = io.CopyN(io.Discard, peer, 3) // the first
		}()
		require.NoError(t, c.Write(websocket.AppendText(nil, []byte("x"))))
		require.Error(t, c.Write(websocket.AppendText(nil, []byte("y"))))
		require.Equal(t, time.Minute+2*time.Second, time.Since(begun), "from the first on")
		c.CloseNow()
	})
}

func TestPeer_MayLeaveDuringWrites(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(peer net.Conn){
		"with a word":    func(peer net.Conn) { _, _ = peer.Write(said(0x88, "")) },
		"without a word": func(peer net.Conn) { _ = peer.Close() },
	} {
		c, peer := piped(websocket.Options{Stall: time.Hour, Farewell: time.Millisecond})
		go leave(peer) // it reads nothing
		require.Error(t, c.Write(websocket.AppendText(nil, []byte("x"))), name)
		<-c.Deaf()
		c.CloseNow()
	}
}

func TestClose_WaitsBrieflyForThePeer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		says [][]byte // when it is told
		want time.Duration
	}{
		"it says nothing":                       {nil, 2 * time.Second},
		"it closes":                             {[][]byte{said(0x88, "\x03\xf5")}, 0},
		"it was about to say something":         {[][]byte{said(0x81, strings.Repeat("x", 100_000)), said(0x81, "y"), said(0x88, "")}, 0},
		"it sends garbage":                      {[][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}, 2 * time.Second},
		"it says so again and again":            {[][]byte{said(0x89, "x"), said(0x8a, "x")}, 2 * time.Second},
		"it breaks off in the middle of a word": {[][]byte{said(0x81, "xyz")[:7]}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, peer := piped(websocket.Options{})
				begun := time.Now()
				go func() {
					told := make([]byte, 4)
					_, _ = io.ReadFull(peer, told)
					for _, words := range tt.says {
						_, _ = peer.Write(words)
					}
					_, _ = io.Copy(io.Discard, peer)
				}()
				c.Close(websocket.Normal, "")
				require.Equal(t, tt.want, time.Since(begun))
				_, err := peer.Write([]byte{0})
				require.Error(t, err, "it is closed")
			})
		})
	}
}

func TestHandshake_ReadsFramesBehindTheRequest(t *testing.T) {
	t.Parallel()
	w := &wire{Reader: bytes.NewReader(said(0x89, "b"))}
	c := websocket.New(w, said(0x89, "a"), websocket.Options{})
	c.Hear()
	c.CloseNow()
	require.Equal(t, []string{"\x8aa", "\x8ab"}, frames(t, w.said.Bytes()))
}
