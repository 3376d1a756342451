package delayed

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Records stores the scheduled events.
type Records interface {
	// Put stores an event's record if the stored revision is the record's, 0 for a new one, and
	// returns the new revision. Code Conflict otherwise.
	Put(ctx context.Context, s *model.Scheduled) (uint64, error)
	Get(ctx context.Context, namespace, id string) (model.Scheduled, error)
	// Delete removes an event's record if the stored revision is the record's. Code Conflict
	// otherwise.
	Delete(ctx context.Context, s *model.Scheduled) error
	// Room returns an error (Unavailable) if the store has no room for events. Then Put creates
	// none either, but changes records.
	Room() error
}

// Lists reads all records.
type Lists interface {
	// Watch calls f with the key and the state of every stored record, then with each change, and
	// with nil for a record that is gone, until ctx ends. Once it has reported all stored records,
	// it calls f with an empty key.
	Watch(ctx context.Context, f func(key string, s *model.Scheduled)) error
}

// Log reads a namespace's log.
type Log interface {
	// RecentByID returns an event of this id if it can be found without scanning the log, else code
	// NotFound.
	RecentByID(ctx context.Context, namespace, id string) (sluice.Event, error)
}

// Deps are the engine's dependencies.
type Deps struct {
	schedule.Deps

	Records Records
	Lists   Lists
	Log     Log
}

// Engine stores scheduled events in the log when they are due. It is safe for concurrent use.
type Engine struct {
	needs Deps
	opts  schedule.Options
	due   *schedule.Engine[model.Scheduled]

	mu     sync.Mutex
	others map[string]time.Time // when another replica was last seen to store an event of a lane
	swept  time.Time            // when outdated entries of others were last removed
}

// New returns an engine. It stores due events while Run runs.
func New(needs Deps, opts schedule.Options) *Engine {
	e := &Engine{needs: needs, opts: opts.WithDefaults(), others: map[string]time.Time{}}
	e.due = schedule.New("event", kind{e}, needs.Deps, opts)
	return e
}

// Run stores due events until ctx is done.
func (e *Engine) Run(ctx context.Context) error { return e.due.Run(ctx, e.needs.Lists.Watch) }

// Waiting returns the number of waiting events of each namespace.
func (e *Engine) Waiting() map[string]int { return e.due.Waiting() }

// seeOther records that another replica works on a lane's events.
func (e *Engine) seeOther(lane string) {
	now := e.needs.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.others[lane] = now
	if now.Sub(e.swept) > action.Backup {
		e.swept = now
		maps.DeleteFunc(e.others, func(_ string, seen time.Time) bool { return now.Sub(seen) > action.HoldFor })
	}
}

// moment returns the inputs of a decision about an event of a lane, apart from the event itself.
func (e *Engine) moment(lane string) moment {
	m := moment{now: e.needs.Now(), me: e.needs.Replica, grace: e.due.Grace(lane)}
	e.mu.Lock()
	defer e.mu.Unlock()
	m.others = e.others[lane]
	return m
}

// lane returns the lane of an event: events on one path of a namespace are stored in order.
func lane(s *model.Scheduled) string { return s.Event.Namespace + string(s.Event.Path) }

// Schedule accepts an event to be stored at s.DeliverAt. It returns the event's record, and whether
// the same event was accepted before. Codes: those of publishing; QuotaExceeded if too many events
// wait; Conflict if the id belongs to a waiting event on another path.
func (e *Engine) Schedule(ctx context.Context, s model.Scheduled) (model.Scheduled, bool, error) {
	if ahead := e.opts.Ahead; ahead > 0 && s.DeliverAt.After(e.needs.Now().Add(ahead)) {
		return s, false, sluice.Errorf(sluice.InvalidRequest, "%s is too far ahead: use at most %s", s.DeliverAt.Format(time.RFC3339), ahead).
			With("field", sluice.AttributeDeliverAt)
	}
	release, err := e.due.Reserve(s.Event.Namespace, "scheduled events, the limit; cancel some, or wait until some are due")
	if err != nil {
		return s, false, err
	}
	defer release()
	for {
		s.Revision = 0
		revision, err := e.needs.Records.Put(ctx, &s)
		if err == nil {
			s.Revision = revision
			e.due.Know(streams.ScheduledKey(s.Event.Namespace, s.Event.ID), &s)
			return s, false, nil
		}
		if sluice.CodeOf(err) != sluice.Conflict {
			return s, false, err
		}
		is, err := e.needs.Records.Get(ctx, s.Event.Namespace, s.Event.ID)
		switch {
		case sluice.CodeOf(err) == sluice.NotFound:
			continue // the other record was removed meanwhile
		case err != nil:
			return s, false, err
		case is.Outcome != "":
			if err := e.finish(ctx, &is); err != nil {
				return s, false, err
			}
		case is.Event.Path != s.Event.Path:
			return s, false, sluice.Errorf(sluice.Conflict, "the id %q belongs to an event on another path; ids are unique in a namespace", s.Event.ID).With("id", s.Event.ID)
		case !s.Event.Repeats(&is.Event):
			return model.Scheduled{}, false, s.Event.OtherEvent()
		default:
			return is, true, nil
		}
	}
}

