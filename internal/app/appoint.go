package app

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/schedule/appointment"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openAppointments constructs the appointment engine.
func (s *server) openAppointments(context.Context) error {
	records := appointments{natsstore.OpenInstructions[appointmentRecord](s.store, sluice.KindAppointment)}
	s.appoint = appointment.New(appointment.Needs{
		Records: records, Lists: records, Perform: s.perform, Tell: teller{s.store}, Owner: s.owns.part(), Ledger: s.ledger, Replica: s.replica, Now: time.Now,
	}, appointment.Options{Most: s.cfg.Limits.AppointmentsPerNamespace, Ahead: s.cfg.Limits.ScheduleAhead.Std(), Log: s.opts.Log, Observe: s.metrics})
	s.metrics.WatchDue(s.waiting)
	return nil
}

// appointing serializes the creation of a namespace's appointments, so that the limit holds: an
// appointment is counted once it is stored.
type appointing struct {
	*appointment.Engine

	turns *keylock.Turns[string]
}

// Set creates an appointment.
func (a appointing) Set(ctx context.Context, is sluice.Appointment, may func(was *sluice.Appointment) error) (sluice.Appointment, bool, error) {
	done, err := a.turns.Take(ctx, is.Namespace)
	if err != nil {
		return is, false, err
	}
	defer done()
	return a.Engine.Set(ctx, is, may)
}

// waiting returns the numbers of waiting appointments and scheduled events.
func (s *server) waiting() (all []metrics.Waiting) {
	for what, of := range map[string]map[string]int{"event": s.later.Waiting(), "appointment": s.appoint.Waiting()} {
		for namespace, n := range of {
			all = append(all, metrics.Waiting{What: what, Namespace: namespace, Count: n})
		}
	}
	return all
}

// appointments stores the records of appointments.
type appointments struct {
	of natsstore.Instructions[appointmentRecord]
}

// appointmentRecord is the stored form of an appointment.
type appointmentRecord struct {
	sluice.Appointment

	Work *sluice.AppointmentWork `json:"work"`
}

func (r *appointmentRecord) appointment(revision uint64) sluice.Appointment {
	a := r.Appointment
	a.Revision, a.Work = revision, r.Work
	return a
}

// Put stores an appointment over its revision.
func (r appointments) Put(ctx context.Context, a *sluice.Appointment) (uint64, error) {
	return r.of.Put(ctx, a.Namespace, a.ID, appointmentRecord{*a, a.Work}, a.Revision)
}

// Get returns an appointment.
func (r appointments) Get(ctx context.Context, namespace, id string) (sluice.Appointment, error) {
	record, revision, err := r.of.Get(ctx, namespace, id)
	return record.appointment(revision), err
}

// Delete removes an appointment at its revision.
func (r appointments) Delete(ctx context.Context, a *sluice.Appointment) error {
	return r.of.Delete(ctx, a.Namespace, a.ID, a.Revision)
}

// Of returns the appointments of a namespace.
func (r appointments) Of(ctx context.Context, namespace string) ([]sluice.Appointment, error) {
	all, err := r.of.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	list := make([]sluice.Appointment, len(all))
	for i := range all {
		list[i] = all[i].Value.appointment(all[i].Revision)
	}
	return list, nil
}

// Watch calls f for every appointment, and with an empty key once after all stored ones.
func (r appointments) Watch(ctx context.Context, f func(key string, a *sluice.Appointment)) error {
	return r.of.Watch(ctx, func(one natsstore.Instruction[appointmentRecord]) {
		switch one.Change {
		case natsstore.Set:
			a := one.Value.appointment(one.Revision)
			f(one.Namespace+"/"+one.ID, &a)
		case natsstore.Removed:
			f(one.Namespace+"/"+one.ID, nil)
		case natsstore.CaughtUp:
			f("", nil)
		}
	})
}
