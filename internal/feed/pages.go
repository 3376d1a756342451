package feed

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	pagesWeight  = 32 << 20        // bytes of pages that the cache of a namespace keeps
	pagesKept    = 5 * time.Second // how long an unused cache is kept
	pageOverhead = 256
	soon         = 512 // sequences behind the beginning of a page that is being read for which waiting pays

	everything = sluice.Pattern("/**")
)

// pages caches pages of a log that are older than its ring. Often many readers return at the same
// time to about the same place; they share a page and its rendered frames.
type pages struct {
	read func(ctx context.Context, pattern sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error)

	mu      sync.Mutex
	kept    []*page // least recently used first
	weight  int
	clearer *time.Timer // clears the cache after idle time
}

// page holds the events of a log in (after, reached] on paths that match a pattern, and possibly
// others. It is complete when ready is closed.
type page struct {
	pattern sluice.Pattern
	after   uint64
	ready   chan struct{}

	items   []*Item
	reached uint64
	weight  int
	err     error
}

// behind is Log.Page with a cache. The caller must not change the items, because readers share
// them.
func (p *pages) behind(ctx context.Context, pattern sluice.Pattern, after, upTo uint64) ([]*Item, uint64, error) {
	for {
		one, mine := p.find(pattern, after)
		if mine {
			p.fill(ctx, one, upTo)
		}
		select {
		case <-one.ready:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
		switch {
		case mine && one.err != nil:
			return nil, 0, one.err
		case one.err == nil && (mine || one.reached > after):
			return one.behind(after), one.reached, nil
		}
	}
}

// find returns a page with the events behind a place, which another reader may still be filling. If
// there is none, it returns a new page, which the caller fills; then mine is true.
func (p *pages) find(pattern sluice.Pattern, after uint64) (one *page, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stay()
	for i, one := range slices.Backward(p.kept) {
		if one.has(pattern, after) {
			p.kept = append(slices.Delete(p.kept, i, i+1), one)
			return one, false
		}
	}
	one = &page{pattern: pattern, after: after, ready: make(chan struct{})}
	p.kept = append(p.kept, one)
	return one, true
}

// fill reads a page. It removes the page from the cache if that failed.
func (p *pages) fill(ctx context.Context, one *page, upTo uint64) {
	events, reached, err := p.read(ctx, one.pattern, one.after, upTo)
	one.reached, one.err, one.weight = reached, err, pageOverhead
	one.items = make([]*Item, len(events))
	for i := range events {
		one.items[i] = NewItem(events[i])
		one.weight += one.items[i].weight()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(one.ready)
	p.weight += one.weight
	if err != nil {
		p.forget(func(other *page) bool { return other == one })
	}
	p.forget(func(*page) bool { return p.weight > pagesWeight })
}

// stay extends the life of the cache. The caller holds the lock.
func (p *pages) stay() {
	if p.clearer != nil {
		p.clearer.Reset(pagesKept)
		return
	}
	p.clearer = time.AfterFunc(pagesKept, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(func(*page) bool { return true })
	})
}

// forget removes the complete pages for which which returns true. It calls which in order, the
// least recently used page first. The caller holds the lock.
func (p *pages) forget(which func(*page) bool) {
	p.kept = slices.DeleteFunc(p.kept, func(one *page) bool {
		if !one.isReady() || !which(one) {
			return false
		}
		p.weight -= one.weight
		return true
	})
}

// has reports whether a page has the events behind a place. A page that is still being read counts
// only for places close to its beginning, because it may end soon after them.
func (one *page) has(pattern sluice.Pattern, after uint64) bool {
	switch {
	case one.pattern != everything && one.pattern != pattern, after < one.after:
		return false
	case one.isReady():
		return after < one.reached
	}
	return after-one.after < soon
}

func (one *page) isReady() bool {
	select {
	case <-one.ready:
		return true
	default:
		return false
	}
}

// behind returns the items behind a place.
func (one *page) behind(place uint64) []*Item {
	i := sort.Search(len(one.items), func(i int) bool { return one.items[i].Event.Seq > place })
	return one.items[i:]
}
