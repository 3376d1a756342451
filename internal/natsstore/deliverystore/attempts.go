package deliverystore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	// recoverSpan is the time before the last record from which Recover always reads. The state of a
	// consumer on the disk lags by at most a tenth of a second; the rest is margin.
	recoverSpan = 30 * time.Second

	// recoverMost is the time before the last record from which Recover reads if the first delivery
	// that is not settled has waited for so long: others may have been settled all the while. A
	// request may take a minute, and several may follow each other on one path.
	recoverMost = 5 * time.Minute

	// recoverAll is recoverSpan for a read for all subscriptions: a request may take a minute.
	recoverAll = sluice.MaxTimeout + recoverSpan

	clockSkew = 10 * time.Second // how far the clocks of NATS servers may be apart

	maxRecording  = 4096                    // records in flight; further ones wait
	maxQueued     = 256                     // records in the queue
	recordTimeout = 1500 * time.Millisecond // after which a record is published again, because a stream without a leader has lost it

	// Delay before records are published again that could not be stored; doubled each time.
	recordAgain, recordAgainMost = 250 * time.Millisecond, 2 * time.Second
)

// leftAttempts is the name for shutdown.Left of the records that were not stored before the
// shutdown.
const leftAttempts = "attempts"

var errLogClosed = errors.New("the attempt log is closed")

// AttemptLog is the stream of attempts. Records are published without waiting for the previous
// ones, except that the records of one subscription are stored in blocks, one after the other
// (decision 0041). It has a JetStream context of its own, so that its limit of unanswered messages
// does not block other publishers.
type AttemptLog struct {
	store *Store
	js    jetstream.JetStream
	queue chan recording
	done  chan struct{}
}

// AttemptLog returns the attempt log. Records are stored only while its Run runs.
func (s *Store) AttemptLog() (*AttemptLog, error) {
	js, err := jetstream.New(s.core.Conn(), jetstream.WithPublishAsyncMaxPending(2*maxRecording), jetstream.WithPublishAsyncTimeout(recordTimeout))
	if err != nil {
		return nil, fmt.Errorf("attempt log: %w", err)
	}
	return &AttemptLog{store: s, js: js, queue: make(chan recording, maxQueued), done: make(chan struct{})}, nil
}

// Run stores records until ctx is done. Records that are not stored then get an error. Call it
// once. The result is always nil. stored is called exactly once for each record.
func (l *AttemptLog) Run(ctx context.Context) error {
	r := &recorder{log: l, series: map[string]*series{}, pause: recordAgain, size: blockBytes}
	for r.step(ctx) {
	}
	close(l.done)
	r.leave(ctx)
	shutdown.Left(ctx, leftAttempts, l.refuse())
	return nil
}

// refuse passes an error to the records in the queue, and returns their number.
func (l *AttemptLog) refuse() (n int) {
	for {
		select {
		case rec := <-l.queue:
			n++
			l.end(&rec, errLogClosed)
		default:
			return n
		}
	}
}

// Record stores an attempt and calls stored once, usually from another goroutine. It retries until
// it succeeds or the log is closed. stored gets an error only if the log is closed or the attempt
// cannot be encoded. Record blocks while the queue is full, which holds back the deliveries. The
// caller acknowledges a delivery only in stored (C01). stored must not block, because the goroutine
// of Run calls it.
func (l *AttemptLog) Record(a *sluice.Attempt, namespace string, stored func(error)) {
	data, err := json.Marshal(a)
	if err != nil {
		stored(fmt.Errorf("attempt: %w", err))
		return
	}
	rec := recording{l.store.core.Names().AttemptsSubject(namespace, a.Subscription), data, stored}
	l.store.unrecorded.enter(rec.subject)
	select {
	case l.queue <- rec:
	case <-l.done:
		l.end(&rec, errLogClosed)
		return
	}
	select {
	case <-l.done:
		l.refuse() // Run may have called refuse before the record was queued
	default:
	}
}

