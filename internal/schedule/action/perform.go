package action

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Publisher stores events.
type Publisher interface {
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// Access decides about permissions.
type Access interface {
	Require(c sluice.Caller, v sluice.Verb, t authz.Target, now time.Time) error
	Ready(now time.Time) error
	Grant(id string) (authz.Granted, bool)
	Answers(c sluice.Caller, namespace string, now time.Time) sluice.Principal
	AuthType(c sluice.Caller) string
}

// Catalogue decides which events a namespace accepts.
type Catalogue interface {
	Check(ev *sluice.Event) error
}

// Causes refuses events that caused themselves.
type Causes interface {
	CheckNew(ctx context.Context, namespace, by string, events []sluice.Event) error
}

// Quota limits a namespace's events. now is the time of the check.
type Quota interface {
	Take(namespace string, events, bytes int, now time.Time) error
}

// Log reads a namespace's log.
type Log interface {
	// Window returns how long a namespace's log remembers accepted ids. Code NotFound for the
	// namespace.
	Window(ctx context.Context, namespace string) (time.Duration, error)
	// EventByID returns an event. Code NotFound.
	EventByID(ctx context.Context, namespace, id string) (sluice.Event, error)
}

// Deps are a performer's dependencies.
type Deps struct {
	Log       Log
	Publisher Publisher
	Access    Access
	Catalogue Catalogue
	Causes    Causes
	Quota     Quota
	Now       func() time.Time
}

// Performer publishes the events of instructions. It is safe for concurrent use.
type Performer struct{ needs Deps }

// New returns a performer.
func New(needs Deps) *Performer { return &Performer{needs} }

// Firing is one firing of an instruction.
type Firing struct {
	Creator sluice.Creator
	Event   sluice.Event // with its namespace and an id that is the same in all tries of this firing
	Paid    bool         // the namespace's quota has been charged
	Since   time.Time    // when it was first tried; zero: this is the first time
}

// MaxTime limits performing: within it, an id that the log remembers for longer is not stored
// twice.
const MaxTime = 30 * time.Second

// How replicas share due work.
const (
	Backup   = 2 * time.Second // minimum time that others wait for the responsible replica
	HoldFor  = 3 * time.Second // how long later records wait for one claimed by another replica
	ClaimFor = time.Minute     // after which another replica's claim is taken over; longer than MaxTime
)

// BackupOf returns how long a replica waits that is not responsible: each a different time, and
// constant for a lane, so that the replacements of a missing replica do not compete.
func BackupOf(replica, lane string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(lane + "/" + replica)) // a hash does not fail
	return Backup + time.Duration(h.Sum32()%1000)*time.Millisecond
}

// Again returns the backoff after failed tries.
func Again(tries int) time.Duration {
	return min(time.Second<<min(tries, 10), 30*time.Second)
}

// settling is how long a replica may not know a new grant.
const settling = time.Minute

// Perform publishes the event of a firing and returns its place. If the creator may not publish it
// (any more), the code is Forbidden, in a form that does not reveal the reason; other codes are
// those of publishing. Passing identifies errors that may pass on a retry.
func (p *Performer) Perform(ctx context.Context, f Firing) (sluice.Stored, error) {
	e := f.Event
	if !f.Since.IsZero() {
		if stored, err := p.done(ctx, &f); err != nil || stored.Seq > 0 {
			return stored, err
		}
	}
	if e.Path.Reserved() || sluice.IsSystemType(e.Type) {
		return sluice.Stored{}, forbidden(&e)
	}
	if err := p.May(f.Creator, &e); err != nil {
		return sluice.Stored{}, err
	}
	if !f.Paid {
		if err := p.needs.Quota.Take(e.Namespace, 1, len(e.Data), p.needs.Now()); err != nil {
			return sluice.Stored{}, err
		}
	}
	if err := p.needs.Catalogue.Check(&e); err != nil {
		return sluice.Stored{}, err
	}
	e.Extensions = maps.Clone(e.Extensions)
	e.ProducedBy(f.Creator.CreatedBy, p.authType(f.Creator))
	events := []sluice.Event{e}
	if err := p.needs.Causes.CheckNew(ctx, e.Namespace, p.answers(f.Creator, e.Namespace), events); err != nil {
		return sluice.Stored{}, err
	}
	stored, err := p.needs.Publisher.Publish(ctx, e.Namespace, events)
	if err != nil {
		return sluice.Stored{}, sentError{err}
	}
	return stored[0], nil
}

