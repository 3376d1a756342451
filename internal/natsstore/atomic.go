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

// Atomic publishes two or more messages as one batch. JetStream stores them contiguously, or none
// of them. Atomic returns the sequence of the last one. The caller limits the time, and the number
// of batches that are open at the same time: JetStream permits 50 for each stream. Atomic sets
// headers of the messages, so no header may be nil. After a lost acknowledgement the batch may or
// may not be stored: messages with a Nats-Msg-Id, or with an expected sequence, make a repetition
// safe.
func (s *Store) Atomic(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	id := rand.Text()
	ctx, cancel := s.whileIntact(ctx)
	defer cancel()
	for i, msg := range msgs {
		msg.Header[HeaderBatchID] = []string{id}
		msg.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
		var err error
		switch i {
		case 0: // wait for the acknowledgement, so that the rest is sent only if the batch could be begun
			_, err = s.batchRequest(ctx, msg)
		case len(msgs) - 1:
			msg.Header[HeaderBatchCommit] = []string{"1"}
			return s.batchRequest(ctx, msg)
		default:
			err = s.nc.PublishMsg(msg)
		}
		if err != nil {
			return 0, fmt.Errorf("batch: %w", err)
		}
	}
	return 0, fmt.Errorf("batch of %d messages: at least 2 are needed", len(msgs))
}

// batchRequest sends a message and returns the sequence in the acknowledgement. Only the
// acknowledgement of the last message is not empty.
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
