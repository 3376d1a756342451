package push_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// wire is between a client and NATS. It can lose acknowledgements and break connections.
type wire struct {
	listener net.Listener
	to       string
	deaf     atomic.Bool            // acknowledgements are lost
	see      func(said []byte) bool // sees what the client says, and whether to pass it on; nil: all of it
	parts    sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newWire(t *testing.T, server *natstest.Server) *wire {
	t.Helper()
	w := openWire(t, server, nil)
	t.Cleanup(func() { w.close() })
	return w
}

// openWire returns a wire that has to be closed.
func openWire(t *testing.T, server *natstest.Server, see func(said []byte) bool) *wire {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{listener: listener, to: strings.TrimPrefix(server.ClientURL(), "nats://"), see: see}
	w.parts.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.join(client)
		}
	})
	return w
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.cut()
	w.parts.Wait()
}

func (w *wire) join(client net.Conn) {
	server, err := net.Dial("tcp", w.to) //nolint:noctx // on the loopback address
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, client, server)
	w.mu.Unlock()
	w.parts.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
		_, _ = io.Copy(io.Discard, server) // until it has read all that was said
		_ = server.Close()
	})
	w.parts.Go(func() {
		w.forward(bufio.NewReader(client), server)
		if tcp, ok := server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	})
}

// forward passes on what the client says, acknowledgements only while it is not deaf.
func (w *wire) forward(from *bufio.Reader, to io.Writer) {
	for {
		said, ack, err := readCommand(from)
		if err != nil {
			return
		}
		if ack && w.deaf.Load() || w.see != nil && !w.see(said) {
			continue
		}
		if _, err := to.Write(said); err != nil {
			return
		}
	}
}

// readCommand reads a line of the protocol, with its payload if it has one, and says whether
// it acknowledges a delivery.
func readCommand(from *bufio.Reader) (said []byte, ack bool, err error) {
	said, err = from.ReadBytes('\n')
	words := bytes.Fields(said)
	if err != nil || len(words) < 3 || !bytes.HasSuffix(bytes.ToUpper(words[0]), []byte("PUB")) {
		return said, false, err
	}
	size, err := strconv.Atoi(string(words[len(words)-1]))
	if err != nil {
		return nil, false, err
	}
	payload := make([]byte, size+2)
	_, err = io.ReadFull(from, payload)
	return append(said, payload...), bytes.HasPrefix(words[1], []byte("$JS.ACK.")), err
}

// hangUp ends what the clients say. What they said before is heard; they hear nothing any more.
func (w *wire) hangUp() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; i < len(w.conns); i += 2 {
		_ = w.conns[i].Close()
	}
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// S4-17, C01: acknowledgements that a broken connection swallowed do not bring their events
// back, neither at once nor when their ack wait is over.
func TestLostAcknowledgementsRepeatNothing(t *testing.T) {
	t.Parallel()
	server := natstest.Listening(t)
	between := newWire(t, server)
	store, err := natsstore.Connect(t.Context(), natsstore.Options{URL: "nats://" + between.listener.Addr().String()})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	require.NoError(t, store.Provision(t.Context()))
	w := newWorld(t, store, "n", sluice.Policy{Window: 4, Retry: quickRetries})
	proc := w.start(t)
	defer proc.stop()
	between.deaf.Store(true)
	for i := range 3 {
		w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i)), fmt.Sprint("lost", i))
	}
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 3 && inFlight(t, w) == 3 }, 10*time.Second, 10*time.Millisecond)
	between.deaf.Store(false)
	for i := range 100 { // more than anybody remembers
		w.publish(t, "/a/1", fmt.Sprint("more", i))
	}
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 103 }, 10*time.Second, 10*time.Millisecond)
	between.cut()
	require.Eventually(t, func() bool { return inFlight(t, w) == 0 }, 15*time.Second, 50*time.Millisecond, "what was settled is acknowledged")
	w.publish(t, "/a/1", "last")
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 104 }, 10*time.Second, 10*time.Millisecond)
	w.endpoint.mu.Lock()
	defer w.endpoint.mu.Unlock()
	for id, n := range w.endpoint.tries {
		require.Equal(t, 1, n, id)
	}
}

func inFlight(t *testing.T, w *world) int {
	t.Helper()
	status, err := w.store.Status(t.Context(), w.sub)
	if err != nil {
		return -1
	}
	return status.InFlight
}

// tellWarn gets an element when something is logged as a warning.
type tellWarn chan struct{}

func (tellWarn) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (c tellWarn) WithAttrs([]slog.Attr) slog.Handler             { return c }
func (c tellWarn) WithGroup(string) slog.Handler                  { return c }

func (c tellWarn) Handle(context.Context, slog.Record) error {
	select {
	case c <- struct{}{}:
	default:
	}
	return nil
}

// What keeps a subscription from being served may be its own settings: a change of them counts
// before it could be served once.
func TestASubscriptionThatCannotBeServedIsGivenOtherSettings(t *testing.T) {
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 50})
	op.limit("n", 10)
	failed := make(tellWarn, 1)
	w.log = slog.New(failed)
	proc := w.start(t)
	defer proc.stop()
	<-failed
	w.watch.change(func(sub *sluice.Subscription) { sub.Policy.Window = 5 })
	w.publishMany(t, 1, 3)
	eventually(t, "the events arrive", func() bool { return w.endpoint.delivered() == 3 })
}
