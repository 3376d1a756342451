package sysevent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log keeps what is published; while it is held, it takes nothing.
type log struct {
	hold chan struct{} // nil, or closed: it is not held

	mu     sync.Mutex
	events []sluice.Event
	at     []time.Time
	err    error
}

func (l *log) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	if l.hold != nil {
		select {
		case <-l.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ev := range events {
		ev.Namespace = namespace
		l.events, l.at = append(l.events, ev), append(l.at, time.Now())
	}
	return nil, l.err
}

func (l *log) published() []sluice.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// drops counts what is lost.
type drops struct {
	mu sync.Mutex
	n  map[string]int
}

func (d *drops) count(kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == nil {
		d.n = map[string]int{}
	}
	d.n[kind]++
}

func run(t *testing.T, a *sysevent.Announcer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) }) // it has no errors
	return func() { cancel(); running.Wait() }
}

func aSubscription(id string) *sluice.Subscription {
	return &sluice.Subscription{
		ID: id, Namespace: "acme", Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Paused, Revision: 7, Reason: "because"}, Untold: []sluice.Announcement{{
			ID: "paused-" + id, Type: sluice.TypeSubscriptionPaused, Revision: 7, State: sluice.Paused, Reason: "because", At: time.Now(),
		}},
		Secrets: []sluice.Secret{{Value: "the-secret"}}, Endpoint: sluice.Endpoint{URL: "https://a.example/?key=the-secret"},
	}
}

// S2-04: what is told is small, and nothing in it is secret.
func TestChange_IsPublishedAtOnce(t *testing.T) {
	t.Parallel()
	l := &log{}
	sysevent.New(l, sysevent.Options{}).Subscription(t.Context(), aSubscription("s"))
	require.Len(t, l.events, 1)
	ev := l.events[0]
	require.JSONEq(t, `{"id":"s","state":"paused","reason":"because","revision":7}`, string(ev.Data))
	require.Equal(t, []any{"acme", sluice.Path("/_sys/subscriptions/s"), "subscription.paused", "/sluice", "application/json"},
		[]any{ev.Namespace, ev.Path, ev.Type, ev.Source, ev.ContentType})
	require.Equal(t, "paused-s", ev.ID)
	require.WithinDuration(t, time.Now(), ev.Time, time.Minute)
}

// Those of a deleted subscription with its id go to the namespace of that one.
func TestChange_IsPublishedInItsNamespace(t *testing.T) {
	t.Parallel()
	l := &log{}
	sub := aSubscription("s")
	sub.Untold = append([]sluice.Announcement{
		{ID: "created", Namespace: "former", Type: sluice.TypeSubscriptionCreated, At: time.Now()},
		{ID: "deleted", Namespace: "former", Type: sluice.TypeSubscriptionDeleted, At: time.Now()},
	}, sub.Untold...)
	sysevent.New(l, sysevent.Options{}).Subscription(t.Context(), sub)
	var in []string
	for _, ev := range l.events {
		in = append(in, ev.Namespace+" "+ev.Type)
	}
	require.Equal(t, []string{"former subscription.created", "former subscription.deleted", "acme subscription.paused"}, in)
}

// Without an outbox.
func TestAnnouncement_FailureIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	var lost drops
	l := &log{err: errors.New("the log is full")}
	a := sysevent.New(l, sysevent.Options{Log: slog.New(slog.NewTextHandler(&lines, nil)), Dropped: lost.count})
	a.Subscription(t.Context(), aSubscription("s"))
	require.Contains(t, lines.String(), "the log is full")
	require.NotContains(t, lines.String(), "the-secret")
	require.Equal(t, map[string]int{"subscription.paused": 1}, lost.n)
}

func TestAnnouncement_AbsentStoreDelaysCallersTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := sysevent.New(&log{hold: make(chan struct{})}, sysevent.Options{})
		began := time.Now()
		a.Subscription(t.Context(), aSubscription("s"))
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

func letter(seq uint64) *sluice.DeadLetter {
	return &sluice.DeadLetter{
		Subscription: "s", Namespace: "acme", EventID: "e", Seq: seq, Path: "/a", Attempts: 3, Reason: sluice.Exhausted, LastError: "status 500",
		At: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Event: &sluice.Event{Data: []byte("the-data")},
	}
}

