package streamstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	pathsMost   = 100_000         // subjects of a log up to which the path of unreadable events is determined
	verifyStep  = 1000            // messages between two calls of progress
	moveStep    = 1000            // messages that are written together to advance a stream
	moveMost    = 2_000_000       // sequences by which a stream with messages is advanced, at most
	moveTimeout = 5 * time.Second // time limit of one step

	moveMostLedger = 100_000 // sequences by which a ledger is advanced, at most: about 10 MB that stay
)

// Verify reads every message of a stream, so that the NATS server checks its checksum, and returns
// those that exist and cannot be read. It calls progress from time to time with the number of
// messages that were read, and the total number; progress may block. Verify reads the messages that
// exist when it is called, and a second time if a log has unreadable ones. It returns nil if all
// can be read. A message that is deleted during the call is no damage.
func (s *Store) Verify(ctx context.Context, name string, progress func(read, total uint64)) ([]sluice.Damage, error) {
	stream, err := s.core.JetStream().Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", name, natsstore.StoreError(ctx, err))
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return nil, nil
	}
	var gaps []sequences
	var read uint64
	next := state.FirstSeq
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: state.FirstSeq, HeadersOnly: true}
	err = s.core.Scan(ctx, name, config, func(_ *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		seq := meta.Sequence.Stream
		if to := min(seq-1, state.LastSeq); to >= next {
			gaps = append(gaps, sequences{next, to})
		}
		next = seq + 1
		if read++; read%verifyStep == 0 {
			progress(read, state.Msgs)
		}
		return seq < state.LastSeq, ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", name, natsstore.StoreError(ctx, err))
	}
	if next <= state.LastSeq {
		gaps = append(gaps, sequences{next, state.LastSeq})
	}
	return s.unreadable(ctx, stream, gaps)
}

// unreadable returns the parts of the gaps that are caused neither by deletion nor by the
// retention.
func (s *Store) unreadable(ctx context.Context, stream jetstream.Stream, gaps []sequences) (all []sluice.Damage, err error) {
	if len(gaps) == 0 {
		return nil, nil
	}
	info, err := natsstore.AskedFor(ctx, natsstore.ListTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return stream.Info(ctx, jetstream.WithDeletedDetails(true))
	})
	if err != nil {
		return nil, fmt.Errorf("verify: %w", natsstore.StoreError(ctx, err))
	}
	ns, _ := s.core.Names().LogOf(info.Config.Name)
	slices.Sort(info.State.Deleted)
	var messages uint64
	for _, gap := range gaps {
		for _, g := range without(gap, info.State.FirstSeq, info.State.Deleted) {
			all = append(all, sluice.Damage{Kind: sluice.DamageUnreadable, Stream: info.Config.Name, Namespace: ns, From: g.from, To: g.to})
			messages += g.to - g.from + 1
		}
	}
	if ns == "" || messages == 0 {
		return all, nil
	}
	path, err := s.pathOf(ctx, stream, info.State, messages)
	for i := range all {
		all[i].Path = path
	}
	return all, err
}

// pathOf returns the path of the unreadable events of a log. The index of the stream counts the
// messages of each subject: if fewer messages than that can be read for only one subject, the
// unreadable ones belong to it. It returns "" if the path is unknown, and for a log with more than
// pathsMost subjects.
func (s *Store) pathOf(ctx context.Context, stream jetstream.Stream, state jetstream.StreamState, unreadable uint64) (sluice.Path, error) {
	if state.NumSubjects > pathsMost {
		return "", nil
	}
	info, err := natsstore.AskedFor(ctx, natsstore.ListTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	})
	if err != nil {
		return "", fmt.Errorf("verify: %w", natsstore.StoreError(ctx, err))
	}
	left := info.State.Subjects
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true}
	err = s.core.Scan(ctx, info.Config.Name, config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream <= info.State.LastSeq {
			left[msg.Subject]--
		}
		return meta.Sequence.Stream < info.State.LastSeq, ctx.Err()
	})
	if err != nil {
		return "", fmt.Errorf("verify %s: %w", info.Config.Name, natsstore.StoreError(ctx, err))
	}
	maps.DeleteFunc(left, func(_ string, n uint64) bool { return n == 0 })
	for subject, n := range left {
		if _, path, err := s.core.Names().ParseSubject(subject); err == nil && len(left) == 1 && n >= unreadable {
			return path, nil
		}
	}
	return "", nil
}

