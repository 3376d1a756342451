package loopguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	maxMarks = 10_000 // limit, because NATS publishers can choose any number of sources
	putTries = 10     // tries to write a mark that other replicas write, too

	tellEvery = time.Minute // minimum interval of announcements of one unsafe producer
)

// errTooMany means that a producer was not marked because there are too many marks.
var errTooMany = errors.New("10000 producers are marked unsafe, the limit; clear some")

// Store stores the marks.
type Store interface {
	// Mark returns the mark of a producer and its revision. Code NotFound if it has none.
	Mark(ctx context.Context, producer string) (sluice.Unsafe, uint64, error)
	// PutMark stores a mark and returns its revision. Code Conflict unless the stored revision is
	// the given one; 0 means that none is stored.
	PutMark(ctx context.Context, mark sluice.Unsafe, revision uint64) (uint64, error)
}

// marks holds the marks that this process knows. It is safe for concurrent use.
type marks struct {
	store   Store
	writing chan struct{} // semaphore: one write at a time, because concurrent ones are mostly about the same producer

	mu     sync.Mutex
	known  bool            // all existing marks have been reported
	stands map[string]mark // by key
}

type mark struct {
	mark     sluice.Unsafe
	revision uint64
	gone     bool // reports of an earlier revision are outdated
}

func newMarks(store Store) *marks {
	return &marks{store: store, writing: make(chan struct{}, 1), stands: map[string]mark{}}
}

// set applies a stored mark, unless a newer one is known.
func (m *marks) set(key string, is mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is.revision > m.stands[key].revision {
		m.stands[key] = is
	}
}

// remove forgets a mark; the revision is that of its removal.
func (m *marks) remove(key string, revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision > m.stands[key].revision {
		delete(m.stands, key)
	}
}

// of returns the mark of a producer, if it has one.
func (m *marks) of(ctx context.Context, producer string) (sluice.Unsafe, bool, error) {
	m.mu.Lock()
	is, ok := m.stands[streams.ProducerKey(producer)]
	known := m.known
	m.mu.Unlock()
	if ok || known {
		return is.mark, ok && !is.gone, nil
	}
	stored, _, err := m.store.Mark(ctx, producer)
	if sluice.CodeOf(err) == sluice.NotFound {
		return stored, false, nil
	}
	return stored, err == nil, err
}

// add marks a producer because of an event, or increases the count of its mark, and returns the
// mark.
func (m *marks) add(ctx context.Context, producer, namespace string, e sluice.Link, f *Found) (sluice.Unsafe, error) {
	select {
	case m.writing <- struct{}{}:
		defer func() { <-m.writing }()
	case <-ctx.Done():
		return sluice.Unsafe{}, ctx.Err()
	}
	for range putTries {
		is, revision, err := m.store.Mark(ctx, producer)
		now := time.Now().UTC()
		switch {
		case err == nil:
		case sluice.CodeOf(err) != sluice.NotFound:
			return is, err
		case m.full():
			return is, errTooMany
		default:
			is, revision = sluice.Unsafe{Producer: producer, Since: now}, 0
		}
		is.LastAt, is.Namespace, is.Event, is.Chain, is.Hops = now, namespace, shown(e), shownAll(f.Chain), f.Hops
		is.Count++
		if is.Told == nil || now.Sub(is.Told.At).Abs() >= tellEvery {
			is.Told = &sluice.UnsafeTold{At: now, Count: is.Count, Namespace: namespace, Event: is.Event, Hops: is.Hops}
		}
		stored, err := m.store.PutMark(ctx, is, revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err == nil {
			m.set(streams.ProducerKey(producer), mark{mark: is, revision: stored})
		}
		return is, err
	}
	return sluice.Unsafe{}, fmt.Errorf("mark %s: %d concurrent changes", producer, putTries)
}

func (m *marks) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.stands) >= maxMarks
}

// maxShown limits the shown bytes of an id or a type: those of NATS publishers are unlimited.
const maxShown = 256

// shown returns a link in its announced and stored form.
func shown(l sluice.Link) sluice.Link {
	l.ID, l.Type = cut(l.ID), cut(l.Type)
	return l
}

func shownAll(chain []sluice.Link) []sluice.Link {
	all := make([]sluice.Link, len(chain))
	for i, l := range chain {
		all[i] = shown(l)
	}
	return all
}

func cut(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "…"
	}
	return text
}
