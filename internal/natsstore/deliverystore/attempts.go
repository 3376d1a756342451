package deliverystore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// recoverSpan is how far before the last record Recover reads. A consumer's state on the
	// disk is at most a tenth of a second behind; the rest is margin.
	recoverSpan = 30 * time.Second

	maxRecording  = 4096                    // records on their way; more wait
	maxQueued     = 256                     // and so many that are not looked at yet
	recordTimeout = 1500 * time.Millisecond // then a record is published again: a stream without a leader has lost it

	// How soon records that could not be stored are published again; twice as late each time.
	recordAgain, recordAgainMost = 250 * time.Millisecond, 2 * time.Second
)

// leftAttempts is the message of a server that ends about records that it could not store.
const leftAttempts = "attempts"

var errLogClosed = errors.New("the attempt log is closed")

// AttemptLog is the stream of attempts. Records are published without waiting for each other; those of one subscription are stored
// in blocks, in their order (decision 0041).
type AttemptLog struct {
	store *Store
	js    jetstream.JetStream
	queue chan recording
	done  chan struct{}
}

// AttemptLog returns the attempt log. Its Run has to run for records to be stored.
func (s *Store) AttemptLog() (*AttemptLog, error) {
	js, err := jetstream.New(s.core.Conn(), jetstream.WithPublishAsyncMaxPending(2*maxRecording), jetstream.WithPublishAsyncTimeout(recordTimeout))
	if err != nil {
		return nil, fmt.Errorf("attempt log: %w", err)
	}
	return &AttemptLog{store: s, js: js, queue: make(chan recording, maxQueued), done: make(chan struct{})}, nil
}

// Run stores records until ctx is done. Records that are on their way then end with an error.
func (l *AttemptLog) Run(ctx context.Context) error {
	r := &recorder{log: l, series: map[string]*series{}, pause: recordAgain, size: blockBytes}
	for r.step(ctx) {
	}
	close(l.done)
	r.leave(ctx)
	shutdown.Left(ctx, leftAttempts, l.refuse())
	return nil
}

// refuse ends the records in the queue with an error, and returns how many there were.
func (l *AttemptLog) refuse() (n int) {
	for {
		select {
		case rec := <-l.queue:
			n++
			rec.stored(errLogClosed)
		default:
			return n
		}
	}
}

// Record stores an attempt and then calls stored, once, from another goroutine. It tries until
// it succeeds or the log is closed, which is the only error that stored gets.
func (l *AttemptLog) Record(a *sluice.Attempt, namespace string, stored func(error)) {
	data, err := json.Marshal(a)
	if err != nil {
		stored(fmt.Errorf("attempt: %w", err))
		return
	}
	select {
	case l.queue <- recording{l.store.core.Names().AttemptsSubject(namespace, a.Subscription), data, stored}:
	case <-l.done:
		stored(errLogClosed)
		return
	}
	select {
	case <-l.done:
		l.refuse() // Run may have looked before
	default:
	}
}

// Recover returns the recorded progress of the subscription's latest deliveries of events behind a
// sequence, by sequence: those of the last half minute before its last record. Attempts of an
// earlier subscription of the same id are left out, however late they were recorded.
func (l *AttemptLog) Recover(ctx context.Context, sub *sluice.Subscription, after uint64) (map[uint64]model.Progress, error) {
	return l.store.latest(ctx, sub, "", after)
}

// settled reports whether a delivery was settled or parked a short time before the
// subscription's last attempt.
func (s *Store) settled(ctx context.Context, sub *sluice.Subscription, seq uint64) (bool, error) {
	known, err := s.latest(ctx, sub, "", seq-1)
	if err != nil || known[seq].Settled {
		return true, err
	}
	parked, _, err := s.laneRecords(ctx, sub, sub.ID)
	return slices.ContainsFunc(parked, func(p model.ParkedEntry) bool { return p.FromSeq == seq }), err
}

// latest returns the recorded progress of the latest deliveries of a subscription, or of one of
// its replays, of events behind a sequence.
func (s *Store) latest(ctx context.Context, sub *sluice.Subscription, replay string, after uint64) (map[uint64]model.Progress, error) {
	subject := s.core.Names().AttemptsSubject(sub.Namespace, sub.ID)
	last, err := s.lastTime(ctx, s.core.Names().Attempts(), subject)
	if err != nil || last.IsZero() {
		return nil, err
	}
	all, err := s.triedSince(ctx, subject, last, after)
	return progressIn(all[sub.ID], sub, replay), err
}

// lastTried returns the attempts of the half minute before the last one, by subscription.
func (s *Store) lastTried(ctx context.Context) (map[string][]tried, error) {
	handle, err := s.core.JetStream().Stream(ctx, s.core.Names().Attempts())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.core.Names().Attempts(), err)
	}
	return s.triedSince(ctx, "", handle.CachedInfo().State.LastTime, 0)
}

// tried is an attempt as far as it tells of a delivery's progress.
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
	Verdict        sluice.Verdict    `json:"verdict"`
}

// triedSince returns the attempts at events behind a sequence that were stored in the half minute before
// a time and since then, by subscription: those on a subject, or all.
func (s *Store) triedSince(ctx context.Context, subject string, last time.Time, after uint64) (map[string][]tried, error) {
	from := last.Add(-recoverSpan)
	all := map[string][]tried{}
	err := s.core.Scan(ctx, s.core.Names().Attempts(), jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
	}, func(msg *nats.Msg, _ *nats.MsgMetadata) (bool, error) {
		for line := range streams.SplitBlock(msg.Data) {
			if seq, ok := seqIn(line); ok && seq <= after && !bytes.Contains(line, []byte(`"batch":`)) {
				continue // after a crash at full load these are nearly all
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

// seqIn returns the sequence in a stored attempt, without decoding the rest. Within a text its key would have escaped quotes.
func seqIn(line []byte) (seq uint64, ok bool) {
	_, rest, ok := bytes.Cut(line, []byte(`"seq":`))
	n := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || n < 1 {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:n]), 10, 64)
	return seq, err == nil
}

// progressIn returns how far the deliveries of a subscription, or of one of its replays, came by attempts.
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

// progressed returns how far the delivery of an event has come with one more attempt. One that was held
// begins anew.
func progressed(p model.Progress, a *tried, id string) model.Progress {
	if a.Verdict.Held != "" {
		return model.Progress{EventID: id, Settled: p.Settled}
	}
	p.EventID = id
	if p.FirstFailed.IsZero() {
		p.FirstFailed = a.StartedAt
	}
	p.Attempts, p.Settled = max(p.Attempts, a.Number), p.Settled || a.Verdict.Final()
	return p
}

// lastTime returns when the last message of a subject was stored; zero if there is none.
func (s *Store) lastTime(ctx context.Context, stream, subject string) (time.Time, error) {
	handle, err := s.core.JetStream().Stream(ctx, stream)
	if err != nil {
		return time.Time{}, fmt.Errorf("stream %s: %w", stream, err)
	}
	msg, err := natsstore.Asked(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return handle.GetLastMsgForSubject(ctx, subject)
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("last of %s: %w", subject, err)
	}
	return msg.Time, nil
}
