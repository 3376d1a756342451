package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const maxTries = 10 // after concurrent changes

// Records stores the event types by key. Revision 0 stands for "nothing is stored".
type Records interface {
	// Get returns the record and its revision. Code NotFound if there is none.
	Get(ctx context.Context, key string) (sluice.EventType, uint64, error)
	// Put stores the record and returns its new revision. Code Conflict unless the stored
	// revision is the given one.
	Put(ctx context.Context, key string, t sluice.EventType, revision uint64) (uint64, error)
	// Delete removes the record. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, key string, revision uint64) error
}

// Logs finds existing namespaces.
type Logs interface {
	// LastSeq returns the last sequence of a namespace's log. Code NotFound if there is no such namespace.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
}

// Keeper changes the catalogues. It writes each change to the ledger before it makes it, and
// applies it to this process's index at once. It is safe for concurrent use.
type Keeper struct {
	index   *Index
	records Records
	logs    Logs
	ledger  *ledger.Ledger
}

// NewKeeper returns a keeper.
func NewKeeper(index *Index, records Records, logs Logs, accounts *ledger.Ledger) *Keeper {
	return &Keeper{index: index, records: records, logs: logs, ledger: accounts}
}

// Put creates or changes an event type and returns it, and whether it is new. With a revision it is
// changed only if that is the stored one. Codes InvalidRequest; TooLarge; Forbidden for a type of
// the server's own; NotFound for the namespace; RevisionMismatch; QuotaExceeded if the namespace
// has reached its limit; Conflict after maxTries concurrent changes; Unavailable. An equal type
// changes nothing and is not in the ledger. A limit that several replicas reach at the same moment
// may be exceeded by a few, because the count is that of this process.
func (k *Keeper) Put(ctx context.Context, t sluice.EventType, by string) (sluice.EventType, bool, error) {
	if err := k.check(ctx, &t); err != nil {
		return t, false, err
	}
	var intent *ledger.Intent
	for range maxTries {
		old, revision, err := k.get(ctx, t.Namespace, t.Type)
		if err == nil {
			err = k.mayPut(&t, revision)
		}
		if err != nil {
			intent.Fail(ctx, err)
			return t, false, err
		}
		if revision != 0 && same(&old, &t) {
			intent.Fail(ctx, sluice.Errorf(sluice.Conflict, "concurrent change with the same result"))
			return old, false, nil
		}
		stored := next(t, old, revision)
		if intent, err = k.intend(ctx, intent, by, &old, &stored); err != nil {
			return t, false, err
		}
		stored.Revision, err = k.records.Put(ctx, streams.EventTypeKey(t.Namespace, t.Type), stored, revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return t, false, fmt.Errorf("put event type: %w", err)
		}
		k.index.SetType(stored)
		return stored, revision == 0, nil
	}
	return t, false, k.busy(ctx, intent, t.Type)
}

// check validates an event type and makes it canonical.
func (k *Keeper) check(ctx context.Context, t *sluice.EventType) error {
	if bytes.Equal(bytes.TrimSpace(t.Schema), []byte("null")) {
		t.Schema = nil
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if err := CheckSchema(t); err != nil {
		return err
	}
	if len(t.Schema) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, t.Schema); err != nil {
			return badSchema(errNotJSON)
		}
		t.Schema = compact.Bytes()
	}
	_, err := k.logs.LastSeq(ctx, t.Namespace)
	return err
}

// mayPut returns an error unless the type may replace the record with the revision.
func (k *Keeper) mayPut(t *sluice.EventType, revision uint64) error {
	switch {
	case t.Revision != 0 && t.Revision != revision:
		return mismatch(t.Type, revision)
	case revision == 0 && k.index.Count(t.Namespace) >= sluice.MaxEventTypes:
		return sluice.Errorf(sluice.QuotaExceeded, "the catalogue of %s has %d types, the limit; delete some", t.Namespace, sluice.MaxEventTypes).With("limit", sluice.MaxEventTypes)
	}
	return nil
}

func mismatch(name string, revision uint64) error {
	return sluice.Errorf(sluice.RevisionMismatch, "type %q is at revision %d (0: it does not exist); read it again", name, revision).With("revision", revision)
}

