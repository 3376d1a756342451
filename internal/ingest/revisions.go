package ingest

import (
	"context"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Originals finds the events that others revise.
type Originals interface {
	// EventByID returns the event with an ID. Codes NotFound, also for one that is too old to be
	// found by its ID; QuotaExceeded if too many are looked up at once.
	EventByID(ctx context.Context, namespace, id string) (sluice.Event, error)
}

// maxOriginals limits the events that are looked up for one request, as each may cost a search.
const maxOriginals = 16

// revisable returns an error unless the caller may revise the originals of all revisions among the
// events. In mirrors a revision replaces its original, also on another path. Therefore its
// publisher needs the right for both. Originals are not looked up for a caller with that right for
// the whole namespace, nor if they are earlier events of the request.
func (in *Ingest) revisable(ctx context.Context, r Request, events []sluice.Event) error {
	if in.needs.Originals == nil || r.For == nil && in.require(r, sluice.VerbPublish, "") == nil {
		return nil
	}
	permitted, looked := map[string]bool{"": true}, 0
	for i := range events {
		if of := events[i].Extensions[sluice.RevisionOf]; !permitted[of] {
			if looked++; looked > maxOriginals {
				return sluice.Errorf(sluice.InvalidRequest, "the batch revises more than %d other events; send several batches", maxOriginals).With("field", sluice.RevisionOf)
			}
			if err := in.mayRevise(ctx, r, of); err != nil {
				return model.InBatch(i, len(events), err)
			}
			permitted[of] = true
		}
		permitted[events[i].ID] = true
	}
	return nil
}

// mayRevise returns an error unless the caller may revise the event with an ID: it may publish on
// the event's path, and may see the event. Code Forbidden, with the same words for an unknown event.
func (in *Ingest) mayRevise(ctx context.Context, r Request, id string) error {
	refused := sluice.Errorf(sluice.Forbidden, "revisionof: the event %q is unknown, or you may not revise it", id).With("field", sluice.RevisionOf)
	if sluice.CheckEventID(id) != nil {
		return refused
	}
	original, err := in.needs.Originals.EventByID(ctx, r.Namespace, id)
	switch sluice.CodeOf(err) { //nolint:exhaustive // the other codes go to the caller
	case "":
	case sluice.NotFound, sluice.WindowExceeded, sluice.InvalidRequest:
		return refused
	default:
		return err
	}
	switch in.shows(r, &original) {
	case model.Pass:
		return nil
	case model.Undecided:
		return model.PermissionsUnknown()
	case model.Lost, model.Withhold:
	}
	return refused
}

// shows decides whether the caller may publish on the path of an event, and see the event.
func (in *Ingest) shows(r Request, ev *sluice.Event) model.Decision {
	if r.For != nil && !r.For.Writes(ev.Path) {
		return model.Lost
	}
	switch err := in.require(r, sluice.VerbPublish, ev.Path); {
	case sluice.CodeOf(err) == sluice.Unavailable:
		return model.Undecided
	case err != nil:
		return model.Lost
	case r.Caller.Unbounded():
		return model.Pass
	}
	return in.needs.Access.Shows(r.Caller, sluice.VerbPublish, ev, in.needs.Now())
}
