package deliverystore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

	maxRecording  = 4096            // records on their way; more wait
	recordTimeout = 3 * time.Second // then a record is published again

	// How soon records that could not be stored are published again; twice as late each time.
	recordAgain, recordAgainMost = 250 * time.Millisecond, 2 * time.Second
)

// leftAttempts is the message of a server that ends about records that it could not store.
const leftAttempts = "attempts"

var (
	errLogClosed    = errors.New("the attempt log is closed")
	errNotPublished = errors.New("not connected")
)

// AttemptLog is the stream of attempts. Records are published without waiting for each other.
type AttemptLog struct {
	store *Store
	js    jetstream.JetStream
	queue chan recording
	done  chan struct{}
}

type recording struct {
	msg    *nats.Msg
	future jetstream.PubAckFuture // nil: it could not be published yet
	err    error                  // why it is not stored yet
	stored func(error)
}

// AttemptLog returns the attempt log. Its Run has to run for records to be stored.
func (s *Store) AttemptLog() (*AttemptLog, error) {
	js, err := jetstream.New(s.core.Conn(), jetstream.WithPublishAsyncMaxPending(maxRecording), jetstream.WithPublishAsyncTimeout(recordTimeout))
	if err != nil {
		return nil, fmt.Errorf("attempt log: %w", err)
	}
	return &AttemptLog{store: s, js: js, queue: make(chan recording, maxRecording), done: make(chan struct{})}, nil
}

// Run completes records until ctx is done. Records that are on their way then end with an
// error. Records that could not be stored are published again together: after an outage these are
// all that were under way, and one wait for each of them would be minutes.
func (l *AttemptLog) Run(ctx context.Context) error {
	defer l.abandon(ctx)
	var failed []recording
	var again <-chan time.Time
	pause := recordAgain
	for {
		select {
		case <-ctx.Done():
			for _, rec := range failed {
				rec.stored(errLogClosed)
			}
			shutdown.Left(ctx, leftAttempts, len(failed))
			return nil
		case rec := <-l.queue:
			failed = l.complete(ctx, rec, failed)
		case <-again:
			again, failed = nil, l.republish(ctx, failed)
			pause = min(2*pause, recordAgainMost)
		}
		switch {
		case len(failed) == 0:
			pause = recordAgain
		case again == nil:
			l.store.core.Log().WarnContext(ctx, "attempts not recorded yet", slog.Int("attempts", len(failed)),
				slog.Any("error", failed[len(failed)-1].err), slog.Duration("again", pause))
			again = time.After(pause)
		}
	}
}

func (l *AttemptLog) abandon(ctx context.Context) {
	close(l.done)
	for {
		select {
		case rec := <-l.queue:
			shutdown.Left(ctx, leftAttempts, 1)
			rec.stored(errLogClosed)
		default:
			return
		}
	}
}

// complete waits for a record's answer. A record that is not stored is added to those that failed.
func (l *AttemptLog) complete(ctx context.Context, rec recording, failed []recording) []recording {
	if rec.future == nil {
		rec.err = errNotPublished
		return append(failed, rec)
	}
	select {
	case <-rec.future.Ok():
		rec.stored(nil)
	case rec.err = <-rec.future.Err():
		return append(failed, rec)
	case <-ctx.Done():
		shutdown.Left(ctx, leftAttempts, 1)
		rec.stored(errLogClosed)
	}
	return failed
}

// republish publishes records again and returns those that failed again.
func (l *AttemptLog) republish(ctx context.Context, recs []recording) (failed []recording) {
	for i := range recs {
		recs[i].future = l.publish(recs[i].msg)
	}
	for _, rec := range recs {
		failed = l.complete(ctx, rec, failed)
	}
	return failed
}

func (l *AttemptLog) publish(msg *nats.Msg) jetstream.PubAckFuture {
	if l.store.core.Conn().IsClosed() {
		return nil // the first publish would leave a goroutine that waits for the connection to be closed
	}
	again := *msg
	future, err := l.js.PublishMsgAsync(&again)
	if err != nil {
		l.store.core.Log().Debug("attempt not published", slog.Any("error", err))
		return nil
	}
	return future
}

// Record stores an attempt and then calls stored, once, from another goroutine. It tries until
// it succeeds or the log is closed, which is the only error that stored gets.
func (l *AttemptLog) Record(a *sluice.Attempt, namespace string, stored func(error)) {
	data, err := json.Marshal(a)
	if err != nil {
		stored(fmt.Errorf("attempt: %w", err))
		return
	}
	msg := &nats.Msg{Subject: streams.AttemptsSubject(namespace, a.Subscription), Data: data}
	rec := recording{msg: msg, future: l.publish(msg), stored: stored}
	select {
	case l.queue <- rec:
	case <-l.done:
		stored(errLogClosed)
	}
}

// Recover returns the recorded progress of the subscription's latest deliveries, by sequence:
// those of the last half minute before its last record. Attempts of an earlier subscription of
// the same id are left out, however late they were recorded.
func (l *AttemptLog) Recover(ctx context.Context, sub *sluice.Subscription) (map[uint64]model.Progress, error) {
	return l.store.latest(ctx, sub, "")
}

// settled reports whether a delivery was settled or parked a short time before the
// subscription's last attempt.
func (s *Store) settled(ctx context.Context, sub *sluice.Subscription, seq uint64) (bool, error) {
	known, err := s.latest(ctx, sub, "")
	if err != nil || known[seq].Settled {
		return true, err
	}
	parked, _, err := s.laneRecords(ctx, sub, sub.ID)
	return slices.ContainsFunc(parked, func(p model.ParkedEntry) bool { return p.FromSeq == seq }), err
}

// latest returns the recorded progress of the latest deliveries of a subscription, or of one of
// its replays.
func (s *Store) latest(ctx context.Context, sub *sluice.Subscription, replay string) (map[uint64]model.Progress, error) {
	subject := streams.AttemptsSubject(sub.Namespace, sub.ID)
	last, err := s.lastTime(ctx, streams.Attempts, subject)
	if err != nil || last.IsZero() {
		return nil, err
	}
	from := last.Add(-recoverSpan)
	known := map[uint64]model.Progress{}
	err = s.core.Scan(ctx, streams.Attempts, jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
	}, func(msg *nats.Msg, _ *nats.MsgMetadata) (bool, error) {
		var a sluice.Attempt
		if err := json.Unmarshal(msg.Data, &a); err != nil {
			return false, fmt.Errorf("attempt: %w", err)
		}
		if a.StartedAt.Before(sub.Began()) || a.Replay != replay || a.Probe {
			return true, nil
		}
		known[a.Seq] = progressed(known[a.Seq], &a)
		return true, nil
	})
	return known, err
}

// progressed returns how far a delivery has come with one more attempt. One that was held
// begins anew.
func progressed(p model.Progress, a *sluice.Attempt) model.Progress {
	if a.Verdict.Held != "" {
		return model.Progress{EventID: a.EventID, Settled: p.Settled}
	}
	p.EventID = a.EventID
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
