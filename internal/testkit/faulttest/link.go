package faulttest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chunk is a link's unit of transfer.
const chunk = 4 << 10

// Link is a TCP proxy on the loopback address that can be slow, deaf or broken. It is safe for
// concurrent use. Data that a link has accepted may be lost by Swallow and Cut; its sender may not
// learn that.
type Link struct {
	listener net.Listener
	to       string
	done     chan struct{}
	parts    sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration
	rate  int // bytes a second; 0: unlimited
	conns map[*joint]struct{}
	deaf  bool
}

// joint is a connection through a link.
type joint struct {
	client, server net.Conn

	mu   sync.Mutex
	deaf bool
}

// NewLink returns a link to an address. It ends with the test. Without a server at the address, a
// connection is closed at once.
func NewLink(tb testing.TB, to string) *Link {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	l := &Link{listener: listener, to: to, done: make(chan struct{}), conns: map[*joint]struct{}{}}
	l.parts.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.join(client)
		}
	})
	tb.Cleanup(func() {
		require.NoError(tb, listener.Close())
		close(l.done)
		l.Cut()
		l.parts.Wait()
	})
	return l
}

// Addr returns the link's own address.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Slow delays later data, in each direction, and limits it to rate bytes a second. Zero rate:
// unlimited. Data that is on its way keeps the earlier times.
func (l *Link) Slow(delay time.Duration, rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay, l.rate = delay, rate
}

// Swallow blocks the current connections for good: they stay open but carry no data. Later
// connections work.
func (l *Link) Swallow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for j := range l.conns {
		j.mu.Lock()
		j.deaf = true
		j.mu.Unlock()
	}
}

// Isolate blocks the current connections, and later ones until Join. It accepts later connections,
// and closes none.
func (l *Link) Isolate() {
	l.Swallow()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = true
}

// Join lets later connections through again.
func (l *Link) Join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = false
}

// Cut closes all connections. Later connections work.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for j := range l.conns {
		j.close()
	}
}

func (j *joint) close() {
	_ = j.client.Close()
	_ = j.server.Close()
}

func (j *joint) isDeaf() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.deaf
}

func (l *Link) join(client net.Conn) {
	server, err := net.Dial("tcp", l.to) //nolint:noctx // on the loopback address
	if err != nil {
		_ = client.Close()
		return
	}
	j := &joint{client: client, server: server}
	l.mu.Lock()
	j.deaf = l.deaf
	l.conns[j] = struct{}{}
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, dir := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() { l.carry(j, dir[0], dir[1]) })
	}
	l.parts.Go(func() {
		both.Wait()
		l.mu.Lock()
		delete(l.conns, j)
		l.mu.Unlock()
	})
}

// carry copies data until one end closes. Delays do not accumulate.
func (l *Link) carry(j *joint, from io.Reader, to io.Writer) {
	type parcel struct {
		data []byte
		due  time.Time
	}
	parcels := make(chan parcel, 64) // when it is full, the sender waits, as on a slow line
	var out sync.WaitGroup
	out.Go(func() {
		defer j.close()
		for p := range parcels {
			l.pause(time.Until(p.due))
			if j.isDeaf() {
				continue
			}
			if _, err := to.Write(p.data); err != nil {
				j.close()
			}
		}
	})
	free := time.Now() // when the line is free again
	for {
		data := make([]byte, chunk)
		n, err := from.Read(data)
		if err != nil {
			break
		}
		l.mu.Lock()
		delay, rate := l.delay, l.rate
		l.mu.Unlock()
		if now := time.Now(); free.Before(now) {
			free = now
		}
		if rate > 0 {
			free = free.Add(time.Duration(n) * time.Second / time.Duration(rate))
		}
		parcels <- parcel{data[:n], free.Add(delay)}
	}
	close(parcels)
	out.Wait()
}

func (l *Link) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-l.done:
	}
}
