package push

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	holdEvery   = 10 * time.Second // a third of the consumers' ack wait
	drainLimit  = 65 * time.Second // an attempt's longest timeout, and time to record it
	recordLimit = 10 * time.Second // without an attempt under way: longer than a fail-over of NATS takes
	hogPatience = time.Second      // a lane that fills the window is set aside after this
	idleWorker  = 5 * time.Second  // a worker without a task ends after this
)

// errSourceEnded tells the engine to open the subscription's source again.
var errSourceEnded = errors.New("the source of deliveries ended")

// errGone tells the engine that there is nothing left to serve.
var errGone = errors.New("the endpoint is gone")

var errUnrecorded = errors.New("attempts under way did not end in time")

// runner serves one subscription while run is running. Only run's goroutine touches the book.
type runner struct {
	id       string
	ordering sluice.Ordering // never changes: lanes are named after it

	ports   Ports
	observe Observer
	log     *slog.Logger
	changed chan *sluice.Subscription // the engine's updates; the last one wins

	lookEvery time.Duration

	sub       *sluice.Subscription
	match     *filter.Matcher
	limit     *rate.Limiter // nil: unbounded
	book      *book
	source    Source
	recovered map[uint64]sluice.Progress // what the attempt log knew at the start; read only
	recent    recentSet
	failing   time.Time // since when every attempt failed; zero: it does not
	tasks     chan task
	results   chan result
	workers   sync.WaitGroup
	throttled time.Time // no task before this, because of the rate
	sending   atomic.Int32
	ahead     budget
	looking   sync.Mutex
	watched   atomic.Pointer[lookout] // with the settings of the moment

	mu     sync.Mutex
	gauges Gauges
	oldest time.Time // event that is held or parked; zero: none
	looked time.Time // when oldest was looked for
}

func newRunner(sub *sluice.Subscription, ports Ports, opts Options, ahead *atomic.Int64) *runner {
	return &runner{
		id: sub.ID, ordering: sub.Policy.Ordering,
		ports: ports, observe: opts.Observe, log: opts.Log, sub: sub,
		changed: make(chan *sluice.Subscription, 1),
		gauges:  Gauges{Namespace: sub.Namespace, Subscription: sub.ID},
		ahead:   budget{shared: ahead}, lookEvery: opts.LookEvery,
	}
}

// change replaces the subscription's settings; the latest wins.
func (r *runner) change(sub *sluice.Subscription) {
	select {
	case <-r.changed:
	default:
	}
	r.changed <- sub
}

// run serves the subscription until ctx is done, which is no error, or it cannot go on.
// Attempts under way are finished and their results stored before it returns.
func (r *runner) run(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.source.Close()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer r.ahead.reset()
	defer r.workers.Wait()
	defer close(r.tasks)
	defer cancel()
	err := r.serve(ctx, work)
	err = errors.Join(err, r.drain(work))
	r.source.Close() // the last look sees what it left
	r.looking.Lock() // and what the one before it could not tell
	defer r.looking.Unlock()
	r.look(work, lastLook)
	return err
}

// open reads what is known about the subscription's lanes and opens its source.
func (r *runner) open(ctx context.Context) error {
	if err := r.configure(r.sub); err != nil {
		return err
	}
	if err := r.watched.Load().before(ctx); err != nil {
		return err
	}
	source, err := r.ports.Sources.Open(ctx, r.sub)
	if err != nil {
		return err
	}
	r.source = source
	if err := r.restore(ctx); err != nil {
		source.Close()
		return err
	}
	r.tasks = make(chan task)
	r.results = make(chan result, 4*r.sub.Policy.Window+16)
	return nil
}

func (r *runner) restore(ctx context.Context) error {
	var err error
	if r.recovered, err = r.ports.Log.Recover(ctx, r.sub); err != nil {
		return err
	}
	parked, err := r.ports.Lanes.Parked(ctx, r.sub)
	if err != nil {
		return err
	}
	r.book = newBook(r.sub.Policy.Window)
	if r.ordering != sluice.OrderAll {
		r.book.patience = hogPatience
	}
	r.recent.size = 4 * r.sub.Policy.Window
	for _, e := range parked {
		seen := r.source.Seen(e.Path)
		if streams.IsEventLane(r.sub.ID, e.Lane) {
			seen = e.FromSeq
		}
		r.book.load(e, seen, time.Now())
	}
	return nil
}

