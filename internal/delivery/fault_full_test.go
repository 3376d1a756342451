package delivery_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// lines counts what a log says.
type lines struct {
	io.Writer

	warnings atomic.Int64 // and errors
	starts   atomic.Int64 // of runners, after something went wrong
}

// Write counts a line and passes it on.
func (l *lines) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("level=WARN")) || bytes.Contains(p, []byte("level=ERROR")) {
		l.warnings.Add(1)
	}
	if bytes.Contains(p, []byte("subscription restarting")) {
		l.starts.Add(1)
	}
	return l.Writer.Write(p)
}

// counted returns a log that is counted.
func counted(t *testing.T) (*slog.Logger, *lines) {
	t.Helper()
	l := &lines{Writer: t.Output()}
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo})), l
}

// fill lets a stream take nothing more, and returns what lets it again.
func (o operator) fill(stream string) (lift func()) {
	s, err := o.js.Stream(o.t.Context(), stream)
	require.NoError(o.t, err)
	before := s.CachedInfo().Config
	full := before
	full.Discard, full.MaxBytes = jetstream.DiscardNew, int64(s.CachedInfo().State.Bytes)+1
	_, err = o.js.UpdateStream(o.t.Context(), full)
	require.NoError(o.t, err)
	return func() {
		_, err := o.js.UpdateStream(o.t.Context(), before)
		require.NoError(o.t, err)
	}
}

// fillDisk lets the server store nothing more, and returns what lets it again.
func (o operator) fillDisk() (lift func()) {
	_, err := o.js.CreateStream(o.t.Context(), jetstream.StreamConfig{Name: "OTHERS", Subjects: []string{"others.>"}})
	require.NoError(o.t, err)
	for size := 256 << 10; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = o.js.Publish(o.t.Context(), "others.x", make([]byte, size))
		}
		require.ErrorContains(o.t, err, "insufficient", "the server is full")
	}
	return func() { require.NoError(o.t, o.js.DeleteStream(o.t.Context(), "OTHERS")) }
}

// Issue 3, "Faults": while the store refuses a write, what waits for it waits. Nothing is lost
// or sent again because of that, attempts are not burnt, other lanes go on where they can, and
// all goes on seconds after there is room.
func TestStore_RefusedWriteIsWaitedFor(t *testing.T) { // S4-17, S4-22, C01
	t.Parallel()
	for id, fill := range map[string]func(o operator) (lift func()){
		"full-attempts":     func(o operator) func() { return o.fill(streams.Names{}.Attempts()) },
		"full-dead-letters": func(o operator) func() { return o.fill(streams.Names{}.DeadLetters()) },
		"full-lanes":        func(o operator) func() { return o.fill("KV_" + streams.Lanes) },
		"full-disk":         operator.fillDisk,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			tryFull(t, id, fill)
		})
	}
}

// fullWorld is a world whose endpoint can be held, and which knows what was published.
type fullWorld struct {
	*world

	server *natstest.Server
	logged *lines
	gate   sync.RWMutex // held for writing: nothing is answered
	sent   map[string][]string
}

func newFullWorld(t *testing.T) *fullWorld {
	t.Helper()
	w := &fullWorld{sent: map[string][]string{}}
	w.server = natstest.NewWith(t, natsd.Options{DontListen: true, MaxStore: 4 << 20})
	log, logged := counted(t)
	w.logged = logged
	store := storetest.Connect(t, natsstore.Options{Conn: w.server, Log: log})
	require.NoError(t, store.Provision(t.Context()))
	w.world = newWorld(t, store, "n", sluice.Policy{Window: 4, Retry: sluice.Retry{
		Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(20 * time.Millisecond)}, MaxAttempts: 10,
	}})
	w.log = log
	w.endpoint.wait = func() {
		w.gate.RLock()
		defer w.gate.RUnlock()
	}
	return w
}

// publishSome publishes n events, of which every fifth fails twice.
func (w *fullWorld) publishSome(t *testing.T, n int) {
	t.Helper()
	for range n {
		id, path := fmt.Sprint("e", w.total), fmt.Sprintf("/a/%d", w.total%3)
		w.total++
		if w.total%5 == 1 {
			w.endpoint.failing(id, 2)
		}
		w.publish(t, sluice.Path(path), id)
		w.sent[path] = append(w.sent[path], id)
	}
}

func (e *endpoint) failing(id string, times int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fails[id] = times
}

// attempts returns how many attempts there were.
func (e *endpoint) attempts() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, tries := range e.tries {
		n += tries
	}
	return n
}

// calm waits until ten seconds pass without an attempt: everything is done that can be done.
func (e *endpoint) calm() {
	last, since := e.attempts(), time.Now()
	within(patience, func() bool {
		if now := e.attempts(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 10*time.Second
	})
}

func tryFull(t *testing.T, id string, fill func(o operator) (lift func())) {
	t.Helper()
	w := newFullWorld(t)
	proc := w.start(t)
	defer proc.stop()
	w.publishSome(t, 10)
	settled := func() bool {
		status, err := w.deliveries.Status(t.Context(), w.sub)
		return err == nil && w.endpoint.delivered() == w.total && status.Parked == 0 && status.Backlog == 0
	}
	require.True(t, within(patience, settled))
	w.gate.Lock()
	w.endpoint.failing("doomed", 100)
	w.publish(t, "/a/doom", "doomed")
	w.publishSome(t, 20)

	watch := faulttest.Begin(t, id)
	lift := fill(newOperator(t, w.server))
	w.gate.Unlock()
	lasts := time.Second
	if faulttest.Long() {
		lasts = 30 * time.Second
	}
	w.endpoint.calm()
	tried, logged, since := w.endpoint.attempts(), w.logged.warnings.Load(), time.Now()
	watch.Wait(lasts)
	lasts = max(lasts, time.Since(since))
	tried, logged = w.endpoint.attempts()-tried, w.logged.warnings.Load()-logged
	before := w.endpoint.delivered()
	lift()
	watch.Recovered()
	require.True(t, within(patience, func() bool { return w.endpoint.delivered() > before || before == w.total }))
	resumed := watch.Resumed()
	require.True(t, within(2*time.Minute, func() bool {
		status, err := w.deliveries.Status(t.Context(), w.sub)
		return settled() && err == nil && status.DeadLetters == 1
	}))
	a := w.compare(sluice.OrderByPath)
	t.Logf("%+v, resumed after %s; while it lasted %d attempts, %d warnings, %d of %d delivered", a, resumed, tried, logged, before, w.total)
	require.LessOrEqual(t, tried, 10, "attempts that cannot be recorded")
	require.Zero(t, a.Twice)
	require.LessOrEqual(t, logged, int64(5*lasts.Seconds()), "warnings")
	watch.End(a, fmt.Sprintf("while it lasted: %d attempts, %d warnings, %d of %d delivered", tried, logged, before, w.total))
}
