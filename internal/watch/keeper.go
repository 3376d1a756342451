package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/outbox"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const maxTries = 10 // after concurrent changes

// Store stores watches, by namespace and id. Revision 0 stands for "nothing is stored".
// Implementations are safe for concurrent use.
type Store interface {
	Graves

	// Get returns a watch's record and its revision. Code NotFound.
	Get(ctx context.Context, namespace, id string) (Stored, uint64, error)
	// Put stores a watch's record and returns its new revision. Code Conflict unless the stored
	// revision is the given one.
	Put(ctx context.Context, namespace, id string, w Stored, revision uint64) (uint64, error)
	// Record returns a watch's progress. Code NotFound.
	Record(ctx context.Context, namespace, id string) (Record, error)
	// Records returns a lookup of the progress of a namespace's watches; it returns the zero Record
	// for a watch without one.
	Records(ctx context.Context, namespace string) (func(id string) Record, error)
	// All returns the records of a namespace's watches, with their revisions.
	All(ctx context.Context, namespace string) ([]Stored, error)
}

// KeeperDeps are a keeper's dependencies. Store, Log and Ledger are required.
type KeeperDeps struct {
	Store  Store
	Log    Log
	Ledger *ledger.Ledger
	Most   int          // maximum number of watches of a namespace; 0: no limit
	Slog   *slog.Logger // default: slog.DiscardHandler
	Trials Options      // the engine's options, for trials
}

// Keeper creates, changes and cancels watches. It writes the ledger entry of a change before it
// makes the change. It is safe for concurrent use.
type Keeper struct {
	needs KeeperDeps
	turns keylock.Turns[string] // by namespace: serialises creation, for the limit
}

// NewKeeper returns a keeper.
func NewKeeper(needs KeeperDeps) *Keeper {
	if needs.Slog == nil {
		needs.Slog = slog.New(slog.DiscardHandler)
	}
	return &Keeper{needs: needs}
}

// Put creates or replaces a watch and returns it, and whether it is new. It leaves an equal watch
// as it is, and then writes no entry in the ledger. Any other watch starts afresh, with events from
// now on. may returns an error if the caller may not change the existing watch. Codes:
// InvalidRequest; TooLarge; Forbidden; NotFound if there is no such namespace; QuotaExceeded;
// Conflict; Unavailable if the ledger cannot be written. may can be called several times; its error
// is returned as it is. Concurrent calls of several processes can exceed the limit of watches.
func (k *Keeper) Put(ctx context.Context, w sluice.Watch, may func(old *sluice.Watch) error) (sluice.Watch, bool, error) {
	if err := w.Validate(); err != nil {
		return w, false, err
	}
	if _, err := filter.CompileLive(w.Filter, nil); err != nil {
		return w, false, err
	}
	done, err := k.turns.Take(ctx, w.Namespace)
	if err != nil {
		return w, false, err
	}
	defer done()
	var intent *ledger.Intent
	for range maxTries {
		stored, created, err := k.try(ctx, &intent, w, may)
		if errors.Is(err, errOvertaken) {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
		}
		return stored, created, err
	}
	err = sluice.Errorf(sluice.Conflict, "watch %q is being changed concurrently; retry", w.ID)
	intent.Fail(ctx, err)
	return w, false, err
}

// errOvertaken says that the watch was stored concurrently.
var errOvertaken = errors.New("concurrent change")

// try makes one attempt to store a watch; intent is the ledger entry of the previous one.
func (k *Keeper) try(ctx context.Context, intent **ledger.Intent, w sluice.Watch, may func(old *sluice.Watch) error) (sluice.Watch, bool, error) {
	old, revision, err := k.place(ctx, &w, may)
	if err != nil {
		return w, false, err
	}
	if revision != 0 && same(old, &w) {
		(*intent).Fail(ctx, sluice.Errorf(sluice.Conflict, "concurrent change with the same result"))
		*intent = nil
		return *old, false, nil
	}
	if _, w.FromSeq, err = k.needs.Log.Ends(ctx, w.Namespace); err != nil {
		return w, false, err
	}
	w.CreatedAt = time.Now().UTC()
	if *intent, err = k.intend(ctx, *intent, w.CreatedBy, old, &w); err != nil {
		return w, false, err
	}
	w.Revision, err = k.needs.Store.Put(ctx, w.Namespace, w.ID, Stored{Watch: w}, revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		return w, false, errOvertaken
	}
	if err != nil {
		return w, false, fmt.Errorf("put watch: %w", err)
	}
	return w, revision == 0, nil
}

// place returns the watch to replace, with its revision. If there is none, the revision is 0, and
// place has checked that there is room for another watch. It first removes the rest of a cancelled
// watch of that id.
func (k *Keeper) place(ctx context.Context, w *sluice.Watch, may func(old *sluice.Watch) error) (*sluice.Watch, uint64, error) {
	old, err := k.stored(ctx, w.Namespace, w.ID)
	switch {
	case err == nil && old.Untold != nil:
		if err := bury(ctx, k.needs.Log, k.needs.Store, &old); err != nil {
			return nil, 0, err
		}
		return &sluice.Watch{}, 0, k.room(ctx, w.Namespace)
	case err == nil:
		return &old.Watch, old.Revision, may(&old.Watch)
	case sluice.CodeOf(err) == sluice.NotFound:
		return &sluice.Watch{}, 0, k.room(ctx, w.Namespace)
	}
	return nil, 0, err
}