func TestDeadLetter_IsAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, dead := &log{}, newLetters()
		a := sysevent.New(l, sysevent.Options{Letters: dead})
		defer run(t, a)()
		dead.bury(letter(4))
		synctest.Wait()
		require.Len(t, l.events, 1)
		ev := l.events[0]
		require.Equal(t, []any{sluice.Path("/_sys/deliveries/s"), "delivery.dead", "dead-s-4-exhausted"}, []any{ev.Path, ev.Type, ev.ID})
		require.JSONEq(t, `{"subscription":"s","event_id":"e","seq":4,"path":"/a","reason":"exhausted","attempts":3,"last_error":"status 500","at":"2026-11-21T00:00:00Z"}`,
			string(ev.Data))
	})
}

func TestHeldLane_IsAnnounced(t *testing.T) { // issue 3, item 1
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		a := sysevent.New(l, sysevent.Options{})
		defer run(t, a)()
		a.Held(aSubscription("s"), letter(4))
		synctest.Wait()
		require.Len(t, l.events, 1)
		ev := l.events[0]
		require.Equal(t, []any{sluice.Path("/_sys/deliveries/s"), "delivery.held"}, []any{ev.Path, ev.Type})
		require.JSONEq(t, `{"subscription":"s","event_id":"e","seq":4,"path":"/a","reason":"exhausted","attempts":3,"last_error":"status 500","at":"2026-11-21T00:00:00Z"}`,
			string(ev.Data))
	})
}

// S2-06, decision 0007: there is no loop.
func TestAnnouncement_SkipsSubscriptionsToSystemEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, dead := &log{}, newLetters()
		a := sysevent.New(l, sysevent.Options{Letters: dead})
		defer run(t, a)()
		sub := aSubscription("s")
		dead.subs["s"] = sub
		for _, sub.Pattern = range []sluice.Pattern{"/_sys/**", "/_sys/deliveries/*"} {
			of, lost := letter(1), letter(2)
			of.Path = "/_sys/deliveries/other"
			lost.EventID, lost.Path = "", ""
			dead.bury(of)
			dead.bury(lost)
			synctest.Wait()
			a.Held(sub, letter(1))
			a.Throttled(sub, "rate")
		}
		synctest.Wait()
		require.Empty(t, l.events)
	})
}

// Decision 0007: the range that left the log may have been what was told before.
func TestExpired_UnservedRangeIsAnnouncedOnceAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, dead := &log{}, newLetters()
		a := sysevent.New(l, sysevent.Options{Letters: dead})
		defer run(t, a)()
		dead.subs["paused"], dead.subs["active"] = aSubscription("paused"), aSubscription("active")
		dead.subs["active"].State = sluice.Active
		lost := func(of string, seq uint64) *sluice.DeadLetter {
			d := letter(seq)
			d.Subscription, d.EventID, d.Path, d.Reason = of, "", "", sluice.Expired
			return d
		}
		for seq := range uint64(90) { // a minute each
			dead.bury(lost("paused", seq))
			<-time.After(time.Minute)
		}
		require.Len(t, l.published(), 2)
		dead.bury(letter(1))
		dead.bury(lost("active", 100))
		dead.bury(lost("active", 101))
		dead.bury(lost("gone", 102))
		synctest.Wait()
		require.Len(t, l.published(), 5, "what is known of, and what is served, is told each time")
	})
}

func TestAnnouncer_NeverDelaysTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		var lost drops
		l := &log{hold: make(chan struct{})}
		a := sysevent.New(l, sysevent.Options{Queue: 4, Dropped: lost.count, Log: slog.New(slog.NewTextHandler(&lines, nil))})
		stop := run(t, a)
		began := time.Now()
		a.Held(aSubscription("s"), letter(0))
		synctest.Wait() // that one is being published
		for seq := range uint64(50) {
			a.Held(aSubscription("s"), letter(seq+1))
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, map[string]int{"delivery.held": 6}, lost.n)
		close(l.hold)
		<-time.After(time.Second + time.Millisecond)
		require.Len(t, l.published(), 1+4+40)
		stop()
		require.Contains(t, lines.String(), "count=6")
	})
}

func TestAnnouncer_PublishesItsQueueBeforeTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		a := sysevent.New(l, sysevent.Options{})
		a.Held(aSubscription("s"), letter(1))
		a.Held(aSubscription("s"), letter(2))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, a.Run(ctx))
		require.Len(t, l.events, 2)
	})
}

