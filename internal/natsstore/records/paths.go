package records

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Paths gives the stream engine access to the log.
type Paths struct {
	Log       *eventlog.Log
	Published func(ingest.Publisher) ingest.Publisher // adds the side effects of every publish, such as metrics; nil: none
	Lost      GapsOf                                  // ranges of a log that are lost because of damage; nil: none
}

var _ durable.Store = Paths{}

// Record returns the record of a path.
func (p Paths) Record(ctx context.Context, namespace string, path sluice.Path) ([]byte, uint64, error) {
	return p.Log.PathRecord(ctx, namespace, path)
}

// Tail returns the sequence of the last event on a path.
func (p Paths) Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, error) {
	return p.Log.PathTail(ctx, namespace, path)
}

// LastSeq returns the sequence of the last event of a namespace.
func (p Paths) LastSeq(ctx context.Context, namespace string) (uint64, error) {
	return p.Log.LastSeq(ctx, namespace)
}

// SeqAt returns the sequence of the first message of a namespace that was stored at a time or later.
func (p Paths) SeqAt(ctx context.Context, namespace string, at time.Time) (uint64, error) {
	return p.Log.SeqAt(ctx, namespace, at)
}

// MaxData returns the maximum size of an event's data, in bytes.
func (p Paths) MaxData() int { return p.Log.MaxData() }

// Gaps returns the ranges of the log of a namespace that are lost because of damage.
func (p Paths) Gaps(namespace string) []sluice.Gap { return p.Lost.of(namespace) }

// Events returns events on a path.
func (p Paths) Events(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) ([]sluice.Event, error) {
	return p.Log.PathEvents(ctx, namespace, path, after, upTo)
}

// Notes returns the notes of appends on a path.
func (p Paths) Notes(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) ([][]byte, uint64, error) {
	return p.Log.PathNotes(ctx, namespace, path, after, upTo)
}

// Listen calls each for the messages that are stored on a path.
func (p Paths) Listen(ctx context.Context, namespace string, path sluice.Path, each func([]durable.News)) (func(), error) {
	return p.Log.ListenPath(ctx, namespace, path, func(all []eventlog.PathNews) {
		news := make([]durable.News, len(all))
		for i, n := range all {
			news[i] = durable.News(n)
		}
		each(news)
	})
}

// Commit stores events and records in one step. Events have the side effects of every publish. For
// the sequence, see eventlog.Log.CommitPaths. It returns durable.ErrRace, with code Conflict, if a
// revision is not the stored one; then nothing is stored.
func (p Paths) Commit(ctx context.Context, c durable.Commit) (uint64, error) {
	to := &committer{log: p.Log, commit: eventlog.PathCommit{Fence: eventlog.PathFence(c.Fence), Note: c.Note}}
	for _, change := range c.Changes {
		to.commit.Puts = append(to.commit.Puts, eventlog.PathPut{
			PathFence: eventlog.PathFence(change.Fence), Data: change.Data, For: keeping(change), Tidy: change.Tidy,
		})
	}
	through := ingest.Publisher(to)
	if len(c.Events) > 0 && p.Published != nil {
		through = p.Published(to)
	}
	_, err := through.Publish(ctx, c.Namespace, c.Events)
	if sluice.CodeOf(err) == sluice.Conflict {
		err = fmt.Errorf("%w: %w", durable.ErrRace, err)
	}
	return to.last, err
}

func keeping(c durable.Change) time.Duration {
	switch c.Keep {
	case durable.KeepFor:
		return c.For
	case durable.KeepAsEvents:
		return eventlog.RecordAsEvents
	case durable.KeepForever:
	}
	return eventlog.RecordForever
}

// committer stores events together with records.
type committer struct {
	log    *eventlog.Log
	commit eventlog.PathCommit
	last   uint64
}

// Publish stores the events atomically and returns their positions.
func (c *committer) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	c.commit.Events = events
	last, err := c.log.CommitPaths(ctx, namespace, c.commit)
	if err != nil {
		return nil, err
	}
	c.last = last
	stored := make([]sluice.Stored, len(events))
	for i := range slices.Backward(events) {
		stored[i] = sluice.Stored{ID: events[i].ID, Seq: last, Path: events[i].Path}
		last--
	}
	return stored, nil
}
