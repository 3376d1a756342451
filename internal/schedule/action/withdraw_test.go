package action_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// slowLog is a log that takes its time, and stores what it was given also if no caller waits.
type slowLog struct {
	asking func() // before a right is asked for
	lost   error  // in place of the answer
	given  atomic.Int32
	stored atomic.Int32
}

func (l *slowLog) CheckNew(context.Context, string, string, []sluice.Event) error {
	l.asking()
	return nil
}

func (l *slowLog) Publish(ctx context.Context, _ string, events []sluice.Event) ([]sluice.Stored, error) {
	l.given.Add(1)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(time.Second):
	}
	l.stored.Add(1)
	return make([]sluice.Stored, len(events)), l.lost
}

func performingOn(l *slowLog) *action.Revocable {
	return &action.Revocable{Performer: action.New(action.Deps{Access: authz.NewIndex(), Now: time.Now, Ingest: ingest.New(ingest.Deps{
		Publisher: action.Cancellable{Publisher: l}, Access: authz.NewIndex(), Catalogue: catalogue.New(), Causes: l, Quota: quota.NewQuotas(),
	})})}
}

func dueOf() action.Firing {
	return action.Firing{Creator: sluice.Creator{CreatedBy: sluice.Root}, Event: sluice.Event{Namespace: "acme", Path: "/a", Type: "t", ID: "1"}}
}

func ofRoot(sub *sluice.Subscription) bool {
	return sub.CreatedBy == string(sluice.Root) && sub.Namespace == "acme" && sub.Pattern == "/a"
}

// What is on its way to the log when a right is lost is waited for.
func TestWithdraw_WaitsForAWriteInFlight(t *testing.T) { // C43
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &slowLog{asking: func() {}}
		p := performingOn(l)
		done := make(chan error, 1)
		go func() {
			_, err := p.Perform(t.Context(), dueOf())
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, p.Withdraw(t.Context(), func(*sluice.Subscription) bool { return false }))
		require.Zero(t, l.stored.Load())
		require.NoError(t, p.Withdraw(t.Context(), ofRoot))
		require.EqualValues(t, 1, l.stored.Load(), "it was waited for")
		require.NoError(t, <-done)
	})
}

// What was allowed and not yet given to the log when a right is lost is not given to it.
func TestWithdraw_CutsOffBeforeTheWrite(t *testing.T) { // C43
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		withdrawn := make(chan error, 1)
		l := &slowLog{}
		p := performingOn(l)
		l.asking = func() {
			go func() { withdrawn <- p.Withdraw(t.Context(), ofRoot) }()
			synctest.Wait()
		}
		_, err := p.Perform(t.Context(), dueOf())
		require.Equal(t, sluice.Unavailable, sluice.CodeOf(err), "it is tried again, and the right asked for")
		require.NoError(t, <-withdrawn)
		require.False(t, action.Sent(err))
		require.Zero(t, l.given.Load())
	})
}

// A write that was waited for and whose answer was lost may have stored the event.
func TestWithdraw_LostAnswerCountsAsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &slowLog{asking: func() {}, lost: sluice.Errorf(sluice.Unavailable, "no answer")}
		p := performingOn(l)
		done := make(chan error, 1)
		go func() {
			_, err := p.Perform(t.Context(), dueOf())
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, p.Withdraw(t.Context(), ofRoot))
		err := <-done
		require.ErrorContains(t, err, "checking again")
		require.True(t, action.Sent(err))
	})
}

// Who ends ends what it publishes, too.
func TestShutdown_DoesNotWaitForTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the server ends")
		ctx, end := context.WithCancelCause(t.Context())
		l := &slowLog{asking: func() {}}
		begun := time.Now()
		go func() {
			<-time.After(time.Millisecond)
			end(why)
		}()
		_, err := performingOn(l).Perform(ctx, dueOf())
		require.ErrorIs(t, err, why)
		require.False(t, inflight.WasCut(ctx))
		require.Equal(t, time.Millisecond, time.Since(begun))
	})
}
