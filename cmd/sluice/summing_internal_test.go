package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
)

// sharedBuffer is a buffer that a timer's goroutine may write to while the test reads it.
type sharedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A thousand subscriptions in the same trouble are ten lines and their number, in each minute and for each message; errors, what
// is about no subscription, and what is no warning are all written.
func TestLog_SumsUpWarnings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out sharedBuffer
		log, flush, err := newLog(&out, config.Log{Level: "info", Format: "text"})
		require.NoError(t, err)
		about := func(i int) slog.Attr { return slog.String("subscription", fmt.Sprint("s", i)) }
		var many sync.WaitGroup
		for i := range 1000 {
			many.Go(func() {
				log.LogAttrs(t.Context(), slog.LevelWarn, "breaker", about(i), slog.String("state", "open"))
				log.With("subscription", fmt.Sprint("s", i%500)).WarnContext(t.Context(), "subscription restarting")
				log.With("namespace", "a", "watch", fmt.Sprint("w", i%40)).WarnContext(t.Context(), "watch restarting")
			})
		}
		many.Wait()
		for i := range 20 {
			log.LogAttrs(t.Context(), slog.LevelError, "broken", about(i))
			log.LogAttrs(t.Context(), slog.LevelInfo, "attempt", about(i))
			log.WarnContext(context.Background(), "disconnected")
		}
		lines := func(text string) int { return strings.Count(out.String(), text) }
		require.Equal(t, 10, lines("msg=breaker"))
		require.Equal(t, 10, lines(`msg="subscription restarting"`))
		require.Equal(t, []int{20, 20, 20}, []int{lines("broken"), lines("attempt"), lines("disconnected")})

		<-time.After(time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, 11, lines("msg=breaker"))
		require.Equal(t, 1, lines("level=WARN msg=breaker more=990 subscriptions=990 within=1m0s"))
		require.Equal(t, 1, lines(`msg="subscription restarting" more=990 subscriptions=`))
		require.Equal(t, 1, lines(`msg="watch restarting" more=990 watches=40 within`))

		log.LogAttrs(t.Context(), slog.LevelWarn, "breaker", about(1))
		require.Equal(t, 12, lines("msg=breaker"), "another minute")
		<-time.After(time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, 12, lines("msg=breaker"), "nothing was held back")

		for i := range 15 {
			log.LogAttrs(t.Context(), slog.LevelWarn, "breaker", about(i))
		}
		flush()
		flush()
		require.Equal(t, 1, lines("msg=breaker more=5 subscriptions=5"), "when the server ends, nothing is forgotten")
		<-time.After(time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, 1, lines("msg=breaker more=5"))
	})
}

// A copy of the log has the lines that are written, and no others.
func TestLog_CopyHasTheSameLines(t *testing.T) {
	t.Parallel()
	var out, copied bytes.Buffer
	h := newSumming(slog.NewTextHandler(&out, nil))
	log := slog.New(h.Also(slog.NewTextHandler(&copied, nil)))
	for i := range 15 {
		log.LogAttrs(t.Context(), slog.LevelWarn, "breaker", slog.String("subscription", fmt.Sprint("s", i)))
	}
	log.InfoContext(t.Context(), "ready")
	log.DebugContext(t.Context(), "nothing")
	h.flush()
	require.Equal(t, 12, strings.Count(out.String(), "\n"), "ten, one that tells of five more, and another")
	require.Equal(t, out.String(), copied.String())
}
