package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// ListTimeout is the timeout of a request for all messages, or all subjects, of a stream.
const ListTimeout = 10 * time.Second

// watchAgain is the longest pause before a watch that failed is started again.
const watchAgain = 5 * time.Second

// Bucket stores records of one type, as JSON, by key. Writes are compare-and-set on the record's
// revision; revision 0 means that nothing is stored. It is safe for concurrent use.
type Bucket[T any] struct {
	store *Store
	name  string
}

// Change is the kind of change of an Entry.
type Change int

// The kinds of changes.
const (
	Set      Change = iota // the record is new or was changed
	Removed                // the record was deleted, has expired or is Unreadable; the entry has no value
	CaughtUp               // not about a record: all stored records have been reported
)

// Entry is a record in its bucket, or a change of one. If Change is Removed, Value is zero,
// and Revision is that of the removal or of the removed record. If Change is CaughtUp, all other
// fields are zero.
type Entry[T any] struct {
	Key        string
	Value      T
	Revision   uint64
	Change     Change
	Unreadable bool // Change is Removed, but a record is stored: nothing that belongs to it may be deleted
}

// OpenBucket returns the bucket with a name. It makes no request; Provision creates the bucket.
func OpenBucket[T any](s *Store, name string) Bucket[T] { return Bucket[T]{store: s, name: name} }

// Get returns the record and its revision. Code NotFound if there is none. An invalid key is
// NotFound, too. The leader answers, because no bucket has AllowDirect.
func (b Bucket[T]) Get(ctx context.Context, key string) (T, uint64, error) {
	var value T
	kv, err := b.store.bucket(ctx, b.name)
	if err != nil {
		return value, 0, err
	}
	entry, err := Asked(ctx, func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		return kv.Get(ctx, key)
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return value, 0, sluice.Errorf(sluice.NotFound, "%q not found in %s", key, b.name)
	}
	if err != nil {
		return value, 0, b.failed(ctx, "get", key, err)
	}
	if err := json.Unmarshal(entry.Value(), &value); err != nil {
		return value, 0, b.failed(ctx, "decode", key, err)
	}
	return value, entry.Revision(), nil
}

// Put stores the record and returns its new revision. Code Conflict unless the stored revision is
// the given one; a deleted record counts as not stored. Code InvalidRequest for a key that NATS
// does not permit, QuotaExceeded if the bucket is full. If a write without a response was stored,
// its repetition gives Conflict: read and compare.
func (b Bucket[T]) Put(ctx context.Context, key string, value T, revision uint64) (uint64, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return 0, b.failed(ctx, "encode", key, err)
	}
	kv, err := b.store.bucket(ctx, b.name)
	if err != nil {
		return 0, err
	}
	put := func(revision uint64) (uint64, error) {
		return b.store.told(ctx, func(ctx context.Context) (uint64, error) {
			if revision == 0 {
				return kv.Create(ctx, key, data)
			}
			return kv.Update(ctx, key, data, revision)
		})
	}
	stored, err := put(revision)
	if IsConflict(err) && b.lost(ctx, revision) {
		stored, err = put(0)
	}
	switch {
	case err == nil:
		return stored, nil
	case IsConflict(err):
		return 0, b.conflict(key)
	case errors.Is(err, jetstream.ErrInvalidKey):
		return 0, sluice.Errorf(sluice.InvalidRequest, "%q cannot be a key of %s", key, b.name)
	}
	return 0, b.failed(ctx, "put", key, err)
}

// PutFor stores the record, replaces any stored one, and returns its revision. The record expires
// after ttl unless it is stored again. The bucket must have a MarkerTTL. PutFor sends the record
// once, and its lifetime begins when NATS stores it. PutFor compares no revision, so the last
// writer wins.
func (b Bucket[T]) PutFor(ctx context.Context, key string, value T, ttl time.Duration) (uint64, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return 0, b.failed(ctx, "encode", key, err)
	}
	msg := &nats.Msg{Subject: b.store.WriteSubject(b.store.names.KeySubject(b.name, key)), Data: data}
	ack, err := b.store.js.PublishMsg(ctx, msg, jetstream.WithMsgTTL(ttl))
	if err != nil {
		return 0, b.failed(ctx, "put", key, err)
	}
	return ack.Sequence, nil
}

