package natsstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"
)

// Follow tells of the records that have keys matching a filter: as they are now, then that it has caught up, then every change,
// until ctx ends or the store is closed. It remembers nothing, which counts where there are very many records: after a lost
// connection it tells of all of them again, and not of those that were removed meanwhile.
func (b Bucket[T]) Follow(ctx context.Context, filter string, f func(Entry[T])) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0))
	err := backoff.RetryNotify(func() error {
		caughtUp := false
		err := b.read(ctx, filter, 0, func(e Entry[T], pending uint64) (more bool) {
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
		level := slog.LevelWarn
		if IsInterrupted(err) {
			level = slog.LevelDebug
		}
		b.store.opts.Log.Log(ctx, level, "follow", slog.String("bucket", b.name), slog.Any("error", err), slog.Duration("again", again))
	})
	return fmt.Errorf("follow %s: %w", b.name, err)
}

// Clear removes the records that have keys matching a filter, and their markers, up to a revision.
func (b Bucket[T]) Clear(ctx context.Context, filter string, upTo uint64) error {
	_, err := AskedFor(ctx, ListTimeout, func(ctx context.Context) (struct{}, error) {
		stream, err := b.store.js.Stream(ctx, b.store.names.BucketStream(b.name))
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, stream.Purge(ctx, jetstream.WithPurgeSubject(b.store.names.KeySubject(b.name, filter)), jetstream.WithPurgeSequence(upTo+1))
	})
	if err != nil {
		return b.failed(ctx, "clear", filter, err)
	}
	return nil
}