// Published returns where the log has stored the same event before. Code NotFound if the log does
// not recognize the id; Conflict if the stored event is on another path or has other content.
func (e *Engine) Published(ctx context.Context, ev *sluice.Event) (sluice.Stored, error) {
	is, err := e.needs.Log.RecentByID(ctx, ev.Namespace, ev.ID)
	if err != nil {
		return sluice.Stored{}, err
	}
	if is.Path != ev.Path {
		return sluice.Stored{}, sluice.Errorf(sluice.Conflict, "the id %q belongs to an event on another path; ids are unique in a namespace", ev.ID).With("id", ev.ID)
	}
	if !ev.Repeats(&is) {
		return sluice.Stored{}, ev.OtherEvent()
	}
	return sluice.Stored{ID: is.ID, Seq: is.Seq, Path: is.Path, Duplicate: true}, nil
}

// Waits returns an error (Conflict) if this replica knows of an event with the same id that waits
// on the same path: a caller that wants to publish at once has to cancel that one first. The error
// says so only if shows reports that the caller may see the waiting event. An event on another path
// is ignored; otherwise its publisher could block the events of others.
func (e *Engine) Waits(ctx context.Context, ev *sluice.Event, shows func(*sluice.Event) (bool, error)) error {
	m, ok := e.due.Marked(streams.ScheduledKey(ev.Namespace, ev.ID))
	if !ok || m.Path != ev.Path {
		return nil
	}
	is, err := e.Get(ctx, ev.Namespace, ev.ID)
	switch {
	case sluice.CodeOf(err) == sluice.NotFound:
		return nil // stored or cancelled meanwhile
	case err != nil:
		return err
	}
	if shown, err := shows(&is.Event); err != nil {
		return err
	} else if !shown {
		return ev.OtherEvent()
	}
	at := is.DeliverAt.Format(time.RFC3339Nano)
	return sluice.Errorf(sluice.Conflict, "an event with the id %q is scheduled on %s at %s: cancel it first, or use another id", ev.ID, ev.Path, at).
		With("id", ev.ID).With("deliver_at", at)
}

// Get returns an event that waits to be stored. Code NotFound.
func (e *Engine) Get(ctx context.Context, namespace, id string) (model.Scheduled, error) {
	s, err := e.needs.Records.Get(ctx, namespace, id)
	if err == nil && s.Outcome != "" {
		err = sluice.Errorf(sluice.NotFound, "scheduled event %q not found in %s", id, namespace)
	}
	return s, err
}

// After returns the waiting events of a namespace, the earliest first: up to most behind a place,
// for which want returns true. It also returns the place to continue from, zero if there are no
// more. want gets an outline of each event, which is enough to decide whether a publisher may see
// it, so that no place is of a hidden one.
func (e *Engine) After(ctx context.Context, namespace string, p model.ScheduledPlace, most int, want func(*sluice.Event) bool) ([]model.Scheduled, model.ScheduledPlace, error) {
	next := model.ScheduledPlace{}
	if err := e.due.Known(ctx); err != nil {
		return nil, next, err
	}
	marks := e.due.After(namespace, schedule.Mark{At: p.At, ID: p.ID}, most, func(m schedule.Mark) bool { return want(outline(namespace, m)) })
	if len(marks) == most && most > 0 {
		next = model.ScheduledPlace{At: marks[most-1].At, ID: marks[most-1].ID}
	}
	all, err := e.read(ctx, namespace, marks)
	return all, next, err
}

// readers limits parallel reads of records for a list.
const readers = 8

