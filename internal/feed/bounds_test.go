package feed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// There are so many feeds, and so many of one principal; the operator's own count only among all.
func TestFeed_NumberIsBounded(t *testing.T) {
	t.Parallel()
	e := running(t, newMemory(10), open{}, feed.Options{Most: 6, PerCaller: 2})
	held := map[string]*feed.Feed{}
	try := func(name string, c sluice.Caller) error {
		f, err := opened(t.Context(), e, feed.Wish{Caller: c})
		if err == nil {
			held[name] = f
		}
		return err
	}
	ada, bob, root := sluice.Caller{Principal: "ada", Grant: "g1"}, sluice.Caller{Principal: "bob", Grant: "g2"}, sluice.Caller{Principal: sluice.Root}
	require.NoError(t, try("a1", ada))
	require.NoError(t, try("a2", sluice.Caller{Principal: "ada", Grant: "another"}))
	refused := func(err error, says string, limit int) {
		t.Helper()
		require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, says)
		var e *sluice.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, limit, e.Details["limit"])
		require.Positive(t, e.Details["retry_after"])
	}
	refused(try("", ada), "max_per_principal", 2)
	require.NoError(t, try("b1", bob))
	for n := range 3 {
		require.NoError(t, try(fmt.Sprint("r", n), root))
	}
	refused(try("", bob), "max_feeds", 6)
	refused(try("", root), "max_feeds", 6)
	held["a1"].Close()
	require.NoError(t, try("b2", bob))
	held["r1"].Close()
	require.NoError(t, try("a3", ada))
	require.Equal(t, uint64(3), e.Gauges().Refused)
	require.Equal(t, 6, e.Gauges().Feeds)
	held["r0"].Close()
	refused(try("", ada), "max_per_principal", 2)
	_, err := e.Open(t.Context(), feed.Wish{Namespace: ns, Filter: sluice.Filter{CEL: "1"}})
	require.Error(t, err)
	for _, name := range []string{"a2", "b1", "r0", "r2", "b2", "a3"} {
		held[name].Close()
	}
	require.Zero(t, e.Gauges().Feeds, "what was not opened is not counted")
}

// All rings together take so much: when there are more namespaces, each has less, and the places in it are read in the log.
func TestRing_SharesTheMemoryOfAll(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const weight = 2*1000 + 512
	log := newMemory(10)
	e := running(t, log, open{}, feed.Options{AllBytes: 20 * weight})
	first, err := opened(ctx, e, feed.Wish{})
	require.NoError(t, err)
	defer first.Close()
	for range 30 {
		log.publish(1, "/a", strings.Repeat("x", 1000))
	}
	require.Eventually(t, func() bool { return e.Gauges().RingBytes == 20*weight }, patience, time.Millisecond, "a ring has all")
	for n := range 3 {
		f, err := e.Open(ctx, feed.Wish{Namespace: fmt.Sprint("other", n)})
		require.NoError(t, err)
		defer f.Close()
	}
	require.Equal(t, 4, e.Gauges().Rings)
	require.Eventually(t, func() bool { return e.Gauges().RingBytes == 5*weight }, patience, time.Millisecond, "a quarter of it")
	r := follow(ctx, t, e, feed.Wish{Since: "0"})
	for seq := uint64(1); seq <= 30; {
		for _, frame := range <-r.pieces {
			require.Equal(t, seq, frame.Seq)
			seq++
		}
	}
	cancel()
}

// An expression that is too dear for live use ends its feed at the event for which it is, when what lies before was sent.
func TestFilter_TooExpensiveOneEndsItsFeed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := newMemory(10)
	e := running(t, log, open{}, feed.Options{})
	list := "[1" + strings.Repeat(",1", 120)
	_, err := opened(ctx, e, feed.Wish{Filter: sluice.Filter{CEL: list + "].map(a, " + list + "].map(b, a + b)) == []"}})
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "for any event: %v", err)
	r := follow(ctx, t, e, feed.Wish{Filter: sluice.Filter{CEL: "event.data.all(a, event.data.all(b, a == b))"}})
	log.publish(1, "/a", "[1,1]")
	log.publish(1, "/a", list+"]")
	log.publish(1, "/a", "[1]")
	seen := []uint64{}
	for {
		select {
		case frames := <-r.pieces:
			for _, frame := range frames {
				seen = append(seen, frame.Seq)
			}
			continue
		case err = <-r.ended:
		}
		break
	}
	require.Equal(t, []uint64{1}, seen)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "event 2")
}
