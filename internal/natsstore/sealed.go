package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// checkName is the name of the record that shows with which key the store is sealed. With it a
// server with another key detects that before it writes anything, even if there are no secrets yet.
const checkName = "=check"

// resealTries is how many times sealing a record is tried while other processes change it.
const resealTries = 20

// Transform returns the sealed or opened text for a text. The place identifies the part of the
// record that contains it (seal.Place).
type Transform func(text, place string) (string, error)

// Sealable is a record with sealed parts. Transformed returns a copy with f applied to each of
// them. The name is the key of the record in its bucket. It does not change its receiver. If f
// fails, it returns the error.
type Sealable[T any] interface {
	Transformed(name string, f Transform) (T, error)
}

// checkRecord is the record with the name checkName. It has only the sealed part.
type checkRecord struct {
	Check string `json:"check"`
}

func (r checkRecord) Transformed(name string, f Transform) (checkRecord, error) {
	text, err := f(r.Check, seal.Place(streams.Keys, name, "check"))
	return checkRecord{text}, err
}

// sealText seals a text with the newest key. Without a Sealer it returns the text unchanged.
func (s *Store) sealText(text, place string) (string, error) {
	if s.opts.Sealer == nil {
		return text, nil
	}
	return s.opts.Sealer.Seal([]byte(text), place), nil
}

// openText opens a text of sealText. It returns an unsealed text, which an older release has
// written, unchanged.
func (s *Store) openText(text, place string) (string, error) {
	id := seal.KeyOf(text)
	if id == "" {
		return text, nil
	}
	if s.opts.Sealer == nil {
		return "", &seal.UnknownKeyError{ID: id}
	}
	plain, err := s.opts.Sealer.Open(text, place)
	return string(plain), err
}

