package mirrorstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Commit stores a step whole or not at all, and returns the new revision of the place. Code Conflict
// unless the stored place has the revision of the given one.
func (s *Store) Commit(ctx context.Context, id string, c mirror.Commit) (uint64, error) {
	store, err := s.Stage(ctx, id, c)
	if err != nil {
		return 0, err
	}
	return store(ctx, c.Place.Revision)
}

// Stage sends the messages of a step but that of its place, and returns the function that sends that.
func (s *Store) Stage(ctx context.Context, id string, c mirror.Commit) (mirror.StoreStaged, error) {
	msgs, err := s.messages(id, c)
	if err != nil {
		return nil, err
	}
	if err := s.core.Writable(); err != nil { //nolint:contextcheck // it asks a context of the server's
		return nil, err
	}
	last := len(msgs) - 1
	is := staged{store: s, id: id, first: msgs[:last], place: msgs[last], limit: storeTime(msgs)}
	if err := is.begin(ctx); err != nil {
		return nil, err
	}
	wanted := context.AfterFunc(ctx, is.drop)
	return func(ctx context.Context, revision uint64) (uint64, error) {
		if !wanted() {
			return 0, context.Canceled
		}
		defer is.end()
		return is.commit(ctx, revision)
	}, nil
}

// storeTime returns how long a step may take: the slowest disk that is of use stores a MiB in a second.
func storeTime(msgs []*nats.Msg) time.Duration {
	size := 0
	for _, msg := range msgs {
		size += len(msg.Data)
	}
	return natsstore.RequestTimeout + time.Duration(size>>20)*time.Second
}

// staged is a step whose messages but the last, that of the place, are with JetStream.
type staged struct {
	store *Store
	id    string
	first []*nats.Msg
	place *nats.Msg
	limit time.Duration
	batch *natsstore.Batch // nil: there are no first ones
}

// begin sends the first messages.
func (t *staged) begin(ctx context.Context) error {
	if len(t.first) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	select {
	case t.store.batches <- struct{}{}:
	case <-ctx.Done():
		return t.failed(ctx, context.Cause(ctx))
	}
	if err := t.send(ctx); err != nil {
		t.end()
		return t.failed(ctx, err)
	}
	return nil
}

func (t *staged) send(ctx context.Context) (err error) {
	t.batch, err = t.store.core.BeginBatch(ctx, t.first)
	return err
}

// end gives back the right to a batch.
func (t *staged) end() {
	if len(t.first) > 0 {
		<-t.store.batches
	}
}

func (t *staged) drop() {
	if t.batch != nil {
		t.batch.Abandon(t.place.Subject)
	}
	t.end()
}

// commit sends the place.
func (t *staged) commit(ctx context.Context, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	t.place.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	if t.batch == nil {
		ack, err := t.store.core.JetStream().PublishMsg(ctx, t.place)
		if err != nil {
			return 0, t.failed(ctx, err)
		}
		return ack.Sequence, nil
	}
	seq, err := t.batch.Commit(ctx, t.place)
	if natsstore.IsAbandoned(err) { // it has waited too long for the step before
		if err = t.send(ctx); err == nil {
			seq, err = t.batch.Commit(ctx, t.place)
		}
	}
	return seq, t.failed(ctx, err)
}

func (t *staged) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case natsstore.IsConflict(err):
		return sluice.Errorf(sluice.Conflict, "mirror %s was moved concurrently", t.id)
	}
	return fmt.Errorf("mirror %s: %w", t.id, natsstore.StoreError(ctx, err))
}

// messages returns the messages of a step. The place is the last: a reader that sees it sees the rest.
func (s *Store) messages(id string, c mirror.Commit) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, 0, len(c.Entries)+len(c.Gaps)+1)
	for i := range c.Entries {
		msgs = append(msgs, s.encode(id, &c.Entries[i]))
	}
	for _, gap := range c.Gaps {
		data, err := json.Marshal(gap)
		if err != nil {
			return nil, fmt.Errorf("gap: %w", err)
		}
		msgs = append(msgs, &nats.Msg{Subject: streams.MirrorGapSubject(id, gap.From), Data: data, Header: nats.Header{}})
	}
	data, err := json.Marshal(c.Place)
	if err != nil {
		return nil, fmt.Errorf("place: %w", err)
	}
	return append(msgs, &nats.Msg{Subject: streams.MirrorPlaceSubject(id), Data: data, Header: nats.Header{}}), nil
}
