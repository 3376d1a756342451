package wake

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/fairsem"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	lookers    = 128 // consumers of a subscription that are processed in parallel
	againFirst = 50 * time.Millisecond
	againMost  = 5 * time.Second
	fullPause  = 5 * time.Second  // pause while the store has no room for another consumer
	sweepEvery = 10 * time.Minute // interval of the search for missed messages
)

// runner watches the deadlines of one subscription's consumers and sends its notices. It caches the
// records of all of them; the store is authoritative.
type runner struct {
	engine *Engine
	ctx    context.Context //nolint:containedctx // of its life
	sub    atomic.Pointer[sluice.Subscription]
	of     string
	share  *fairsem.Share

	work sync.WaitGroup

	mu      sync.Mutex
	all     map[sluice.Path]*entry
	others  map[sluice.Path]map[*entry]struct{} // followers of streams that are not their own
	todo    []*entry                            // consumers that wait to be processed, in order
	looking int                                 // goroutines that process consumers
	clock   clock
	due     []*entry // consumers with a notice to send, in order
	flying  int      // notices in flight
	floor   uint64
	ready   bool // all records are known
	scanned bool // all existing streams have an entry

	alarm   chan struct{} // receives a value when clock or due changed
	foreign chan struct{} // receives a value when others is no longer empty
}

// entry is a consumer in memory.
type entry struct {
	Entry

	seen   uint64          // the highest reported sequence of its own stream
	fresh  bool            // seen was reported since its last processing
	other  bool            // a message was stored in a stream that is not its own
	news   bool            // it has to be processed again
	busy   bool            // it is queued or being processed
	listed bool            // its stream may be older than the subscription
	acks   []model.Receipt // receipts to acknowledge after processing
	sent   string          // sent and number: the wake ID and the number of the last attempt that was started
	number int
	flying int // notices in flight
	ahead  *ahead
	queued bool // it is in due

	at    time.Time // when the clock checks it
	place int       // in the clock; -1: not in it
}

func newRunner(ctx context.Context, e *Engine, sub *sluice.Subscription) *runner {
	r := &runner{
		ctx: ctx, engine: e, of: incarnation(sub), share: e.places.Join(),
		all: map[sluice.Path]*entry{}, others: map[sluice.Path]map[*entry]struct{}{},
		alarm: make(chan struct{}, 1), foreign: make(chan struct{}, 1),
	}
	r.sub.Store(sub)
	return r
}

// run serves the subscription until its context is done.
func (r *runner) run() {
	ctx := r.ctx
	var parts sync.WaitGroup
	defer r.work.Wait()
	defer parts.Wait()
	known := make(chan struct{})
	parts.Go(func() { r.watch(ctx, known) })
	select {
	case <-known:
	case <-ctx.Done():
		return
	}
	parts.Go(func() { r.send(ctx) })
	parts.Go(func() { r.followOthers(ctx) })
	parts.Go(func() { r.sweep(ctx) })
	r.receive(ctx)
}

// persist retries a call until it succeeds or ctx is done.
func (r *runner) persist(ctx context.Context, what string, try func() error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(againFirst), backoff.WithMaxInterval(againMost), backoff.WithMaxElapsedTime(0))
	return backoff.RetryNotify(try, backoff.WithContext(wait, ctx), func(err error, again time.Duration) {
		r.engine.opts.Log.WarnContext(ctx, "wakes are waiting for the store", slog.String("to", what), slog.String("subscription", r.sub.Load().ID), slog.Any("error", err), slog.Duration("again", again))
	})
}

// watch keeps the records in memory up to date with the store. It closes known when all have been
// read.
func (r *runner) watch(ctx context.Context, known chan struct{}) {
	id := r.sub.Load().ID
	caughtUp := sync.OnceFunc(func() {
		r.mu.Lock()
		r.ready = true
		for _, en := range r.all {
			r.plan(en)
		}
		r.mu.Unlock()
		close(known)
	})
	_ = r.persist(ctx, "read the consumers", func() error { // it fails only when ctx ends
		floor, err := r.engine.ports.Records.Floor(ctx, id)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.floor = floor
		r.mu.Unlock()
		return r.engine.ports.Records.Watch(ctx, id, r.observe, caughtUp)
	})
}

// receive handles messages on the subscription's paths, until ctx is done.
func (r *runner) receive(ctx context.Context) {
	for ctx.Err() == nil {
		var source Source
		err := r.persist(ctx, "open the source", func() (err error) {
			if err := r.moveBack(ctx); err != nil {
				return err
			}
			source, err = r.engine.ports.Sources.Open(ctx, r.sub.Load())
			return err
		})
		if err != nil {
			return
		}
		r.drain(ctx, source)
		source.Close()
	}
}