// Recover returns the recorded progress of the latest deliveries of events after a sequence, by
// sequence. It returns nil if there is no record. Attempts of an earlier subscription with the same
// ID are ignored, however late they were recorded.
//
// All deliveries up to floor are acknowledged or parked. Recover reads the attempts since the first
// event behind it was stored, because no attempt at a later event is older; at most those of the
// recoverMost before the last record, and at least those of the recoverSpan; at parked events, those
// of the recoverAll.
//
// It first waits until the attempts that this process has made are stored, however long NATS is
// away or full: nothing can be delivered without that anyway.
func (l *AttemptLog) Recover(ctx context.Context, sub *sluice.Subscription, after, floor uint64) (map[uint64]model.Progress, error) {
	return l.store.latest(ctx, sub, after, floor)
}

// settled reports whether a delivery was settled in the recoverMost before the last attempt of the
// subscription, or is parked.
func (s *Store) settled(ctx context.Context, sub *sluice.Subscription, seq uint64) (bool, error) {
	known, err := s.latest(ctx, sub, seq-1, 0)
	if err != nil || known[seq].Settled {
		return true, err
	}
	parked, _, err := s.laneRecords(ctx, sub, sub.ID)
	return slices.ContainsFunc(parked, func(p model.ParkedEntry) bool { return p.FromSeq == seq }), err
}

// latest is Recover.
func (s *Store) latest(ctx context.Context, sub *sluice.Subscription, after, floor uint64) (map[uint64]model.Progress, error) {
	subject, last, err := s.lastTried(ctx, sub)
	if err != nil || last.IsZero() {
		return nil, err
	}
	behind, err := s.storedBehind(ctx, sub.Namespace, floor)
	if err != nil {
		return nil, err
	}
	recent := last.Add(-recoverSpan)
	if after < floor { // a lane is parked: its record may be older than its last request, which may have taken a minute
		recent = last.Add(-recoverAll)
	}
	from := readFrom(last, behind)
	if recent.Before(from) {
		from = recent
	}
	all, err := s.triedSince(ctx, subject, from, func(line []byte, msg *nats.Msg, meta *nats.MsgMetadata) bool {
		if meta.Timestamp.Before(recent) {
			return isUpTo(line, max(after, floor)) // events of parked lanes have records of their own
		}
		return isUpTo(line, after)
	})
	return progressIn(all[sub.ID], sub, ""), err
}

// latestOf returns the recorded progress of the latest deliveries of a replay. The attempts of the
// subscription's live deliveries may be later.
func (s *Store) latestOf(ctx context.Context, sub *sluice.Subscription, rep *sluice.Replay) (map[uint64]model.Progress, error) {
	subject, last, err := s.lastTried(ctx, sub)
	if err != nil || last.IsZero() {
		return nil, err
	}
	id := []byte(strconv.Quote(rep.ID))
	all, err := s.triedSince(ctx, subject, readFrom(last, rep.CreatedAt), func(line []byte, _ *nats.Msg, _ *nats.MsgMetadata) bool {
		return !bytes.Contains(line, id)
	})
	return progressIn(all[sub.ID], sub, rep.ID), err
}

// readFrom returns the time from which attempts are read, given those of the last attempt and of
// what all of them follow; zero if that is unknown.
func readFrom(last, since time.Time) time.Time {
	recent, most := last.Add(-recoverSpan), last.Add(-recoverMost)
	if since.IsZero() {
		return recent
	}
	since = since.Add(-clockSkew)
	switch {
	case since.After(recent):
		return recent
	case since.Before(most):
		return most
	}
	return since
}

// storedBehind returns when the first message of a log behind a sequence was stored; zero if the
// leader has none.
func (s *Store) storedBehind(ctx context.Context, ns string, seq uint64) (time.Time, error) {
	if seq == math.MaxUint64 {
		return time.Time{}, nil
	}
	at, err := s.log.StoredFrom(ctx, ns, seq+1)
	if err != nil {
		return at, fmt.Errorf("time of the first message behind %d: %w", seq, err)
	}
	return at, nil
}

// lastTried returns the subject of the attempts of a subscription, and the time of the last one. It
// first waits for those of this process that are not stored yet.
func (s *Store) lastTried(ctx context.Context, sub *sluice.Subscription) (subject string, last time.Time, err error) {
	subject = s.core.Names().AttemptsSubject(sub.Namespace, sub.ID)
	if err := s.unrecorded.wait(ctx, subject); err != nil {
		return subject, last, err
	}
	last, err = s.lastTime(ctx, s.core.Names().Attempts(), subject)
	return subject, last, err
}

