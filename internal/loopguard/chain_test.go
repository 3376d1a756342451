package loopguard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The chain of a refusal names the causes that are known, the nearest first, and at most 32 of them.
func TestRefusal_ChainIsKnownAndBounded(t *testing.T) { // S4-82
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("a", "paid", "/orders/7", "lost"))
	m.store(event("b", "made", "/invoices/7", "a"))
	e := requireLoop(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("c", "paid", "/orders/7", "b")}))
	require.Equal(t, []sluice.Link{{ID: "b", Type: "made", Path: "/invoices/7"}, {ID: "a", Type: "paid", Path: "/orders/7"}}, withoutPlace(e["chain"]))
	require.Equal(t, 3, e["hops"], "the lost one is a hop")

	for i := range sluice.MaxHops + 8 {
		m.store(event(strconv.Itoa(i), "t", sluice.Path(fmt.Sprint("/", i)), strconv.Itoa(i-1)))
	}
	e = requireLoop(t, g.CheckNew(t.Context(), "acme", "q", []sluice.Event{event("x", "t", "/x", strconv.Itoa(sluice.MaxHops+7))}))
	require.Len(t, e["chain"], sluice.MaxHops)
	require.Equal(t, sluice.MaxHops+1, e["hops"])
}

// An event of the log that names itself ends the chain of what comes of it; an event without id and cause passes.
func TestChain_EndsAtItsOwnCause(t *testing.T) {
	t.Parallel()
	m := newMemory()
	g := newGuard(t, m, loopguard.Options{})
	m.store(event("self", "t", "/1", "self"))
	require.NoError(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("x", "t", "/x", "self")}))
	plain := event("", "t", "/x", "")
	require.NoError(t, g.CheckReaction(t.Context(), "acme", "p", &plain))
}

// An error that is about no event of the batch is returned as it is.
func TestCheckNew_OtherErrorsNameNoEvent(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{errors.New("no answer"), sluice.Errorf(sluice.Unavailable, "away")} {
		m := newMemory()
		m.err = cause
		err := newGuard(t, m, loopguard.Options{}).CheckNew(t.Context(), "acme", "p", []sluice.Event{event("a", "t", "/1", ""), event("b", "t", "/2", "gone")})
		require.ErrorIs(t, err, cause)
		require.NotContains(t, err.Error(), "of the batch")
	}
}

// contended is a store of marks that another replica writes first, so many times.
type contended struct {
	*memory

	times int
}

func (c *contended) PutMark(ctx context.Context, is sluice.Unsafe, revision uint64) (uint64, error) {
	if c.times--; c.times >= 0 {
		return 0, sluice.Errorf(sluice.Conflict, "changed")
	}
	return c.memory.PutMark(ctx, is, revision)
}

// A mark that others write is tried again. The log says whether a producer could be marked; the event is refused in any case.
func TestMark_IsTriedWhileOthersWrite(t *testing.T) {
	t.Parallel()
	for times, said := range map[int]string{0: "level=WARN", 9: "level=WARN", 10: "level=ERROR"} {
		m := newMemory()
		var log bytes.Buffer
		g, err := loopguard.New(m, &contended{m, times}, loopguard.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		g.CaughtUp()
		m.store(event("a", "t", "/1", ""))
		requireLoop(t, g.CheckNew(t.Context(), "acme", "p", []sluice.Event{event("b", "t", "/1", "a")}))
		require.Equal(t, times < 10, m.marks["p"].Count == 1)
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")))
		require.Contains(t, log.String(), said)
	}
}
