package watch

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Stored is what lies in a watch's place: a watch, or what is to be told of one that was cancelled, for which
// everybody takes that there is none.
type Stored struct {
	sluice.Watch

	Untold *Cancelled `json:"untold,omitempty"` // nil: it is there
}

// Cancelled is what is to be told of a watch that was cancelled.
type Cancelled struct {
	ID    string    `json:"id"` // of the event
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	After uint64    `json:"after"` // it is told behind it
}

// cancelledData is what is told of a watch that was cancelled.
type cancelledData struct {
	Creator     sluice.Principal `json:"creator"`
	WatchID     string           `json:"watch_id"`
	CancelledBy string           `json:"cancelled_by"`
}

// bury tells that a watch was cancelled (S2-45), and then removes what is left of it. It may have been told, by whoever died in between. Where
// the namespace is gone nobody hears of it.
func bury(ctx context.Context, log Log, graves Graves, w *Stored) error {
	ev, err := announcement(&w.Watch, sluice.TypeWatchCancelled, w.Untold.ID, cancelledData{w.CreatedBy, w.ID, w.Untold.By})
	if err != nil {
		return err
	}
	ev.Time = w.Untold.At
	if err := announce(ctx, log, ev, w.Untold.After, tried{unsure: true}); err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	if err := graves.Forget(ctx, w.Namespace, w.ID); err != nil {
		return err
	}
	if err := graves.Delete(ctx, w.Namespace, w.ID, w.Revision); sluice.CodeOf(err) != sluice.Conflict { // else another replica did so
		return err
	}
	return nil
}
