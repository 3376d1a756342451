package appointment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Records stores the appointments.
type Records interface {
	// Put stores an appointment if the stored revision is the appointment's, 0 for a new one, and
	// returns the new revision. Code Conflict otherwise.
	Put(ctx context.Context, a *sluice.Appointment) (uint64, error)
	Get(ctx context.Context, namespace, id string) (sluice.Appointment, error)
	// Delete removes an appointment if the stored revision is the appointment's. Code Conflict
	// otherwise.
	Delete(ctx context.Context, a *sluice.Appointment) error
}

// Lists reads all appointments.
type Lists interface {
	Of(ctx context.Context, namespace string) ([]sluice.Appointment, error)
	// Watch calls f with every stored appointment, then with each change, and with nil for one that
	// is gone, until ctx ends. The key is the namespace and the id, separated by a slash. Once it
	// has reported all stored appointments, it calls f with an empty key.
	Watch(ctx context.Context, f func(key string, a *sluice.Appointment)) error
}

// Deps are the engine's dependencies.
type Deps struct {
	schedule.Deps

	Records Records
	Lists   Lists
}

// Engine runs appointments. It is safe for concurrent use.
type Engine struct {
	needs Deps
	opts  schedule.Options
	due   *schedule.Engine[sluice.Appointment]
}

// New returns an engine. It acts while Run runs.
func New(needs Deps, opts schedule.Options) *Engine {
	e := &Engine{needs: needs, opts: opts.WithDefaults()}
	e.due = schedule.New("appointment", kind{e}, needs.Deps, opts)
	return e
}

// Run runs appointments until ctx is done.
func (e *Engine) Run(ctx context.Context) error { return e.due.Run(ctx, e.needs.Lists.Watch) }

// Waiting returns the number of waiting appointments of each namespace.
func (e *Engine) Waiting() map[string]int { return e.due.Waiting() }

func keyOf(a *sluice.Appointment) string { return a.Namespace + "/" + a.ID }

// Set creates or replaces an appointment. It returns the stored appointment, and whether it is new.
// Setting an equal appointment again changes nothing. Set replaces an appointment only if may
// allows it and, if a has a revision, only if that is the stored one. Codes: those of may and of
// Action.Validate; InvalidRequest; Conflict if the appointment is firing; RevisionMismatch;
// QuotaExceeded.
func (e *Engine) Set(ctx context.Context, a sluice.Appointment, may func(was *sluice.Appointment) error) (sluice.Appointment, bool, error) {
	if err := tidy(&a, e.needs.Now()); err != nil {
		return a, false, err
	}
	for range maxRaces {
		next := a
		was, err := e.settled(ctx, a.Namespace, a.ID)
		created := sluice.CodeOf(err) == sluice.NotFound
		switch {
		case sluice.CodeOf(err) == sluice.Conflict:
			continue
		case created:
			err = replaces(&a, nil, may)
		case err == nil:
			next.At = beginOf(&a, &was, e.needs.Now())
			err = replaces(&next, &was, may)
		}
		if err != nil {
			return a, false, err
		}
		if !created && same(&was, &next) {
			return was, false, nil
		}
		if err := e.fits(&next); err != nil {
			return a, false, err
		}
		is, err := e.putIn(ctx, next, &was)
		if sluice.CodeOf(err) != sluice.Conflict {
			return is, created, err
		}
	}
	return a, false, firing(a.ID)
}

// replaces returns an error unless an appointment may replace the stored one, nil if there is none, and has its revision.
func replaces(a, was *sluice.Appointment, may func(was *sluice.Appointment) error) error {
	switch {
	case was == nil && a.Revision != 0:
		return sluice.Errorf(sluice.RevisionMismatch, "appointment %s not found; omit If-Match to create it", a.ID)
	case was == nil:
		return nil
	}
	if err := may(was); err != nil {
		return err
	}
	switch {
	case a.Revision != 0 && was.Revision != a.Revision:
		return sluice.Errorf(sluice.RevisionMismatch, "appointment %s is at revision %d", a.ID, was.Revision)
	case was.State == sluice.AppointmentFiring && !same(was, a):
		return firing(a.ID)
	}
	return nil
}

