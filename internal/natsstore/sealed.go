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

// checkName is the record that shows which key the store is sealed with, so that a server with
// another one notices before it writes anything, whether there are secrets yet or not.
const checkName = "=check"

// resealTries bounds how often a record is read again because another process writes it.
const resealTries = 20

// Transform returns the new text for the text at a place.
type Transform func(text, place string) (string, error)

// Sealable is a record with sealed parts. Transformed returns a copy in which f was applied to each of them; name is
// the record's key in its bucket.
type Sealable[T any] interface {
	Transformed(name string, f Transform) (T, error)
}

// checkRecord has no other part than the sealed one.
type checkRecord struct {
	Check string `json:"check"`
}

func (r checkRecord) Transformed(name string, f Transform) (checkRecord, error) {
	text, err := f(r.Check, seal.Place(streams.Keys, name, "check"))
	return checkRecord{text}, err
}

// sealText seals a text with the newest key. Without a vault it stays as it is.
func (s *Store) sealText(text, place string) (string, error) {
	if s.opts.Sealer == nil {
		return text, nil
	}
	return s.opts.Sealer.Seal([]byte(text), place), nil
}

// openText opens a text of sealText. A text that is not sealed stays as an older release wrote it.
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

// keysIn returns the ids of the keys that seal the parts of a record, each once; ""
// stands for a part that is not sealed.
func keysIn[T Sealable[T]](name string, record T) []string {
	var ids []string
	_, _ = record.Transformed(name, func(text, _ string) (string, error) { // it has no error of its own
		ids = append(ids, seal.KeyOf(text))
		return text, nil
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// unlocked turns the error of a record that could not be opened into the one for its reader.
func unlocked(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable,
		"the secrets of %q cannot be opened with the keys of this server; the server's log has the details", name), err)
}

// SealedBucket is a bucket of records with sealed parts, for Options.Sealed.
type SealedBucket func(ctx context.Context, s *Store) (sealedRecords, error)

// SealedIn returns the bucket with the name; its records are of one type.
func SealedIn[T Sealable[T]](name string) SealedBucket {
	return func(ctx context.Context, s *Store) (sealedRecords, error) {
		b := OpenBucket[T](s, name)
		entries, err := b.List(ctx, ">")
		return recordsOf[T]{b, entries}, err
	}
}

// sealedRecords is the records of a bucket as they were read.
type sealedRecords interface {
	count(counts map[string]int)
	reseal(ctx context.Context) (changed int, err error)
}

type recordsOf[T Sealable[T]] struct {
	bucket  Bucket[T]
	entries []Entry[T]
}

// count adds how many records are sealed with which key, "" for none.
func (r recordsOf[T]) count(counts map[string]int) {
	for i := range r.entries {
		for _, id := range keysIn(r.entries[i].Key, r.entries[i].Value) {
			counts[id]++
		}
	}
}

// reseal seals with the newest key the records that are not sealed with it.
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

// stored is all records of the store with sealed parts.
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

// count returns how many records are sealed with which key, "" for none.
func (all stored) count() map[string]int {
	counts := map[string]int{}
	for _, records := range all.buckets {
		records.count(counts)
	}
	all.check.count(counts)
	return counts
}

// Sealing says with which keys the secrets in the store are sealed.
func (s *Store) Sealing(ctx context.Context) (sluice.Sealing, error) {
	all, err := s.stored(ctx)
	if err != nil {
		return sluice.Sealing{}, err
	}
	counts := all.count()
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

// sealStored seals with the newest key all parts that are not: the plain ones of an older release, and
// those that an older key sealed. It returns a seal.LockedError, and has changed
// nothing, if a part is sealed with a key that is not at hand. It is safe with several
// processes at once and against a crash in between: each record is written over the revision that was read,
// the check comes last, and the next start begins again.
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

// checkLocked returns a seal.LockedError if a part is sealed with a key that is not at hand.
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

// makeCheck stores the check. If another server was faster its check counts, which returns a
// seal.LockedError if that has another key.
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

// reseal seals a record with the newest key, unless it is already sealed with it or is no more, and reports
// whether it did. A record that was tampered with is logged and stays as it is.
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

// resealOnce writes a record over the revision that was read. Code Conflict if it was changed meanwhile.
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
