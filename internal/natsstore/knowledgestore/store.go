// Package knowledgestore stores embeddings and comparisons, with the states of their jobs, in one
// stream.
package knowledgestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Store stores the records of all namespaces. Its methods may be called concurrently.
type Store struct{ core *natsstore.Store }

var _ knowledge.Records = (*Store)(nil)

// New returns the store on a connection.
func New(core *natsstore.Store) *Store { return &Store{core} }

// Get returns a record from the leader. If there is none, its Revision is 0.
func (s *Store) Get(ctx context.Context, namespace, id string) (knowledge.Record, error) {
	msg, err := s.core.LeadersMessage(ctx, s.core.Names().Knowledge(), natsstore.MessageRequest{Last: s.core.Names().KnowledgeSubject(namespace, id)})
	if err != nil || msg.Seq == 0 {
		return knowledge.Record{ID: id}, err
	}
	return s.recordOf(namespace, msg.Subject, msg.Data, msg.Seq)
}

func (s *Store) recordOf(namespace, subject string, data []byte, seq uint64) (r knowledge.Record, err error) {
	if err = json.Unmarshal(data, &r); err != nil {
		err = fmt.Errorf("record %s: %w", subject, err)
	}
	r.ID, r.Revision = s.core.Names().KnowledgeID(namespace, subject), seq
	return r, err
}

// Put stores a record and returns its new revision. Code Conflict unless the stored revision is
// r.Revision. If life is positive, the record expires after it. The TTL begins anew with each
// write. Code Unavailable while the server cannot write. A retry of a write whose answer was lost
// gives Conflict: read the record again.
func (s *Store) Put(ctx context.Context, namespace string, r knowledge.Record, life time.Duration) (uint64, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encode record %s: %w", r.ID, err)
	}
	if err := s.core.Writable(); err != nil { //nolint:contextcheck // it asks a context of the server's
		return 0, err
	}
	msg := &nats.Msg{Subject: s.core.Names().KnowledgeSubject(namespace, r.ID), Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(r.Revision, 10)},
	}}
	if life > 0 {
		msg.Header.Set(jetstream.MsgTTLHeader, life.String())
	}
	ctx, cancel := context.WithTimeout(ctx, natsstore.RequestTimeout)
	defer cancel()
	ack, err := s.core.JetStream().PublishMsg(ctx, msg)
	switch {
	case err == nil:
		return ack.Sequence, nil
	case natsstore.IsConflict(err):
		return 0, sluice.Errorf(sluice.Conflict, "the job was changed concurrently")
	}
	return 0, fmt.Errorf("store %s: %w", r.ID, natsstore.StoreError(ctx, err))
}

// Follow calls each for every record of a namespace, then caughtUp once, then each for every
// change, until ctx ends or reading fails. One goroutine calls the functions, one at a time.
// Records that expire or are purged are not reported. A record that cannot be read is logged and
// left out.
func (s *Store) Follow(ctx context.Context, namespace string, each func(knowledge.Record), caughtUp func()) error {
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: s.core.Names().KnowledgeSubjects(namespace)}
	behind := true
	err := s.core.FollowToEnd(ctx, s.core.Names().Knowledge(), config, natsstore.FollowAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg != nil && !natsstore.IsMarker(msg.Header) {
			r, err := s.recordOf(namespace, msg.Subject, msg.Data, meta.Sequence.Stream)
			if err != nil {
				s.core.Log().ErrorContext(ctx, "record cannot be read", slog.String("subject", msg.Subject), slog.Any("error", err))
			} else {
				each(r)
			}
		}
		if behind && (msg == nil || meta.NumPending == 0) {
			behind = false
			caughtUp()
		}
		return true, nil
	})
	return fmt.Errorf("follow %s: %w", namespace, natsstore.StoreError(ctx, err))
}

// Comparisons returns the comparisons of an entry of the namespace, in the order of their last
// change. It returns nil if there are none, or if the stream does not exist yet. A record that
// cannot be read is an error.
func (s *Store) Comparisons(ctx context.Context, namespace, entry string) (all []knowledge.Record, err error) {
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: s.core.Names().KnowledgeSubject(namespace, streams.Comparisons(entry)) + ".*",
	}
	err = s.core.Scan(ctx, s.core.Names().Knowledge(), config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		r, err := s.recordOf(namespace, msg.Subject, msg.Data, meta.Sequence.Stream)
		all = append(all, r)
		return true, err
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("read comparisons: %w", natsstore.StoreError(ctx, err))
	}
	return all, nil
}

// Purge deletes the record with an ID, and those whose IDs start with it and a dot. It is no error
// if there is none. The two deletions are not atomic: repeat the call after an error.
func (s *Store) Purge(ctx context.Context, namespace, id string) error {
	subject := s.core.Names().KnowledgeSubject(namespace, id)
	return errors.Join(s.purge(ctx, subject), s.purge(ctx, subject+".>"))
}

// PurgeAll deletes all records of a namespace.
func (s *Store) PurgeAll(ctx context.Context, namespace string) error {
	return s.purge(ctx, s.core.Names().KnowledgeSubjects(namespace))
}

func (s *Store) purge(ctx context.Context, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, natsstore.ListTimeout)
	defer cancel()
	stream, err := s.core.JetStream().Stream(ctx, s.core.Names().Knowledge())
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("purge %s: %w", subject, natsstore.StoreError(ctx, err))
	}
	return nil
}
