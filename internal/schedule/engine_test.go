package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/timerqueue"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// task is a record: it is done in so many steps, of which the first ones fail.
type task struct {
	at           time.Time
	fails, steps int
	done         []time.Duration // when a step was taken, or failed, after its time
}

type tasks map[string]*task

func (ts tasks) Read(_ context.Context, key string) (*task, error) {
	if one := ts[key]; one.steps > 0 {
		return one, nil
	}
	return nil, sluice.Errorf(sluice.NotFound, "it is done")
}

func (tasks) Entry(key string, one **task) timerqueue.Entry {
	return timerqueue.Entry{Key: key, Lane: key, Group: "acme", At: (*one).at}
}

func (tasks) Step(_ context.Context, _ string, p **task) (next schedule.Next, err error) {
	one := *p
	one.done = append(one.done, time.Since(one.at))
	if one.fails--; one.fails >= 0 {
		return next, errors.New("not now")
	}
	one.steps--
	next.More = true
	return next, nil
}

func (tasks) Mark(p **task) (schedule.Mark, bool) { return schedule.Mark{At: (*p).at}, true }

func (tasks) Tries(p **task) int {
	if *p == nil {
		return 0
	}
	return len((*p).done)
}

type everything struct{}

func (everything) Owns(string) bool { return true }

func engine(all tasks) *schedule.Engine[*task] {
	return schedule.New("task", all, schedule.Deps{Owner: everything{}, Replica: "one", Now: time.Now}, schedule.Options{Most: 2})
}

// What is due when a server starts is done once all records are known, so that what was told first is not done first.
func TestStart_WaitsForAllRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		all := tasks{"a": {at: now, steps: 2}, "b": {at: now.Add(-time.Second), steps: 1, fails: 2}}
		e := engine(all)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, f func(string, **task)) error {
				for key, one := range all {
					f(key, &one)
				}
				<-time.After(5 * time.Second)
				f("", nil)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		<-time.After(time.Minute)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second}, all["a"].done, "both steps at once")
		require.Equal(t, []time.Duration{6 * time.Second, 8 * time.Second, 12 * time.Second}, all["b"].done, "later each time")
	})
}

func TestBound_CountsIncomingAndKnownRecords(t *testing.T) {
	t.Parallel()
	e := engine(nil)
	one := &task{}
	e.Know("a", &one)
	release, err := e.Reserve("acme", "tasks, the limit; do some")
	require.NoError(t, err)
	_, err = e.Reserve("acme", "tasks, the limit; do some")
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	require.EqualError(t, err, "namespace acme has 2 tasks, the limit; do some")
	release()
	_, err = e.Reserve("acme", "")
	require.NoError(t, err)
	e.Know("a", nil)
	_, err = e.Reserve("acme", "")
	require.NoError(t, err)
}

// Between failed attempts a server that did not make them waits for the claim to expire.
func TestResume_OnlyTheClaimantRetriesEarly(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	idle := at.Add(5 * time.Second)
	for _, c := range []struct {
		claim sluice.Claim
		want  time.Time
	}{
		{sluice.Claim{By: "one", At: at, Tries: 2, Idle: idle}, idle.Add(action.Again(2))},
		{sluice.Claim{By: "one", At: at, Tries: 2}, at.Add(action.ClaimFor)},
		{sluice.Claim{By: "two", At: at, Tries: 2, Idle: idle}, at.Add(action.ClaimFor)},
	} {
		require.Equal(t, c.want, engine(nil).Resume(&c.claim))
	}
}

// crowd is records whose steps a full store refuses until a time.
type crowd struct {
	tasks

	until time.Time
	tried *atomic.Int64
}

func (c crowd) Entry(key string, one **task) timerqueue.Entry {
	entry := c.tasks.Entry(key, one)
	entry.Lane = key[:1]
	entry.Order, _ = strconv.ParseUint(key, 10, 64) // each has its own, as revisions are
	return entry
}

func (c crowd) Step(ctx context.Context, key string, p **task) (next schedule.Next, err error) {
	c.tried.Add(1)
	if time.Now().Before(c.until) {
		return next, sluice.StorageTight.Problem()
	}
	return c.tasks.Step(ctx, key, p)
}

func (crowd) Tries(**task) int { return 0 } // a full store stores no attempt

// What a full store refuses waits longer each time, is told of once, and is done when there is room.
func TestFire_FullStoreIsNotBesieged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = time.Hour
		var tried atomic.Int64
		var log bytes.Buffer
		now := time.Now()
		all := crowd{tasks{}, now.Add(outage), &tried}
		for n := range 100 {
			all.tasks[strconv.Itoa(n)] = &task{at: now, steps: 1}
		}
		e := schedule.New("task", all, schedule.Deps{Owner: everything{}, Replica: "one", Now: time.Now}, schedule.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, f func(string, **task)) error {
				for n := range len(all.tasks) {
					one := all.tasks[strconv.Itoa(n)]
					f(strconv.Itoa(n), &one)
				}
				f("", nil)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		<-time.After(outage + 5*time.Second)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Less(t, tried.Load(), int64(10*70+2000), "one of each lane once a minute, and one of all every two seconds")
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		for key, one := range all.tasks {
			require.Len(t, one.done, 1, key)
		}
	})
}