// maxRaces limits retries after concurrent changes of an appointment.
const maxRaces = 8

func firing(id string) error {
	return sluice.Errorf(sluice.Conflict, "appointment %q is firing; read it again", id)
}

// putIn is put within the namespace's limit. Code QuotaExceeded if a new appointment would exceed
// it.
func (e *Engine) putIn(ctx context.Context, a sluice.Appointment, was *sluice.Appointment) (sluice.Appointment, error) {
	if was.ID != "" {
		return e.put(ctx, a, was)
	}
	release, err := e.due.Reserve(a.Namespace, "appointments, the limit; delete some")
	if err != nil {
		return a, err
	}
	defer release()
	return e.put(ctx, a, was)
}

// put stores an appointment in place of its predecessor, if any.
func (e *Engine) put(ctx context.Context, a sluice.Appointment, was *sluice.Appointment) (sluice.Appointment, error) {
	a.State, a.Revision, a.Work = sluice.AppointmentWaiting, was.Revision, &sluice.AppointmentWork{Series: rand.Text(), Event: eventID()}
	change := ledger.Change{
		Actor: string(a.CreatedBy), Action: sluice.ActionAppointmentCreate, Namespace: a.Namespace, Resource: a.ID, New: definition(&a),
	}
	if was.ID != "" {
		change.Action, change.Old = sluice.ActionAppointmentUpdate, definition(was)
	}
	intent, err := e.needs.Ledger.Intend(ctx, nil, change)
	if err != nil {
		return a, err
	}
	if a.Revision, err = e.needs.Records.Put(ctx, &a); err != nil {
		intent.Fail(ctx, err)
		return a, err
	}
	e.due.Know(keyOf(&a), &a)
	return a, nil
}

// tidy validates a definition and brings it into canonical form.
func tidy(a *sluice.Appointment, now time.Time) error {
	a.SetDefaults()
	a.At = a.At.UTC()
	if len(a.Action.Data) > 0 {
		data, err := json.Marshal(a.Action.Data)
		if err != nil {
			return sluice.Errorf(sluice.InvalidRequest, "action.data is not JSON").With("field", "action.data")
		}
		a.Action.Data = data
	}
	if err := a.Validate(); err != nil || a.Cron == "" {
		return err
	}
	times, err := timesOf(a.Cron, a.TimeZone)
	if err != nil {
		return err
	}
	at, ok := times.after(now)
	if !ok {
		return sluice.Errorf(sluice.InvalidRequest, "cron %q: matches no time", a.Cron).With("field", "cron")
	}
	a.At = at.UTC()
	return nil
}

// fits returns an error if an appointment is in the past or too far in the future.
func (e *Engine) fits(a *sluice.Appointment) error {
	now := e.needs.Now()
	switch {
	case now.Sub(a.At) > punctual && !a.Repeats():
		return sluice.Errorf(sluice.InvalidRequest, "at %s is in the past", a.At.Format(time.RFC3339)).With("field", "at")
	case e.opts.Ahead > 0 && a.At.After(now.Add(e.opts.Ahead)):
		return sluice.Errorf(sluice.InvalidRequest, "at %s is too far ahead: use at most %s", a.At.Format(time.RFC3339), e.opts.Ahead).With("field", "at")
	}
	return nil
}

// definitionOf is an appointment's definition, without its state.
type definitionOf struct {
	At         time.Time         `json:"at,omitzero"`
	Every      sluice.Duration   `json:"every,omitempty"`
	Cron       string            `json:"cron,omitempty"`
	TimeZone   string            `json:"time_zone,omitempty"`
	Notice     sluice.Duration   `json:"notice"`
	MissPolicy sluice.MissPolicy `json:"miss_policy"`
	Grace      sluice.Duration   `json:"grace"`
	Action     sluice.Action     `json:"action"`
}

