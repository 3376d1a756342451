package host

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Log looks up events that are stored.
type Log interface {
	// Window returns how long a namespace remembers the IDs of its events. Code NotFound.
	Window(ctx context.Context, namespace string) (time.Duration, error)
	// Has reports whether an event that is wanted is stored on a path after a sequence.
	Has(ctx context.Context, namespace string, path sluice.Path, after uint64, wanted func(*sluice.Event) bool) (bool, error)
	// RecentByID returns an event by an ID that its namespace remembers. Code NotFound.
	RecentByID(ctx context.Context, namespace, id string) (sluice.Event, error)
	// Secret returns a text of 64 hexadecimal digits that only the servers of this log can derive
	// from a name, always the same one. Code Unavailable.
	Secret(name string) (string, error)
}

// Ingested publishes the events of programs with the rights of the approver. The events pass the
// same checks as those of other publishers. The publisher of Ingest must refuse (Conflict) an event
// whose ID is that of a stored one for which MayRepeat is false.
type Ingested struct {
	Ingest *ingest.Ingest
	Log    Log
	Now    func() time.Time
}

// publishTime is the maximum duration of a publish.
const publishTime = time.Minute

// Publish publishes events of a handling. For an event of a test, which is not stored, it publishes
// none. The IDs of the events are derived from the handling (printedID) and a secret, so that a
// repeated attempt stores nothing twice, and no other publisher can take an ID before: within the
// dedup window the log recognises the events, and later forgotten looks for them.
func (p Ingested) Publish(ctx context.Context, w *model.Handling, of *sluice.Event, events []sluice.Event, size int) (int, error) {
	if of.Seq == 0 {
		return 0, nil
	}
	if err := p.identify(events); err != nil {
		return 0, err
	}
	fresh, err := p.forgotten(ctx, w, of, events)
	if err == nil && len(fresh) > 0 {
		err = p.Ingest.Admit(ctx, ingest.Request{Caller: w.By, Namespace: w.Namespace, Bytes: size, For: w}, fresh)
	}
	if err == nil {
		err = p.store(ctx, w, fresh)
	}
	if err != nil {
		return 0, err
	}
	return len(events), nil
}

// identify replaces the names of events by their IDs.
func (p Ingested) identify(events []sluice.Event) error {
	for i := range events {
		secret, err := p.Log.Secret(events[i].ID)
		if err != nil {
			return err
		}
		events[i].ID = "mod-" + secret[:32]
	}
	return nil
}

// store stores admitted events. It skips an event that an earlier attempt has already stored, even
// on another path.
func (p Ingested) store(ctx context.Context, w *model.Handling, events []sluice.Event) error {
	if len(events) == 0 {
		return nil
	}
	ctx = model.WithHandling(ctx, w)
	_, err := p.Ingest.Store(ctx, w.Namespace, events)
	if sluice.CodeOf(err) != sluice.Conflict {
		return err
	}
	rest, unknown := p.others(ctx, w, events)
	switch {
	case unknown != nil: // not the conflict, which is permanent: the events may be those of an earlier attempt
		return unknown
	case len(rest) == len(events):
		return err
	case len(rest) == 0:
		return nil
	}
	_, err = p.Ingest.Store(ctx, w.Namespace, rest)
	return err
}

// May returns the permanent error with which publishing one event would fail, nil if there is none.
func (p Ingested) May(w *model.Handling, e sluice.Event) error {
	return p.Ingest.May(ingest.Request{Caller: w.By, Namespace: w.Namespace, For: w}, []sluice.Event{e})
}

// forgotten returns the events that no earlier attempt has stored. It looks them up only if the
// dedup window of the namespace may have passed; otherwise it returns all events.
func (p Ingested) forgotten(ctx context.Context, w *model.Handling, of *sluice.Event, events []sluice.Event) (fresh []sluice.Event, err error) {
	window, err := p.Log.Window(ctx, of.Namespace)
	if err != nil || p.Now().Add(publishTime).Sub(of.Stored) < window {
		return events, err
	}
	for i := range events {
		stored, err := p.Log.Has(ctx, of.Namespace, events[i].Path, of.Seq, func(ev *sluice.Event) bool {
			return ev.ID == events[i].ID && published(w, ev)
		})
		if err != nil {
			return nil, err
		}
		if !stored {
			fresh = append(fresh, events[i])
		}
	}
	return fresh, nil
}

// others returns the events that no earlier attempt of the same handling has stored, on any path.
func (p Ingested) others(ctx context.Context, w *model.Handling, events []sluice.Event) (rest []sluice.Event, err error) {
	for i := range events {
		stored, err := p.Log.RecentByID(ctx, w.Namespace, events[i].ID)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return nil, err
		}
		if err != nil || !published(w, &stored) {
			rest = append(rest, events[i])
		}
	}
	return rest, nil
}

// published reports whether a stored event was published for a handling.
func published(w *model.Handling, ev *sluice.Event) bool {
	return ev.Extensions[sluice.AuthID] == string(w.Producer()) && ev.Extensions[sluice.CausationID] == w.Event
}

// MayRepeat reports whether the handling in ctx has published a stored event. Other publishers may
// not store an event that a program then appears to repeat.
func MayRepeat(ctx context.Context, ev *sluice.Event) bool {
	w := model.HandlingFrom(ctx)
	return w != nil && published(w, ev)
}
