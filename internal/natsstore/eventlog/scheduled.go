package eventlog

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Scheduled stores scheduled events, which are added to their logs at a time. The namespace and the
// ID form the key, so an ID is scheduled at most once in a namespace.
type Scheduled struct {
	log    *Log
	bucket natsstore.Bucket[scheduledRecord]
}

// scheduledRecord is the record of a scheduled event. Its data is encoded in base64 because
// embedded JSON would not keep its exact bytes.
type scheduledRecord struct {
	sluice.Creator

	DeliverAt   time.Time         `json:"deliver_at"`
	Claim       *sluice.Claim     `json:"claim,omitempty"`
	Outcome     string            `json:"outcome,omitempty"`
	EndedBy     sluice.Principal  `json:"ended_by,omitempty"`
	Namespace   string            `json:"namespace"`
	ID          string            `json:"id"`
	Path        sluice.Path       `json:"path"`
	Type        string            `json:"type"`
	Source      string            `json:"source,omitempty"`
	Time        time.Time         `json:"time,omitzero"`
	Subject     string            `json:"subject,omitempty"`
	ContentType string            `json:"datacontenttype,omitempty"`
	DataSchema  string            `json:"dataschema,omitempty"`
	Extensions  map[string]string `json:"extensions,omitempty"`
	Data        []byte            `json:"data_base64,omitempty"`
}

func recordOf(s *model.Scheduled) scheduledRecord {
	e := &s.Event
	return scheduledRecord{
		Creator: s.Creator, DeliverAt: s.DeliverAt, Claim: s.Claim, Outcome: s.Outcome, EndedBy: s.EndedBy,
		Namespace: e.Namespace, ID: e.ID, Path: e.Path, Type: e.Type, Source: e.Source, Time: e.Time, Subject: e.Subject,
		ContentType: e.ContentType, DataSchema: e.DataSchema, Extensions: e.Extensions, Data: e.Data,
	}
}

func (r *scheduledRecord) scheduled(revision uint64) model.Scheduled {
	return model.Scheduled{
		Creator: r.Creator, DeliverAt: r.DeliverAt, Claim: r.Claim, Outcome: r.Outcome, EndedBy: r.EndedBy, Revision: revision,
		Event: sluice.Event{
			Namespace: r.Namespace, ID: r.ID, Path: r.Path, Type: r.Type, Source: r.Source, Time: r.Time, Subject: r.Subject,
			ContentType: r.ContentType, DataSchema: r.DataSchema, Extensions: r.Extensions, Data: r.Data,
		},
	}
}

// Scheduled returns the store of the scheduled events.
func (l *Log) Scheduled() Scheduled {
	return Scheduled{l, natsstore.OpenBucket[scheduledRecord](l.core, streams.Scheduled)}
}

// Put stores the state of a scheduled event, and returns its new revision. With revision 0 it
// creates the event. Codes for a new event: InvalidRequest if its log would refuse it; NotFound for
// its namespace; Unavailable without Room. Code Conflict unless the stored revision is
// one.Revision.
func (s Scheduled) Put(ctx context.Context, one *model.Scheduled) (uint64, error) {
	e := &one.Event
	if one.Revision == 0 {
		if err := s.check(ctx, e); err != nil {
			return 0, err
		}
	}
	return s.bucket.Put(ctx, streams.ScheduledKey(e.Namespace, e.ID), recordOf(one), one.Revision)
}

// check returns an error if an event cannot be created.
func (s Scheduled) check(ctx context.Context, e *sluice.Event) error {
	if err := checkEvent(e); err != nil {
		return err
	}
	if _, err := s.log.core.EventsInfo(ctx, e.Namespace); err != nil {
		return err
	}
	b := newBatch(e.Namespace, []sluice.Event{*e}, s.log.stamps)
	if _, err := b.message(0); err != nil {
		return err
	}
	full := s.Room()
	if full == nil {
		return nil
	}
	_, err := s.Get(ctx, e.Namespace, e.ID)
	if sluice.CodeOf(err) == sluice.NotFound {
		return full
	}
	return err // nil if it exists: a repetition is a Conflict also without room
}

// Room returns an error (Unavailable) if the store has no room for events. Scheduled events can be
// changed and deleted nevertheless.
func (s Scheduled) Room() error { return s.log.core.MayPublish() }

// Get returns a scheduled event. Code NotFound if there is none.
func (s Scheduled) Get(ctx context.Context, namespace, id string) (model.Scheduled, error) {
	missing := sluice.Errorf(sluice.NotFound, "scheduled event %q not found in %s", id, namespace)
	if sluice.CheckNamespaceName(namespace) != nil || sluice.CheckEventID(id) != nil {
		return model.Scheduled{}, missing
	}
	r, revision, err := s.bucket.Get(ctx, streams.ScheduledKey(namespace, id))
	if sluice.CodeOf(err) == sluice.NotFound {
		return model.Scheduled{}, missing
	}
	return r.scheduled(revision), err
}

// Delete deletes a scheduled event. Code Conflict unless the stored revision is one.Revision.
func (s Scheduled) Delete(ctx context.Context, one *model.Scheduled) error {
	return s.bucket.Delete(ctx, streams.ScheduledKey(one.Event.Namespace, one.Event.ID), one.Revision)
}

// DeleteOf deletes all scheduled events of a namespace.
func (s Scheduled) DeleteOf(ctx context.Context, namespace string) error {
	entries, err := s.bucket.List(ctx, streams.ScheduledKeys(namespace))
	if err != nil {
		return err
	}
	errs := make([]error, len(entries))
	for i, e := range entries {
		errs[i] = s.bucket.Delete(ctx, e.Key, 0)
	}
	return errors.Join(errs...)
}

// Watch calls f with the key and the value of all scheduled events and their changes, like
// Bucket.Watch, until ctx ends. The value of a deleted one is nil. After all stored ones, Watch
// calls f with an empty key and nil.
func (s Scheduled) Watch(ctx context.Context, f func(key string, one *model.Scheduled)) error {
	return s.bucket.Watch(ctx, ">", func(e natsstore.Entry[scheduledRecord]) {
		switch e.Change {
		case natsstore.Set:
			one := e.Value.scheduled(e.Revision)
			f(e.Key, &one)
		case natsstore.Removed, natsstore.CaughtUp:
			f(e.Key, nil)
		}
	})
}
