package loopguard

import (
	"context"
	"fmt"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	cacheSize = 16_384  // cached links
	maxLink   = 2048    // bytes of a cached link; larger ones are looked up each time
	unstored  = 1 << 63 // stands for the sequence of the first event of a batch that is not stored
)

// Log finds events.
type Log interface {
	// RecentByID returns the event with the id, without reading the log. Code NotFound if the id is
	// unknown.
	RecentByID(ctx context.Context, namespace, id string) (sluice.Event, error)
	// LastSeq returns an error with the code NotFound if there is no such namespace.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
}

// linkKey identifies an event.
type linkKey struct{ namespace, id string }

// cache has the recently used links.
type cache struct {
	links *lru.Cache[linkKey, sluice.Link]
}

func (c cache) get(namespace, id string) (sluice.Link, bool) {
	return c.links.Get(linkKey{namespace, id})
}

// add caches a copy of the link, because the strings of an event may be parts of larger strings.
func (c cache) add(namespace string, l sluice.Link) {
	if len(l.ID)+len(l.Type)+len(l.Path)+len(l.Cause) > maxLink {
		return
	}
	if is, _ := c.links.Get(linkKey{namespace, l.ID}); is == l {
		return
	}
	l.ID, l.Type, l.Path, l.Cause = strings.Clone(l.ID), strings.Clone(l.Type), sluice.Path(strings.Clone(string(l.Path))), strings.Clone(l.Cause)
	c.links.Add(linkKey{strings.Clone(namespace), l.ID}, l)
}

// walk follows the causes of the events of one namespace that are checked together.
type walk struct {
	log       Log
	cache     cache
	namespace string
	near      map[string]sluice.Link // earlier events of the batch
	unknown   map[string]bool        // failed lookups
}

// chain returns the causes of an event, the nearest first, at most 32. An event that names itself
// is its own cause.
func (w *walk) chain(ctx context.Context, e sluice.Link) ([]sluice.Link, error) {
	if e.Cause == e.ID && e.Cause != "" {
		return []sluice.Link{e}, nil
	}
	var chain []sluice.Link
	for next := e; len(chain) < sluice.MaxHops && next.Cause != ""; {
		l, ok, err := w.link(ctx, next.Cause, next.Seq)
		if err != nil {
			return nil, err
		}
		if !ok || l.Seq >= next.Seq {
			return chain, nil
		}
		chain = append(chain, l)
		next = l
	}
	return chain, nil
}

// link returns the event with an id. It returns an event of the batch only if its sequence is less
// than before.
func (w *walk) link(ctx context.Context, id string, before uint64) (l sluice.Link, ok bool, err error) {
	if l, ok = w.near[id]; ok && l.Seq < before {
		return l, true, nil
	}
	if l, ok = w.cache.get(w.namespace, id); ok || w.unknown[id] {
		return l, ok, nil
	}
	e, err := w.log.RecentByID(ctx, w.namespace, id)
	if sluice.CodeOf(err) == sluice.NotFound {
		if w.unknown == nil {
			w.unknown = map[string]bool{}
		}
		w.unknown[id] = true
		return l, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("the cause of an event: %w", err)
	}
	l = e.Link()
	w.cache.add(w.namespace, l)
	return l, true, nil
}
