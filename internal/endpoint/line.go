package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
)

// line is the connection of one attempt. When the attempt has to end, the line is cut: the
// connection is reset together with the unsent data in the kernel. After a plain close the kernel
// would go on sending that for as long as the other end takes to read it.
type line struct {
	parent context.Context //nolint:containedctx // the attempt's: whether it was interrupted, or took too long

	mu   sync.Mutex
	conn net.Conn // nil: none yet, or released
	over bool     // the attempt has to end: a new connection is cut at once
}

// follow returns a context for a request with the deadline of limit. It is done only when the line
// is cut. Call the returned function when the request is over; it returns when nothing of the
// request can leave any more.
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

// release says that the connection is not the attempt's any more, and reports whether it was not cut.
func (l *line) release() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	return !l.over
}

// put says that the request was answered, and that the connection is released.
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

// cut drops the connection. One that other attempts share, as in HTTP/2, is not dropped for a
// timeout: theirs would fail.
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
