package health

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	atALook  = 32              // maximum number of backlogs that are counted for one view
	recount  = 5 * time.Second // age from which a count is repeated
	outdated = time.Minute     // age from which a count is ignored
)

// census has the number of waiting events for subscriptions that seem to have some. Counting takes
// several requests to the store for each subscription, so each view counts only a few, the oldest
// counts first.
type census struct {
	mu   sync.Mutex
	last time.Time // of the look that it was taken for
	all  map[string]backlog
	dead map[string]map[sluice.Reason]uint64 // nil: unknown
}

type backlog struct {
	events uint64
	at     time.Time
}

// waits reports whether there is a sign of waiting events.
func (k *known) waits() bool {
	stopped := k.sub.State == sluice.Paused || k.sub.State == sluice.Disabled || k.sub.State == sluice.Suspended
	return k.sub.Mode == sluice.Push && (stopped || k.facts.Parked > 0 || k.facts.Lag >= time.Second)
}

// take updates the counts for a view.
func (c *census) take(ctx context.Context, v view, store Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.Equal(v.at) {
		return
	}
	c.last = v.at
	c.dead, _ = store.DeadLetterReasons(ctx, v.created) // sums omit them after an error
	kept, due := map[string]backlog{}, []*known(nil)
	for _, k := range v.all {
		if !k.waits() {
			continue
		}
		b := c.all[k.sub.ID]
		kept[k.sub.ID] = b
		if v.at.Sub(b.at) >= recount {
			due = append(due, k)
		}
	}
	c.all = kept
	slices.SortStableFunc(due, func(x, y *known) int { return kept[x.sub.ID].at.Compare(kept[y.sub.ID].at) })
	due = due[:min(atALook, len(due))]
	found := make([]backlog, len(due))
	each(len(due), func(i int) {
		if st, err := store.Brief(ctx, due[i].sub); err == nil {
			found[i] = backlog{st.Backlog + uint64(max(0, st.Parked)), v.at}
		}
	})
	for i, k := range due {
		if !found[i].at.IsZero() {
			kept[k.sub.ID] = found[i]
		}
	}
}

// of returns how many events wait for a subscription; false if they were not counted recently.
func (c *census) of(k *known, now time.Time) (events uint64, known bool) {
	if !k.waits() {
		return 0, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.all[k.sub.ID]
	return b.events, now.Sub(b.at) < outdated
}

// reasons returns the number of dead letters of subscriptions by reason; nil if it is unknown.
func (c *census) reasons(subs map[string]int64) map[sluice.Reason]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead == nil {
		return nil
	}
	all := map[sluice.Reason]uint64{}
	for id, counts := range c.dead {
		if _, is := subs[id]; !is {
			continue
		}
		for reason, n := range counts {
			all[reason] += n
		}
	}
	return all
}
