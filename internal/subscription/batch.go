package subscription

import (
	"context"
	"sync"
	"time"
)

// endAge is how long a batch uses the end of a log that it has read.
const endAge = 500 * time.Millisecond

// ForBatch returns a registry for many creations. It reads the end of a log at most twice a second.
// So a subscription to new events may also get events that were stored in the half second before
// its creation.
func (r *Registry) ForBatch() *Registry {
	needs := r.needs
	needs.Logs = &ends{Logs: r.needs.Logs, now: r.needs.Now, of: map[string]end{}}
	return New(needs)
}

// ends caches the ends of logs.
type ends struct {
	Logs

	now func() time.Time
	mu  sync.Mutex
	of  map[string]end // by namespace
}

// end is the last sequence of a log at a time.
type end struct {
	seq uint64
	at  time.Time
}

// LastSeq returns the last sequence of a namespace's log. Code NotFound if the namespace does not exist.
func (e *ends) LastSeq(ctx context.Context, namespace string) (uint64, error) {
	now := e.now()
	e.mu.Lock()
	known, ok := e.of[namespace]
	e.mu.Unlock()
	if ok && now.Sub(known.at) < endAge {
		return known.seq, nil
	}
	seq, err := e.Logs.LastSeq(ctx, namespace)
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of[namespace] = end{seq, now}
	return seq, nil
}
