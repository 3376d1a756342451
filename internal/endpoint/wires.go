package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	fewWires = 32                    // connections to a host, for each processor, that may be opened without waiting; at least 64 in all
	turnover = 10 * time.Millisecond // beyond that, another is opened only if responses take longer than this
)

// origin is the destination of connections.
type origin struct {
	secure bool
	host   string // as in the URL, with the port if it has one
}

func originOf(u *url.URL) origin { return origin{u.Scheme == "https", u.Host} }

// wires holds the kept connections that speak HTTP/1.1 (decision 0049). The transport has the
// connections that speak HTTP/2, and the first one to a host with TLS, whose protocol is not known
// yet. mu guards the fields below it and those of wiresOf and waiter. It is not held while dialling
// or closing.
type wires struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	config func() *tls.Config // returns the TLS settings; a nil result: the default
	enough int                // connections to a host that responds quickly which keep the processors busy
	soon   time.Duration      // pause before look

	requests, answers sync.Pool // buffers of exchanges; free connections hold none

	mu      sync.Mutex
	closed  bool
	hosts   map[origin]*wiresOf
	idle    int
	sweeper *time.Timer // nil: no host is known
}

// wiresOf holds the connections to one host.
type wiresOf struct {
	origin  origin
	name    string // for the dialler and TLS
	address string
	used    time.Time // time of the last request
	unsure  bool      // a handshake has failed: the host may not speak HTTP/1.1 any more

	free     []*wire // the most recently used is last
	open     int     // in use or free
	dialling int
	waiting  []*waiter
	turned   int  // how many connections were released since the last look
	looks    bool // a look is due
}

// waiter is an attempt that waits for a connection. Every waiter gets at most one element in ready.
// A waiter that gave up and finds over set must take the element and put the connection back.
type waiter struct {
	host  *wiresOf
	ready chan connected // has room for one element
	over  bool           // it got a connection or an error, or gave up
	dials bool           // a connection is being opened for it
}

// connected is a connection, or the error of opening it.
type connected struct {
	wire *wire
	err  error
}

func newWires(dial func(context.Context, string, string) (net.Conn, error), config func() *tls.Config) *wires {
	return &wires{
		dial: dial, config: config, enough: fewWires * max(2, runtime.GOMAXPROCS(0)), soon: turnover, hosts: map[origin]*wiresOf{},
		requests: sync.Pool{New: func() any { return new([]byte) }},
		answers:  sync.Pool{New: func() any { return bufio.NewReader(nil) }},
	}
}

// speaks records that a host speaks HTTP/1.1.
func (w *wires) speaks(u *url.URL) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host(u).unsure = false
}

