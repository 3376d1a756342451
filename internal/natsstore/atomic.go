package natsstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of JetStream's atomic batch (ADR-50).
const (
	HeaderBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	HeaderBatchCommit = "Nats-Batch-Commit"
)

// Atomic publishes two messages or more as one batch, which is stored as a whole and in one piece, or not at all, and
// returns the sequence of the last. The caller limits the batches that are open at once: JetStream allows 50 for each stream.
func (s *Store) Atomic(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	last := len(msgs) - 1
	if last < 1 {
		return 0, fmt.Errorf("batch of %d messages: at least 2 are needed", len(msgs))
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	b, err := s.BeginBatch(ctx, msgs[:last])
	if err != nil {
		return 0, err
	}
	return b.Commit(ctx, msgs[last])
}

// Batch is an atomic batch that was begun. JetStream abandons it when no message of it comes for ten seconds.
type Batch struct {
	store *Store
	id    string
	sent  int // messages
}

// BeginBatch sends the messages of a batch but the last. Nothing of them can be seen before the batch is committed.
func (s *Store) BeginBatch(ctx context.Context, msgs []*nats.Msg) (*Batch, error) {
	b := &Batch{store: s, id: rand.Text()}
	ctx, cancel := s.whileIntact(ctx)
	defer cancel()
	for _, msg := range msgs {
		b.number(msg)
		var err error
		if b.sent == 1 { // wait for the answer: a batch that cannot be begun is not sent
			_, err = s.batchRequest(ctx, msg)
		} else {
			err = s.nc.PublishMsg(msg)
		}
		if err != nil {
			return nil, fmt.Errorf("batch: %w", err)
		}
	}
	return b, nil
}

// number makes a message the next of the batch.
func (b *Batch) number(msg *nats.Msg) {
	b.sent++
	msg.Header[HeaderBatchID] = []string{b.id}
	msg.Header[headerBatchSeq] = []string{strconv.Itoa(b.sent)}
}

// Commit sends the last message, stores the batch, and returns the sequence of that message.
func (b *Batch) Commit(ctx context.Context, last *nats.Msg) (uint64, error) {
	ctx, cancel := b.store.whileIntact(ctx)
	defer cancel()
	b.number(last)
	last.Header[HeaderBatchCommit] = []string{"1"}
	return b.store.batchRequest(ctx, last)
}

// Abandon lets JetStream forget the batch at once, as it does when a message of one is missing. The subject is one of its stream.
func (b *Batch) Abandon(subject string) {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}}
	b.sent++
	b.number(msg)
	_ = b.store.nc.PublishMsg(msg) // without it, JetStream forgets the batch later
}

// batchRequest returns the sequence in the answer; the answer to all but the last message is
// empty.
func (s *Store) batchRequest(ctx context.Context, msg *nats.Msg) (uint64, error) {
	resp, err := s.nc.RequestMsgWithContext(ctx, msg)
	if err != nil || len(resp.Data) == 0 {
		return 0, err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return 0, fmt.Errorf("batch: %w", err)
	}
	if answer.Error != nil {
		return 0, answer.Error
	}
	return answer.Seq, nil
}
