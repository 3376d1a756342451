package action

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Access decides about permissions.
type Access interface {
	Ready(now time.Time) error
	Grant(id string) (authz.Granted, bool)
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
	Log    Log
	Ingest *ingest.Ingest
	Access Access
	Now    func() time.Time
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
// (any more), the code is Forbidden, in a form that does not reveal the reason: others than the
// creator read the outcome. Other codes and words are those of publishing. Passing identifies errors
// that may pass on a retry.
func (p *Performer) Perform(ctx context.Context, f Firing) (sluice.Stored, error) {
	e := f.Event
	if !f.Since.IsZero() {
		if stored, err := p.done(ctx, &f); err != nil || stored.Seq > 0 {
			return stored, err
		}
	}
	e.Extensions = maps.Clone(e.Extensions)
	events := []sluice.Event{e}
	by := ingest.Request{Caller: f.Creator.Caller(), Namespace: e.Namespace, Bytes: len(e.Data), Paid: f.Paid}
	if err := p.needs.Ingest.Admit(ctx, by, events); err != nil {
		return sluice.Stored{}, p.concealed(f.Creator, &e, err)
	}
	stored, err := p.needs.Ingest.Store(ctx, e.Namespace, events)
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

// concealed returns a refusal in the form that does not reveal which right the creator lacks, except
// in the server's log.
func (p *Performer) concealed(c sluice.Creator, e *sluice.Event, err error) error {
	_, denied := errors.AsType[ingest.Denied](err)
	if !denied || sluice.CodeOf(err) == sluice.Unavailable && !p.forgotten(c, p.needs.Now()) {
		return err
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Forbidden, "the creator may not publish on %s", e.Path), err)
}

// forgotten reports whether the creator's grant ended so long ago that it is not remembered.
func (p *Performer) forgotten(c sluice.Creator, now time.Time) bool {
	_, known := p.needs.Access.Grant(c.Grant)
	return !known && p.needs.Access.Ready(now) == nil && now.Sub(c.CreatedAt) > settling
}

// Passing reports whether an error may pass on a later retry.
func Passing(err error) bool {
	switch sluice.CodeOf(err) { //nolint:exhaustive // all others are about the request
	case sluice.Unavailable, sluice.Internal, sluice.QuotaExceeded:
		return true
	}
	return false
}
