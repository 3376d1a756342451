// Package ingest checks and stores events. It is the only way into the log for all publishers
// within the server: requests, streams, schedules and watches.
//
// Every event passes the same checks in the same order: the reserved names, the caller's right, the
// namespace's quota, its catalogue, the right to revise, the stamp of the producer, the loop guard.
// A refusal has the same code and message for every publisher. Then the events are stored, with the
// same side effects for every publisher.
//
//	allowed ──► quota ──► catalogue ──► revisions ──► producer ──► loop guard ──► Store
//	reserved    429 or    schema,       403 without   stamped      409, with      all events,
//	names and   too       known         the right     from the     the chain      or none
//	rights      large     types         to revise     caller       for readers
//
// Everything but Store is Admit. Rights come first, so that a caller without them learns nothing
// about quotas and types, and charges nothing. Revisions and the loop guard come last, as they may
// read the log.
package ingest

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Access decides about permissions.
type Access interface {
	Require(c sluice.Caller, v sluice.Verb, t authz.Target, now time.Time) error
	Answers(c sluice.Caller, namespace string, now time.Time) sluice.Principal
	AuthType(c sluice.Caller) string
	Shows(c sluice.Caller, v sluice.Verb, ev *sluice.Event, now time.Time) model.Decision
}

// Quota limits the events of namespaces.
type Quota interface {
	// Take charges a number of events and bytes, all or nothing. Codes QuotaExceeded, with
	// retry_after in whole seconds; TooLarge for a number that can never be taken.
	Take(namespace string, events, bytes int, now time.Time) error
}

// Catalogue decides which events a namespace accepts.
type Catalogue interface {
	Check(ev *sluice.Event) error
}

// Causes detects causation loops.
type Causes interface {
	// CheckNew returns an error with the code EventLoopDetected if one of the events must not be
	// published. Any other error means that it cannot decide. By is the publisher.
	CheckNew(ctx context.Context, namespace, by string, events []sluice.Event) error
}

// Deps are the dependencies of an ingest. A nil check refuses nothing, except for Access, without
// which only root may publish.
type Deps struct {
	Access    Access
	Quota     Quota
	Catalogue Catalogue
	Causes    Causes
	Originals Originals
	Publisher Publisher
	Now       func() time.Time // default time.Now
}

// Ingest admits events and stores them. It is safe for concurrent use.
type Ingest struct{ needs Deps }

// New returns an ingest.
func New(needs Deps) *Ingest {
	if needs.Now == nil {
		needs.Now = time.Now
	}
	return &Ingest{needs}
}

// Request is a caller's wish to publish events in a namespace.
type Request struct {
	Caller    sluice.Caller
	Namespace string
	Bytes     int  // charged to the quota
	Paid      bool // the quota is already charged

	For *model.Handling // set if a module's program publishes with the caller's rights
}

// Denied is a refusal because the caller lacks a right, or because that is not known yet. It has
// the code and message of the access decision.
type Denied struct{ error }

// Unwrap returns the access decision.
func (d Denied) Unwrap() error { return d.error }

// Admit returns an error unless the events of a request may be stored, and sets their namespace and
// their producer (S4-80). Codes Forbidden for reserved names, for events that a module does not
// declare, and for revisions of events that the caller may not revise; those of the access decision,
// as Denied; QuotaExceeded and TooLarge; those of the catalogue; EventLoopDetected, with the chain
// only for a caller that may read the namespace, because a publisher must not learn the paths of
// other events.
func (in *Ingest) Admit(ctx context.Context, r Request, events []sluice.Event) error {
	if err := in.allowed(r, events); err != nil {
		return err
	}
	if in.needs.Quota != nil && !r.Paid {
		if err := in.needs.Quota.Take(r.Namespace, len(events), r.Bytes, in.needs.Now()); err != nil {
			return err
		}
	}
	if err := in.catalogued(r, events); err != nil {
		return err
	}
	if err := in.revisable(ctx, r, events); err != nil {
		return err
	}
	authType := in.authType(r.Caller)
	for i := range events {
		if r.For == nil {
			events[i].ProducedBy(r.Caller.Principal, authType)
			continue
		}
		r.For.Stamp(&events[i])
		events[i].ProducedBy(r.For.Producer(), r.For.AuthType(authType))
	}
	if in.needs.Causes == nil {
		return nil
	}
	return in.unchained(r, in.needs.Causes.CheckNew(ctx, r.Namespace, in.answers(r), events))
}

// May returns an error unless rights and the catalogue permit the caller to publish the events now.
// It charges nothing, looks up no causes and no originals of revisions, and changes only the
// namespace of the events. Codes: those of Admit.
func (in *Ingest) May(r Request, events []sluice.Event) error {
	if err := in.allowed(r, events); err != nil {
		return err
	}
	return in.catalogued(r, events)
}

// Store stores admitted events of one namespace, in order and atomically.
func (in *Ingest) Store(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	return in.needs.Publisher.Publish(ctx, namespace, events)
}

// allowed returns an error unless the caller may publish every event.
func (in *Ingest) allowed(r Request, events []sluice.Event) error {
	for i := range events {
		if err := events[i].CheckReserved(); err != nil {
			return err
		}
		if err := model.CheckChosenID(r.Namespace, events[i].ID); err != nil {
			return model.InBatch(i, len(events), err)
		}
		if r.For != nil {
			if err := r.For.Admits(&events[i]); err != nil {
				return err
			}
		}
		if err := in.require(r, sluice.VerbPublish, events[i].Path); err != nil {
			return Denied{err}
		}
	}
	return nil
}

// require returns an error unless the caller has a verb for a path, "" for the whole namespace.
func (in *Ingest) require(r Request, v sluice.Verb, path sluice.Path) error {
	switch {
	case r.Caller.Unbounded():
		return nil
	case in.needs.Access == nil:
		return model.PermissionsUnknown()
	}
	return in.needs.Access.Require(r.Caller, v, authz.Target{Namespace: r.Namespace, Path: path}, in.needs.Now())
}

// catalogued returns an error about the first event that its namespace's catalogue does not allow.
func (in *Ingest) catalogued(r Request, events []sluice.Event) error {
	for i := range events {
		events[i].Namespace = r.Namespace
		if in.needs.Catalogue == nil {
			continue
		}
		if err := in.needs.Catalogue.Check(&events[i]); err != nil {
			return model.InBatch(i, len(events), err)
		}
	}
	return nil
}

// answers returns the principal that is accountable for the events, and is marked unsafe if one of
// them is part of a loop.
func (in *Ingest) answers(r Request) string {
	if r.For != nil {
		return string(r.For.Producer())
	}
	if in.needs.Access == nil || r.Caller.Unbounded() {
		return string(r.Caller.Principal)
	}
	return string(in.needs.Access.Answers(r.Caller, r.Namespace, in.needs.Now()))
}

func (in *Ingest) authType(c sluice.Caller) string {
	if in.needs.Access == nil {
		return sluice.AuthTypeOf(c.Principal)
	}
	return in.needs.Access.AuthType(c)
}

// unchained removes the causation chain from a refusal unless the caller may read the namespace.
func (in *Ingest) unchained(r Request, err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Details["chain"] == nil || in.require(r, sluice.VerbRead, "") == nil {
		return err
	}
	bare := *e
	bare.Details = maps.Clone(e.Details)
	delete(bare.Details, "chain")
	return &bare
}
