package watch

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Stored is a watch's record: the watch, or a pending announcement that it was cancelled. A
// cancelled watch does not exist for callers. In JSON, it is the watch with one more member, so
// that a watch of an earlier release is a Stored, too.
type Stored struct {
	sluice.Watch

	Untold *Cancelled `json:"untold,omitempty"` // nil: the watch exists
}

// Cancelled is the pending announcement of a cancelled watch.
type Cancelled struct {
	ID    string    `json:"id"` // of the announcement
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	After uint64    `json:"after"` // the announcement is after this sequence
}

// cancelledData is the data of the announcement.
type cancelledData struct {
	Creator     sluice.Principal `json:"creator"`
	WatchID     string           `json:"watch_id"`
	CancelledBy string           `json:"cancelled_by"`
}

// bury announces that a watch was cancelled (S2-45), unless an earlier attempt has, and then
// removes its records. In a deleted namespace it announces nothing. The record is removed last, so
// that after an error the next call does the rest.
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
	if err := graves.Delete(ctx, w.Namespace, w.ID, w.Revision); sluice.CodeOf(err) != sluice.Conflict { // on a conflict, another replica has removed it
		return err
	}
	return nil
}
