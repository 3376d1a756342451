package eventlog_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// origin is a namespace that changes, and that which is true of it.
type origin struct {
	store  rooms
	js     jetstream.JetStream
	name   string
	rand   *rand.Rand
	live   map[string]uint64     // events in the log, by id
	gone   map[string]uint64     // those that retention took
	erased map[string]sluice.Gap // by id: where the records of its erasing lie
}

// step does something to the namespace.
func (o *origin) step(t *testing.T, n int) {
	t.Helper()
	path := sluice.Path(fmt.Sprint("/p/", o.rand.IntN(4)))
	switch o.rand.IntN(10) {
	case 0:
		last, err := o.store.LastSeq(t.Context(), o.name)
		require.NoError(t, err)
		require.NoError(t, o.store.ErasePath(t.Context(), o.name, path, last))
		recorded, err := o.store.LastSeq(t.Context(), o.name)
		require.NoError(t, err)
		maps.DeleteFunc(o.live, func(id string, _ uint64) bool {
			of := strings.HasPrefix(id, string(path)+"-")
			if of {
				o.erased[id] = sluice.Gap{From: last + 1, To: recorded}
			}
			return of
		})
	case 1:
		first, last, err := o.store.Bounds(t.Context(), o.name)
		require.NoError(t, err)
		o.trim(t, first+o.rand.Uint64N(1+(last-min(first, last))/4))
	case 2: // the record of a stream, which replaces the one before
		_, revision, err := o.store.PathRecord(t.Context(), o.name, path)
		require.NoError(t, err)
		fence := eventlog.PathFence{Path: path, Revision: revision}
		_, err = o.store.CommitPaths(t.Context(), o.name, eventlog.PathCommit{Fence: fence, Puts: []eventlog.PathPut{{PathFence: fence, Data: []byte("{}"), For: eventlog.RecordForever, Tidy: true}}})
		require.NoError(t, err)
	default:
		events := make([]sluice.Event, 1+o.rand.IntN(8))
		for i := range events {
			events[i] = sluice.Event{ID: fmt.Sprint(path, "-", n, "-", i), Path: path}
		}
		stored, err := o.store.Publish(t.Context(), o.name, events)
		require.NoError(t, err)
		for _, s := range stored {
			o.live[s.ID] = s.Seq
		}
	}
}

// trim takes the messages before a sequence away, as retention does.
func (o *origin) trim(t *testing.T, before uint64) {
	t.Helper()
	stream, err := o.js.Stream(t.Context(), streams.Names{}.EventsStream(o.name))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(before)))
	for id, seq := range o.live {
		if seq < before {
			o.gone[id] = seq
			delete(o.live, id)
		}
	}
}

// follower is another namespace: what it has of the origin.
type follower struct {
	has   map[string]bool
	since uint64
	gaps  []sluice.Gap
}

// sync reads a page, and reports whether there is another one.
func (f *follower) sync(ctx context.Context, store rooms, ns string, limit int) (more bool, err error) {
	page, err := store.Changes(ctx, ns, model.ChangeQuery{Since: f.since, Limit: limit})
	if err != nil {
		return false, err
	}
	if page.FirstSeq > f.since+1 {
		f.gaps = append(f.gaps, sluice.Gap{From: f.since + 1, To: page.FirstSeq - 1})
	}
	for _, c := range page.Items {
		if c.Op == sluice.OpDelete {
			delete(f.has, c.Event.ID)
		} else {
			f.has[c.Event.ID] = true
		}
	}
	f.since = page.ThroughSeq
	return page.HasMore, nil
}

// missed reports whether a gap that the follower knows of touches a range.
func (f *follower) missed(from, to uint64) bool {
	return slices.ContainsFunc(f.gaps, func(g sluice.Gap) bool { return g.From <= to && from <= g.To })
}

// check compares the follower, which has read everything, with the origin.
func (f *follower) check(t *testing.T, o *origin) {
	t.Helper()
	for id, seq := range o.live {
		require.True(t, f.has[id], "%s at %d is in the log", id, seq)
	}
	for id, at := range o.erased {
		require.True(t, !f.has[id] || f.missed(at.From, at.To), "%s was erased, told at %d-%d", id, at.From, at.To)
	}
	for id, seq := range o.gone {
		require.True(t, f.has[id] || f.missed(seq, seq), "%s at %d was neither read nor told as missed", id, seq)
	}
	for id := range f.has {
		require.True(t, o.live[id] > 0 || o.gone[id] > 0 || o.erased[id].To > 0, "%s was never published", id)
	}
}

// S3-40, S3-48, S3-57: a follower that reads pages while its origin publishes, erases and forgets has every event of the log, none
// that was erased, and knows of each range that it missed.
func TestChanges_FollowerEqualsTheLog(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	const origins, steps = 6, 100
	for n := range origins {
		o := &origin{
			store: store, js: natstest.JetStream(t, server), name: fmt.Sprint("origin-", n), rand: rand.New(rand.NewPCG(uint64(n), 1)),
			live: map[string]uint64{}, gone: map[string]uint64{}, erased: map[string]sluice.Gap{},
		}
		_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: o.name})
		require.NoError(t, err)
		f, over, done := &follower{has: map[string]bool{}}, make(chan struct{}), make(chan error, 1)
		go func() { done <- f.follow(t.Context(), store, o.name, 1+n*3, over) }()
		for step := range steps {
			o.step(t, step)
		}
		close(over)
		require.NoError(t, <-done)
		f.check(t, o)
	}
}

// follow reads until nothing comes any more.
func (f *follower) follow(ctx context.Context, store rooms, ns string, limit int, over <-chan struct{}) error {
	for last := false; ; {
		select {
		case <-over:
			last = true
		default:
		}
		more, err := f.sync(ctx, store, ns, limit)
		if err != nil && sluice.CodeOf(err) != sluice.Unavailable { // it loses its oldest events too fast
			return err
		}
		if last && !more && err == nil {
			return nil
		}
	}
}
