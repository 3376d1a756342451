package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
)

// line is the connection of one attempt. When the attempt has to end, the line is cut: the
// connection is reset, which drops the unsent data in the kernel. After a plain close, the kernel
// would continue to send that data for as long as the other end takes to read it.
type line struct {
	parent context.Context //nolint:containedctx // the attempt's context; it distinguishes an interruption from a timeout

	mu   sync.Mutex
	conn net.Conn // nil: none yet, or released
	over bool     // the attempt has to end, so a new connection is cut at once
}

// follow returns a context for a request that has to end with limit. That context is done only
// after the line is cut. Call the returned function when the request is over; it returns when
// nothing of the request can leave any more.
func (l *line) follow(limit context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(limit))
	cut := make(chan struct{})
	stop := context.AfterFunc(limit, func() {
		defer close(cut)
		l.end()
		cancel(context.Cause(limit))
	})
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: l.got, PutIdleConn: l.put}), func() {
		if !stop() {
			<-cut
		}
		cancel(nil)
	}
}

// watch cuts the line when its attempt is interrupted. Call the returned function when the request is
// over; it returns when nothing of the request can leave any more.
func (l *line) watch() (over func()) {
	stop := context.AfterFunc(l.parent, l.end)
	return func() {
		if !stop() {
			l.end()
		}
	}
}

func (l *line) got(info httptrace.GotConnInfo) { l.hold(info.Conn) }

func (l *line) hold(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	if l.over {
		l.cut()
	}
}

// release ends the attempt's use of the connection. It returns false if the connection was cut.
func (l *line) release() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	return !l.over
}

// put is called when net/http takes the connection back. Without an error, the attempt does not use
// it any more.
func (l *line) put(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.conn = nil
	}
}

func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.cut()
}

// cut resets the connection. It does not reset an HTTP/2 connection for a timeout, because other
// attempts may share it.
func (l *line) cut() {
	conn := l.conn
	if secure, ok := conn.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == "h2" && l.parent.Err() == nil {
			return
		}
		conn = secure.NetConn()
	}
	if conn == nil {
		return
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // it fails if the connection is closed already
	}
	_ = conn.Close()
	l.conn = nil
}