// Delete removes the record. Code Conflict unless the stored revision is the given one. Revision 0
// removes any revision. With revision 0, it is no error if nothing is stored. The key keeps a
// marker for the MarkerTTL of the bucket; for Put a key with a marker counts as not stored.
func (b Bucket[T]) Delete(ctx context.Context, key string, revision uint64) error {
	kv, err := b.store.bucket(ctx, b.name)
	if err != nil {
		return err
	}
	var opts []jetstream.KVDeleteOpt
	if revision > 0 {
		opts = append(opts, jetstream.LastRevision(revision))
	}
	if ttl := markerTTL(b.name); ttl > 0 {
		opts = append(opts, jetstream.PurgeTTL(ttl))
	}
	_, err = b.store.told(ctx, func(ctx context.Context) (uint64, error) { return 0, kv.Purge(ctx, key, opts...) })
	switch {
	case err == nil || errors.Is(err, jetstream.ErrInvalidKey):
		return nil
	case IsConflict(err):
		if b.lost(ctx, revision) {
			if _, _, err := b.Get(ctx, key); sluice.CodeOf(err) == sluice.NotFound {
				return nil
			}
		}
		return b.conflict(key)
	}
	return b.failed(ctx, "delete", key, err)
}

// List returns the records with keys that match the filter, ">" for all, in the order of their last
// change. It logs and leaves out a record that cannot be read. It returns nil if there are none.
// The cost is O(matching keys). A list is no consistent view: a record that changes during the call
// may have either version.
func (b Bucket[T]) List(ctx context.Context, filter string) ([]Entry[T], error) {
	return b.ListSince(ctx, filter, 0)
}

// ListSince is List for the records that were written after a revision.
func (b Bucket[T]) ListSince(ctx context.Context, filter string, revision uint64) ([]Entry[T], error) {
	all, err := AskedFor(ctx, ListTimeout, func(ctx context.Context) ([]Entry[T], error) {
		var all []Entry[T]
		err := b.read(ctx, filter, revision, func(e Entry[T], pending uint64) (more bool) {
			if e.Key != "" {
				all = append(all, e)
			}
			return pending > 0
		})
		return lastEntries(all), err
	})
	if err != nil {
		return nil, b.failed(ctx, "list", filter, err)
	}
	return all, nil
}

// lastEntries returns the last entry of each key, without removed keys. A key that changes during a
// read has several entries.
func lastEntries[T any](all []Entry[T]) []Entry[T] {
	last := make(map[string]int, len(all))
	for i, e := range all {
		last[e.Key] = i
	}
	var kept []Entry[T]
	for i, e := range all {
		if last[e.Key] == i && e.Change == Set {
			kept = append(kept, e)
		}
	}
	return kept
}

// Watch reports the records with keys that match the filter, ">" for all, until ctx ends or the
// store is closed. It calls f with each record as it is now, then once with CaughtUp, then with
// every change. Of changes in quick succession it may report only the last. After a lost connection
// it reports the changes that happened meanwhile, including deletions. It never reports an older
// revision of a key than before, unless the bucket was deleted and created again. Then it reports
// the records of the new bucket, and that the others are gone. Watch calls f from the caller's
// goroutine; while f runs, further messages wait. Watch returns only with an error. It keeps a
// revision per key in memory; Follow does not.
func (b Bucket[T]) Watch(ctx context.Context, filter string, f func(Entry[T])) error {
	w := watcher[T]{told: map[string]uint64{}, tell: f}
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(watchAgain), backoff.WithMaxElapsedTime(0))
	failed := 0 // consecutive failures
	err := backoff.RetryNotify(func() error {
		if err := b.know(ctx, &w); err != nil {
			return err
		}
		err := b.read(ctx, filter, 0, func(e Entry[T], pending uint64) (more bool) {
			if w.enter(e, pending); w.fresh == nil {
				wait.Reset()
				failed = 0
			}
			return true
		})
		if b.store.nc.IsClosed() {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(wait, ctx), func(err error, again time.Duration) {
		b.store.opts.Log.Log(ctx, b.store.retryLevel(err, failed), "bucket watch failed; retrying", slog.String("bucket", b.name),
			slog.Any("error", err), slog.Duration("again", again))
		failed++
	})
	return fmt.Errorf("watch %s: %w", b.name, err)
}

// read calls each for the last entry of every key and then for every new entry, until each returns
// false. pending is the number of stored entries that are still to come. If none is stored, it
// first calls each with an empty entry.
func (b Bucket[T]) read(ctx context.Context, filter string, since uint64, each func(e Entry[T], pending uint64) (more bool)) error {
	prefix := b.store.names.KeySubject(b.name, "")
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: prefix + filter}
	if since > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, since+1
	}
	return b.store.FollowToEnd(ctx, b.store.names.BucketStream(b.name), config, FollowAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg == nil {
			return each(Entry[T]{}, 0), nil
		}
		e := Entry[T]{Key: msg.Subject[len(prefix):], Revision: meta.Sequence.Stream}
		if IsMarker(msg.Header) {
			e.Change = Removed
		} else if err := json.Unmarshal(msg.Data, &e.Value); err != nil {
			b.store.opts.Log.ErrorContext(ctx, "record cannot be read",
				slog.String("bucket", b.name), slog.String("key", e.Key), slog.Any("error", err))
			e = Entry[T]{Key: e.Key, Revision: e.Revision, Change: Removed, Unreadable: true} // without what was decoded before the error
		}
		return each(e, meta.NumPending), nil
	})
}

