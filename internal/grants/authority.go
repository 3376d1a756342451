// Package grants manages permissions: it issues, narrows, renews and revokes grants and their
// tokens, keeps the access lists, clearances, labels and tombstones, and records all changes in the
// ledger. A revocation is acknowledged once every replica enforces it: from then on, nothing is
// sent under the revoked permission.
//
// The records are stored in a bucket that all replicas follow. A change passes through all of them
// before its call returns:
//
//	Authority.store ─► ledger ─► records ─► Follower.Set of each replica ─► index
//	       ▲                                     │ stop: withdraw requests, end subscriptions
//	       │                                     ▼
//	     await ◄── Index.Settled ◄── presence records ◄── Presence.settle
//
// The wait has no limit of its own: the context ends it with code Unavailable, while the change is
// stored and takes effect. A replica that stops announcing its presence is waited for until its
// last announcement expires, and decides nothing itself from a little before that (see Presence).
package grants

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Records stores the records of access by key. Revision 0 stands for "nothing is stored".
// Implementations are safe for concurrent use. Revisions ascend over all keys, so that one number
// says up to where a replica enforces the records.
type Records interface {
	// Get returns the record and its revision. Code NotFound if there is none.
	Get(ctx context.Context, key string) (authz.Record, uint64, error)
	// Put stores the record and returns its new revision. Code Conflict unless the stored
	// revision is the given one.
	Put(ctx context.Context, key string, record authz.Record, revision uint64) (uint64, error)
}

// Key is a key that signs tokens.
type Key struct {
	ID      string
	Private ed25519.PrivateKey
}

// Deps are an authority's dependencies; all but Tickets and Links are required. Keys returns at
// least one key if it returns no error. Now is the clock of issue and expiry; waits and limits use
// the real clock.
type Deps struct {
	Records Records
	Index   *authz.Index
	Ledger  *ledger.Ledger
	// Keys returns the keys of tokens, the signing one first. They sign nothing else: a publisher
	// chooses the content that a webhook's signature covers, and could otherwise make the server
	// sign a forged token.
	Keys func(ctx context.Context) ([]Key, error)
	Now  func() time.Time
	// Tickets returns the keys of tickets, which are secrets for MACs that are used for nothing
	// else and that all replicas share, the signing one first. nil: there are no tickets.
	Tickets func() [][]byte
	// Links stores the links to the portal. nil: there are none.
	Links Links
}

// Authority grants and revokes rights. It is safe for concurrent use. Methods with a context write
// to or read from the store; those without answer from the index, and so may miss a change of the
// last moments. Methods that take a caller check no more rights of it than their comments say; the
// interfaces above them check the rest.
type Authority struct {
	needs Deps

	mu       sync.Mutex
	keys     map[string]Key
	verified *verified

	looking sync.Mutex // held during a lookup of keys
	looked  time.Time  // time of the last lookup
}

// New returns an authority. It reads nothing before its first call.
func New(needs Deps) *Authority {
	return &Authority{needs: needs, keys: map[string]Key{}, verified: newVerified()}
}