// serves reports whether requests to a URL use these connections. Plain http is always HTTP/1.1. A
// host with TLS is known only after speaks.
func (w *wires) serves(u *url.URL) bool {
	if u.Scheme == "http" {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[originOf(u)]
	return h != nil && !h.unsure
}

// host returns the connections to a host. The caller holds the lock.
func (w *wires) host(u *url.URL) *wiresOf {
	o := originOf(u)
	h := w.hosts[o]
	if h == nil {
		h = &wiresOf{origin: o, name: u.Hostname()}
		port := u.Port()
		switch {
		case port != "":
		case o.secure:
			port = "443"
		default:
			port = "80"
		}
		h.address = net.JoinHostPort(h.name, port)
		w.hosts[o] = h
	}
	h.used = time.Now()
	if w.sweeper == nil {
		w.sweeper = time.AfterFunc(idle, w.sweep)
	}
	return h
}

// take returns a connection to a host: a free one, or else whichever is ready first, one that
// becomes free or a new one. reused reports whether it has served a request before. The connection
// is the caller's until put or drop. The error is that of dialling, of ctx, or
// context.DeadlineExceeded at the time until. Waiters are served in the order in which they came.
func (w *wires) take(ctx context.Context, u *url.URL, until time.Time) (c *wire, reused bool, err error) {
	for {
		c, wait := w.pick(ctx, u)
		if wait != nil {
			c, err = w.await(ctx, wait, until)
			if err != nil || !c.served { // a host that speaks first would do so on the next one, too
				return c, false, err
			}
		}
		if c.quiet(until) {
			return c, true, nil
		}
		w.drop(ctx, c)
	}
}

// pick returns a free connection, or a waiter for one. Exactly one of the results is nil. The
// newest free connection comes first, so that the others can become idle and be closed.
func (w *wires) pick(ctx context.Context, u *url.URL) (*wire, *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.host(u)
	if last := len(h.free) - 1; last >= 0 {
		c := h.free[last]
		h.free[last], h.free = nil, h.free[:last]
		w.idle--
		return c, nil
	}
	wait := &waiter{host: h, ready: make(chan connected, 1)}
	h.waiting = append(h.waiting, wait)
	if h.open+h.dialling < w.enough {
		w.connect(ctx, h, wait)
	} else {
		w.lookLater(ctx, h)
	}
	return nil, wait
}

// await returns the connection or the error that a waiter gets.
func (w *wires) await(ctx context.Context, wait *waiter, until time.Time) (*wire, error) {
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	err := context.DeadlineExceeded
	select {
	case got := <-wait.ready:
		return got.wire, got.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
	}
	w.mu.Lock()
	late := wait.over
	wait.leave()
	w.mu.Unlock()
	if late {
		if got := <-wait.ready; got.wire != nil {
			w.put(got.wire)
		}
	}
	return nil, err
}

// leave removes a waiter from the line. The caller holds the lock.
func (wait *waiter) leave() {
	wait.over = true
	if i := slices.Index(wait.host.waiting, wait); i >= 0 {
		wait.host.waiting = slices.Delete(wait.host.waiting, i, i+1)
	}
}

// look opens more connections for the waiters, up to as many as there are. If every connection was
// released since the last look, the connections are enough, and look opens none. With it, a slow
// host gets a connection per attempt, and a fast one no more than keep it busy: a new connection
// costs a fast host more than the wait of some milliseconds.
func (w *wires) look(ctx context.Context, h *wiresOf) {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := 0
	if h.turned == 0 || h.turned < h.open {
		room = max(w.enough, h.open+h.dialling)
	}
	h.turned, h.looks = 0, false
	for _, wait := range h.waiting {
		switch {
		case wait.dials:
		case room > 0:
			w.connect(ctx, h, wait)
			room--
		default:
			w.lookLater(ctx, h)
			return
		}
	}
}

// lookLater schedules a call of look. The caller holds the lock.
func (w *wires) lookLater(ctx context.Context, h *wiresOf) {
	if !h.looks {
		h.looks = true
		time.AfterFunc(w.soon, func() { w.look(ctx, h) })
	}
}

// connect opens a connection for a waiter. If the waiter gets another one first, the new connection
// goes to the next waiter. The caller holds the lock.
func (w *wires) connect(ctx context.Context, h *wiresOf, wait *waiter) {
	wait.dials = true
	h.dialling++
	go func() { // ends with the connection, after setUp at the latest
		c, err := w.open(ctx, h)
		w.mu.Lock()
		h.dialling--
		if err == nil {
			h.open++
		} else if !wait.over {
			wait.leave()
			wait.ready <- connected{err: err}
		}
		w.mu.Unlock()
		if err == nil {
			w.put(c)
		}
	}()
}

// open dials a host. It may outlive the attempt that began it.
func (w *wires) open(ctx context.Context, h *wiresOf) (*wire, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUp)
	defer cancel()
	conn, err := w.dial(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	c := newWire(w, h, conn)
	if !h.origin.secure {
		return c, nil
	}
	config := w.config().Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config.ServerName = h.name
	}
	config.NextProtos = []string{"http/1.1"}
	c.below = &records{Conn: conn, raw: c.raw}
	secure := tls.Client(c.below, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the error of the handshake says more
		w.mu.Lock()
		defer w.mu.Unlock()
		h.unsure = true // the next exchange uses the transport
		return nil, err
	}
	c.conn = secure
	return c, nil
}

// put hands a connection that can be used again to the first waiter, or keeps it as free. The
// connection must have no byte of a response left. After close, put closes a connection for which
// no attempt waits.
func (w *wires) put(c *wire) {
	w.mu.Lock()
	h := c.host
	if c.served {
		h.turned++
	}
	if len(h.waiting) > 0 {
		wait := h.waiting[0]
		wait.over = true
		h.waiting[0], h.waiting = nil, h.waiting[1:]
		wait.ready <- connected{wire: c}
		w.mu.Unlock()
		return
	}
	kept := w.idle < idleAll && !w.closed
	if kept {
		c.since = time.Now()
		h.free = append(h.free, c)
		w.idle++
	} else {
		h.open--
	}
	w.mu.Unlock()
	if !kept {
		_ = c.conn.Close() // nothing is in flight on it
	}
}

// drop closes a connection, and opens another one if an attempt waits for one.
func (w *wires) drop(ctx context.Context, c *wire) {
	w.mu.Lock()
	h := c.host
	h.open--
	h.turned++
	for _, wait := range h.waiting {
		if !wait.dials {
			w.connect(ctx, h, wait)
			break
		}
	}
	w.mu.Unlock()
	_ = c.conn.Close() // it may be closed already
}

// sweep closes connections that have been free for idle, and forgets unused hosts without
// connections. It schedules itself again while a host is known. The cost is O(hosts + free
// connections).
func (w *wires) sweep() {
	w.mu.Lock()
	var closing []*wire
	now := time.Now()
	for o, h := range w.hosts {
		n := 0
		for n < len(h.free) && (now.Sub(h.free[n].since) >= idle || w.closed) {
			n++
		}
		closing = append(closing, h.free[:n]...)
		h.free = append([]*wire(nil), h.free[n:]...)
		h.open -= n
		if h.open+h.dialling == 0 && len(h.waiting) == 0 && now.Sub(h.used) >= idle {
			delete(w.hosts, o)
		}
	}
	w.idle -= len(closing)
	if len(w.hosts) == 0 || w.closed {
		w.sweeper = nil
	} else {
		w.sweeper = time.AfterFunc(idle/4, w.sweep)
	}
	w.mu.Unlock()
	for _, c := range closing {
		_ = c.conn.Close() // nothing is in flight on it
	}
}

// close closes the free connections, and the others when they are released.
func (w *wires) close() {
	w.mu.Lock()
	w.closed = true
	if w.sweeper != nil {
		w.sweeper.Stop()
	}
	w.mu.Unlock()
	w.sweep()
}