// IsMarker reports whether a message marks its key as removed or expired.
func IsMarker(h nats.Header) bool {
	op := h.Get("KV-Operation")
	return op == "DEL" || op == "PURGE" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// lost reports whether a revision is that of an earlier bucket of this name, which was deleted. A
// bucket that is created again begins with a higher revision (Remake), and has no record with this
// one.
func (b Bucket[T]) lost(ctx context.Context, revision uint64) bool {
	if revision == 0 {
		return false
	}
	stream, err := b.store.js.Stream(ctx, b.store.names.BucketStream(b.name))
	return err == nil && revision < stream.CachedInfo().Config.FirstSeq
}

func (b Bucket[T]) conflict(key string) error {
	return sluice.Errorf(sluice.Conflict, "%q in %s was changed concurrently; read it again", key, b.name)
}

func (b Bucket[T]) failed(ctx context.Context, act, key string, err error) error {
	return fmt.Errorf("%s %s/%s: %w", act, b.name, key, StoreError(ctx, b.store.crowded(err)))
}

// watcher records what it has reported, so that after another read of the bucket it reports only
// the differences.
//
// Each read is in the order of the revisions. Therefore an unknown key at or below the highest
// revision of earlier reads was removed since: it comes from a replica that is behind. It is reported
// only if it is still there when the read has caught up, as after files were damaged or lost.
type watcher[T any] struct {
	told     map[string]uint64   // revision, by key
	high     uint64              // highest revision that was read
	held     map[string]Entry[T] // of this read: probably removed
	fresh    map[string]struct{} // keys seen in this read; nil once it has caught up
	caughtUp bool
	made     time.Time // when the bucket of the last read was created; zero: none was read
	anew     bool      // the bucket was created again since: report every record, at any revision
	tell     func(Entry[T])
}

func (w *watcher[T]) enter(e Entry[T], pending uint64) {
	if e.Key != "" {
		w.change(e)
	}
	if w.fresh == nil || pending > 0 {
		return
	}
	for key, revision := range w.told {
		if _, ok := w.fresh[key]; !ok {
			delete(w.told, key)
			w.tell(Entry[T]{Key: key, Revision: revision, Change: Removed})
		}
	}
	for key, e := range w.held {
		w.told[key] = e.Revision
		w.tell(e)
	}
	w.fresh, w.held, w.anew = nil, nil, false
	if !w.caughtUp {
		w.caughtUp = true
		w.tell(Entry[T]{Change: CaughtUp})
	}
}

// know finds out whether the bucket was deleted and created again since the last read. Then its
// revisions cannot be compared with those reported before.
func (b Bucket[T]) know(ctx context.Context, w *watcher[T]) error {
	stream, err := b.store.js.Stream(ctx, b.store.names.BucketStream(b.name))
	if err != nil {
		return fmt.Errorf("read %s: %w", b.name, err)
	}
	w.begin(stream.CachedInfo().Created)
	return nil
}

// begin prepares for a read of a bucket that was created at a time.
func (w *watcher[T]) begin(made time.Time) {
	if !w.made.IsZero() && !made.Equal(w.made) {
		w.anew, w.high = true, 0
	}
	w.made, w.fresh, w.held = made, map[string]struct{}{}, map[string]Entry[T]{}
}

func (w *watcher[T]) change(e Entry[T]) {
	revision, known := w.told[e.Key]
	if w.fresh != nil && (e.Change == Set || e.Unreadable || revision > e.Revision && !w.anew) {
		w.fresh[e.Key] = struct{}{}
	}
	delete(w.held, e.Key)
	behind := e.Revision <= w.high && !w.anew
	w.high = max(w.high, e.Revision)
	switch {
	case e.Revision <= revision && !w.anew:
	case behind && !known && e.Change == Set && w.fresh != nil:
		w.held[e.Key] = e
	case e.Change == Set || e.Unreadable && known:
		w.told[e.Key] = e.Revision
		w.tell(e)
	case known:
		delete(w.told, e.Key)
		w.tell(e)
	}
}

// bucket returns the cached handle of a bucket. Only the first call for a bucket makes a request.
func (s *Store) bucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	s.mu.Lock()
	kv, ok := s.buckets[name]
	s.mu.Unlock()
	if ok {
		return kv, nil
	}
	kv, err := s.js.KeyValue(ctx, s.names.Bucket(name))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, StoreError(ctx, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[name] = kv
	return kv, nil
}

// markerTTL returns how long the marker of a deleted key stays; 0: forever.
func markerTTL(name string) time.Duration { return layoutOf(name).MarkerTTL }

// layoutOf returns the bucket's settings in the layout.
func layoutOf(name string) streams.Bucket {
	for _, b := range streams.Buckets() {
		if b.Name == name {
			return b
		}
	}
	return streams.Bucket{Name: name}
}