func (r *runner) configure(sub *sluice.Subscription) error {
	match, err := filter.Compile(sub.Filter)
	if err != nil {
		return err
	}
	r.sub, r.match, r.limit = sub, match, nil
	r.watched.Store(&lookout{sub: sub, match: match, ports: r.ports, opts: Options{Observe: r.observe, Log: r.log}})
	if per := sub.Policy.Rate.PerSecond; per > 0 {
		r.limit = rate.NewLimiter(rate.Limit(per), max(1, int(per/10)))
	}
	return nil
}

// serve is the loop. It ends when ctx is done or something failed that the runner cannot mend.
func (r *runner) serve(ctx, work context.Context) error {
	hold := time.NewTicker(holdEvery)
	defer hold.Stop()
	looks := time.NewTicker(r.lookEvery)
	defer looks.Stop()
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		r.dispatch(work, wake)
		r.publishGauges()
		select {
		case <-ctx.Done():
			return nil
		case <-r.source.Ended():
			return errSourceEnded
		case d := <-r.source.Deliveries():
			r.arrive(d)
		case res := <-r.results:
			if err := r.enter(ctx, res); err != nil {
				return err
			}
		case <-wake.C:
		case <-hold.C:
			r.book.each(func(d *sluice.Delivery) { r.answer(d.Receipt.Hold()) })
		case <-looks.C:
			if r.looking.TryLock() {
				r.workers.Go(func() {
					defer r.looking.Unlock()
					r.look(work, holdEvery)
				})
			}
		case sub := <-r.changed:
			window := r.sub.Policy.Window
			if err := r.configure(sub); err != nil {
				return err
			}
			if window != sub.Policy.Window {
				return errSourceEnded // its consumers have to be changed
			}
		}
	}
}

// arrive takes a delivery from the source into its lane, or acknowledges it at once where
// there is nothing to do for it.
func (r *runner) arrive(d *sluice.Delivery) {
	if r.known(d) || d.Event.Path != "" && !r.sub.Pattern.Match(d.Event.Path) {
		r.answer(d.Receipt.Ack())
		return
	}
	if d.Err == nil {
		ok, err := r.match.Match(&d.Event)
		if err == nil && !ok {
			r.answer(d.Receipt.Ack())
			return
		}
		if err != nil {
			d.Err = sluice.Errorf(sluice.Unprocessable, "filter: %v", err)
		}
	}
	r.observe.Matched(r.sub)
	if r.book.arrive(r.laneOf(d), d) {
		r.answer(d.Receipt.Ack())
	}
}

// known reports whether the delivery was settled before, by this runner or before a restart.
func (r *runner) known(d *sluice.Delivery) bool {
	return r.before(&d.Event).Settled || d.Redelivered && r.recent.has(d.Event.Seq)
}

// before returns how far the event had come before a restart. A log that lost its latest
// events in a power cut gives their sequences to others.
func (r *runner) before(ev *sluice.Event) sluice.Progress {
	if p := r.recovered[ev.Seq]; p.EventID == ev.ID {
		return p
	}
	return sluice.Progress{}
}

func (r *runner) laneOf(d *sluice.Delivery) string {
	if d.Err != nil && d.Event.Path == "" {
		return streams.LaneKey(r.sub.ID, sluice.OrderNone, "", d.Event.Seq)
	}
	return streams.LaneKey(r.sub.ID, r.sub.Policy.Ordering, d.Event.Path, d.Event.Seq)
}

// dispatch hands out tasks while there are some that may start now, and sets the timer to
// when the next one may.
func (r *runner) dispatch(work context.Context, wake *time.Timer) {
	now := time.Now()
	for !r.throttled.After(now) {
		t, ok := r.book.next(now)
		if !ok {
			break
		}
		t.sub, t.match, t.careful = r.sub, r.match, t.careful || r.limit != nil
		select {
		case r.tasks <- t:
		default:
			r.workers.Go(func() { r.worker(work, t) })
		}
		r.throttle(t, now)
	}
	next := r.book.wake()
	if r.throttled.After(now) {
		next = r.throttled
	}
	if !next.IsZero() {
		wake.Reset(max(0, next.Sub(now)))
	}
}

