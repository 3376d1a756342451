package natsstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"
)

// Follow is Watch without memory of what it has reported, for buckets with very many records. After
// a lost connection it reports all records again and CaughtUp once more, but not the records that
// were removed meanwhile. f must therefore accept repetitions, and the caller must find removed
// records by other means. Follow returns only with an error, like Watch.
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

// Clear removes the records with keys that match a filter, and their markers, up to and including a
// revision.
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