// tried has the fields of an attempt that describe the progress of a delivery.
type tried struct {
	Subscription   string            `json:"subscription"`
	EventID        string            `json:"event_id"`
	Seq            uint64            `json:"seq"`
	Batch          []sluice.EventRef `json:"batch"`
	Path           sluice.Path       `json:"path"`
	Number         int               `json:"number"`
	SupersedesFrom uint64            `json:"supersedes_from"`
	Probe          bool              `json:"probe"`
	StartedAt      time.Time         `json:"started_at"`
	Replay         string            `json:"replay"`
	Outcome        sluice.Outcome    `json:"outcome"`
	Verdict        sluice.Verdict    `json:"verdict"`
}

// triedSince returns the attempts that were stored at a time or later, by subscription: those with
// the subject, or all. It does not decode those for which skips returns true.
func (s *Store) triedSince(ctx context.Context, subject string, from time.Time, skips func(line []byte, msg *nats.Msg, meta *nats.MsgMetadata) bool) (map[string][]tried, error) {
	all := map[string][]tried{}
	err := s.core.Scan(ctx, s.core.Names().Attempts(), jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
	}, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		for line := range streams.SplitBlock(msg.Data) {
			if skips(line, msg, meta) {
				continue
			}
			var a tried
			if err := json.Unmarshal(line, &a); err != nil {
				return false, fmt.Errorf("attempt: %w", err)
			}
			all[a.Subscription] = append(all[a.Subscription], a)
		}
		return true, nil
	})
	return all, err
}

// isUpTo reports whether a stored attempt is at events up to a sequence only. After a crash under
// full load these are almost all.
func isUpTo(line []byte, limit uint64) bool {
	seq, ok := seqIn(line)
	return ok && seq <= limit && !bytes.Contains(line, []byte(`"batch":`))
}

// seqIn returns the sequence in a stored attempt without decoding the rest. Inside a string the
// quotes of the key would be escaped.
func seqIn(line []byte) (seq uint64, ok bool) {
	_, rest, ok := bytes.Cut(line, []byte(`"seq":`))
	n := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || n < 1 {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:n]), 10, 64)
	return seq, err == nil
}

// progressIn returns the progress of the deliveries of a subscription, or of one of its replays,
// according to attempts. Probes and attempts of other replays do not count. O(len(attempts)).
func progressIn(attempts []tried, sub *sluice.Subscription, replay string) map[uint64]model.Progress {
	known := map[uint64]model.Progress{}
	for i := range attempts {
		a := &attempts[i]
		if a.StartedAt.Before(sub.Began()) || a.Replay != replay || a.Probe {
			continue
		}
		if len(a.Batch) == 0 {
			known[a.Seq] = progressed(known[a.Seq], a, a.EventID)
		}
		if a.SupersedesFrom > 0 {
			p := known[a.Seq]
			p.Path, p.SupersedesFrom = a.Path, a.SupersedesFrom
			known[a.Seq] = p
		}
		for _, one := range a.Batch {
			known[one.Seq] = progressed(known[one.Seq], a, one.EventID)
		}
	}
	return known
}

// progressed returns the progress of a delivery after one more attempt. An attempt that held the
// delivery resets the progress.
func progressed(p model.Progress, a *tried, id string) model.Progress {
	if a.Verdict.Held != "" {
		return model.Progress{EventID: id, Settled: p.Settled, Delivered: p.Delivered, Dead: p.Dead}
	}
	p.EventID = id
	if p.FirstFailed.IsZero() {
		p.FirstFailed = a.StartedAt
	}
	p.Attempts, p.Settled = max(p.Attempts, a.Number), p.Settled || a.Verdict.Final()
	p.Delivered, p.Dead = p.Delivered || a.Outcome == sluice.Delivered, p.Dead || a.Verdict.Dead != ""
	return p
}

// lastTime returns the time at which the last message of a subject was stored; zero if there is
// none. The leader answers: a replica that is behind may have none of several.
func (s *Store) lastTime(ctx context.Context, stream, subject string) (time.Time, error) {
	last, err := s.core.LeadersMessage(ctx, stream, natsstore.MessageRequest{Last: subject})
	if err != nil {
		return time.Time{}, fmt.Errorf("last of %s: %w", subject, err)
	}
	return last.Time, nil
}
