package mirror

import (
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// heads are the ends of the logs of this server that were read a moment ago. A poll of a quiet source costs one
// request to JetStream, and almost nothing else: mirrors of the same source share the answer.
type heads struct {
	mu  sync.Mutex
	all map[string]head // by namespace
}

type head struct {
	page sluice.ObservePage // without changes
	at   time.Time          // before it was read
}

// sharedAge is how old the answer to a poll may be: as much as its time varies.
func sharedAge(m *sluice.Mirror) time.Duration { return m.PollInterval.Std() / 10 }

// polled reports whether a due mirror has nothing to do, because another one has read the end of its source a
// moment ago. Then it has had its turn, without a request and without a worker. The caller holds the lock.
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

// note takes a page that was read from a time on.
func (h *heads) note(namespace string, page *sluice.ObservePage, at time.Time) {
	is := head{page: *page, at: at}
	is.page.Items, is.page.Lost, is.page.SinceTag, is.page.ThroughTag = nil, nil, "", ""
	h.mu.Lock()
	defer h.mu.Unlock()
	if !at.Before(h.all[namespace].at) {
		h.all[namespace] = is
	}
}

// page returns the page behind a place if that was the end of its log since a time; nil if that is not known. A log that was
// made anew meanwhile, as another replica knows, is another one.
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

// forget removes what is known of a log.
func (h *heads) forget(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, namespace)
}
