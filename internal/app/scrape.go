package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// keptFor is how long a NATS response is reused for scrapes.
const keptFor = 5 * time.Second

// kept returns a function that calls read at most every few seconds, and otherwise returns the last
// result. Empty results are not cached.
func kept[T any](read func() []T) func() []T {
	var mu sync.Mutex
	var last []T
	var at time.Time
	return func() []T {
		mu.Lock()
		defer mu.Unlock()
		if len(last) == 0 || time.Since(at) > keptFor {
			last, at = read(), time.Now()
		}
		return last
	}
}

// logs reads the namespaces' logs for a scrape; empty while NATS is unavailable.
func (s *server) logs(ctx context.Context) []metrics.Log {
	limit, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	all, err := s.store.ListNamespaces(limit)
	if err != nil {
		s.opts.Log.WarnContext(limit, "scrape", slog.Any("error", err))
		return nil
	}
	logs := make([]metrics.Log, 0, len(all))
	for _, ns := range all {
		if u := ns.Usage; u != nil {
			logs = append(logs, metrics.Log{
				Namespace: ns.Name, Events: u.Events, Bytes: u.Bytes, MaxBytes: uint64(max(ns.Retention.MaxBytes, 0)), LastSeq: u.LastSeq,
			})
		}
	}
	return logs
}

// storages reads the storage usage for a scrape; empty while NATS is unavailable.
func (s *server) storages(ctx context.Context) []sluice.Storage {
	limit, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	storage, err := s.storage(limit)
	if err != nil {
		s.opts.Log.WarnContext(limit, "scrape", slog.Any("error", err))
		return nil
	}
	return []sluice.Storage{storage}
}