// signer returns the key that signs. The keys are read anew for every signature, so that a new key
// is used from its first moment. All keys it has seen remain known for verification until the
// process ends.
func (a *Authority) signer(ctx context.Context) (Key, error) {
	keys, err := a.needs.Keys(ctx)
	if err != nil {
		return Key{}, fmt.Errorf("signing keys of tokens: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range keys {
		a.keys[k.ID] = k
	}
	return keys[0], nil
}

// lookEvery is the minimum interval of key lookups: a caller without any token can name unknown
// keys.
const lookEvery = time.Second

// public returns the public key with an id. It looks up unknown ids, because another replica may
// have created the key. It makes at most one lookup in lookEvery; in between, an unknown id is not
// found. Concurrent callers wait for the lookup.
func (a *Authority) public(ctx context.Context, id string) (ed25519.PublicKey, bool) {
	if k, ok := a.known(id); ok {
		return k, true
	}
	a.looking.Lock()
	defer a.looking.Unlock()
	if k, ok := a.known(id); ok || time.Since(a.looked) < lookEvery {
		return k, ok
	}
	if _, err := a.signer(ctx); err != nil {
		return nil, false
	}
	a.looked = time.Now()
	return a.known(id)
}

func (a *Authority) known(id string) (ed25519.PublicKey, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.keys[id]
	if !ok {
		return nil, false
	}
	public, ok := k.Private.Public().(ed25519.PublicKey)
	return public, ok
}

// edit is a change of one record: apply returns the new record, and false if it is unchanged. apply
// can be called several times and must not change its argument. An error of it ends the edit, with
// nothing stored. show returns the part of a record that the ledger may contain, nil if the record
// is empty.
type edit struct {
	key       string
	change    ledger.Change // Old and New are filled in by show
	show      func(authz.Record) any
	apply     func(authz.Record) (authz.Record, bool, error)
	unnoticed bool // it revokes nothing, and is acknowledged once this replica has applied it
	protects  bool // it revokes rights, and must succeed even without the ledger
}

// store makes an edit, and returns the stored record and its revision. It repeats apply after a
// concurrent change. Every try writes an intent first, or keeps that of the previous try if nothing
// has changed, so that each stored change has an entry in the ledger, unless the edit protects. An
// unchanged record is not stored again, but waited for: an earlier call may have ended before all
// replicas confirmed it.
func (a *Authority) store(ctx context.Context, e edit) (authz.Record, uint64, error) {
	var intent *ledger.Intent
	for {
		before, revision, err := a.needs.Records.Get(ctx, e.key)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			intent.Fail(ctx, err)
			return authz.Record{}, 0, fmt.Errorf("read: %w", err)
		}
		after, changed, err := e.apply(before)
		if err != nil || !changed {
			intent.Fail(ctx, errors.Join(err, sluice.Errorf(sluice.Conflict, "concurrent change")))
			return before, revision, a.unchanged(ctx, revision, e, err)
		}
		e.change.Old, e.change.New = e.show(before), e.show(after)
		if intent, err = a.intend(ctx, intent, e); err != nil {
			return authz.Record{}, 0, err
		}
		stored, err := a.needs.Records.Put(ctx, e.key, after, revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return authz.Record{}, 0, fmt.Errorf("store: %w", err)
		}
		return after, stored, a.await(ctx, stored, e.unnoticed)
	}
}

// unchanged returns the error of an edit's apply, or else waits for the stored record.
func (a *Authority) unchanged(ctx context.Context, revision uint64, e edit, err error) error {
	if err != nil {
		return err
	}
	return a.await(ctx, revision, e.unnoticed)
}

// intend writes the intended change to the ledger. A revocation proceeds without a ledger, too, and
// the missing entry is logged.
func (a *Authority) intend(ctx context.Context, tried *ledger.Intent, e edit) (*ledger.Intent, error) {
	if e.protects {
		return a.needs.Ledger.Note(ctx, tried, e.change), nil
	}
	return a.needs.Ledger.Intend(ctx, tried, e.change)
}

// confirm waits until all replicas enforce the stored record of a key, if there is one.
func (a *Authority) confirm(ctx context.Context, key string) error {
	_, revision, err := a.needs.Records.Get(ctx, key)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return fmt.Errorf("read: %w", err)
	}
	return a.await(ctx, revision, false)
}

// await waits until a revision is enforced: by this replica if here is true, otherwise by all
// replicas. Code Unavailable if ctx is done first.
func (a *Authority) await(ctx context.Context, revision uint64, here bool) error { //nolint:revive // here says which of two waits it is
	for {
		applied, changed := a.needs.Index.Applied()
		if here && applied >= revision || applied >= revision && a.needs.Index.Settled() >= revision {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sluice.Errorf(sluice.Unavailable, "the change is stored, but not all replicas have confirmed it; disconnected replicas stop within seconds. Retry to confirm")
		}
	}
}