func (r *runner) drain(ctx context.Context, source Source) {
	for {
		select {
		case d := <-source.Deliveries():
			if r.withheld(&d.Event) {
				r.acknowledge(d.Receipt)
				continue
			}
			r.told(d.Event.Path, d.Event.Seq, d.Receipt)
		case <-source.Ended():
			return
		case <-ctx.Done():
			return
		}
	}
}

// withheld reports whether the subscription's owner may not see an event. Such an event wakes no
// consumer; as in push mode, it is skipped for good.
func (r *runner) withheld(ev *sluice.Event) bool {
	gate := r.engine.ports.Gate
	return gate != nil && gate.Decide(r.sub.Load(), ev, r.engine.opts.Now()) == model.Withhold
}

// told records that a message was stored on a path of the subscription. It acknowledges the message
// once nothing depends on a redelivery: at once if the consumer is awake, because that checks the
// end of the stream before it becomes idle, otherwise after processing.
func (r *runner) told(path sluice.Path, seq uint64, receipt model.Receipt) {
	if path == "" || path.Dotted() || !r.sub.Load().Pattern.Match(path) { // clients cannot use dotted paths
		r.acknowledge(receipt)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	en := r.all[path]
	if en == nil {
		en = &entry{place: -1}
		en.Consumer.Path = path
		r.all[path] = en
	}
	en.seen = max(en.seen, seq)
	if r.awake(en) && !en.busy {
		r.acknowledge(receipt)
		return
	}
	if receipt != nil {
		en.acks = append(en.acks, receipt)
	}
	en.fresh = true
	r.look(en)
}

func (r *runner) acknowledge(receipt model.Receipt) {
	if receipt == nil {
		return
	}
	if err := receipt.Ack(); err != nil {
		r.engine.opts.Log.DebugContext(r.ctx, "wake: acknowledgement lost; the message will be redelivered", slog.Any("error", err))
	}
}

// awake reports whether a consumer is waking or live, and so checks its stream before it becomes
// idle. A record of an earlier subscription of the same id does not count.
func (r *runner) awake(en *entry) bool {
	return en.Consumer.Of == r.of && en.Consumer.awake()
}

func (c *Consumer) awake() bool { return c.State == sluice.WakeWaking || c.State == sluice.WakeLive }

// look schedules a consumer for processing; r.mu is held.
func (r *runner) look(en *entry) {
	en.news = true
	if en.busy || r.ctx.Err() != nil {
		return
	}
	en.busy = true
	r.todo = append(r.todo, en)
	if r.looking < lookers {
		r.looking++
		r.work.Go(r.lookAll)
	}
}

// lacksRoom reports whether the store has no room for another consumer.
func lacksRoom(looked Entry, err error) bool { return looked.Revision == 0 && sluice.IsFull(err) }

// lookLater schedules a consumer for processing after a pause; other consumers are processed
// meanwhile. r.mu is held.
func (r *runner) lookLater(en *entry, acks []model.Receipt, fresh bool) {
	en.acks, en.fresh = append(acks, en.acks...), en.fresh || fresh
	time.AfterFunc(fullPause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.look(en)
	})
}

// lookAll processes consumers until none is left.
func (r *runner) lookAll() {
	for en := r.nextLook(); en != nil; en = r.nextLook() {
		for r.lookOnce(r.ctx, en) {
		}
	}
}

// nextLook returns the next consumer to process; nil if the calling goroutine has to end.
func (r *runner) nextLook() *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.todo) == 0 || r.ctx.Err() != nil {
		r.looking--
		return nil
	}
	en := r.todo[0]
	r.todo[0] = nil
	r.todo = r.todo[1:]
	return en
}