// without returns the parts of a range from a first sequence on without the deleted sequences, in
// ascending order.
func without(gap sequences, first uint64, deleted []uint64) (left []sequences) {
	at, _ := slices.BinarySearch(deleted, gap.from)
	from := max(gap.from, first)
	for ; at < len(deleted) && deleted[at] <= gap.to; at++ {
		if deleted[at] > from {
			left = append(left, sequences{from, deleted[at] - 1})
		}
		from = max(from, deleted[at]+1)
	}
	if from <= gap.to {
		left = append(left, sequences{from, gap.to})
	}
	return left
}

// MoveOn advances a stream so that it assigns no sequence up to last again. It keeps the messages
// of the stream. The messages that advance a ledger stay in it, because messages of a ledger cannot
// be deleted; its readers skip them. Code Unprocessable for a distance that would take minutes, or
// too much space of a ledger. It does nothing if the stream has reached last. After an
// interruption, call it again: it continues where the stream ends. While it runs, a log briefly has
// messages without a path.
func (s *Store) MoveOn(ctx context.Context, name string, last uint64) error {
	subject, ok := s.moveSubject(name)
	if !ok {
		return sluice.Errorf(sluice.Unprocessable, "%s cannot be advanced", name)
	}
	most, stays := uint64(moveMost), name == s.core.Names().Ledger()
	if stays {
		most = moveMostLedger
	}
	stream, err := s.core.JetStream().Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("advance %s: %w", name, natsstore.StoreError(ctx, err))
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 && state.LastSeq < last && !stays {
		return natsstore.StoreError(ctx, stream.Purge(ctx, jetstream.WithPurgeSequence(last+1)))
	}
	if last > state.LastSeq+most {
		return sluice.Errorf(sluice.Unprocessable, "%s ends %d sequences before its last known end; it is advanced by at most %d", name, last-state.LastSeq, most)
	}
	for at := state.LastSeq; at < last; {
		if at, err = s.fill(ctx, subject, min(moveStep, last-at)); err != nil {
			return fmt.Errorf("advance %s: %w", name, natsstore.StoreError(ctx, err))
		}
		if stays {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return fmt.Errorf("advance %s: %w", name, natsstore.StoreError(ctx, err))
		}
	}
	return nil
}

// fill writes n messages and returns the sequence of the last one.
func (s *Store) fill(ctx context.Context, subject string, n uint64) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	var acks []jetstream.PubAckFuture
	for range n {
		msg := nats.NewMsg(s.core.WriteSubject(subject))
		msg.Header.Set("KV-Operation", "PURGE") // readers of the bucket treat it as a deleted record
		ack, err := s.core.JetStream().PublishMsgAsync(msg)
		if err != nil {
			return 0, err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case stored := <-ack.Ok():
			last = max(last, stored.Sequence)
		case err := <-ack.Err():
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return last, nil
}

// moveSubject returns the subject of the messages that advance a stream, and whether it can be advanced.
func (s *Store) moveSubject(stream string) (string, bool) {
	if ns, ok := s.core.Names().LogOf(stream); ok {
		return s.core.Names().MoveSubject(ns), true
	}
	for _, b := range streams.Buckets() {
		if s.core.Names().BucketStream(b.Name) == stream {
			return s.core.Names().KeySubject(b.Name, "=moved"), true
		}
	}
	for _, d := range s.core.Names().Singles() {
		if d.Name == stream {
			return streams.MoveSubjectOf(d), true
		}
	}
	return "", false
}

// sequences is a range of sequences.
type sequences struct{ from, to uint64 }