// throttle pays for a task that sends; what cannot be paid now is waited for before the next.
func (r *runner) throttle(t task, now time.Time) {
	if r.limit != nil && (t.kind == taskSend || t.kind == taskResume) {
		r.throttled = now.Add(r.limit.ReserveN(now, 1).DelayFrom(now))
	}
}

// enter takes a result into the book and acknowledges what it settled.
func (r *runner) enter(ctx context.Context, res result) error {
	if res.err != nil {
		r.book.busy--
		return res.err
	}
	var acks []*sluice.Delivery
	switch res.kind {
	case resultSettled:
		acks = append(acks, r.book.settled(res.lane))
		r.recent.add(acks[0].Event.Seq)
	case resultParked:
		acks = r.book.stored(res.lane, res.park.ParkedEntry, time.Now())
	case resultResumed:
		r.book.resumed(res.lane, res.park)
	case resultUnparked:
		r.book.unparked(res.lane)
	}
	for _, d := range acks {
		r.answer(d.Receipt.Ack())
	}
	return r.judge(ctx, res.attempt)
}

// judge keeps track of continuous failure and ends the subscription after too much of it.
func (r *runner) judge(ctx context.Context, a *sluice.Attempt) error {
	switch {
	case a == nil:
	case a.Verdict.Cancel:
		return errGone
	case a.Outcome == sluice.Delivered:
		r.failing = time.Time{}
	case r.failing.IsZero():
		r.failing = a.StartedAt
	case time.Since(r.failing) > r.sub.Policy.DisableAfter.Std():
		return r.ports.Registry.Disable(ctx, r.sub.ID, "every attempt has failed since "+r.failing.UTC().Format(time.RFC3339))
	}
	return nil
}

// drain waits for the tasks under way, so that what was sent is recorded. If only the store
// is waited for, that has a shorter limit: it may be gone for good.
func (r *runner) drain(work context.Context) error {
	ctx, cancel := context.WithTimeout(work, drainLimit)
	defer cancel()
	stuck := time.NewTimer(recordLimit)
	defer stuck.Stop()
	for r.book.busy > 0 {
		select {
		case <-ctx.Done():
			return errUnrecorded
		case <-stuck.C:
			if r.sending.Load() == 0 {
				return errUnrecorded
			}
			stuck.Reset(recordLimit)
		case res := <-r.results:
			stuck.Reset(recordLimit)
			if err := r.enter(ctx, res); err != nil {
				r.log.WarnContext(ctx, "attempt under way was cut off", slog.String("subscription", r.sub.ID), slog.Any("error", err))
			}
		}
	}
	return nil
}

// answer notes that the log could not be answered; the delivery comes again.
func (r *runner) answer(err error) {
	if err != nil {
		r.log.Debug("answer lost", slog.String("subscription", r.sub.ID), slog.Any("error", err))
	}
}

// publishGauges shows how the book stands. For the oldest event it looks at every lane, so it
// does that only now and then.
func (r *runner) publishGauges() {
	const lookEvery = 250 * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gauges = Gauges{
		Namespace: r.sub.Namespace, Subscription: r.sub.ID,
		InFlight: r.book.busy, Held: len(r.book.held), Parked: r.book.parked,
	}
	switch now := time.Now(); {
	case r.gauges.Held+r.gauges.Parked == 0:
		r.oldest = time.Time{}
	case r.oldest.IsZero() && r.gauges.Held > 0 || now.Sub(r.looked) > lookEvery:
		r.oldest, r.looked = r.book.oldest(), now
	}
}

func (r *runner) read() Gauges {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.gauges
	if !r.oldest.IsZero() {
		g.Lag = time.Since(r.oldest)
	}
	return g
}

// recentSet remembers the last few sequences that were settled: an acknowledgement that was
// lost brings its delivery back.
type recentSet struct {
	size int
	ring []uint64
	next int
	set  map[uint64]struct{}
}

func (s *recentSet) add(seq uint64) {
	if s.set == nil {
		s.set = make(map[uint64]struct{}, s.size)
	}
	if len(s.ring) < s.size {
		s.ring = append(s.ring, seq)
	} else {
		delete(s.set, s.ring[s.next])
		s.ring[s.next] = seq
		s.next = (s.next + 1) % s.size
	}
	s.set[seq] = struct{}{}
}

func (s *recentSet) has(seq uint64) bool {
	_, ok := s.set[seq]
	return ok
}
