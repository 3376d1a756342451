package supervise_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world starts workers that end a second after they were told to.
type world struct {
	supervise.Set[string]

	began []string
}

func (w *world) start(ctx context.Context, key, name string) {
	w.Start(ctx, key, func(ctx context.Context) (string, func()) {
		return name, func() {
			w.began = append(w.began, name)
			<-ctx.Done()
			<-time.After(time.Second)
		}
	})
	synctest.Wait()
}

// A key has one worker at a time, and the last one that was started is known by it.
func TestSet_SuccessorBeginsWhenItsPredecessorHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		ctx, end := context.WithCancel(t.Context())
		w.start(ctx, "a", "first")
		w.start(ctx, "a", "second")
		w.start(ctx, "a", "third") // the second was told to end before it began, and still takes its turn
		w.start(ctx, "b", "other")
		require.Equal(t, []string{"first", "other"}, w.began)
		require.Equal(t, map[string]string{"a": "third", "b": "other"}, w.All())
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"first", "other", "second", "third"}, w.began)
		is, ok := w.Get("a")
		require.Equal(t, []any{"third", true}, []any{is, ok})
		_, ok = w.Get("c")
		require.False(t, ok)
		end()
		w.Wait()
	})
}

// Whether a worker has ended is told to the caller that stops it, and for all of them together.
func TestSet_TellsWhenWorkersHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		require.Nil(t, w.Stop("a"))
		<-w.Settled()
		for _, key := range []string{"a", "b"} {
			w.start(t.Context(), key, key)
		}
		began := time.Now()
		ended := w.Stop("a")
		require.Equal(t, ended, w.Stop("a"), "it is told to end once")
		require.Equal(t, map[string]string{"b": "b"}, w.All())
		<-w.Settled()
		<-ended
		require.Equal(t, time.Second, time.Since(began))
		require.Nil(t, w.Stop("a"))
		<-w.Stop("b")
		w.Wait()
	})
}

// A worker that ended by itself is known until it is told to end, and then holds nothing up.
func TestSet_KeepsAWorkerThatEndedByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.Start(t.Context(), "a", func(context.Context) (string, func()) { return "short", func() {} })
		synctest.Wait()
		is, _ := w.Get("a")
		require.Equal(t, "short", is)
		<-w.Stop("a")
		require.Nil(t, w.Stop("a"))
		w.start(t.Context(), "a", "next")
		require.Equal(t, []string{"next"}, w.began)
		<-w.Stop("a")
		w.Wait()
	})
}