// next returns the new record of a type that replaces old.
func next(t, old sluice.EventType, revision uint64) sluice.EventType {
	now := time.Now().UTC()
	t.Revision, t.CreatedAt, t.UpdatedAt = 0, now, now
	if revision != 0 {
		t.CreatedAt = old.CreatedAt
	}
	return t
}

func same(a, b *sluice.EventType) bool {
	return a.Description == b.Description && bytes.Equal(a.Schema, b.Schema) &&
		slices.Equal(a.SummaryFields, b.SummaryFields) && maps.Equal(a.StaticLabels, b.StaticLabels)
}

// intend writes the intended change to the ledger. Old has no name for a new type; after is nil for
// a deletion.
func (k *Keeper) intend(ctx context.Context, tried *ledger.Intent, by string, old, after *sluice.EventType) (*ledger.Intent, error) {
	c := ledger.Change{Actor: by, Action: sluice.ActionEventTypeUpdate}
	switch {
	case after == nil:
		c.Action, c.Namespace, c.Resource, c.Old = sluice.ActionEventTypeDelete, old.Namespace, old.Type, old
		return k.ledger.Intend(ctx, tried, c)
	case old.Type == "":
		c.Action = sluice.ActionEventTypeCreate
	default:
		c.Old = old
	}
	c.Namespace, c.Resource, c.New = after.Namespace, after.Type, after
	return k.ledger.Intend(ctx, tried, c)
}

func (k *Keeper) busy(ctx context.Context, intent *ledger.Intent, name string) error {
	err := sluice.Errorf(sluice.Conflict, "type %q is being changed concurrently; retry", name)
	intent.Fail(ctx, err)
	return err
}

// get returns an event type and its revision, 0 if there is none.
func (k *Keeper) get(ctx context.Context, namespace, eventType string) (sluice.EventType, uint64, error) {
	t, revision, err := k.records.Get(ctx, streams.EventTypeKey(namespace, eventType))
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.EventType{}, 0, nil
	}
	if err != nil {
		return t, 0, fmt.Errorf("get event type: %w", err)
	}
	t.Revision = revision
	return t, revision, nil
}

// Get returns an event type. Code NotFound if there is none.
func (k *Keeper) Get(ctx context.Context, namespace, eventType string) (sluice.EventType, error) {
	if err := sluice.CheckNamespaceName(namespace); err != nil {
		return sluice.EventType{}, missing(namespace, eventType)
	}
	t, revision, err := k.get(ctx, namespace, eventType)
	if err == nil && revision == 0 {
		err = missing(namespace, eventType)
	}
	return t, err
}

// List returns the event types of a namespace that this process knows, ordered by name. Changes by
// other replicas appear with a short delay. Code NotFound for the namespace. Without an error the
// result is not nil.
func (k *Keeper) List(ctx context.Context, namespace string) ([]sluice.EventType, error) {
	if _, err := k.logs.LastSeq(ctx, namespace); err != nil {
		return nil, err
	}
	return k.index.Types(namespace), nil
}

// Delete removes an event type. With a revision it is removed only if that is the stored one. Codes
// NotFound; RevisionMismatch; Conflict after maxTries concurrent changes; Unavailable. Events of
// the type stay, and so do subscriptions that name it (Orphans).
func (k *Keeper) Delete(ctx context.Context, namespace, eventType string, revision uint64, by string) error {
	var intent *ledger.Intent
	for range maxTries {
		old, err := k.Get(ctx, namespace, eventType)
		if err == nil && revision != 0 && revision != old.Revision {
			err = mismatch(eventType, old.Revision)
		}
		if err != nil {
			intent.Fail(ctx, err)
			return err
		}
		if intent, err = k.intend(ctx, intent, by, &old, nil); err != nil {
			return err
		}
		err = k.records.Delete(ctx, streams.EventTypeKey(namespace, eventType), old.Revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return fmt.Errorf("delete event type: %w", err)
		}
		k.index.RemoveType(namespace, eventType, old.Revision)
		return nil
	}
	return k.busy(ctx, intent, eventType)
}

func missing(namespace, eventType string) error {
	return sluice.Errorf(sluice.NotFound, "type %q not found in the catalogue of %s", cut(eventType, maxTypes), namespace)
}
