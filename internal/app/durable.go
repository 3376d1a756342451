package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// streams returns the handler's dependencies for Durable Streams.
func (s *server) streams() dstreams.Options {
	return dstreams.Options{
		Engine: s.durable, Anonymous: s.cfg.Durable.Anonymous, AtRoot: s.cfg.Durable.AtRoot, LongPoll: s.cfg.Durable.LongPoll.Std(),
		MaxBody: s.cfg.Durable.MaxBody, PublicURL: s.publicURL(),
		Subscriptions: s.dsubs,
		JWKS:          func(ctx context.Context) ([]byte, error) { return s.keySet(ctx, dsubKeyPrefix) },
		KeyID: func() string {
			id, _ := s.keys.newest()
			return dsubKeyPrefix + id
		},
	}
}

// paths gives the stream engine access to the log.
type paths struct{ server *server }

// Record returns the record of a path.
func (p paths) Record(ctx context.Context, namespace string, path sluice.Path) ([]byte, uint64, error) {
	return p.server.store.PathRecord(ctx, namespace, path)
}

// Tail returns the sequence of the last event on a path.
func (p paths) Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, error) {
	return p.server.store.PathTail(ctx, namespace, path)
}

// LastSeq returns the sequence of the last event of a namespace.
func (p paths) LastSeq(ctx context.Context, namespace string) (uint64, error) {
	return p.server.store.LastSeq(ctx, namespace)
}

// Events returns events on a path.
func (p paths) Events(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) ([]sluice.Event, error) {
	return p.server.store.PathEvents(ctx, namespace, path, after, upTo)
}

// Notes returns the notes of appends on a path.
func (p paths) Notes(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) ([][]byte, uint64, error) {
	return p.server.store.PathNotes(ctx, namespace, path, after, upTo)
}

// Listen returns a channel that receives whenever a message is stored on a path.
func (p paths) Listen(ctx context.Context, namespace string, path sluice.Path) (<-chan struct{}, func(), error) {
	return p.server.store.ListenPath(ctx, namespace, path)
}

// MaxData returns the maximum size of an event's data, in bytes.
func (p paths) MaxData() int { return p.server.store.MaxData() }

// Commit stores events with tracing, metrics and loop detection, like any publish.
func (p paths) Commit(ctx context.Context, c durable.Commit) (uint64, error) {
	to := &committer{store: p.server.store, commit: natsstore.PathCommit{Fence: natsstore.PathFence(c.Fence), Note: c.Note}}
	for _, change := range c.Changes {
		to.commit.Puts = append(to.commit.Puts, natsstore.PathPut{
			PathFence: natsstore.PathFence(change.Fence), Data: change.Data, For: keeping(change), Tidy: change.Tidy,
		})
	}
	publish := publisher(to)
	if len(c.Events) > 0 {
		publish = p.server.published(to)
	}
	_, err := publish.Publish(ctx, c.Namespace, c.Events)
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
		return natsstore.RecordAsEvents
	case durable.KeepForever:
	}
	return natsstore.RecordForever
}

// published returns a publisher with tracing, metrics and loop detection.
func (s *server) published(to publisher) publisher {
	publish := publisher(counted{remembered{to, s.causes}, s.metrics})
	if s.tracing != nil {
		publish = tracedPublisher{publish, s.tracing}
	}
	return publish
}

// committer stores events together with records.
type committer struct {
	store  *natsstore.Store
	commit natsstore.PathCommit
	last   uint64
}

// Publish stores the events atomically and returns their positions.
func (c *committer) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	c.commit.Events = events
	last, err := c.store.CommitPaths(ctx, namespace, c.commit)
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
