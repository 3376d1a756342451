package records_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// seenRecords lets a test see what is about to be stored.
type seenRecords struct {
	wake.Records

	before func(c *wake.Consumer)
	after  func(c *wake.Consumer)
}

// Put stores a record.
func (r seenRecords) Put(ctx context.Context, subscription string, c wake.Consumer, revision uint64) (uint64, error) {
	if r.before != nil {
		r.before(&c)
	}
	stored, err := r.Records.Put(ctx, subscription, c, revision)
	if r.after != nil {
		r.after(&c)
	}
	return stored, err
}

// heardStreams lets a test know that what was stored has been heard.
type heardStreams struct {
	wake.Streams

	heard func(path sluice.Path)
}

// Follow tells of what is stored.
func (s heardStreams) Follow(ctx context.Context, namespace string, each func(sluice.Path, uint64)) error {
	return s.Streams.Follow(ctx, namespace, func(path sluice.Path, seq uint64) {
		each(path, seq)
		s.heard(path)
	})
}

// lateWatcher tells of subscriptions when it is told to.
type lateWatcher struct {
	wake.Watcher

	tell <-chan struct{}
}

// Watch tells of subscriptions.
func (w lateWatcher) Watch(ctx context.Context, change func(string, *sluice.Subscription)) error {
	<-w.tell
	return w.Watcher.Watch(ctx, change)
}

// slowRecords lets nothing be read before it is told to.
type slowRecords struct {
	wake.Records

	begin <-chan struct{}
}

// Get returns a record.
func (r slowRecords) Get(ctx context.Context, subscription string, path sluice.Path) (wake.Entry, error) {
	select {
	case <-r.begin:
		return r.Records.Get(ctx, subscription, path)
	case <-ctx.Done():
		return wake.Entry{}, ctx.Err()
	}
}

// listedStreams lets a test know that all streams that were there have been told of.
type listedStreams struct {
	wake.Streams

	listed chan<- struct{}
}

// Ends tells of the streams that a pattern matches.
func (s listedStreams) Ends(ctx context.Context, namespace string, pattern sluice.Pattern, each func(sluice.Path, uint64)) error {
	err := s.Streams.Ends(ctx, namespace, pattern, each)
	s.listed <- struct{}{}
	return err
}

// notices returns the notices to come, which get a response of 200 with a body.
func (s *wakeSite) notices(t *testing.T, body string) <-chan wake.Notice {
	t.Helper()
	all := make(chan wake.Notice, 16)
	s.post = func(l wake.Letter) (int, string) {
		all <- told(t, l)
		return 200, body
	}
	return all
}

// told reads a notice.
func told(t *testing.T, l wake.Letter) wake.Notice {
	t.Helper()
	var n wake.Notice
	require.NoError(t, json.Unmarshal(l.Body, &n))
	return n
}

// A stream outside the pattern gets something between the moment when a callback looks at its end and the one in which the
// owner learns that it is followed: it wakes all the same (S1-97, S1-16).
func TestCallback_EventDuringSubscribingWakes(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	notices := s.notices(t, "")
	heard := make(chan sluice.Path, 16)
	owner, err := s.node(store, true, func(ports *wake.Deps, _ *wake.Options) {
		ports.Streams = heardStreams{ports.Streams, func(path sluice.Path) { heard <- path }}
	})
	require.NoError(t, err)
	defer owner.stop()
	other, err := s.node(store, false, func(ports *wake.Deps, _ *wake.Options) {
		ports.Records = seenRecords{Records: ports.Records, before: func(c *wake.Consumer) {
			if !c.Follows("/b/late") || c.State != sluice.WakeIdle {
				return
			}
			if _, err := s.append("/b/late"); err != nil {
				t.Error(err)
			}
			for path := range heard {
				if path == "/b/late" {
					return
				}
			}
		}}
	})
	require.NoError(t, err)
	defer other.stop()
	call := func(n wake.Notice, body string) {
		t.Helper()
		_, err := other.engine.Call(t.Context(), "n", n.ConsumerID, n.Token, fmt.Appendf(nil, `{"epoch":%d,%s}`, n.Epoch, body))
		require.NoError(t, err)
	}
	woken := func() (wake.Notice, string) {
		t.Helper()
		seq, err := s.append("/a/1")
		require.NoError(t, err)
		return <-notices, fmt.Sprintf(`"acks":[{"path":"/a/1","offset":%q}],"done":true`, s.streams.FormatOffset(seq))
	}
	n, done := woken()
	call(n, `"wake_id":"`+n.WakeID+`","subscribe":["/b/early"]`)
	require.Empty(t, <-heard, "the owner follows other streams from now on")
	call(n, done)
	n, done = woken()
	call(n, `"subscribe":["/b/late"],`+done)
	require.Equal(t, []sluice.Path{"/b/late"}, (<-notices).TriggeredBy)
}

