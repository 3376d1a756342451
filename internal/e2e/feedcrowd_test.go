package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// crowdPlan is how many readers see how much.
type crowdPlan struct {
	readers, rate int
	lasts         time.Duration
}

// crowdEvent returns the n-th event: of twenty paths with two ends each, ten types and four regions; one in fifty is large.
func crowdEvent(n int) *nats.Msg {
	h := uint32(n) * 2654435761
	path, pad := fmt.Sprintf("/crowd/%d/%c", h>>8%20, 'x'+rune(h>>16%2)), 200
	if n%50 == 0 {
		path, pad = fmt.Sprintf("/crowd/large/%d", h>>8%20), 48<<10
	}
	return crowdMsg(path, "crowd."+strconv.Itoa(int(h>>20%10)), []string{"eu", "us", "ap", "sa"}[h>>24%4], n%60 == 7, pad)
}

func crowdMsg(path, kind, region string, rare bool, pad int) *nats.Msg {
	return msg(path, kind, fmt.Appendf(nil, `{"region":%q,"rare":%t,"pad":%q}`, region, rare, strings.Repeat("x", pad)))
}

// crowdWants returns what readers ask for. The first is what is large.
func crowdWants() []want {
	has := func(e entry, text string) bool { return strings.Contains(string(e.body[:min(40, len(e.body))]), text) }
	return []want{
		{"pattern=/crowd/large/*", func(e entry) bool { return strings.HasPrefix(e.path, "/crowd/large/") }, crowdMsg("/crowd/large/0", "t", "us", false, 99)},
		{"pattern=/crowd/7/**", func(e entry) bool { return strings.HasPrefix(e.path, "/crowd/7/") }, crowdMsg("/crowd/7/last", "t", "us", false, 99)},
		{"types=crowd.3,none.*&projection=none", func(e entry) bool { return e.kind == "crowd.3" }, crowdMsg("/last", "crowd.3", "us", false, 99)},
		{
			"pattern=/crowd/*/x&labels=region=eu&labels=region=ap&projection=none",
			func(e entry) bool {
				return strings.HasSuffix(e.path, "/x") && (has(e, `"region":"eu"`) || has(e, `"region":"ap"`))
			},
			crowdMsg("/crowd/5/x", "t", "eu", false, 1),
		},
		{"cel=event.data.rare", func(e entry) bool { return has(e, `"rare":true`) }, crowdMsg("/last", "t", "us", true, 99)},
		{"", func(entry) bool { return true }, crowdMsg("/last", "t", "us", false, 99)},
	}
}

// wantOf returns what the i-th reader asks for: of twenty, one wants everything, and three what is large.
func wantOf(i int) int {
	return []int{0, 1, 2, 3, 4, 1, 2, 3, 0, 4, 1, 2, 3, 1, 2, 0, 3, 4, 5, 1}[i%20]
}

// crowded is a reader that comes, goes, dawdles and comes back.
type crowded struct {
	journal

	want   want
	steady bool   // it comes once, and takes what it gets
	sleeps bool   // it comes once, and takes nothing behind its first event until all is published, or for very long
	here   func() // says that it has begun for the first time, or never will
	visits int
	denied int // visits that ended because the server could not go on; it says that one may come again
}

// crowd is all readers, and what they must not do at the same time: none begins anew while what is last is published.
type crowd struct {
	at    place
	all   []*crowded
	first sync.WaitGroup // readers that have not begun
	gate  sync.RWMutex
	over  bool          // what is last was published
	awake chan struct{} // closed when all is published
}

// visit reads for a while, at a pace.
func (c *crowd) visit(ctx context.Context, r *crowded) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leaves := time.AfterFunc(200*time.Millisecond+rand.N(6*time.Second), cancel)
	defer leaves.Stop()
	query := r.want.values()
	switch {
	case r.steady:
		leaves.Stop()
	case r.sleeps:
		leaves.Stop()
		query.Set("buffer", "1")
	default:
		query.Set("buffer", strconv.Itoa(1+rand.IntN(64)))
	}
	c.gate.RLock()
	opened := sync.OnceFunc(c.gate.RUnlock)
	defer opened()
	if before := r.journal; !c.over && r.visits > 0 && rand.IntN(5) == 0 {
		r.anew()
		defer func() {
			if !r.begun { // it left too soon
				r.journal = before
			}
		}()
	}
	r.visits++
	err := wires()[rand.IntN(len(wires()))].read(ctx, c.at, query, r.resume, func(g glance) bool {
		r.note(g)
		if g.began != nil {
			opened()
			r.here()
		}
		switch {
		case r.sleeps && g.id != "":
			r.sleeps = false
			c.dawdle(ctx, sleepMost)
		case !r.steady && !r.ended && rand.IntN(200) == 0:
			c.dawdle(ctx, rand.N(2*time.Second))
		}
		return !r.ended
	})
	if ctx.Err() != nil {
		return nil // it left
	}
	return err
}