// keysIn returns the IDs of the keys with which the parts of a record are sealed, without
// duplicates; "" stands for an unsealed part.
func keysIn[T Sealable[T]](name string, record T) []string {
	var ids []string
	_, _ = record.Transformed(name, func(text, _ string) (string, error) { // it has no error of its own
		ids = append(ids, seal.KeyOf(text))
		return text, nil
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// unlocked returns the error for the caller that reads a record that cannot be opened.
func unlocked(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable,
		"the secrets of %q cannot be opened with the keys of this server; the server's log has the details", name), err)
}

// SealedBucket is a bucket of records with sealed parts, for Options.Sealed.
type SealedBucket func(ctx context.Context, s *Store) (sealedRecords, error)

// SealedIn returns the SealedBucket with the name, whose records have the type T.
func SealedIn[T Sealable[T]](name string) SealedBucket {
	return func(ctx context.Context, s *Store) (sealedRecords, error) {
		b := OpenBucket[T](s, name)
		entries, err := b.List(ctx, ">")
		return recordsOf[T]{b, entries}, err
	}
}

// sealedRecords are the records that were read from a bucket.
type sealedRecords interface {
	count(counts map[string]int)
	reseal(ctx context.Context) (changed int, err error)
}

type recordsOf[T Sealable[T]] struct {
	bucket  Bucket[T]
	entries []Entry[T]
}

// count adds the number of records that are sealed with each key, "" for unsealed.
func (r recordsOf[T]) count(counts map[string]int) {
	for i := range r.entries {
		for _, id := range keysIn(r.entries[i].Key, r.entries[i].Value) {
			counts[id]++
		}
	}
}

// reseal seals all records with the newest key that are not sealed with it.
func (r recordsOf[T]) reseal(ctx context.Context) (changed int, err error) {
	for _, e := range r.entries {
		did, err := reseal(ctx, r.bucket, e)
		if err != nil {
			return changed, err
		}
		if did {
			changed++
		}
	}
	return changed, nil
}

// stored contains all records of the store with sealed parts.
type stored struct {
	buckets []sealedRecords
	check   recordsOf[checkRecord] // one record, or none
}

func (s *Store) stored(ctx context.Context) (all stored, err error) {
	for _, read := range append([]SealedBucket{SealedIn[subscriptionRecord](streams.Subscriptions)}, s.opts.Sealed...) {
		records, err := read(ctx, s)
		if err != nil {
			return all, err
		}
		all.buckets = append(all.buckets, records)
	}
	keys, err := s.Keys().entries(ctx)
	if err != nil {
		return all, err
	}
	all.buckets = append(all.buckets, recordsOf[keyRecord]{OpenBucket[keyRecord](s, streams.Keys), keys})
	all.check, err = s.storedCheck(ctx)
	return all, err
}

func (s *Store) storedCheck(ctx context.Context) (recordsOf[checkRecord], error) {
	entries, err := s.checks().List(ctx, checkName)
	return recordsOf[checkRecord]{s.checks(), entries}, err
}

func (s *Store) checks() Bucket[checkRecord] { return OpenBucket[checkRecord](s, streams.Keys) }

// count returns the number of records that are sealed with each key, "" for unsealed.
func (all stored) count() map[string]int {
	counts := map[string]int{}
	for _, records := range all.buckets {
		records.count(counts)
	}
	all.check.count(counts)
	return counts
}

// Sealing returns with which keys the secrets in the store are sealed. It reads these records, and
// opens none. A record with parts of several keys counts for each of them. The responses for
// Idempotency-Keys (Answers) count, too: they are not sealed again, so their key is needed until they
// expire. A start without it is not refused; a repeated request then has code Unavailable.
func (s *Store) Sealing(ctx context.Context) (sluice.Sealing, error) {
	all, err := s.stored(ctx)
	if err != nil {
		return sluice.Sealing{}, err
	}
	counts := all.count()
	answers, err := s.Answers().sealed(ctx)
	if err != nil {
		return sluice.Sealing{}, err
	}
	for id, n := range answers {
		counts[id] += n
	}
	status := sluice.Sealing{Keys: []sluice.SealingKey{}, Plain: counts[""]}
	delete(counts, "")
	if s.opts.Sealer != nil {
		for i, id := range s.opts.Sealer.IDs() {
			status.Keys = append(status.Keys, sluice.SealingKey{ID: id, Known: true, Seals: i == 0, Records: counts[id]})
			delete(counts, id)
		}
	}
	for _, id := range sortedNames(counts) {
		status.Keys = append(status.Keys, sluice.SealingKey{ID: id, Records: counts[id]})
	}
	return status, nil
}

// sealStored seals all parts with the newest key that are unsealed or sealed with an older key. It
// returns a seal.LockedError, and changes nothing, if a part is sealed with a key that is not
// available. Several processes may call it concurrently, and it may be interrupted: each record is
// written only if its revision is the one that was read, the check is sealed last, and the next
// start repeats the rest. Without a Sealer it only looks for the check record: a server that has
// forgotten its keys must not write secrets in clear beside sealed ones.
func (s *Store) sealStored(ctx context.Context) error {
	if s.opts.Sealer == nil {
		check, err := s.storedCheck(ctx)
		return errors.Join(err, s.checkLocked(stored{check: check}.count()))
	}
	all, err := s.stored(ctx)
	if err != nil {
		return err
	}
	if err := s.checkLocked(all.count()); err != nil {
		return err
	}
	if len(all.check.entries) == 0 {
		if all.check, err = s.makeCheck(ctx); err != nil {
			return err
		}
	}
	changed := 0
	for _, records := range append(all.buckets, all.check) {
		n, err := records.reseal(ctx)
		if changed += n; err != nil {
			return err
		}
	}
	if changed > 0 {
		s.opts.Log.LogAttrs(ctx, slog.LevelInfo, "secrets sealed", slog.String("key_id", s.opts.Sealer.First()), slog.Int("records", changed))
	}
	return nil
}

// checkLocked returns a seal.LockedError if a part is sealed with a key that is not available.
func (s *Store) checkLocked(counts map[string]int) error {
	locked := &seal.LockedError{}
	for _, id := range sortedNames(counts) {
		if id == "" || s.opts.Sealer != nil && slices.Contains(s.opts.Sealer.IDs(), id) {
			continue
		}
		locked.Keys = append(locked.Keys, "key "+id)
		locked.Records += counts[id]
	}
	if locked.Records == 0 {
		return nil
	}
	return locked
}

// makeCheck stores the check record and returns it. If another server has stored it first,
// makeCheck returns that one, and a seal.LockedError if its key is not available.
func (s *Store) makeCheck(ctx context.Context) (recordsOf[checkRecord], error) {
	record, err := checkRecord{"sluice"}.Transformed(checkName, s.sealText)
	if err != nil {
		return recordsOf[checkRecord]{}, err
	}
	_, err = s.checks().Put(ctx, checkName, record, 0)
	if err != nil && sluice.CodeOf(err) != sluice.Conflict {
		return recordsOf[checkRecord]{}, err
	}
	check, err := s.storedCheck(ctx)
	if err != nil {
		return check, err
	}
	return check, s.checkLocked(stored{check: check}.count())
}

// reseal seals a record with the newest key, unless it is already sealed with it or deleted, and
// reports whether it did. It logs a record that was tampered with and does not change it.
func reseal[T Sealable[T]](ctx context.Context, b Bucket[T], e Entry[T]) (bool, error) {
	s := b.store
	for range resealTries {
		if ids := keysIn(e.Key, e.Value); len(ids) == 0 || len(ids) == 1 && ids[0] == s.opts.Sealer.First() {
			return false, nil
		}
		err := resealOnce(ctx, b, e)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, seal.ErrTampered):
			b.logLocked(ctx, e.Key, err)
			return false, nil
		case sluice.CodeOf(err) != sluice.Conflict:
			return false, err
		}
		e.Value, e.Revision, err = b.Get(ctx, e.Key)
		if sluice.CodeOf(err) == sluice.NotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, sluice.Errorf(sluice.Unavailable, "%q in %s is being changed constantly and could not be sealed", e.Key, b.name)
}

// resealOnce is one try of reseal. Code Conflict if the record was changed concurrently.
func resealOnce[T Sealable[T]](ctx context.Context, b Bucket[T], e Entry[T]) error {
	opened, err := e.Value.Transformed(e.Key, b.store.openText)
	if err != nil {
		return fmt.Errorf("open %s/%s: %w", b.name, e.Key, err)
	}
	sealed, err := opened.Transformed(e.Key, b.store.sealText)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, e.Key, sealed, e.Revision)
	return err
}
