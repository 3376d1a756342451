package feed_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// payers counts the frames of the feeds of each principal.
type payers struct {
	mu   sync.Mutex
	seen map[sluice.Principal]int
}

func (p *payers) of(who sluice.Principal) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[who]
}

// read reads a feed from the beginning.
func (p *payers) read(ctx context.Context, t *testing.T, e *feed.Engine, who sluice.Principal, cel string) {
	t.Helper()
	f, err := opened(ctx, e, feed.Wish{Since: "0", Caller: sluice.Caller{Principal: who, Grant: "g"}, Filter: sluice.Filter{CEL: cel}})
	if err != nil {
		return
	}
	defer f.Close()
	_ = f.Run(ctx, func(frames []feed.Frame) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, frame := range frames {
			if frame.Lagged == nil && !frame.Idle {
				p.seen[who]++
			}
		}
		return nil
	}, func() {})
}

// Issue 13, attack 3: the feeds of a principal pay for their expressions from one budget, however many there are; those of others and
// cheap ones do not wait for that, and no reader misses anything.
func TestFeeds_PayFromOneBudget(t *testing.T) {
	t.Parallel()
	const dear, cheap = `event.data.l.map(x, event.data.l.map(y, x + y)).size() > 0`, `event.type == "t"`
	const events, feeds, each = 40, 10, 5 // as many as a principal can pay for in a second
	synctest.Test(t, func(t *testing.T) {
		log := newMemory(100)
		matcher, err := filter.CompileLive(sluice.Filter{CEL: dear}, nil)
		require.NoError(t, err)
		for range events {
			log.publish(1, "/a", `{"l":[`+strings.TrimSuffix(strings.Repeat("1,", 25), ",")+`]}`)
		}
		for i := range log.events {
			log.events[i].ContentType = "application/json"
		}
		ok, err := matcher.Match(&log.events[0])
		require.NoError(t, err)
		require.True(t, ok)
		pool := filter.NewPool(filter.Rates{Principal: each * int(matcher.Spent())})
		e := feed.New(log, open{}, feed.Options{Filters: pool, Payer: func(c sluice.Caller, _ string) string { return string(c.Principal) }})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = e.Run(ctx) })
		p := &payers{seen: map[sluice.Principal]int{}}
		for range feeds {
			all.Go(func() { p.read(ctx, t, e, "eve", dear) })
		}
		all.Go(func() { p.read(ctx, t, e, "ann", dear) })
		all.Go(func() { p.read(ctx, t, e, "eve", cheap) })
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.InDelta(t, events+2*each, p.of("eve"), each, "a cheap feed is not charged, and ten dear ones share")
		require.InDelta(t, 2*each, p.of("ann"), each, "as much as ten of another")
		<-time.After(events * (feeds + 2) / each * 2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{events * (feeds + 1), events}, []int{p.of("eve"), p.of("ann")})
		cancel()
		all.Wait()
	})
}
