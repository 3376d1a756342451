// Package sockettest provides a WebSocket client for tests. It reads complete messages, answers
// pings, and reports the code and reason of the server's close. It accepts only frames that Sluice
// may send: fragments, binary messages and masked frames end the connection with an error.
package sockettest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// farewell limits how long Close waits for the server's close frame.
const farewell = 10 * time.Second

// CloseError is the close frame of the server.
type CloseError struct {
	Code   ws.StatusCode
	Reason string
}

func (e *CloseError) Error() string { return fmt.Sprintf("closed with %d %q", e.Code, e.Reason) }

// Conn is a WebSocket to a server. Read must not be called concurrently; the other methods may.
// Without Read, the connection stops at the next message: pings are not answered then.
type Conn struct {
	wire  io.ReadWriteCloser
	texts chan []byte   // messages that were read but not returned yet
	pongs chan struct{} // has an element for each pong
	gone  chan struct{} // closed by CloseNow
	ended chan struct{} // closed when nothing more is read; err is set then
	err   error

	leave   sync.Once
	writing sync.Mutex
}

// Dial opens a WebSocket at an http:// or https:// URL. If the server answers anything but 101, it
// returns an error and the response; the caller closes its body. The response is nil if there was
// none.
func Dial(ctx context.Context, api *http.Client, url string, header http.Header) (*Conn, *http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	var key [16]byte
	_, _ = rand.Read(key[:]) // it never fails
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-Websocket-Version": "13", "Sec-Websocket-Key": base64.StdEncoding.EncodeToString(key[:]),
	} {
		req.Header.Set(name, value)
	}
	resp, err := api.Do(req)
	if err != nil {
		return nil, nil, err
	}
	wire, upgraded := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !upgraded {
		return nil, resp, fmt.Errorf("the server responded %s", resp.Status)
	}
	c := &Conn{
		wire: wire, texts: make(chan []byte), pongs: make(chan struct{}, 1), gone: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		defer close(c.ended)
		in := bufio.NewReader(wire)
		for c.err == nil {
			c.err = c.next(in)
		}
	}()
	return c, resp, nil
}

// next reads one frame and reacts to it.
func (c *Conn) next(in io.Reader) error {
	h, err := ws.ReadHeader(in)
	if err != nil {
		return err
	}
	if err := ws.CheckHeader(h, ws.StateClientSide); err != nil {
		return err
	}
	payload := make([]byte, h.Length)
	if _, err := io.ReadFull(in, payload); err != nil {
		return err
	}
	switch {
	case h.OpCode == ws.OpText && h.Fin:
		select {
		case c.texts <- payload:
			return nil
		case <-c.gone:
			return io.ErrClosedPipe
		}
	case h.OpCode == ws.OpPing:
		return c.write(ws.OpPong, payload)
	case h.OpCode == ws.OpPong:
		c.pongs <- struct{}{}
		return nil
	case h.OpCode == ws.OpClose:
		code, reason := ws.ParseCloseFrameData(payload)
		_ = c.write(ws.OpClose, payload) // the server may have left
		return &CloseError{Code: code, Reason: reason}
	default:
		return fmt.Errorf("a frame that a server of ours does not send: %+v", h)
	}
}

// Read returns the next message. At the end of the connection it returns a *CloseError if the
// server sent a reason. A cancelled Read loses no message.
func (c *Conn) Read(ctx context.Context) ([]byte, error) {
	select {
	case text := <-c.texts:
		return text, nil
	case <-c.ended:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a text message.
func (c *Conn) Write(text []byte) error { return c.write(ws.OpText, text) }

// Ping sends a ping and waits for its pong. Another goroutine must read messages meanwhile. Send
// one ping at a time: pongs are not matched to pings.
func (c *Conn) Ping(ctx context.Context) error {
	if err := c.write(ws.OpPing, []byte("ping")); err != nil {
		return err
	}
	select {
	case <-c.pongs:
		return nil
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Conn) write(op ws.OpCode, payload []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return ws.WriteFrame(c.wire, ws.MaskFrame(ws.NewFrame(op, true, payload)))
}

// Close closes the WebSocket: it sends the reason, reads on until the server has answered with its
// close frame, and closes the connection. It returns an error if the server did not answer.
// Messages that come meanwhile are dropped. It waits at most for farewell.
func (c *Conn) Close(code ws.StatusCode, reason string) error {
	defer c.CloseNow()
	if err := c.write(ws.OpClose, ws.NewCloseFrameBody(code, reason)); err != nil {
		return err
	}
	late := time.NewTimer(farewell)
	defer late.Stop()
	for {
		select {
		case <-c.texts:
		case <-c.ended:
			if _, is := errors.AsType[*CloseError](c.err); is {
				return nil
			}
			return c.err
		case <-late.C:
			return errors.New("the server did not answer the close frame")
		}
	}
}

// CloseNow closes the connection without a close frame. It can be called again, and after Close.
func (c *Conn) CloseNow() {
	c.leave.Do(func() {
		close(c.gone)
		_ = c.wire.Close() // it is over either way
	})
	<-c.ended
}
