package mirror

import (
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// heads caches the recently read ends of this server's logs. Mirrors of the same source share them,
// so polls of a source without news cost one request to JetStream.
type heads struct {
	mu  sync.Mutex
	all map[string]head // by namespace
}

type head struct {
	page sluice.ObservePage // without changes
	at   time.Time          // before it was read
}

// sharedAge is the maximum age of a shared answer to a poll. It equals the jitter of the interval.
func sharedAge(m *sluice.Mirror) time.Duration { return m.PollInterval.Std() / 10 }

// polled reports whether a due mirror has nothing to do because another mirror has recently read
// the end of the same source. The mirror's turn is then over, without a request or a worker. The
// caller holds the lock.
func (e *Engine) polled(j *job, now time.Time) bool {
	m, own := j.record, e.own[j.record.Namespace]
	quiet := m.Settled && !m.Gone && m.State == sluice.Active && len(m.Untold) == 0 && !m.Remote() && j.failures == 0 && j.place.Revision > 0
	if !quiet || own.id == "" || now.Sub(own.at) >= ownAgain || now.Sub(j.place.stored) >= placeEvery {
		return false
	}
	page := e.heads.page(m.Source, &j.place, now.Add(-sharedAge(&m.Mirror)))
	if page == nil || e.deps.Gate.Holds(&m.Mirror) != model.Pass {
		return false
	}
	page.Label = e.deps.Namespaces.Label(m.Source)
	rule := Rule{Mirror: &m.Mirror, Label: e.deps.Namespaces.Label(m.Namespace), Own: own.id}
	commit, err := rule.Next(Held{Place: j.place}, page, now.UTC())
	if err != nil || !commit.idle(&j.place) {
		return false
	}
	j.place, j.seen, j.err = commit.Place, commit.Place, nil
	e.queue.set(j, now.Add(e.wait(m, &j.place)))
	return true
}

// note stores a page. At is the time before the page was read.
func (h *heads) note(namespace string, page *sluice.ObservePage, at time.Time) {
	is := head{page: *page, at: at}
	is.page.Items, is.page.Lost, is.page.SinceTag, is.page.ThroughTag = nil, nil, "", ""
	h.mu.Lock()
	defer h.mu.Unlock()
	if !at.Before(h.all[namespace].at) {
		h.all[namespace] = is
	}
}

// page returns the empty page after a place, if a read since from found that the place is the end
// of the log; nil otherwise. A log with another incarnation does not count. The result is a copy
// that the caller may change.
func (h *heads) page(namespace string, at *Place, from time.Time) *sluice.ObservePage {
	h.mu.Lock()
	defer h.mu.Unlock()
	is, known := h.all[namespace]
	if !known || is.at.Before(from) || is.page.LastSeq != at.Watermark || is.page.Incarnation != at.Incarnation {
		return nil
	}
	is.page.ThroughSeq, is.page.HasMore = at.Watermark, false
	return &is.page
}

// forget removes the known end of a log.
func (h *heads) forget(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, namespace)
}