// sleepMost is less than the two minutes after which a server cuts the connection of who takes nothing.
const sleepMost = 100 * time.Second

// dawdle waits, as long as something is being published.
func (c *crowd) dawdle(ctx context.Context, d time.Duration) {
	select {
	case <-c.awake:
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// read visits until what is last came.
func (c *crowd) read(ctx context.Context, r *crowded) error {
	defer r.here()
	for !r.ended {
		err := c.visit(ctx, r)
		if ctx.Err() != nil {
			return fmt.Errorf("a reader of %q waits behind %d: %w", r.want.query, r.after, context.Cause(ctx))
		}
		switch {
		case sluice.CodeOf(err) == sluice.Unavailable:
			r.denied++
		case err != nil:
			return fmt.Errorf("a reader of %q: %w", r.want.query, err)
		}
		if !r.ended {
			wait(ctx, rand.N(time.Second))
		}
	}
	return nil
}

// Readers of every kind that come, go, lag and come back while much is published: each sees every event that it wants
// once and in order, or is told exactly how many it missed, by what the log has (S2-88…90, S2-124…129, S2-135…138).
func TestFeed_CrowdMissesNothingUnreported(t *testing.T) {
	t.Parallel()
	p := crowdPlan{readers: 40, rate: 400, lasts: 4 * time.Second}
	if os.Getenv("SLUICE_LONG") != "" {
		p = crowdPlan{readers: 200, rate: 2000, lasts: time.Minute}
	}
	server := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"} // of its own, so that readers cannot starve it
	server.start(t)
	defer func() { _ = server.proc.Process.Kill() }()
	c := &crowd{at: place{"http://" + server.http, server.token(t)}, awake: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make([]error, p.readers)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	wants := crowdWants()
	for i := range p.readers {
		w := wantOf(i)
		c.first.Add(1)
		r := &crowded{want: wants[w], steady: i%4 == 3, sleeps: i == 0, here: sync.OnceFunc(c.first.Done)}
		r.last = lastOf(w)
		c.all = append(c.all, r)
		reading.Go(func() { errs[i] = c.read(ctx, r) })
	}
	s := newSource(t, "nats://"+server.nats, p.rate, crowdEvent)
	require.NoError(t, s.run(ctx, p.rate*int(p.lasts/time.Second)))
	rate := s.reached()
	c.first.Wait()
	c.gate.Lock() // no reader begins anew behind it
	c.over = true
	close(c.awake)
	for w := range wants {
		require.NoError(t, s.insist(ctx, s.js[0], wants[w].last, lastOf(w)))
	}
	c.gate.Unlock()
	published, enough := time.Now(), time.AfterFunc(4*time.Minute, cancel)
	defer enough.Stop()
	reading.Wait()
	t.Logf("the last reader had everything %s after the last event", time.Since(published))
	log := logOf(t, s.js[0])
	t.Logf("%d events, %.0f a second where %d were wanted", len(log), rate, p.rate)
	c.report(t, log, errs)
}

// lastOf returns the id of the last event for who wants this.
func lastOf(w int) string { return "last-" + strconv.Itoa(w) }

// report holds what every reader saw against the log.
func (c *crowd) report(t *testing.T, log []entry, errs []error) {
	t.Helper()
	frames, lags, missed, visits, lagging, denied := 0, 0, 0, 0, 0, 0
	for _, r := range c.all {
		frames += len(r.taken)
		lags += r.lags
		visits += r.visits
		denied += r.denied
		if r.lags > 0 {
			lagging++
		}
		for _, e := range r.taken {
			if e.lag != nil {
				missed += e.lag.Missed
			}
		}
	}
	t.Logf("%d readers made %d connections (%d ended by the server) and took %d frames; %d of them were told %d times that they missed %d",
		len(c.all), visits, denied, frames, lagging, lags, missed)
	require.NoError(t, errors.Join(errs...))
	for _, r := range c.all {
		require.NoError(t, r.check(r.want.of(log)), "a reader of %q", r.want.query)
	}
	require.Positive(t, lags, "a reader was too slow")
}
