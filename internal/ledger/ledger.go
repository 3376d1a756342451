package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// failLimit limits writing the entry of a failed change: its caller waits for it.
const failLimit = 5 * time.Second

// Store stores the entries.
type Store interface {
	// Append returns once the entry is stored.
	Append(ctx context.Context, e *sluice.LedgerEntry) error
}

// Change is an intended change.
type Change struct {
	Actor     string
	Action    string
	Namespace string // of the resource; "": none
	Resource  string
	Old       any // public representation of the resource; nil if it is created
	New       any // nil if it is deleted
}

// Ledger records changes. It is safe for concurrent use.
type Ledger struct {
	store Store
	log   *slog.Logger
}

// New returns a ledger. It logs entries that it must write but cannot.
func New(store Store, log *slog.Logger) *Ledger { return &Ledger{store, log} }

// Intent is the entry of a change that is not made yet. The methods of a nil Intent do nothing.
type Intent struct {
	ledger *Ledger
	entry  sluice.LedgerEntry
}

// Intend records an intended change. In a retry, before is the intent of the previous try: Intend
// returns it if the change is the same, and otherwise marks it as failed with Conflict. Code
// Unavailable if the ledger cannot be written; then the change must not be made.
func (l *Ledger) Intend(ctx context.Context, before *Intent, c Change) (*Intent, error) {
	e, err := entryOf(c)
	if err != nil {
		return before, err
	}
	if before != nil {
		if before.says(&e) {
			return before, nil
		}
		before.Fail(ctx, sluice.Errorf(sluice.Conflict, "concurrent change"))
	}
	e.RequestID = model.RequestID(ctx)
	if by := model.CallerFrom(ctx); string(by.Principal) == c.Actor {
		e.Grant = by.Grant
	}
	if err := l.append(ctx, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", unwritten(err), err)
	}
	return &Intent{l, e}, nil
}

// unwritten returns the caller's error for an entry that could not be written: code Unavailable,
// with the remedy for a full store.
func unwritten(err error) *sluice.Error {
	var why *sluice.Error
	if !errors.As(err, &why) || why.Details["reason"] != sluice.ReasonStorage {
		return sluice.Errorf(sluice.Unavailable, "the ledger is not writable, so nothing was changed; the operator must check the stream LEDGER")
	}
	told := sluice.Errorf(sluice.Unavailable, "the ledger is not writable, so nothing was changed: %s", why.Message)
	told.Details = why.Details
	return told
}

// Note is Intend for a change that the server makes by itself and must make: if the ledger cannot
// be written, the missing entry is logged.
func (l *Ledger) Note(ctx context.Context, before *Intent, c Change) *Intent {
	intent, err := l.Intend(ctx, before, c)
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelError, "could not record change in ledger", slog.String("action", c.Action),
			slog.String("namespace", c.Namespace), slog.String("resource", c.Resource), slog.Any("error", err))
	}
	return intent
}

// Fail records that the change was not made. If that fails, it logs the error.
func (i *Intent) Fail(ctx context.Context, cause error) {
	if i == nil {
		return
	}
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), failLimit)
	defer cancel()
	e := i.entry
	e.Outcome, e.Error, e.Intent = sluice.ChangeFailed, sluice.CodeOf(cause), i.entry.ID
	if err := i.ledger.append(ctx, &e); err != nil {
		i.ledger.log.LogAttrs(ctx, slog.LevelError, "could not record failed change in ledger", slog.String("entry", i.entry.ID),
			slog.String("action", e.Action), slog.String("resource", e.Resource), slog.String("code", string(e.Error)), slog.Any("error", err))
	}
}

// says reports whether the intent is for the same change.
func (i *Intent) says(e *sluice.LedgerEntry) bool {
	return i.entry.Action == e.Action && string(i.entry.Old) == string(e.Old) && string(i.entry.New) == string(e.New)
}

func (l *Ledger) append(ctx context.Context, e *sluice.LedgerEntry) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate an ID: %w", err)
	}
	e.ID, e.At = id.String(), time.Now().UTC()
	return l.store.Append(ctx, e)
}

func entryOf(c Change) (sluice.LedgerEntry, error) {
	e := sluice.LedgerEntry{Actor: c.Actor, Action: c.Action, Namespace: c.Namespace, Resource: c.Resource, Outcome: sluice.ChangeDone}
	var err error
	e.Old, e.New, err = Fields(c.Old, c.New)
	return e, err
}

// Fields returns the fields in which two representations of a resource differ, without secrets; for
// a created or deleted resource, all fields and nil.
func Fields(before, after any) (old, now json.RawMessage, err error) {
	was, err := object(before)
	if err != nil {
		return nil, nil, err
	}
	is, err := object(after)
	if err != nil {
		return nil, nil, err
	}
	if was != nil && is != nil {
		was, is = difference(was, is)
	}
	if old, err = masked(was); err != nil {
		return nil, nil, err
	}
	now, err = masked(is)
	return old, now, err
}
