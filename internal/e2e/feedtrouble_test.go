package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// feedTrouble is something that happens to a server while its feeds are read.
type feedTrouble struct {
	name string
	long bool // only in the long form, and never with -short
	// begin returns where readers and publishers find the server, and what lets the trouble happen once.
	begin func(t *testing.T) (at place, natsURL string, happen func(t *testing.T))
	times int
}

// feedTroubles returns what happens, how often in the short form, and ten times as often in the long one.
func feedTroubles() []feedTrouble {
	return []feedTrouble{
		{name: "it is killed", begin: beginKilled(syscall.SIGKILL), times: 2},
		{name: "it restarts", begin: beginKilled(syscall.SIGTERM), times: 1},
		{name: "one of two replicas is killed", begin: beginReplicas, times: 1},
		{name: "NATS is away", begin: beginAway, times: 1},
		{name: "the leader of the log is lost", begin: beginCluster, times: 1, long: true},
	}
}

// beginKilled has the whole server go by a signal, and start again.
func beginKilled(how syscall.Signal) func(t *testing.T) (place, string, func(*testing.T)) {
	return func(t *testing.T) (place, string, func(*testing.T)) {
		t.Helper()
		c := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}
		c.start(t)
		t.Cleanup(func() { _ = c.proc.Process.Kill() })
		return place{"http://" + c.http, c.token(t)}, "nats://" + c.nats, func(t *testing.T) {
			t.Helper()
			if how == syscall.SIGKILL {
				c.kill(t)
			} else {
				require.NoError(t, c.proc.Process.Signal(how))
				require.NoError(t, c.proc.Wait(), "it ends in order")
			}
			c.start(t)
		}
	}
}

// beginReplicas has one of two servers killed, in turn. Readers find those that run behind one address.
func beginReplicas(t *testing.T) (place, string, func(*testing.T)) {
	t.Helper()
	shared := natstest.Listening(t)
	one, s := replica(t, shared.ClientURL(), "3s")
	two, _ := replica(t, shared.ClientURL(), "3s")
	g := s.grant(t, "user:reader", "path:default/**", "read")
	both := []*child{one, two}
	times := 0
	return place{"http://" + balance(t, one.http, two.http), g.token}, shared.ClientURL(), func(t *testing.T) {
		t.Helper()
		c := both[times%2]
		times++
		c.kill(t)
		wait(t.Context(), 500*time.Millisecond)
		c.start(t)
	}
}

// balance listens on an address, and joins each caller to one of others that takes it, in turn.
func balance(t *testing.T, to ...string) string {
	t.Helper()
	var how net.ListenConfig
	l, err := how.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	var next atomic.Int64
	join := func(from net.Conn) {
		defer func() { _ = from.Close() }()
		for range to {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", to[next.Add(1)%int64(len(to))])
			if err != nil {
				continue
			}
			defer context.AfterFunc(ctx, func() { _, _ = conn.Close(), from.Close() })()
			var back sync.WaitGroup
			back.Go(func() {
				_, _ = conn.(*net.TCPConn).ReadFrom(from)
				_ = conn.Close()
			})
			_, _ = from.(*net.TCPConn).ReadFrom(conn)
			_ = from.Close()
			back.Wait()
			return
		}
	}
	parts.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			parts.Go(func() { join(from) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		parts.Wait()
	})
	return l.Addr().String()
}

// beginAway has NATS, which is elsewhere, go for some seconds.
func beginAway(t *testing.T) (place, string, func(*testing.T)) {
	t.Helper()
	shared := natstest.Listening(t)
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = shared.ClientURL() })
	return s.place(), shared.ClientURL(), func(t *testing.T) {
		t.Helper()
		shared.Stop(t)
		wait(t.Context(), 3*time.Second)
		shared.Start(t)
	}
}

// beginCluster has that of three servers go which leads the log.
func beginCluster(t *testing.T) (place, string, func(*testing.T)) {
	t.Helper()
	cluster := natstest.NewCluster(t)
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL, c.NATS.Replicas = cluster.URL(), 3 })
	once := false
	return s.place(), cluster.URL(), func(t *testing.T) {
		t.Helper()
		if !once { // of two that are left, none may go
			cluster.StopLeader(t, jsNames(t).EventsStream("default"))
		}
		once = true
	}
}