// An engine ends when all has ended that it began, what becomes of a notice that is too late included.
func TestEngine_WritesNothingAfterItsEnd(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	answered, late, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.post = func(wake.Letter) (int, string) {
		<-answered
		return 500, ""
	}
	var once sync.Once
	var stored atomic.Bool
	node, err := s.node(store, true, func(ports *wake.Deps, opts *wake.Options) {
		opts.ClaimWithin = time.Millisecond
		ports.Records = seenRecords{Records: ports.Records, before: func(c *wake.Consumer) {
			if c.Failures > 0 {
				once.Do(func() { close(late) })
				<-release
			}
		}, after: func(c *wake.Consumer) { stored.Store(stored.Load() || c.Failures > 0) }}
	})
	require.NoError(t, err)
	_, err = s.append("/a/1")
	require.NoError(t, err)
	<-late
	node.cancel()
	close(answered)
	close(release)
	<-node.ended
	require.True(t, stored.Load())
	require.Equal(t, 1, s.record("/a/1").Failures)
}

// A process that has just begun and does not know the subscriptions yet takes the end of a stream for what it is.
func TestStream_EndIsNoticedByAFreshProcess(t *testing.T) { // S1-122
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	s.post = func(wake.Letter) (int, string) { return 200, `{"done":true}` }
	first, err := s.node(store, true, nil)
	require.NoError(t, err)
	_, err = s.append("/a/1")
	require.NoError(t, err)
	require.True(t, soon(2*time.Minute, func() bool { return s.record("/a/1").State == sluice.WakeIdle }))
	first.stop()
	require.NoError(t, s.streams.Engine.Delete(t.Context(), durable.Key{Namespace: "n", Path: "/a/1"}))
	tell := make(chan struct{})
	second, err := s.node(store, true, func(ports *wake.Deps, _ *wake.Options) { ports.Watch = lateWatcher{ports.Watch, tell} })
	require.NoError(t, err)
	defer second.stop()
	ended := make(chan error, 1)
	go func() { ended <- second.engine.Ended(context.Background(), "n", "/a/1") }()
	close(tell)
	require.NoError(t, <-ended)
	require.Equal(t, sluice.WakeRemoved, s.record("/a/1").State)
}

// What an earlier subscription of the same id left behind, because its server wrote it while it was deleted, keeps no consumer
// from being woken, and epochs go on.
func TestSubscription_LeftoversOfAnEarlierOneDelayNothing(t *testing.T) { // S1-128
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 3)
	notices := s.notices(t, `{"done":true}`)
	for path, state := range map[sluice.Path]sluice.WakeState{"/a/waking": sluice.WakeWaking, "/a/live": sluice.WakeLive, "/a/idle": sluice.WakeIdle} {
		left := wake.NewConsumer(path, "earlier", 1, 100)
		left.State, left.Epoch, left.WakeID, left.Due = state, 7, "w_left", time.Now()
		_, err := records.NewWakes(store.Store).Put(t.Context(), s.sub.ID, left, 0)
		require.NoError(t, err)
	}
	_, err := s.append("/a/idle")
	require.NoError(t, err)
	_, err = s.append("/a/live")
	require.NoError(t, err)
	node, err := s.node(store, true, nil)
	require.NoError(t, err)
	defer node.stop()
	require.True(t, soon(2*time.Minute, func() bool { return node.idle() == 2 }), "what was there has its consumers, and is not woken")
	for _, path := range []sluice.Path{"/a/waking", "/a/live", "/a/idle"} {
		_, err := s.append(path)
		require.NoError(t, err)
		n := <-notices
		require.Equal(t, []any{path, uint64(8)}, []any{n.Primary, n.Epoch})
	}
}

// Of streams that were there before the subscription what came before it is acknowledged, also when something is stored while
// so many of them wait for their consumers that it comes first (S1-139, S1-140).
func TestConsumer_NewOneHearsOnlyOfNewEvents(t *testing.T) {
	t.Parallel()
	const streams = 300 // more than are looked at at once
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, streams+1)
	appendMany(t, s, streams)
	var mu sync.Mutex
	offsets := map[sluice.Path]string{}
	s.post = func(l wake.Letter) (int, string) {
		n := told(t, l)
		mu.Lock()
		defer mu.Unlock()
		offsets[n.Primary] = n.Streams[0].Offset
		return 200, `{"done":true}`
	}
	listed, proceed := make(chan struct{}, 1), make(chan struct{})
	node, err := s.node(store, true, func(ports *wake.Deps, _ *wake.Options) {
		ports.Records, ports.Streams = slowRecords{ports.Records, proceed}, listedStreams{ports.Streams, listed}
	})
	require.NoError(t, err)
	defer node.stop()
	<-listed
	appendMany(t, s, streams)
	require.True(t, soon(2*time.Minute, func() bool { // all that the subscription's window lets come has been told of
		status, err := store.Deliveries.Status(t.Context(), s.sub)
		return err == nil && status.InFlight > 0
	}))
	close(proceed)
	require.True(t, soon(2*time.Minute, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(offsets) == streams
	}))
	mu.Lock()
	defer mu.Unlock()
	for i := range uint64(streams) {
		path := sluice.Path(fmt.Sprintf("/a/agent-%06d", i))
		require.Equal(t, s.streams.FormatOffset(i+1), offsets[path], path)
	}
}
