package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// PathBefore returns the sequence of the last event on a path up to a sequence; 0: there is none. Any replica
// answers: what is asked about was stored long ago.
func (s *Store) PathBefore(ctx context.Context, ns string, path sluice.Path, upTo uint64) (uint64, error) {
	body, err := json.Marshal(map[string]any{"multi_last": []string{streams.Subject(ns, path)}, "up_to_seq": upTo, "batch": 1})
	if err != nil {
		return 0, fmt.Errorf("read request: %w", err)
	}
	answer, err := askedFor(ctx, requestTimeout, func(ctx context.Context) (directAnswer, error) {
		return s.directOnce(ctx, ns, body, 2)
	})
	if err != nil || len(answer.msgs) == 0 {
		return 0, StoreError(ctx, err)
	}
	e, err := s.stamps.directEvent(answer.msgs[0])
	if e.Seq == 0 {
		return 0, err
	}
	return e.Seq, nil
}

// PathEnds calls each for every path that the pattern matches and that has events, with the sequence of the last. It may
// be called for a path again.
func (s *Store) PathEnds(ctx context.Context, ns string, pattern sluice.Pattern, each func(sluice.Path, uint64)) error {
	for _, filter := range streams.Filters(ns, pattern) {
		err := caughtUp(ctx, func() error {
			return s.followEnds(ctx, ns, ends{jetstream.DeliverLastPerSubjectPolicy, []string{filter.Subject}}, func(e end) (more bool) {
				if e.path != "" && pattern.Match(e.path) {
					each(e.path, e.seq)
				}
				return e.left > 0
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// FollowPaths calls each for every event that is stored from now on, and first of all without a path, until ctx is done
// or there is trouble.
func (s *Store) FollowPaths(ctx context.Context, ns string, each func(sluice.Path, uint64)) error {
	begun := false
	return s.followEnds(ctx, ns, ends{jetstream.DeliverNewPolicy, []string{streams.EventsSubjects(ns)}}, func(e end) (more bool) {
		if !begun { // something may have been stored by then, and is told first
			begun = true
			each("", 0)
		}
		if e.path != "" {
			each(e.path, e.seq)
		}
		return true
	})
}

// Follow tells of the records whose keys match a filter, as they are now, then that it has caught up, then of what changes,
// until ctx ends or the store is closed. It remembers nothing, which counts where there are very many: when a connection was
// lost it tells of all of them again, and not of those that were removed meanwhile.
func (b Bucket[T]) Follow(ctx context.Context, filter string, f func(Entry[T])) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0))
	err := backoff.RetryNotify(func() error {
		caughtUp := false
		err := b.read(ctx, filter, func(e Entry[T], pending uint64) (more bool) {
			if e.Key != "" {
				f(e)
			}
			if !caughtUp && pending == 0 {
				caughtUp = true
				wait.Reset()
				f(Entry[T]{Change: CaughtUp})
			}
			return true
		})
		if b.store.nc.IsClosed() {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(wait, ctx), func(err error, again time.Duration) {
		b.store.opts.Log.WarnContext(ctx, "follow", slog.String("bucket", b.name), slog.Any("error", err), slog.Duration("again", again))
	})
	return fmt.Errorf("follow %s: %w", b.name, err)
}

// Clear removes the records whose keys match a filter, and their markers, up to a revision.
func (b Bucket[T]) Clear(ctx context.Context, filter string, upTo uint64) error {
	_, err := askedFor(ctx, listTimeout, func(ctx context.Context) (struct{}, error) {
		stream, err := b.store.js.Stream(ctx, kvStream+b.name)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, stream.Purge(ctx, jetstream.WithPurgeSubject(kvPrefix+b.name+"."+filter), jetstream.WithPurgeSequence(upTo+1))
	})
	if err != nil {
		return b.failed(ctx, "clear", filter, err)
	}
	return nil
}
