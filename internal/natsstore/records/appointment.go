package records

import (
	"context"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Appointments stores the records of appointments.
type Appointments struct {
	of natsstore.Instructions[appointmentRecord]
}

// NewAppointments returns the records of appointments.
func NewAppointments(store *natsstore.Store) Appointments {
	return Appointments{natsstore.OpenInstructions[appointmentRecord](store, sluice.KindAppointment)}
}

// appointmentRecord is the stored form of an appointment. In JSON, it is the appointment and its
// work, which the appointment alone does not have.
type appointmentRecord struct {
	sluice.Appointment

	Work *sluice.AppointmentWork `json:"work"`
}

func (r *appointmentRecord) appointment(revision uint64) sluice.Appointment {
	a := r.Appointment
	a.Revision, a.Work = revision, r.Work
	return a
}

// Put stores an appointment. Code Conflict unless the stored revision is a.Revision.
func (r Appointments) Put(ctx context.Context, a *sluice.Appointment) (uint64, error) {
	return r.of.Put(ctx, a.Namespace, a.ID, appointmentRecord{*a, a.Work}, a.Revision)
}

// Get returns an appointment.
func (r Appointments) Get(ctx context.Context, namespace, id string) (sluice.Appointment, error) {
	record, revision, err := r.of.Get(ctx, namespace, id)
	return record.appointment(revision), err
}

// Delete deletes an appointment. Code Conflict unless the stored revision is a.Revision.
func (r Appointments) Delete(ctx context.Context, a *sluice.Appointment) error {
	return r.of.Delete(ctx, a.Namespace, a.ID, a.Revision)
}

// Of returns the appointments of a namespace. They are in no particular order.
func (r Appointments) Of(ctx context.Context, namespace string) ([]sluice.Appointment, error) {
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

// Watch calls f for every appointment, and with an empty key once after all stored ones. A nil
// appointment was deleted. The key is <namespace>/<id>.
func (r Appointments) Watch(ctx context.Context, f func(key string, a *sluice.Appointment)) error {
	return r.of.Watch(ctx, instructions(changes[appointmentRecord]{
		set: func(e natsstore.Entry[appointmentRecord]) {
			a := e.Value.appointment(e.Revision)
			f(e.Key, &a)
		},
		removed:  func(key string, _ uint64) { f(key, nil) },
		caughtUp: func() { f("", nil) },
	}, func(namespace, id string) string { return namespace + "/" + id }))
}
