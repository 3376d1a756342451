package mirror

import (
	"sync"
	"time"

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

// note takes a page that was read from a time on.
func (h *heads) note(namespace string, page *sluice.ObservePage, at time.Time) {
	is := head{page: *page, at: at}
	is.page.Items, is.page.Lost, is.page.SinceID = nil, nil, ""
	h.mu.Lock()
	defer h.mu.Unlock()
	if !at.Before(h.all[namespace].at) {
		h.all[namespace] = is
	}
}

// page returns the page behind a sequence if that was the end of the log since a time; nil if that is not known.
func (h *heads) page(namespace string, since uint64, from time.Time) *sluice.ObservePage {
	h.mu.Lock()
	defer h.mu.Unlock()
	is, known := h.all[namespace]
	if !known || is.at.Before(from) || is.page.LastSeq != since {
		return nil
	}
	is.page.ThroughSeq, is.page.HasMore = since, false
	return &is.page
}

// forget removes what is known of a log.
func (h *heads) forget(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, namespace)
}