func definition(a *sluice.Appointment) definitionOf {
	is := definitionOf{a.At, a.Every, a.Cron, a.TimeZone, a.Notice, a.MissPolicy, a.Grace, a.Action}
	if a.Cron != "" {
		is.At = time.Time{} // derived from Cron
	}
	return is
}

// beginOf returns the first time of an appointment that replaces another. If that is over and the
// appointment repeats, it goes on where its predecessor is with the same times, else at its next
// time, because its definition is often stored again with the time at which it once began.
func beginOf(a, was *sluice.Appointment, now time.Time) time.Time {
	every := a.Every.Std()
	switch {
	case every <= 0 || a.At.After(now.Add(punctual)):
	case was.Every == a.Every && !was.At.Before(a.At) && was.At.Sub(a.At)%every == 0:
		return was.At
	case now.Sub(a.At) > punctual:
		if at, ok := next(a, now); ok {
			return at
		}
	}
	return a.At
}

// same reports whether two appointments have the same definition and creator.
func same(was, a *sluice.Appointment) bool {
	is, like := definition(was), definition(a)
	one, err := json.Marshal(is)
	other, err2 := json.Marshal(like)
	return err == nil && err2 == nil && bytes.Equal(one, other) && was.CreatedBy == a.CreatedBy && was.Grant == a.Grant
}

// Get returns an appointment. Code NotFound.
func (e *Engine) Get(ctx context.Context, namespace, id string) (sluice.Appointment, error) {
	a, err := e.needs.Records.Get(ctx, namespace, id)
	if err == nil && a.State == sluice.AppointmentCancelled {
		err = sluice.Errorf(sluice.NotFound, "appointment %q not found", id)
	}
	return a, err
}

// settled publishes the pending system event of an appointment, removes it if it is cancelled, and
// returns it. Code NotFound.
func (e *Engine) settled(ctx context.Context, namespace, id string) (sluice.Appointment, error) {
	a, err := e.needs.Records.Get(ctx, namespace, id)
	if err == nil && a.Work.Untold != nil {
		err = e.tell(ctx, &a)
	}
	if err == nil && a.State == sluice.AppointmentCancelled {
		err = cmp.Or(e.remove(ctx, &a), error(sluice.Errorf(sluice.NotFound, "appointment %q not found", id)))
		a = sluice.Appointment{}
	}
	return a, err
}

// Of returns a namespace's appointments, the earliest first.
func (e *Engine) Of(ctx context.Context, namespace string) ([]sluice.Appointment, error) {
	all, err := e.needs.Lists.Of(ctx, namespace)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(a sluice.Appointment) bool { return a.State == sluice.AppointmentCancelled })
	slices.SortFunc(all, func(a, b sluice.Appointment) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	return all, nil
}

// Cancel ends an appointment that the caller has read. After success, a waiting one never fires.
// Code Conflict if it is firing, or if another appointment has replaced it.
func (e *Engine) Cancel(ctx context.Context, a sluice.Appointment, by sluice.Principal) error {
	var intent *ledger.Intent
	var err error
	for range maxRaces {
		if err = e.stoppable(ctx, &a); err != nil {
			break
		}
		intent, err = e.needs.Ledger.Intend(ctx, intent, ledger.Change{
			Actor: string(by), Action: sluice.ActionAppointmentDelete, Namespace: a.Namespace, Resource: a.ID, Old: definition(&a),
		})
		if err != nil {
			return err
		}
		if err = e.cancel(ctx, a, by); sluice.CodeOf(err) != sluice.Conflict {
			break
		}
		is, missing := e.needs.Records.Get(ctx, a.Namespace, a.ID)
		if missing != nil || is.Work.Series != a.Work.Series {
			err = cmp.Or(missing, err)
			break
		}
		a = is
	}
	if err != nil {
		intent.Fail(ctx, err)
	}
	return err
}

// stoppable returns an error (Conflict) if an appointment's action is in progress, or if an attempt
// with an unknown outcome may have done it.
func (e *Engine) stoppable(ctx context.Context, a *sluice.Appointment) error {
	if a.State != sluice.AppointmentFiring {
		return nil
	}
	ok, err := e.due.Stoppable(a.Work.Claim, func() (bool, error) {
		event := event(a)
		stored, err := e.needs.Perform.Find(ctx, &event, a.Work.Claim.Since)
		return stored.Seq > 0, err
	})
	if err == nil && !ok {
		err = firing(a.ID)
	}
	return err
}