// read returns the records of the events that still wait.
func (e *Engine) read(ctx context.Context, namespace string, marks []schedule.Mark) ([]model.Scheduled, error) {
	all, errs := make([]model.Scheduled, len(marks)), make([]error, len(marks))
	var reading sync.WaitGroup
	for r := range min(readers, len(marks)) {
		reading.Go(func() {
			for i := r; i < len(marks); i += readers {
				all[i], errs[i] = e.Get(ctx, namespace, marks[i].ID)
			}
		})
	}
	reading.Wait()
	there := all[:0]
	for i := range all {
		switch {
		case errs[i] == nil:
			there = append(there, all[i])
		case sluice.CodeOf(errs[i]) != sluice.NotFound:
			return nil, errs[i]
		}
	}
	return there, nil
}

// endData is the data of the system events about events that will not be stored.
type endData struct {
	ID          string           `json:"id"`
	Path        sluice.Path      `json:"path"`
	Type        string           `json:"type"`
	DeliverAt   time.Time        `json:"deliver_at"`
	Creator     sluice.Principal `json:"creator"`
	Outcome     string           `json:"outcome,omitempty"`
	CancelledBy sluice.Principal `json:"cancelled_by,omitempty"`
}

func dataOf(s *model.Scheduled) endData {
	return endData{
		ID: s.Event.ID, Path: s.Event.Path, Type: s.Event.Type, DeliverAt: s.DeliverAt, Creator: s.CreatedBy, CancelledBy: s.EndedBy,
	}
}

// Cancel cancels an event that the caller has read. After success, the event is never stored. The
// ledger entry is written first. Codes: NotFound; Conflict if it is too late, or if another event
// has replaced it.
func (e *Engine) Cancel(ctx context.Context, s model.Scheduled, by sluice.Principal) error {
	if err := e.stoppable(ctx, &s); err != nil {
		return err
	}
	intent, err := e.needs.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: string(by), Action: sluice.ActionScheduledCancel, Namespace: s.Event.Namespace, Resource: s.Event.ID, Old: dataOf(&s),
	})
	if err != nil {
		return err
	}
	s.Outcome, s.EndedBy = sluice.OutcomeCancelled, by
	revision, err := e.needs.Records.Put(ctx, &s)
	if err != nil {
		if sluice.CodeOf(err) == sluice.Conflict {
			err = tooLate(&s)
		}
		intent.Fail(ctx, err)
		return err
	}
	s.Revision = revision
	e.due.Ended(s.Event.Namespace, schedule.Cancelled, s.DeliverAt)
	if err := e.finish(ctx, &s); err != nil { // the engine repeats it
		e.opts.Log.WarnContext(ctx, "cancelled event not removed yet", slog.String("namespace", s.Event.Namespace), slog.String("id", s.Event.ID), slog.Any("error", err))
	}
	return nil
}

// stoppable returns an error (Conflict) if an event is being stored, or if an attempt with an
// unknown outcome may have stored it.
func (e *Engine) stoppable(ctx context.Context, s *model.Scheduled) error {
	ok, err := e.due.Stoppable(s.Claim, func() (bool, error) {
		stored, err := e.needs.Perform.Find(ctx, &s.Event, s.Claim.Since)
		return stored.Seq > 0, err
	})
	if err == nil && !ok {
		err = tooLate(s)
	}
	return err
}

func tooLate(s *model.Scheduled) error {
	return sluice.Errorf(sluice.Conflict, "event %q is being published, or was just published or changed: check whether it is still scheduled, and retry", s.Event.ID)
}

// finish publishes the system event about an event's end, and removes the record.
func (e *Engine) finish(ctx context.Context, s *model.Scheduled) error {
	data, kind := dataOf(s), sluice.TypeScheduledCancelled
	if s.Outcome != sluice.OutcomeCancelled {
		data.Outcome, kind = s.Outcome, sluice.TypeScheduledFailed
	}
	id := fmt.Sprintf("%s-%x", kind, sha256.Sum256(fmt.Appendf(nil, "%s %d", s.Event.ID, s.CreatedAt.UnixNano())))
	err := e.needs.Tell.Tell(ctx, s.Event.Namespace, model.SystemEvent{Path: sluice.ScheduledPath, ID: id, Kind: kind, Data: data})
	if err != nil && action.Passing(err) {
		return err
	}
	if err := e.needs.Records.Delete(ctx, s); err != nil && sluice.CodeOf(err) != sluice.Conflict { // another replica was faster
		return err
	}
	return nil
}