// troubleWants returns what readers ask for while there is trouble.
func troubleWants() []want {
	body := []byte(`{"last":true}`)
	return []want{
		{"buffer=16384", func(entry) bool { return true }, msg("/last", "t.0", body)},
		{"buffer=16384&pattern=/t/3", func(e entry) bool { return e.path == "/t/3" }, msg("/t/3", "t.0", body)},
		{"buffer=16384&types=t.1", func(e entry) bool { return e.kind == "t.1" }, msg("/last", "t.1", body)},
	}
}

// After any fault of a server its readers come back by themselves, over any wire: nothing that was acknowledged is
// missing, nothing comes twice, and all comes in order (S2-126, S2-136, S2-137).
func TestFeed_ReadersOutliveTheirServer(t *testing.T) {
	t.Parallel()
	for _, trouble := range feedTroubles() {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			if trouble.long && (testing.Short() || !faulttest.Long()) {
				t.Skip("takes three servers")
			}
			trouble.try(t)
		})
	}
}

func (f feedTrouble) try(t *testing.T) {
	t.Helper()
	each, rate := 1, 300
	if faulttest.Long() {
		f.times, each, rate = 10*f.times, 5, 1000
	}
	at, natsURL, happen := f.begin(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all, reading := f.readers(ctx, at, each)
	s := newSource(t, natsURL, rate, func(n int) *nats.Msg {
		return msg("/t/"+strconv.Itoa(n%20), "t."+strconv.Itoa(n%7), fmt.Appendf(nil, `{"n":%d}`, n))
	})
	var publishing sync.WaitGroup
	publish, enough := context.WithCancel(ctx)
	defer enough()
	failed := make(chan error, 1)
	publishing.Go(func() { failed <- s.run(publish, 1<<30) })
	for range f.times {
		before := s.stored.Load()
		patiently(t, func() bool { return s.stored.Load() >= before+int64(rate) }, "events are stored")
		happen(t)
	}
	before := s.stored.Load()
	patiently(t, func() bool { return s.stored.Load() >= before+int64(rate) }, "events are stored again")
	enough()
	publishing.Wait()
	require.NoError(t, <-failed)
	for w, want := range troubleWants() {
		require.NoError(t, s.insist(ctx, s.js[0], want.last, lastOf(w)))
	}
	require.NoError(t, reading())
	log := logOf(t, s.js[0])
	f.report(t, all, log, int(s.stored.Load()))
}

// troubled is a reader, and what it asks for.
type troubled struct {
	journal

	want int
	wire string
	came int // connections that were acknowledged
}

// readers starts readers of every kind, returns when all have begun, and then what waits for them.
func (f feedTrouble) readers(ctx context.Context, at place, each int) ([]*troubled, func() error) {
	var all []*troubled
	var reading, begun sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i, wants := 0, troubleWants(); i < each*len(wants)*len(wires()); i++ {
		w, wire := i%len(wants), wires()[i/len(wants)%len(wires())]
		r := &troubled{want: w, wire: wire.name}
		r.last = lastOf(w)
		all = append(all, r)
		begun.Add(1)
		first := sync.OnceFunc(begun.Done)
		reading.Go(func() {
			defer first()
			err := r.follow(ctx, wire, at, wants[w].values(), func() {
				r.came++
				first()
			})
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	begun.Wait()
	return all, func() error {
		reading.Wait()
		return errors.Join(errs...)
	}
}

// report holds what every reader saw against the log, and the log against what was acknowledged.
func (f feedTrouble) report(t *testing.T, all []*troubled, log []entry, acknowledged int) {
	t.Helper()
	ids := map[string]bool{}
	for _, e := range log {
		require.False(t, ids[e.id], "%s is there twice", e.id)
		ids[e.id] = true
	}
	require.GreaterOrEqual(t, len(ids), acknowledged, "what was acknowledged is there")
	wants, came := troubleWants(), 0
	for _, r := range all {
		wanted := wants[r.want].of(log)
		require.NoError(t, r.check(wanted), "%s, %q", r.wire, wants[r.want].query)
		require.Zero(t, r.lags)
		came += r.came
	}
	t.Logf("%s %d times: %d events, of which %d readers missed none and saw none twice; they made %d connections", f.name, f.times, len(log), len(all), came)
}