// sentError is an error of publishing after sending: the event may arrive, or be stored.
type sentError struct{ error }

// Unwrap is for package errors.
func (e sentError) Unwrap() error { return e.error }

// Sent reports whether a failed firing may have stored the event all the same.
func Sent(err error) bool {
	_, ok := errors.AsType[sentError](err)
	return ok
}

// done returns the place at which an earlier try stored the event, if the log might have forgotten
// its id; zero if none has.
func (p *Performer) done(ctx context.Context, f *Firing) (sluice.Stored, error) {
	window, err := p.needs.Log.Window(ctx, f.Event.Namespace)
	if err != nil || p.needs.Now().Add(MaxTime).Sub(f.Since) < window {
		return sluice.Stored{}, err
	}
	return p.Find(ctx, &f.Event)
}

// Find returns the place of a firing's event; zero if it was not stored, or is gone from the log.
func (p *Performer) Find(ctx context.Context, e *sluice.Event) (sluice.Stored, error) {
	is, err := p.needs.Log.EventByID(ctx, e.Namespace, e.ID)
	switch {
	case sluice.CodeOf(err) == sluice.NotFound || err == nil && is.Path != e.Path:
		return sluice.Stored{}, nil
	case err != nil:
		return sluice.Stored{}, err
	}
	return sluice.Stored{ID: is.ID, Seq: is.Seq, Path: is.Path, Duplicate: true}, nil
}

// May returns an error unless the creator may publish the event now: Forbidden, or Unavailable if
// that is unknown.
func (p *Performer) May(c sluice.Creator, e *sluice.Event) error {
	who, now := c.Caller(), p.needs.Now()
	if who.Unbounded() {
		return nil
	}
	err := p.needs.Access.Require(who, sluice.VerbPublish, authz.Target{Namespace: e.Namespace, Path: e.Path}, now)
	switch {
	case err == nil:
		return nil
	case sluice.CodeOf(err) == sluice.Unavailable && !p.forgotten(c, now):
		return err
	}
	return forbidden(e)
}

// forgotten reports whether the creator's grant ended so long ago that it is not remembered.
func (p *Performer) forgotten(c sluice.Creator, now time.Time) bool {
	_, known := p.needs.Access.Grant(c.Grant)
	return !known && p.needs.Access.Ready(now) == nil && now.Sub(c.CreatedAt) > settling
}

func (p *Performer) answers(c sluice.Creator, namespace string) string {
	if who := c.Caller(); !who.Unbounded() {
		return string(p.needs.Access.Answers(who, namespace, p.needs.Now()))
	}
	return string(c.CreatedBy)
}

func (p *Performer) authType(c sluice.Creator) string {
	if who := c.Caller(); !who.Unbounded() {
		return p.needs.Access.AuthType(who)
	}
	return sluice.AuthTypeOf(c.CreatedBy)
}

func forbidden(e *sluice.Event) error {
	return sluice.Errorf(sluice.Forbidden, "the creator may not publish on %s", e.Path)
}

// Passing reports whether an error may pass on a later retry.
func Passing(err error) bool {
	switch sluice.CodeOf(err) { //nolint:exhaustive // all others are about the request
	case sluice.Unavailable, sluice.Internal, sluice.QuotaExceeded:
		return true
	}
	return false
}
