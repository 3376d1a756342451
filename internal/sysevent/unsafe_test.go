package sysevent_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// unsafe returns a mark that says since when, and of how many loops, it is to be told.
func unsafe(producer string, at time.Time, count uint64) sluice.Unsafe {
	e := sluice.Link{ID: "e", Type: "t", Path: "/a", Cause: "secret"}
	return sluice.Unsafe{
		Producer: producer, Since: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), LastAt: at, Namespace: "acme", Hops: 2, Event: e, Count: count,
		Told: &sluice.UnsafeTold{At: at, Namespace: "acme", Hops: 2, Event: e, Count: count},
	}
}

// S4-82: what is told of an unsafe producer is what its mark says.
func TestUnsafeProducer_AnnouncementMatchesItsMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		a := sysevent.New(l, sysevent.Options{})
		defer run(t, a)()
		is := unsafe("user:ann", time.Now(), 61)
		a.Unsafe(is)
		a.Unsafe(is)
		more := is
		more.LastAt, more.Count = time.Now().Add(time.Second), 62
		a.Unsafe(more) // it is not to be told of this one
		a.Unsafe(unsafe("user:bob", time.Now(), 1))
		synctest.Wait()
		require.Len(t, l.published(), 2)
		ev := l.events[0]
		require.Equal(t, []any{"acme", sluice.Path("/_sys/producers"), "producer_unsafe", "/sluice"}, []any{ev.Namespace, ev.Path, ev.Type, ev.Source})
		require.JSONEq(t, `{"producer":"user:ann","since":"2026-11-21T00:00:00Z","count":61,"event":{"id":"e","type":"t","path":"/a"},"hops":2}`, string(ev.Data))
	})
}

// takenLog is a log in which another publisher has taken an id.
type takenLog struct {
	log

	id string
}

func (l *takenLog) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	if events[0].ID == l.id {
		return nil, sluice.Errorf(sluice.Conflict, "the id is taken")
	}
	return l.log.Publish(ctx, namespace, events)
}

// A publisher that takes the id of an announcement, which it can compute, does not keep it from being published.
func TestAnnouncement_TakenIDIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		since := time.Now()
		l := &takenLog{id: fmt.Sprintf("failing-s-%d-50", since.Unix())}
		a := sysevent.New(l, sysevent.Options{Dropped: func(kind string) { t.Errorf("%s is dropped", kind) }})
		defer run(t, a)()
		a.Failing(aSubscription("s"), 50, since)
		synctest.Wait()
		require.Len(t, l.published(), 1)
		require.Contains(t, l.events[0].ID, l.id+"-")
	})
}

// outbox has nothing that waits.
type outbox struct{ sysevent.Outbox }

func (outbox) Waiting(context.Context) ([]*sluice.Subscription, error) { return nil, nil }

// A mark that was stored by a process that died before it told is told of by another one: once, if it was not.
func TestUnsafeProducer_UnannouncedMarkIsAnnounced(t *testing.T) { // S4-82
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		now := time.Now()
		marks := []sluice.Unsafe{unsafe("user:ann", now.Add(-time.Hour), 1), unsafe("user:bob", now.Add(-time.Hour), 2), unsafe("user:cid", now.Add(-48*time.Hour), 3), {Producer: "user:dan", LastAt: now}}
		a := sysevent.New(l, sysevent.Options{
			Outbox: outbox{}, Marks: func(context.Context) ([]sluice.Unsafe, error) { return marks, nil },
			Known: func(_ context.Context, _ string, _ sluice.Path, ids []string, since time.Time) ([]string, error) {
				require.True(t, since.Equal(now.Add(-time.Hour)))
				return ids[1:], nil // bob's is there
			},
		})
		stop := run(t, a)
		<-time.After(10 * time.Minute)
		stop()
		require.Len(t, l.published(), 1)
		require.Contains(t, string(l.events[0].Data), "user:ann")
	})
}
