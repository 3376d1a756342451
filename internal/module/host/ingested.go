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
	// Has reports whether an event with an ID is stored on a path after a sequence.
	Has(ctx context.Context, namespace string, path sluice.Path, id string, after uint64) (bool, error)
	// RecentByID returns an event by an ID that its namespace remembers. Code NotFound.
	RecentByID(ctx context.Context, namespace, id string) (sluice.Event, error)
}

// Ingested publishes the events of programs with the rights of the approver. The events pass the
// same checks as those of other publishers.
type Ingested struct {
	Ingest *ingest.Ingest
	Log    Log
	Now    func() time.Time
}

// publishTime is the maximum duration of a publish.
const publishTime = time.Minute

// Publish publishes events of a handling. For an event of a test, which is not stored, it publishes
// none. The IDs of the events are derived from the handling (printedID), so that a repeated attempt
// stores nothing twice: within the dedup window the log recognises the events, and later forgotten
// looks for them.
func (p Ingested) Publish(ctx context.Context, w *model.Handling, of *sluice.Event, events []sluice.Event, size int) (int, error) {
	if of.Seq == 0 {
		return 0, nil
	}
	fresh, err := p.forgotten(ctx, of, events)
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

// store stores admitted events. It skips an event that an earlier attempt has already stored, even
// on another path.
func (p Ingested) store(ctx context.Context, w *model.Handling, events []sluice.Event) error {
	if len(events) == 0 {
		return nil
	}
	_, err := p.Ingest.Store(ctx, w.Namespace, events)
	if sluice.CodeOf(err) != sluice.Conflict {
		return err
	}
	rest, unknown := p.others(ctx, w, events)
	switch {
	case unknown != nil || len(rest) == len(events):
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
func (p Ingested) forgotten(ctx context.Context, of *sluice.Event, events []sluice.Event) (fresh []sluice.Event, err error) {
	window, err := p.Log.Window(ctx, of.Namespace)
	if err != nil || p.Now().Add(publishTime).Sub(of.Stored) < window {
		return events, err
	}
	for i := range events {
		stored, err := p.Log.Has(ctx, of.Namespace, events[i].Path, events[i].ID, of.Seq)
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
		earlier := stored.Extensions[sluice.AuthID] == string(w.Producer()) && stored.Extensions[sluice.CausationID] == w.Event
		if err != nil || !earlier {
			rest = append(rest, events[i])
		}
	}
	return rest, nil
}
