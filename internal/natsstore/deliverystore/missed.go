package deliverystore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	maxGaps     = 100              // gaps of the log in the record of a subscription
	gapTries    = 5                // to write that record while the replica of the subscription also writes it
	gapAttempts = 10_000           // length from which on a gap is not compared with the attempts
	gapLimit    = 30 * time.Second // time limit for reading the attempts of one subscription
)

// Had is the progress of a subscription.
type Had struct {
	Since time.Time `json:"since"` // when the subscription started
	Seq   uint64    `json:"seq"`   // up to here every event was delivered, given up, or is unwanted
}

// Had returns the progress of each push subscription by ID, according to the lookouts and parked
// lanes. A subscription without a lookout is missing. Code Unavailable. It reads all records of the
// bucket lanes once. The result is a lower bound: more may have been delivered since the marks were
// written.
func (s *Store) Had(ctx context.Context) (map[string]Had, error) {
	records, err := natsstore.OpenBucket[json.RawMessage](s.core, streams.Lanes).List(ctx, ">")
	if err != nil {
		return nil, err
	}
	all, cursors := map[string]Had{}, cursorsIn(records)
	for _, e := range records {
		var l lookout
		if id, ok := strings.CutPrefix(e.Key, streams.LookoutKey("")); ok && json.Unmarshal(e.Value, &l) == nil {
			if seq, known := l.had(); known {
				all[id] = Had{l.Since, max(seq, cursors[l.Cursor])}
			}
		}
	}
	for _, e := range records {
		var lane laneRecord
		id, _, _ := strings.Cut(e.Key, ".")
		had, ok := all[id]
		if ok && json.Unmarshal(e.Value, &lane) == nil && lane.Since.Equal(had.Since) && lane.FromSeq > 0 {
			all[id] = Had{had.Since, min(had.Seq, lane.FromSeq-1)} // the events after its head are read again from the log
		}
	}
	return all, nil
}

// had returns the sequence up to which the events of all consumers are accounted for.
func (l lookout) had() (seq uint64, known bool) {
	for i, m := range l.Marks {
		at := m.Floor
		switch {
		case m.Open > 0:
			at = min(at, m.Open-1)
		case m.Next > 0:
			at = max(at, m.Next-1)
		default:
			at = max(at, m.Seen)
		}
		if i == 0 || at < seq {
			seq = at
		}
	}
	return seq, len(l.Marks) > 0
}

// Place returns the sequence of the first event that a subscription may not have settled; that of
// the next event to be stored if it has settled all. It reads the parked lanes last: a lane is
// parked before its deliveries are acknowledged.
func (s *Store) Place(ctx context.Context, sub *sluice.Subscription) (uint64, error) {
	last, err := s.log.LastSeq(ctx, sub.Namespace)
	if err != nil {
		return 0, err
	}
	floors, err := s.startFloors(ctx, sub)
	if err != nil {
		return 0, err
	}
	l, _, err := s.lookout(ctx, sub)
	if err != nil {
		return 0, err
	}
	first := last + 1
	for i, want := range s.core.Names().PushConsumers(sub) {
		if m, _ := l.mark(i); m.Floor <= last {
			floors[i] = max(floors[i], m.Floor)
		}
		info, err := s.consumerInfo(ctx, sub, i, want)
		if err != nil {
			return 0, err
		}
		if info != nil {
			floors[i] = max(floors[i], info.AckFloor.Stream)
		}
		next, err := s.log.NextSeq(ctx, sub.Namespace, want.Filter.Subject, floors[i]+1)
		if err != nil {
			return 0, err
		}
		first = min(first, cmp.Or(next, first))
	}
	parked, _, err := s.laneRecords(ctx, sub, sub.ID)
	for _, lane := range parked {
		first = min(first, cmp.Or(lane.FromSeq, first))
	}
	return first, err
}

// Gap is a range of sequences of a log that can no longer be read.
type Gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// enter adds the events of the gap that have an attempt in the block. A failed probe parks no lane,
// so it does not count.
func (g Gap) enter(block []byte, attempted map[uint64]bool) {
	for line := range streams.SplitBlock(block) {
		var a sluice.Attempt
		if err := json.Unmarshal(line, &a); err != nil || a.Replay != "" || a.Probe {
			continue
		}
		for one := range a.Events() {
			if g.holds(one.Seq) {
				attempted[one.Seq] = true
			}
		}
	}
}

