package natsstore

import (
	"context"
	"log/slog"
)

// Sealed stores records like Bucket. It seals their secret parts when it writes them, and opens
// them when it reads them.
type Sealed[T Sealable[T]] struct{ bucket Bucket[T] }

// OpenSealed returns the bucket with the name, which Provision creates. The bucket must be listed
// in Options.Sealed.
func OpenSealed[T Sealable[T]](s *Store, name string) Sealed[T] {
	return Sealed[T]{OpenBucket[T](s, name)}
}

// Get returns the record and its revision. Codes NotFound if there is none; Unavailable if it
// cannot be opened. Do not use the record that Get returns with an error.
func (b Sealed[T]) Get(ctx context.Context, key string) (T, uint64, error) {
	record, revision, err := b.bucket.Get(ctx, key)
	if err != nil {
		return record, 0, err
	}
	opened, err := record.Transformed(key, b.bucket.store.openText)
	return opened, revision, unlocked(key, err)
}

// Put stores the record like Bucket.Put.
func (b Sealed[T]) Put(ctx context.Context, key string, value T, revision uint64) (uint64, error) {
	sealed, err := value.Transformed(key, b.bucket.store.sealText)
	if err != nil {
		return 0, err
	}
	return b.bucket.Put(ctx, key, sealed, revision)
}

// Delete deletes the record like Bucket.Delete.
func (b Sealed[T]) Delete(ctx context.Context, key string, revision uint64) error {
	return b.bucket.Delete(ctx, key, revision)
}

// Watch calls f for all records and their changes, like Bucket.Watch. A record that cannot be
// opened is logged and passed without its secrets.
func (b Sealed[T]) Watch(ctx context.Context, f func(Entry[T])) error {
	return b.bucket.Watch(ctx, ">", func(e Entry[T]) {
		if e.Change == Set {
			e.Value = b.opened(ctx, e)
		}
		f(e)
	})
}

// logLocked logs that a record cannot be opened.
func (b Bucket[T]) logLocked(ctx context.Context, key string, err error) {
	b.store.opts.Log.LogAttrs(ctx, slog.LevelError, "record cannot be opened",
		slog.String("bucket", b.name), slog.String("key", key), slog.Any("error", err))
}

func (b Sealed[T]) opened(ctx context.Context, e Entry[T]) T {
	record, err := e.Value.Transformed(e.Key, b.bucket.store.openText)
	if err == nil {
		return record
	}
	b.bucket.logLocked(ctx, e.Key, err)
	record, _ = e.Value.Transformed(e.Key, func(string, string) (string, error) { return "", nil }) // f never fails
	return record
}
