package deliverystore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/streams"
)

// Limits of a block. A single attempt may be larger.
const (
	blockAttempts = 64
	blockBytes    = 64 << 10
	payloadShare  = 4 // a block also has at most a quarter of the maximum payload of a message
)

var errNotConnected = errors.New("not connected to NATS")

// recording is an attempt to be stored.
type recording struct {
	subject string
	line    []byte // the attempt in JSON
	stored  func(error)
}

// end counts an attempt as stored, or as never to be, and calls its function.
func (l *AttemptLog) end(rec *recording, err error) {
	l.store.unrecorded.leave(rec.subject)
	rec.stored(err)
}

// block contains attempts of one subscription that are stored in one message.
type block struct {
	of     *series
	recs   []recording
	ok     <-chan *jetstream.PubAck
	err    <-chan error
	failed bool // at least once
}

// series contains the attempts of one subscription that are not stored yet, in order.
type series struct {
	subject string
	block   *block      // in flight, or waiting to be published again; nil: none
	waiting []recording // attempts for later blocks
}

// cut takes the next block from the waiting attempts: as many as fit into size bytes, and at least
// one.
func (s *series) cut(size int) *block {
	n := 0
	for n < min(len(s.waiting), blockAttempts) && (n == 0 || size >= len(s.waiting[n].line)) {
		size -= len(s.waiting[n].line) + 1
		n++
	}
	s.block = &block{of: s, recs: s.waiting[:n:n]}
	if s.waiting = s.waiting[n:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
	return s.block
}

// halve moves the second half of a block back to the waiting attempts.
func (b *block) halve() {
	half := (len(b.recs) + 1) / 2
	b.of.waiting = slices.Concat(b.recs[half:], b.of.waiting)
	b.recs = b.recs[:half]
}

func (b *block) message() *nats.Msg {
	lines := make([][]byte, len(b.recs))
	for i := range b.recs {
		lines[i] = b.recs[i].line
	}
	return &nats.Msg{Subject: b.of.subject, Data: streams.JoinBlock(lines)}
}

// recorder stores attempts in blocks. A subscription has at most one block in flight: the first
// attempt is published immediately, and those that arrive before it is stored form the next block.
// Its fields belong to the goroutine of Run. The states of an attempt:
//
//	Record ─► queue ─► waiting ─► in a block in flight ─── stored ───► stored(nil)
//	                                  │          ▲
//	                          no, or  ▼          │ after a pause of 250 ms to 2 s
//	                          no answer: failed ─┘
//	                                  │ too large: halved, the second half waits again
//	  the end of Run: stored(errLogClosed) for all that are not stored
//
// A block whose answer was lost is stored again, so an attempt may be recorded twice.
type recorder struct {
	log    *AttemptLog
	series map[string]*series // by subject
	sent   []*block           // blocks in flight, in the order of publishing
	open   int                // accepted attempts in series without a failed block

	failed  []*block // blocks to be published again
	failing int      // number of blocks that failed and are not stored yet
	last    error    // error of the last failed block
	again   <-chan time.Time
	pause   time.Duration
	size    int // maximum size of a block in bytes
}

// step waits for an event and handles it. It returns false if ctx is done. While maxRecording
// attempts are open, it takes none from the queue. Those of series with a failed block do not
// count, so that one subscription whose blocks fail does not hold up all others.
func (r *recorder) step(ctx context.Context) bool {
	queue := r.log.queue
	if r.open >= maxRecording || len(r.sent) >= maxRecording {
		queue = nil
	}
	var ok <-chan *jetstream.PubAck
	var err <-chan error
	if len(r.sent) > 0 {
		ok, err = r.sent[0].ok, r.sent[0].err
	}
	select {
	case <-ctx.Done():
		return false
	case rec := <-queue:
		r.take(rec)
	case <-ok:
		r.stored(r.shift())
	case err := <-err:
		r.fail(r.shift(), err)
	case <-r.again:
		r.republish(ctx)
	}
	return true
}

// take accepts an attempt and all that are in the queue, and publishes a block of each subscription
// without a block in flight.
func (r *recorder) take(rec recording) {
	begun := r.enter(nil, rec)
	for range len(r.log.queue) {
		begun = r.enter(begun, <-r.log.queue)
	}
	for _, s := range begun {
		r.next(s)
	}
}

// enter adds an attempt to its series. It adds a new series to begun.
func (r *recorder) enter(begun []*series, rec recording) []*series {
	s := r.series[rec.subject]
	if s == nil {
		s = &series{subject: rec.subject}
		r.series[rec.subject] = s
		begun = append(begun, s)
	}
	s.waiting = append(s.waiting, rec)
	if s.block == nil || !s.block.failed {
		r.open++
	}
	return begun
}

// next publishes the next block of a series.
func (r *recorder) next(s *series) {
	r.publish(s.cut(min(r.size, int(r.log.store.core.Conn().MaxPayload())/payloadShare)))
}

// publish publishes a block without waiting for the response.
func (r *recorder) publish(b *block) {
	if !r.log.store.core.Conn().IsConnected() { // the client would report a failure, and yet send it after the outage
		r.fail(b, errNotConnected)
		return
	}
	future, err := r.log.js.PublishMsgAsync(b.message())
	if err != nil {
		r.fail(b, err)
		return
	}
	b.ok, b.err = future.Ok(), future.Err()
	r.sent = append(r.sent, b)
}

// shift removes and returns the block that was published first.
func (r *recorder) shift() *block {
	b := r.sent[0]
	r.sent = r.sent[1:]
	return b
}

// stored publishes the next block of the subscription, and calls the functions of the attempts in
// the stored block.
func (r *recorder) stored(b *block) {
	s := b.of
	if b.failed {
		r.failing--
		r.open += len(s.waiting)
	} else {
		r.open -= len(b.recs)
	}
	if r.failing == 0 {
		r.pause = recordAgain
	}
	s.block = nil
	if len(s.waiting) > 0 {
		r.next(s)
	} else {
		delete(r.series, s.subject)
	}
	for i := range b.recs {
		r.log.end(&b.recs[i], nil)
	}
}

// fail schedules a block to be published again after a pause. If the block was too large, fail
// publishes its first half immediately.
func (r *recorder) fail(b *block, err error) {
	if len(b.recs) > 1 && natsstore.IsTooLarge(err) {
		r.size = min(r.size, len(b.message().Data)/2)
		b.halve()
		r.publish(b)
		return
	}
	r.last = err
	if !b.failed {
		b.failed = true
		r.failing++
		r.open -= len(b.recs) + len(b.of.waiting)
	}
	r.repeat(b)
}

// repeat schedules failed blocks to be published again after a pause.
func (r *recorder) repeat(blocks ...*block) {
	r.failed = append(r.failed, blocks...)
	if r.again == nil {
		r.again = time.After(r.pause)
	}
}

// republish publishes all failed blocks together: after an outage these are all that were in
// flight, and waiting for each of them in turn would take minutes.
func (r *recorder) republish(ctx context.Context) {
	blocks := r.failed
	r.failed, r.again = nil, nil
	r.pause = min(2*r.pause, recordAgainMost)
	n := 0
	for i, b := range blocks {
		if len(r.sent) >= maxRecording {
			r.repeat(blocks[i:]...)
			break
		}
		n += len(b.recs) + len(b.of.waiting)
		r.publish(b)
	}
	r.log.store.core.Log().WarnContext(ctx, "attempts not recorded yet", slog.Int("attempts", n), slog.Any("error", r.last))
}

// leave passes an error to all attempts that are not stored.
func (r *recorder) leave(ctx context.Context) {
	for _, s := range r.series {
		recs := s.waiting
		if s.block != nil {
			recs = slices.Concat(s.block.recs, recs)
		}
		shutdown.Left(ctx, leftAttempts, len(recs))
		for i := range recs {
			r.log.end(&recs[i], errLogClosed)
		}
	}
}
