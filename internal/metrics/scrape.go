package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	scrapeLimit = 2 * time.Second // for the requests to the store of a scrape
	keptFor     = 5 * time.Second // how long a response of the store is reused for scrapes
)

// kept returns a function that calls read at most once in the time reuse, and otherwise returns the
// last result. It logs a failure, which yields no values and is not cached. Concurrent scrapes wait
// for one read. A read takes scrapeLimit at most. An empty result is not cached either. The end of
// ctx makes further reads fail.
func kept[T any](ctx context.Context, log *slog.Logger, reuse time.Duration, read func(context.Context) ([]T, error)) func() []T {
	var mu sync.Mutex
	var last []T
	var at time.Time
	return func() []T {
		mu.Lock()
		defer mu.Unlock()
		if len(last) > 0 && time.Since(at) <= reuse {
			return last
		}
		limit, cancel := context.WithTimeout(ctx, scrapeLimit)
		defer cancel()
		var err error
		if last, err = read(limit); err != nil {
			log.WarnContext(limit, "scrape", slog.Any("error", err))
			last = nil
		}
		at = time.Now()
		return last
	}
}