// lookOnce processes a consumer once, and reports whether to process it again.
func (r *runner) lookOnce(ctx context.Context, en *entry) (again bool) {
	r.mu.Lock()
	fresh, other := en.fresh, en.other
	en.news, en.other, en.fresh = false, false, false
	known, seen, acks := en.Entry, en.seen, en.acks
	sub := r.sub.Load()
	if en.acks = nil; fresh && known.Consumer.State == sluice.WakeIdle && seen > known.Consumer.acked(known.Consumer.Path) {
		en.ahead = r.lookAhead(ctx, sub, known.Consumer.Path, known.Consumer.Paths()) // it will be woken
	}
	r.mu.Unlock()
	var looked Entry
	err := r.persist(ctx, "inspect a consumer", func() (err error) {
		looked, err = r.engine.change(ctx, sub, known.Consumer.Path, known, func(ctx context.Context, c Consumer) (Input, error) {
			return r.input(ctx, sub, c, seen, fresh)
		})
		known = Entry{Consumer: Consumer{Path: known.Consumer.Path}}
		if refused(err) {
			err = nil
		}
		if r.isLost(ctx, sub, err) || lacksRoom(looked, err) {
			return backoff.Permanent(err)
		}
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		en.busy = false
		if lacksRoom(looked, err) {
			r.lookLater(en, acks, fresh)
		}
		return false
	}
	for _, receipt := range acks {
		r.acknowledge(receipt)
	}
	if other && looked.Consumer.awake() { // a step that makes it idle may have read the other streams before the message
		en.other, en.news = true, en.news || !r.awake(en)
	}
	if !en.news {
		r.leave(en)
	}
	return en.news
}

// leave ends a consumer's processing; r.mu is held.
func (r *runner) leave(en *entry) {
	en.busy = false
	switch {
	case en.Revision == 0 && en.Consumer.State == "":
		delete(r.all, en.Consumer.Path) // no consumer exists
	case en.Consumer.State == sluice.WakeLive && en.place < 0:
		r.plan(en) // it was checked before its deadline
	}
}

// input returns the input of a step: the state of the consumer's streams. A missing consumer begins
// with the reported message. If that message is fresh, it wakes the consumer without a lookup,
// because the notice looks up the streams anyway. A message that is not fresh may have left the log
// since.
func (r *runner) input(ctx context.Context, sub *sluice.Subscription, c Consumer, seen uint64, fresh bool) (Input, error) { //nolint:revive // fresh is about seen
	var in Input
	if c.State == sluice.WakeRemoved {
		var err error
		if in.Instead, err = r.born(ctx, sub, c, seen); err != nil || in.Instead == nil {
			return in, err
		}
		c = *in.Instead
	}
	var err error
	if fresh && c.State == sluice.WakeIdle && seen > c.acked(c.Path) && c.Follows(c.Path) && r.engine.decide(sub, c.Path, seen) == model.Pass {
		in.Tails = Tails{c.Path: {Seq: seen}}
		return in, nil
	}
	in.Tails, err = r.engine.tails(ctx, sub, c.Path, c.Paths())
	if in.Instead != nil && in.Tails[c.Path].hidden() { // a consumer would reveal that the stream exists
		return Input{}, err
	}
	return in, err
}

// born returns the consumer that begins with a message stored at seq; nil if none does. Messages on
// the path before the subscription was created do not concern it (S1-140).
func (r *runner) born(ctx context.Context, sub *sluice.Subscription, c Consumer, seq uint64) (*Consumer, error) {
	if c.Of == r.of {
		return c.Back(seq), nil
	}
	began := sub.From.Seq - 1
	r.mu.Lock()
	en := r.all[c.Path]
	floor, mayBeOld := r.floor, !r.scanned || en != nil && en.listed
	r.mu.Unlock()
	acked := uint64(0)
	if seq <= began {
		acked = seq
	} else if mayBeOld && began > 0 {
		var err error
		if acked, err = r.engine.ports.Streams.Before(ctx, sub.Namespace, c.Path, began); err != nil {
			return nil, err
		}
	}
	next := NewConsumer(c.Path, r.of, seq, acked)
	next.Epoch = max(c.Epoch, floor)
	return &next, nil
}

// sweep searches for missed messages at the start and every sweepEvery, and creates consumers for
// streams that are older than the subscription (S1-139).
func (r *runner) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		sub := r.sub.Load()
		if err := r.persist(ctx, "scan for missed events", func() error {
			if err := r.moveBack(ctx); err != nil {
				return err
			}
			return r.engine.ports.Streams.Ends(ctx, sub.Namespace, sub.Pattern, func(path sluice.Path, last uint64) { r.compare(path, last) })
		}); err != nil {
			return
		}
		r.mu.Lock()
		r.scanned = true
		r.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// compare schedules a consumer for processing unless its record already covers the last message of
// its stream.
func (r *runner) compare(path sluice.Path, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	en := r.all[path]
	switch {
	case en == nil:
		en = &entry{place: -1}
		en.Consumer.Path = path
		r.all[path] = en
	case en.Consumer.Of != r.of:
	case r.awake(en), en.Consumer.State == sluice.WakeIdle && last <= en.Consumer.acked(path),
		en.Consumer.State == sluice.WakeRemoved && last <= en.Consumer.Since:
		return
	}
	en.seen, en.listed, en.fresh = max(en.seen, last), true, unbounded(r.sub.Load()) // the owner may not see the last message, unless it is unbounded
	r.look(en)
}