// S2-06: at most one a second for each subscription, and none is forgotten in the count.
func TestThrottled_IsAnnouncedOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		a := sysevent.New(l, sysevent.Options{})
		defer run(t, a)()
		one, other := aSubscription("one"), aSubscription("other")
		for i := range 50 { // five seconds
			a.Throttled(one, "rate")
			if i == 7 {
				a.Throttled(other, "window")
			}
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(5 * time.Second)
		counts, last := map[sluice.Path]int{}, map[sluice.Path]time.Time{}
		for i, ev := range l.published() {
			require.Equal(t, sluice.TypeSubscriptionThrottled, ev.Type)
			if before, ok := last[ev.Path]; ok {
				require.GreaterOrEqual(t, l.at[i].Sub(before), time.Second)
			}
			last[ev.Path] = l.at[i]
			counts[ev.Path] += countOf(t, ev)
		}
		require.Equal(t, map[sluice.Path]int{"/_sys/subscriptions/one": 50, "/_sys/subscriptions/other": 1}, counts)
		require.JSONEq(t, `{"id":"one","state":"paused","reason":"rate","count":1}`, string(l.events[0].Data), "the first is told at once")
		require.LessOrEqual(t, len(l.events), 8)
	})
}

func countOf(t *testing.T, ev sluice.Event) int {
	t.Helper()
	var data struct {
		Count int `json:"count"`
	}
	require.NoError(t, json.Unmarshal(ev.Data, &data))
	return data.Count
}

// Each step of a streak of failures is told, under an id of its own: a server that comes to it again after
// a restart is a duplicate at the log's door.
func TestFailing_IsAnnouncedOncePerStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		a := sysevent.New(l, sysevent.Options{})
		defer run(t, a)()
		sub := aSubscription("one")
		sub.Policy.DisableAfter = sluice.Duration(10 * time.Hour)
		since := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		a.Failing(sub, 50, since)
		a.Failing(sub, 70, since)
		a.Failing(sub, 50, since)
		own := aSubscription("own")
		own.Pattern = "/_sys/**"
		a.Failing(own, 50, since)
		synctest.Wait()
		events := l.published()
		require.Len(t, events, 3, "a subscription to system events has none of its own")
		require.Equal(t, sluice.TypeSubscriptionFailing, events[0].Type)
		require.JSONEq(t, `{"id":"one","percent":50,"since":"2026-11-01T00:00:00Z","disabled_at":"2026-11-01T10:00:00Z"}`, string(events[0].Data))
		require.Equal(t, events[0].ID, events[2].ID)
		require.NotEqual(t, events[0].ID, events[1].ID)
	})
}

// What follows from something that is stored is told when the log takes it again, or there is room; what is of the moment is lost.
func TestOutbox_AnnouncesStoredChangesLater(t *testing.T) { // C32
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost drops
		l := &log{err: sluice.Errorf(sluice.Unavailable, "not now")}
		a := sysevent.New(l, sysevent.Options{Dropped: lost.count, Queue: 2})
		sub := aSubscription("s")
		at := time.Now()
		letter := func(seq uint64) *sluice.DeadLetter {
			return &sluice.DeadLetter{Subscription: "s", Namespace: "acme", Seq: seq, At: at}
		}
		for seq := range uint64(5) {
			a.Held(sub, letter(seq)) // the queue is not read yet
		}
		a.Throttled(sub, "rate")
		stop := run(t, a)
		a.Failing(sub, 50, at)
		a.StillHeld(sub, letter(0)) // twice is once
		old := letter(77)
		old.At = at.Add(-25 * time.Hour) // it may have been told, and have left the log
		a.StillHeld(sub, old)
		<-time.After(time.Minute)
		l.mu.Lock()
		l.events, l.err = nil, nil
		l.mu.Unlock()
		<-time.After(time.Minute)
		stop()
		kinds := map[string]int{}
		ids := map[string]bool{}
		for _, ev := range l.published() {
			kinds[ev.Type]++
			ids[ev.ID] = true
		}
		require.Equal(t, map[string]int{"delivery.held": 5, "subscription.failing": 1}, kinds)
		require.Len(t, ids, 6)
		require.Equal(t, map[string]int{"subscription.throttled": 1}, lost.n)
	})
}

// What can never be published is not kept.
func TestAnnouncement_RefusedForGoodIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost drops
		a := sysevent.New(&log{err: sluice.Errorf(sluice.TooLarge, "never")}, sysevent.Options{Dropped: lost.count})
		stop := run(t, a)
		a.StillFailing(aSubscription("s"), 50, time.Now())
		a.Failing(aSubscription("t"), 70, time.Now())
		<-time.After(time.Minute)
		stop()
		require.Equal(t, map[string]int{"subscription.failing": 2}, lost.n)
	})
}
