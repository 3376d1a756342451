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
	// Window returns the dedup window of a namespace's log: how long it recognizes a repeated id.
	// Code NotFound if there is no such namespace.
	Window(ctx context.Context, namespace string) (time.Duration, error)
	// StoredSince returns the sequence of an event with the path and ID of e that was published at
	// a time or later; 0 if there is none.
	StoredSince(ctx context.Context, e *sluice.Event, since time.Time) (seq uint64, err error)
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
	Event   sluice.Event // with its namespace, and with an id that is the same in all attempts of this firing
	Paid    bool         // the namespace's quota has been charged
	Since   time.Time    // the first attempt that may have stored the event; zero: there was none
}

// MaxTime is the timeout of one attempt. An attempt that begins this long before the dedup window
// of its id ends cannot store the event twice.
const MaxTime = 30 * time.Second

// How replicas share due work.
const (
	Backup   = 2 * time.Second // how long other replicas wait at least for the responsible one
	HoldFor  = 3 * time.Second // how long later records wait for one claimed by another replica
	ClaimFor = time.Minute     // age at which another replica takes over a claim; longer than MaxTime
)

// BackupOf returns how long a replica that is not responsible waits. Replicas wait for different
// times, which are constant for a lane, so that they do not compete to replace a missing one.
func BackupOf(replica, lane string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(lane + "/" + replica)) // Write of a hash returns no error
	return Backup + time.Duration(h.Sum32()%1000)*time.Millisecond
}

// Again returns the backoff after a number of failed attempts.
func Again(tries int) time.Duration {
	return min(time.Second<<min(tries, 10), 30*time.Second)
}

// settling is how long it can take until a replica knows a new grant.
const settling = time.Minute

// Perform publishes the event of a firing and returns its place. If the creator may not publish it
// (any more), the code is Forbidden, and the message does not reveal the reason, because principals
// other than the creator read the outcome. Other codes and messages are those of publishing.
// Passing identifies errors after which a retry may succeed.
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

// sentError is an error after the event was sent: the log may have stored it, or may still do so.
type sentError struct{ error }

// Unwrap returns the cause, for package errors.
func (e sentError) Unwrap() error { return e.error }

// unsentError is an error of a publisher that did not send the event.
type unsentError struct{ error }

// Unwrap returns the cause, for package errors.
func (e unsentError) Unwrap() error { return e.error }

// Sent reports whether a firing that failed with err may nevertheless have stored the event.
func Sent(err error) bool {
	_, sent := errors.AsType[sentError](err)
	_, unsent := errors.AsType[unsentError](err)
	return sent && !unsent
}

// done returns where an earlier attempt stored the event. It returns zero if none did, or if the
// log still recognizes the id, so that publishing again is safe.
func (p *Performer) done(ctx context.Context, f *Firing) (sluice.Stored, error) {
	window, err := p.needs.Log.Window(ctx, f.Event.Namespace)
	if err != nil || p.needs.Now().Add(MaxTime).Sub(f.Since) < window {
		return sluice.Stored{}, err
	}
	return p.Find(ctx, &f.Event, f.Since)
}

// Find returns where a firing's event was stored at a time or later; zero if it was not stored, or
// is gone from the log.
func (p *Performer) Find(ctx context.Context, e *sluice.Event, since time.Time) (sluice.Stored, error) {
	seq, err := p.needs.Log.StoredSince(ctx, e, since)
	if seq == 0 || err != nil {
		if sluice.CodeOf(err) == sluice.NotFound { // the log itself is gone
			err = nil
		}
		return sluice.Stored{}, err
	}
	return sluice.Stored{ID: e.ID, Seq: seq, Path: e.Path, Duplicate: true}, nil
}

// concealed replaces a refusal by one that does not reveal which right the creator lacks. The
// original is wrapped, for the server's log.
func (p *Performer) concealed(c sluice.Creator, e *sluice.Event, err error) error {
	_, denied := errors.AsType[ingest.Denied](err)
	if !denied || sluice.CodeOf(err) == sluice.Unavailable && !p.forgotten(c, p.needs.Now()) {
		return err
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Forbidden, "the creator may not publish on %s", e.Path), err)
}

// forgotten reports whether the creator's grant ended so long ago that its record is gone.
func (p *Performer) forgotten(c sluice.Creator, now time.Time) bool {
	_, known := p.needs.Access.Grant(c.Grant)
	return !known && p.needs.Access.Ready(now) == nil && now.Sub(c.CreatedAt) > settling
}

// Passing reports whether a later retry may succeed.
func Passing(err error) bool {
	switch sluice.CodeOf(err) { //nolint:exhaustive // all others are about the request
	case sluice.Unavailable, sluice.Internal, sluice.QuotaExceeded:
		return true
	}
	return false
}
