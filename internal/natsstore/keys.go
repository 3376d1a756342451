package natsstore

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// seedBytes is the length of a key's seed.
const seedBytes = ed25519.SeedSize

// maxKeys limits the keys of one use: until a key retires, it signs, or verification has to try it.
const maxKeys = 5

// Key is a key of the server for one use. Capability tokens must never be signed with the webhook
// key: the signature of a webhook covers "id.timestamp.body", and a publisher chooses the ID and
// the body of an event. Therefore a publisher that receives its own event could get a token signed.
// A Key is formatted without its seed.
type Key struct {
	ID        string // a hash of the public key, or of the seed if the use is symmetric
	Use       sluice.KeyUse
	Seed      []byte `json:"-"` // of an Ed25519 key; the key itself if the use is symmetric
	CreatedAt time.Time
	RetiresAt time.Time // when it becomes invalid, because a newer key has replaced it; zero: it is the newest

	number int // among the keys of its use
}

// Private returns the private key.
func (k Key) Private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.Seed) }

// Public returns the public key, which verifies signatures.
func (k Key) Public() ed25519.PublicKey {
	return ed25519.PublicKey(k.Private()[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// Shown returns the public parts of the key.
func (k Key) Shown() sluice.SigningKey {
	shown := sluice.SigningKey{ID: k.ID, Use: k.Use, CreatedAt: k.CreatedAt}
	if !k.RetiresAt.IsZero() {
		shown.RetiresAt = &k.RetiresAt
	}
	return shown
}

// String returns the use and the ID.
func (k Key) String() string { return string(k.Use) + " key " + k.ID }

// Format writes the use and the ID, for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) } // as fmt itself does

// LogValue returns the use and the ID.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// keyRecord is a stored key. The keys of a use are numbered consecutively. A record for a number
// can be created only once. Therefore exactly one process succeeds if several create a key
// concurrently. The bucket's key is "1" for webhooks, and "<use>.1" for other uses.
type keyRecord struct {
	ID        string          `json:"kid"`
	Use       sluice.KeyUse   `json:"use"`
	Seed      string          `json:"seed"` // base64, sealed
	CreatedAt time.Time       `json:"created_at"`
	Overlap   sluice.Duration `json:"overlap,omitzero"` // how long the keys before it stay valid
}

// Transformed returns a copy with f applied to the seed. The seal also covers the use: a writer
// that cannot open the records cannot change the use of a key.
func (r keyRecord) Transformed(name string, f Transform) (_ keyRecord, err error) {
	r.Use = cmp.Or(r.Use, sluice.UseWebhook)
	r.Seed, err = f(r.Seed, seal.Place(streams.Keys, name, string(r.Use), r.ID))
	return r, err
}

func (r keyRecord) key(name string, open Transform) (Key, error) {
	r, err := r.Transformed(name, open)
	if err != nil {
		return Key{}, err
	}
	seed, err := base64.StdEncoding.DecodeString(r.Seed)
	if err != nil || len(seed) != seedBytes {
		return Key{}, errors.New("its seed is invalid")
	}
	return Key{ID: r.ID, Use: r.Use, Seed: seed, CreatedAt: r.CreatedAt}, nil
}

// keyName returns the name of the record of a key. Names of webhook keys have no prefix because
// they existed before other uses.
func keyName(use sluice.KeyUse, number int) string {
	if use == sluice.UseWebhook {
		return strconv.Itoa(number)
	}
	return string(use) + "." + strconv.Itoa(number)
}

// keyNumber returns the number in a key's name.
func keyNumber(name string) int {
	number, _ := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:]) // 0 for names of other records
	return number
}

// Keys stores the keys of the server. The keys of a use are numbered; the newest one signs. The
// times of three keys, of which 2 was made with an overlap of a day, and 3 with none:
//
//	key 1  ├── signs ──┤─ verifies, a day at most ─┐ retires when key 3 is made
//	key 2              ├── signs ──────────────────┤ retires at once
//	key 3                                          ├── signs ──
//
// A leaked key is therefore ended by one rotation without overlap, also within an earlier overlap.
type Keys struct{ store *Store }

// Keys returns the server's keys.
func (s *Store) Keys() Keys { return Keys{s} }

// For returns the keys of the server for a use, without retired keys. The first is the newest,
// which signs. All of them verify. There is at least one: if none is stored, For creates it. Two
// replicas at their first start get the same key. Code Unavailable if a key cannot be unsealed;
// then none is created, because receivers would be sent signatures that they cannot know.
func (k Keys) For(ctx context.Context, use sluice.KeyUse) ([]Key, error) {
	for {
		entries, err := k.entries(ctx)
		if err != nil {
			return nil, err
		}
		keys, err := k.open(entries, use)
		if err = unlocked(string(use), err); err != nil || len(keys) > 0 {
			return keys, err
		}
		key, record, err := newKey(use, 1, 0)
		if err != nil {
			return nil, err
		}
		err = k.put(ctx, key, record)
		if sluice.CodeOf(err) == sluice.Conflict {
			_, _, err = OpenBucket[keyRecord](k.store, streams.Keys).Get(ctx, keyName(use, 1)) // an unreadable key is no reason for another
		}
		if err != nil {
			return nil, err
		}
	}
}

// All returns the keys of all uses that have not retired, the newest of each use first. It creates
// none.
func (k Keys) All(ctx context.Context) ([]Key, error) {
	entries, err := k.entries(ctx)
	if err != nil {
		return nil, err
	}
	uses := map[string]int{}
	for _, e := range entries {
		uses[string(cmp.Or(e.Value.Use, sluice.UseWebhook))]++
	}
	var all []Key
	for _, use := range sortedNames(uses) {
		keys, err := k.open(entries, sluice.KeyUse(use))
		if err = unlocked(use, err); err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	return all, nil
}

// Rotate creates a key for a use. The new key signs from now on; the keys before it stay valid for
// the overlap, unless they retire earlier. Before it stores the key, Rotate calls intend with the
// current signing key, the same key with its new RetiresAt, and the new key; if intend fails, the
// key is not created. Code Conflict if another process created a key concurrently, or if there are
// too many. Other replicas learn of the key by Watch, and may sign with the previous one until
// then. An overlap of some seconds avoids refused requests.
func (k Keys) Rotate(ctx context.Context, use sluice.KeyUse, overlap time.Duration, intend func(was, will, is Key) error) (Key, error) {
	keys, err := k.For(ctx, use) // one at least
	if err != nil {
		return Key{}, err
	}
	if len(keys) >= maxKeys && overlap > 0 {
		return Key{}, sluice.Errorf(sluice.Conflict, "%d keys exist, and the next retires at %s: wait until then, or rotate with the overlap 0s",
			len(keys), keys[len(keys)-1].RetiresAt.Format(time.RFC3339))
	}
	key, record, err := newKey(use, keys[0].number+1, overlap)
	if err != nil {
		return Key{}, err
	}
	will := keys[0]
	will.RetiresAt = key.CreatedAt.Add(overlap)
	if err := intend(keys[0], will, key); err != nil {
		return Key{}, err
	}
	if err := k.put(ctx, key, record); err != nil {
		return Key{}, err
	}
	if err := k.RemoveRetired(ctx); err != nil { // they are already unused
		k.store.opts.Log.LogAttrs(ctx, slog.LevelWarn, "retired keys not removed yet", slog.Any("error", err))
	}
	return key, nil
}

// RemoveRetired deletes the keys that have retired, with their seeds. Any replica may call it at
// any time.
func (k Keys) RemoveRetired(ctx context.Context) error {
	entries, err := k.entries(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range timetable(entries) {
		if !d.retired(time.Now()) {
			continue
		}
		err := OpenBucket[keyRecord](k.store, streams.Keys).Delete(ctx, d.Key, d.Revision)
		if err == nil {
			k.store.opts.Log.LogAttrs(ctx, slog.LevelInfo, "key removed", slog.String("key_id", d.Value.ID), slog.String("use", string(d.use())))
		}
		if sluice.CodeOf(err) != sluice.Conflict { // another process deletes or seals it
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Watch calls f with the keys for a use in the order of For, as soon as there are any, and after
// each change, until ctx ends. The retirement of a key does not count as a change.
func (k Keys) Watch(ctx context.Context, use sluice.KeyUse, f func([]Key)) error {
	all, caughtUp := map[string]Entry[keyRecord]{}, false
	return OpenBucket[keyRecord](k.store, streams.Keys).Watch(ctx, ">", func(e Entry[keyRecord]) {
		switch {
		case e.Change == CaughtUp:
			caughtUp = true
		case !isKey(e.Key):
			return
		case e.Change == Removed:
			delete(all, e.Key)
		default:
			all[e.Key] = e
		}
		if !caughtUp {
			return
		}
		keys, err := k.open(slices.Collect(maps.Values(all)), use)
		if err != nil {
			k.store.opts.Log.LogAttrs(ctx, slog.LevelError, "record cannot be opened", slog.String("bucket", streams.Keys), slog.Any("error", err))
		} else if len(keys) > 0 {
			f(keys)
		}
	})
}

// dated is the record of a key with the time at which it retires; zero: it is the newest of its
// use.
type dated struct {
	Entry[keyRecord]

	retiresAt time.Time
}

func (d *dated) use() sluice.KeyUse { return cmp.Or(d.Value.Use, sluice.UseWebhook) }

func (d *dated) retired(now time.Time) bool { return !d.retiresAt.IsZero() && !now.Before(d.retiresAt) }

// timetable returns the keys with the times at which they retire, the newest of each use first. A
// key retires at the earliest time at which the overlap of a later key ends.
func timetable(entries []Entry[keyRecord]) []dated {
	all := make([]dated, len(entries))
	for i, e := range entries {
		all[i].Entry = e
	}
	slices.SortFunc(all, func(a, b dated) int {
		return cmp.Or(strings.Compare(string(a.use()), string(b.use())), cmp.Compare(keyNumber(b.Key), keyNumber(a.Key)))
	})
	for i := 1; i < len(all); i++ {
		newer := &all[i-1]
		if newer.use() != all[i].use() {
			continue
		}
		at := newer.Value.CreatedAt.Add(newer.Value.Overlap.Std())
		if !newer.retiresAt.IsZero() && newer.retiresAt.Before(at) {
			at = newer.retiresAt
		}
		all[i].retiresAt = at
	}
	return all
}

// open returns the opened keys for a use that have not retired, the newest first.
func (k Keys) open(entries []Entry[keyRecord], use sluice.KeyUse) ([]Key, error) {
	var keys []Key
	for _, d := range timetable(entries) {
		if d.use() != use || d.retired(time.Now()) {
			continue
		}
		key, err := d.Value.key(d.Key, k.store.openText)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", d.Value.ID, err)
		}
		key.RetiresAt, key.number = d.retiresAt, keyNumber(d.Key)
		keys = append(keys, key)
	}
	return keys, nil
}

// entries returns the records of all keys.
func (k Keys) entries(ctx context.Context) ([]Entry[keyRecord], error) {
	entries, err := OpenBucket[keyRecord](k.store, streams.Keys).List(ctx, ">")
	return slices.DeleteFunc(entries, func(e Entry[keyRecord]) bool { return !isKey(e.Key) }), err
}

// isKey reports whether a record of the bucket is a key, by its name.
func isKey(name string) bool { return !strings.HasPrefix(name, "=") }

func (k Keys) put(ctx context.Context, key Key, record keyRecord) error {
	name := keyName(key.Use, key.number)
	record, err := record.Transformed(name, k.store.sealText)
	if err != nil {
		return err
	}
	_, err = OpenBucket[keyRecord](k.store, streams.Keys).Put(ctx, name, record, 0)
	return err
}

// newKey returns a key that is not stored yet, and its record, which is not sealed yet.
func newKey(use sluice.KeyUse, number int, overlap time.Duration) (Key, keyRecord, error) {
	seed := make([]byte, seedBytes)
	if _, err := rand.Read(seed); err != nil {
		return Key{}, keyRecord{}, fmt.Errorf("generate a key: %w", err)
	}
	key := Key{Use: use, Seed: seed, CreatedAt: time.Now().UTC(), number: number}
	named := append([]byte("sluice key\n"), seed...)
	if !use.Symmetric() {
		named = key.Public()
	}
	hash := sha256.Sum256(named)
	key.ID = base64.RawURLEncoding.EncodeToString(hash[:12])
	return key, keyRecord{
		ID: key.ID, Use: use, Seed: base64.StdEncoding.EncodeToString(seed), CreatedAt: key.CreatedAt, Overlap: sluice.Duration(overlap),
	}, nil
}

func sortedNames(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }
