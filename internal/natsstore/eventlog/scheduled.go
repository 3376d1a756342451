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

// Scheduled keeps the events that are stored in their logs at a time.
type Scheduled struct {
	log    *Log
	bucket natsstore.Bucket[scheduledRecord]
}

// scheduledRecord is how one lies in the bucket. Its data is base64: as JSON it would not stay byte for byte
// what it is.
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

// Scheduled returns the events that are stored at a time.
func (l *Log) Scheduled() Scheduled {
	return Scheduled{l, natsstore.OpenBucket[scheduledRecord](l.core, streams.Scheduled)}
}

// Put stores the state of an event, and returns its new revision; one whose revision is 0 is new. Codes InvalidRequest and TooLarge for
// an event that its log would not take; NotFound for the namespace of a new one; Conflict unless the stored revision is its own.
func (s Scheduled) Put(ctx context.Context, one *model.Scheduled) (uint64, error) {
	e := &one.Event
	if one.Revision == 0 {
		if err := checkEvent(e); err != nil {
			return 0, err
		}
		if _, err := s.log.core.EventsInfo(ctx, e.Namespace); err != nil {
			return 0, err
		}
		b := newBatch(e.Namespace, []sluice.Event{*e}, s.log.stamps)
		if _, err := b.message(0); err != nil {
			return 0, err
		}
	}
	return s.bucket.Put(ctx, streams.ScheduledKey(e.Namespace, e.ID), recordOf(one), one.Revision)
}

// Get returns the record of an event. Code NotFound if it is not one that is stored at a time.
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

// Delete removes one. Code Conflict unless the stored revision is its own.
func (s Scheduled) Delete(ctx context.Context, one *model.Scheduled) error {
	return s.bucket.Delete(ctx, streams.ScheduledKey(one.Event.Namespace, one.Event.ID), one.Revision)
}

// DeleteOf removes all of a namespace.
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

// Watch tells of every one as Bucket.Watch does, until ctx ends: by its key, with nil when it is gone; once
// all that are stored have been told, with no key and nil.
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