// room returns an error if a namespace has reached its limit of watches.
func (k *Keeper) room(ctx context.Context, namespace string) error {
	if k.needs.Most == 0 {
		return nil
	}
	all, err := k.there(ctx, namespace)
	if err == nil && len(all) >= k.needs.Most {
		err = sluice.Errorf(sluice.QuotaExceeded, "%s has %d watches, the limit; delete some", namespace, len(all)).With("limit", k.needs.Most)
	}
	return err
}

// stored returns a watch's record.
func (k *Keeper) stored(ctx context.Context, namespace, id string) (Stored, error) {
	w, revision, err := k.needs.Store.Get(ctx, namespace, id)
	w.Revision = revision
	return w, err
}

// definition returns a watch without its status.
func definition(w *sluice.Watch) *sluice.Watch {
	is := *w
	is.Status = nil
	return &is
}

// same reports whether two watches have the same definition and creator.
func same(a, b *sluice.Watch) bool {
	x, y := *a, *b
	x.Revision, x.FromSeq, x.CreatedAt = 0, 0, time.Time{}
	y.Revision, y.FromSeq, y.CreatedAt = 0, 0, time.Time{}
	one, errOne := json.Marshal(x) // compared as JSON, because the stored one was decoded from it
	other, errOther := json.Marshal(y)
	return errOne == nil && errOther == nil && bytes.Equal(one, other)
}

func (k *Keeper) intend(ctx context.Context, before *ledger.Intent, by sluice.Principal, old, w *sluice.Watch) (*ledger.Intent, error) {
	c := ledger.Change{Actor: string(by), Namespace: w.Namespace, Resource: w.ID, Action: sluice.ActionWatchPut, New: w}
	if old.Revision != 0 {
		c.Old = old
	}
	return k.needs.Ledger.Intend(ctx, before, c)
}

// Get returns a watch. Code NotFound. The status is that of the last stored record, which can be
// Options.Every old, or older while an action is retried.
func (k *Keeper) Get(ctx context.Context, namespace, id string) (sluice.Watch, error) {
	w, err := k.stored(ctx, namespace, id)
	if err == nil && w.Untold != nil {
		return sluice.Watch{}, sluice.Errorf(sluice.NotFound, "watch %q not found", id)
	}
	if err != nil {
		return w.Watch, err
	}
	record, err := k.needs.Store.Record(ctx, namespace, id)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return w.Watch, err
	}
	w.Status = record.status(&w.Watch, time.Now())
	return w.Watch, nil
}

// List returns the watches of a namespace, in no particular order. Their status is as old as with
// Get.
func (k *Keeper) List(ctx context.Context, namespace string) ([]sluice.Watch, error) {
	there, err := k.there(ctx, namespace)
	if err != nil {
		return nil, err
	}
	records, err := k.needs.Store.Records(ctx, namespace)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for i := range there {
		record := records(there[i].ID)
		there[i].Status = record.status(&there[i], now)
	}
	return there, nil
}

// there returns the watches of a namespace, without their status.
func (k *Keeper) there(ctx context.Context, namespace string) ([]sluice.Watch, error) {
	all, err := k.needs.Store.All(ctx, namespace)
	var there []sluice.Watch
	for i := range all {
		if all[i].Untold == nil {
			there = append(there, all[i].Watch)
		}
	}
	return there, err
}

// Delete cancels a watch that the caller has read, and announces that (S2-45). Firings that were
// decided before may still be executed. Code Conflict if the watch was changed meanwhile. If Delete
// returns nil, the watch is cancelled; if its announcement has failed, the engine makes it later.
func (k *Keeper) Delete(ctx context.Context, w sluice.Watch, by string) error {
	intent, err := k.needs.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: by, Namespace: w.Namespace, Resource: w.ID, Action: sluice.ActionWatchDelete, Old: definition(&w),
	})
	if err != nil {
		return err
	}
	_, err = outbox.WriteThenPublish(ctx, func(ctx context.Context) (Stored, error) { return k.cancel(ctx, &w, by) }, k.cancelled)
	if err != nil {
		intent.Fail(ctx, err)
		return fmt.Errorf("delete watch: %w", err)
	}
	return nil
}

// cancel replaces a watch's record by the pending announcement.
func (k *Keeper) cancel(ctx context.Context, w *sluice.Watch, by string) (Stored, error) {
	after := w.FromSeq // where the search for the announcement starts if the end is unknown
	if _, last, err := k.needs.Log.Ends(ctx, w.Namespace); err == nil {
		after = last
	}
	gone := Stored{Watch: *definition(w), Untold: &Cancelled{
		ID: fmt.Sprintf("cancelled-watch-%s-%d", w.ID, w.Revision), By: by, At: time.Now().UTC(), After: after,
	}}
	var err error
	gone.Revision, err = k.needs.Store.Put(ctx, w.Namespace, w.ID, gone, w.Revision)
	return gone, err
}

// cancelled announces a cancelled watch and removes its record. If it fails, the engine that would
// run the watch does it.
func (k *Keeper) cancelled(ctx context.Context, w Stored) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), tellLimit)
	defer cancel()
	if err := bury(ctx, k.needs.Log, k.needs.Store, &w); err != nil {
		k.needs.Slog.LogAttrs(ctx, slog.LevelWarn, "cancelled watch has unpublished system events or records left",
			slog.String("namespace", w.Namespace), slog.String("watch", w.ID), slog.Any("error", err))
	}
}
