package limits

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// patience is how long a creation waits for the subscriptions that are there to be known.
const patience = 10 * time.Second

// Counts bounds how many subscriptions a namespace has. Within this process the bound is exact;
// beyond it there can be as many as other replicas make before this one is told of them. Its methods
// may be called at once.
type Counts struct {
	most  int
	known chan struct{} // closed when all that are there have been told of

	mu   sync.Mutex
	subs map[string]counted // by id
	of   map[string]int     // by namespace
}

// counted is a subscription that is stored, or is about to be.
type counted struct {
	namespace string
	told      bool // it is stored
}

// NewCounts returns counts that let a namespace have most subscriptions; 0: any number.
func NewCounts(most int) *Counts {
	return &Counts{most: most, known: make(chan struct{}), subs: map[string]counted{}, of: map[string]int{}}
}

// Set tells of a subscription that is stored.
func (c *Counts) Set(id, namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(id, counted{namespace, true})
}

// Remove tells that a subscription is gone.
func (c *Counts) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
}

// CaughtUp tells that every subscription that is stored has been told of.
func (c *Counts) CaughtUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.known:
	default:
		close(c.known)
	}
}

// Enter counts a subscription that is about to be stored, once. Codes: QuotaExceeded if its
// namespace has as many as it may; Unavailable if that is not known yet.
func (c *Counts) Enter(ctx context.Context, id, namespace string) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.subs[id]; ok {
		return nil
	}
	if n := c.of[namespace]; c.most > 0 && n >= c.most {
		return sluice.Errorf(sluice.QuotaExceeded,
			"namespace %s has %d subscriptions, as many as it may; delete some, or have limits.subscriptions_per_namespace raised", namespace, n).
			With("limit", c.most).With("unit", "subscriptions").With("allowed", 0)
	}
	c.put(id, counted{namespace: namespace})
	return nil
}

// Leave takes Enter back: the subscription was not stored.
func (c *Counts) Leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.subs[id].told {
		c.drop(id)
	}
}

func (c *Counts) wait(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-c.known:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return sluice.Errorf(sluice.Unavailable, "the subscriptions that are there are not known yet; try again")
	}
}

func (c *Counts) put(id string, sub counted) {
	c.drop(id)
	c.subs[id] = sub
	c.of[sub.namespace]++
}

func (c *Counts) drop(id string) {
	sub, ok := c.subs[id]
	if !ok {
		return
	}
	delete(c.subs, id)
	c.of[sub.namespace]--
	if c.of[sub.namespace] == 0 {
		delete(c.of, sub.namespace)
	}
}