func (g Gap) holds(seq uint64) bool { return g.From <= seq && seq <= g.To }

// BuryGap stores one dead letter for the range from d.Seq to d.LastSeq, which the subscription may
// have missed, without attempted events at its start and end. It reports whether it stored one: it
// does not if all events were attempted, or if any replica has stored one for the range before. The
// record of the subscription contains the range, so that a discarded dead letter is not stored
// again. If BuryGap fails between the dead letter and the record, a repetition replaces the dead
// letter. It does not compare a gap of more than gapAttempts sequences with the attempts.
func (l *AttemptLog) BuryGap(ctx context.Context, sub *sluice.Subscription, d sluice.DeadLetter) (bool, error) {
	known, _, err := l.store.lookout(ctx, sub)
	if err != nil || known.tells(Gap{d.Seq, d.LastSeq}) {
		return false, err
	}
	gap := Gap{d.Seq, d.LastSeq}
	left, err := l.store.unattempted(ctx, sub, gap)
	if err != nil || left == (Gap{}) {
		return false, err
	}
	d.Seq, d.LastSeq = left.From, left.To
	if err := l.store.purgeLetters(ctx, l.store.core.Names().DeadLetterOfSeq(sub.Namespace, sub.ID, d.Seq)); err != nil { // "expired", without the path
		return false, err
	}
	if err := l.Bury(ctx, d); err != nil {
		return false, err
	}
	return true, l.store.rememberGap(ctx, sub, gap)
}

// tells reports whether a dead letter was stored for the whole gap.
func (l lookout) tells(g Gap) bool {
	return slices.ContainsFunc(l.Gaps, func(told Gap) bool { return told.holds(g.From) && told.holds(g.To) })
}

// rememberGap stores in the record of the subscription that there was a dead letter for a gap.
func (s *Store) rememberGap(ctx context.Context, sub *sluice.Subscription, gap Gap) error {
	for try := 1; ; try++ {
		l, revision, err := s.lookout(ctx, sub)
		if err != nil {
			return err
		}
		l.Since, l.Gaps = sub.Began(), append(l.Gaps, gap)
		l.Gaps = l.Gaps[max(0, len(l.Gaps)-maxGaps):]
		_, err = s.lookouts().Put(ctx, streams.LookoutKey(sub.ID), l, revision)
		if sluice.CodeOf(err) != sluice.Conflict || try == gapTries {
			return err
		}
	}
}

// unattempted returns the part of a gap from its first to its last event without an attempt; the
// zero Gap if all were attempted. An event that was attempted and is not settled has a parked lane,
// which causes its own dead letter. An attempt that has expired from the stream of attempts does
// not count.
func (s *Store) unattempted(ctx context.Context, sub *sluice.Subscription, gap Gap) (Gap, error) {
	if gap.To-gap.From >= gapAttempts {
		return gap, nil
	}
	since := sub.Began()
	if e, err := s.log.Event(ctx, sub.Namespace, gap.From-1); err == nil && e.Stored.After(since) {
		since = e.Stored
	}
	attempted := map[uint64]bool{}
	limit, cancel := context.WithTimeout(ctx, gapLimit)
	defer cancel()
	config := jetstream.ConsumerConfig{
		FilterSubject: s.core.Names().AttemptsSubject(sub.Namespace, sub.ID), DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
	}
	err := s.core.Scan(limit, s.core.Names().Attempts(), config, func(msg *nats.Msg, _ *nats.MsgMetadata) (bool, error) {
		gap.enter(msg.Data, attempted)
		return true, nil
	})
	if err != nil && limit.Err() == nil {
		return gap, fmt.Errorf("attempts of %s: %w", sub.ID, natsstore.StoreError(ctx, err))
	}
	for gap.From <= gap.To && attempted[gap.From] {
		gap.From++
	}
	for gap.From <= gap.To && attempted[gap.To] {
		gap.To--
	}
	if gap.From > gap.To {
		return Gap{}, nil
	}
	return gap, ctx.Err()
}