// cancel makes one attempt to end an appointment.
func (e *Engine) cancel(ctx context.Context, a sluice.Appointment, by sluice.Principal) error {
	if a.Work.Untold != nil {
		if err := e.tell(ctx, &a); err != nil {
			return err
		}
	}
	switch a.State {
	case sluice.AppointmentFired, sluice.AppointmentMissed, sluice.AppointmentCancelled: // it is over
		return e.needs.Records.Delete(ctx, &a)
	case sluice.AppointmentWaiting, sluice.AppointmentFiring:
	}
	a.State = sluice.AppointmentCancelled
	if err := e.keep(ctx, &a, sluice.TypeAppointmentCancelled, cancelledData{about(&a), by}); err != nil {
		return err
	}
	e.due.Ended(a.Namespace, schedule.Cancelled, a.At)
	err := e.tell(ctx, &a)
	if err == nil {
		err = e.remove(ctx, &a)
	}
	if err != nil { // the engine repeats it when the record is due
		e.opts.Log.WarnContext(ctx, "cancelled appointment not removed yet", slog.String("namespace", a.Namespace), slog.String("id", a.ID), slog.Any("error", err))
	}
	return nil
}

func (e *Engine) remove(ctx context.Context, a *sluice.Appointment) error {
	if err := e.needs.Records.Delete(ctx, a); err != nil && sluice.CodeOf(err) != sluice.Conflict { // another replica was faster
		return err
	}
	return nil
}

// keep stores an appointment together with the system event that announces its state.
func (e *Engine) keep(ctx context.Context, a *sluice.Appointment, kind string, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("system event %s: %w", kind, err)
	}
	work := *a.Work
	at := a.At
	if kind == sluice.TypeAppointmentFired || kind == sluice.TypeAppointmentMissed {
		at = a.Last.ScheduledFor // a.At of a repeating appointment has advanced
	}
	work.Untold = &sluice.Untold{ID: fmt.Sprintf("%s-%s-%d", kind, work.Series, at.UnixMilli()), Kind: kind, Data: encoded}
	a.Work = &work
	a.Revision, err = e.needs.Records.Put(ctx, a)
	return err
}

// tell publishes the system event in the record, and removes it from there.
func (e *Engine) tell(ctx context.Context, a *sluice.Appointment) (err error) {
	work := *a.Work
	err = e.needs.Tell.Tell(ctx, a.Namespace, model.SystemEvent{Path: sluice.AppointmentPath(a.ID), ID: work.Untold.ID, Kind: work.Untold.Kind, Data: work.Untold.Data})
	if err != nil && action.Passing(err) {
		return err
	}
	work.Untold = nil
	a.Work = &work
	a.Revision, err = e.needs.Records.Put(ctx, a)
	return err
}

// aboutData is the data of all system events about appointments (S2-38…41).
type aboutData struct {
	Creator sluice.Principal `json:"creator"`
	ID      string           `json:"appointment_id"`
}

func about(a *sluice.Appointment) aboutData { return aboutData{a.CreatedBy, a.ID} }

type approachingData struct {
	aboutData

	ScheduledForMS int64 `json:"scheduled_for_ms"`
	FiresInMS      int64 `json:"fires_in_ms"`
}

type firedData struct {
	aboutData

	ScheduledForMS int64  `json:"scheduled_for_ms"`
	FiredAtMS      int64  `json:"fired_at_ms"`
	Outcome        string `json:"dispatch_outcome"`
	EventID        string `json:"event_id"`
}

type missedData struct {
	aboutData

	ScheduledForMS int64  `json:"scheduled_for_ms"`
	Reason         string `json:"reason"`
}

type cancelledData struct {
	aboutData

	CancelledBy sluice.Principal `json:"cancelled_by"`
}
