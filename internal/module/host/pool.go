package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxBackoff is the longest time between two starts of a worker that crashes.
const maxBackoff = 10 * time.Second

// pool has the workers of a subscription. It starts them when an event arrives, and stops them
// after a time without events.
//
//	queue → a worker with a free place → answered, over its time, or back to the queue if the worker crashed
//
// mu guards the fields below it, and those of items and workers. Timers and goroutines of workers
// take it; it is not held while a process is started, written to or waited for.
type pool struct {
	poolOptions

	workers sync.WaitGroup // those that have not ended

	mu      sync.Mutex
	queue   []*item // not sent yet
	live    []*worker
	crashes crashes
	ids     uint64 // of the last line
	pause   *backoff.ExponentialBackOff
	fallen  fallen
	pausing bool // no worker is started, because one has just crashed
	closed  bool // the pool accepts no more events
	idling  *time.Timer
	logs    string // of the last worker that ended
}

// poolOptions are the settings of a pool.
type poolOptions struct {
	module  *module.Module // of the programs
	handler *module.Handler
	start   func() (*program.Process, func(), error) // returns a process, and a function that removes its files after its end
	idle    time.Duration                            // time without an event after which the workers are stopped
	log     *slog.Logger
}

// item is an attempt in a pool: an event, its place in the pool and its result. finish sets the
// result once. over without an answer keeps the item in held: the worker may still be at it.
type item struct {
	event   string // ID
	attempt int
	timeout time.Duration
	trace   string
	token   string // for requests to the API; "": none
	body    []byte

	result chan result // one
	line   uint64      // number of the line that it was last sent with
	wrote  int64       // bytes of the worker's log before it was sent
	timer  *time.Timer // fires at its timeout
	over   bool        // it has a result; the worker may still handle it
}

// result is the outcome of an item.
type result struct {
	module.Answer

	output string // if it failed: the worker's log since it got the event
}

// worker is one process of a pool. The pool's lock guards it.
type worker struct {
	lines  chan []byte // to be written; the capacity is the number of events that it may have
	proc   *program.Process
	held   map[string]*item // sent and not answered, by the ID of the line
	ready  bool
	leaves bool // it gets no more events, and is stopped when it has none
	asked  bool // it was asked to end
	alone  bool // it has an event that must be alone
	cause  string
}

func newPool(o poolOptions) *pool {
	p := &pool{poolOptions: o, crashes: newCrashes()}
	p.pause = backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(maxBackoff), backoff.WithMaxElapsedTime(0))
	return p
}

// most returns how many events a worker may have at once.
func (p *pool) most() int {
	return (p.handler.Policy.Window + p.handler.Processes - 1) / p.handler.Processes
}

// do has a worker handle an event, and returns the outcome. If the context is done first, it
// returns early, though the worker may still handle the event. A timeout and a cancellation are
// results with outcome Failed, not errors. In a retired pool no attempt is made: the outcome is "".
func (p *pool) do(ctx context.Context, it *item) result {
	it.result = make(chan result, 1)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.notMade()
	}
	p.queue = append(p.queue, it)
	p.assign()
	p.mu.Unlock()
	select {
	case res := <-it.result:
		return res
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = slices.DeleteFunc(p.queue, func(other *item) bool { return other == it })
	select {
	case res := <-it.result:
		return res
	default:
		it.over = true // its place stays taken until the worker answers or the timeout
		p.crashes.ended(it.event)
		return failure("the attempt was cut off: " + context.Cause(ctx).Error())
	}
}

func (p *pool) notMade() result {
	return result{Answer: module.Answer{Text: "module " + p.module.Name + " does not run here any more"}}
}

func failure(text string) result {
	return result{Answer: module.Answer{Outcome: sluice.Failed, Text: text}}
}

// assign sends queued events in order to workers that have a place, and starts workers for the
// others. The caller holds the lock.
func (p *pool) assign() {
	for len(p.queue) > 0 {
		it := p.queue[0]
		alone := p.crashes.mustBeAlone(it.event)
		w := pick(p.live, alone, p.most())
		if w == nil {
			break
		}
		p.queue = p.queue[1:]
		w.alone = alone
		p.send(w, it)
	}
	starting := len(slices.DeleteFunc(slices.Clone(p.live), func(w *worker) bool { return w.leaves }))
	for ; len(p.queue) > 0 && starting < p.handler.Processes && !p.pausing; starting++ {
		w := &worker{lines: make(chan []byte, p.most()), held: map[string]*item{}}
		p.live = append(p.live, w)
		p.workers.Go(func() { p.run(w) })
	}
}

// pick returns the worker for the next event: of those that have a place, the one with the fewest
// events; nil if none has a place. An event that must be alone gets a worker without events.
func pick(live []*worker, alone bool, most int) (best *worker) { //nolint:revive // it is a property of the event
	for _, w := range live {
		has := len(w.held)
		if !w.ready || w.leaves || w.alone && has > 0 || has >= most || alone && has > 0 {
			continue
		}
		if best == nil || has < len(best.held) {
			best = w
		}
	}
	return best
}

// send sends an event to a worker. The caller holds the lock.
func (p *pool) send(w *worker, it *item) {
	p.ids++
	id := strconv.FormatUint(p.ids, 10)
	until := time.Now().Add(it.timeout)
	line, err := module.AppendEventLine(nil, module.EventHead{ID: id, Attempt: it.attempt, Deadline: until.UTC(), TraceParent: it.trace, Token: it.token}, it.body)
	if err != nil {
		it.finish(failure(err.Error()))
		return
	}
	it.line, it.wrote = p.ids, w.proc.Log.Written()
	w.held[id] = it
	it.timer = time.AfterFunc(it.timeout, func() { p.timedOut(w, id) })
	select {
	case w.lines <- line: // it has room for as many lines as the worker may have events
	default: // it has answered events before it read them
		w.cause = "it answered before it was asked"
		w.proc.Kill()
	}
}

// finish sets the result of an event, once.
func (it *item) finish(res result) {
	if !it.over {
		it.over = true
		it.result <- res
	}
}

// timedOut ends the attempt of an event that was not answered in time. Its worker gets no more
// events. The worker is stopped when its other events are answered or have timed out, too.
func (p *pool) timedOut(w *worker, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := w.held[id]
	if it == nil {
		return
	}
	p.crashes.ended(it.event)
	res := failure(fmt.Sprintf("the worker did not answer within %s, and is replaced", it.timeout))
	res.output = w.proc.Log.Since(it.wrote)
	it.finish(res)
	w.leaves = true
	w.stopIfDone()
	p.assign()
}

// stopIfDone stops a leaving worker unless an attempt waits for its answer. The caller holds the
// lock.
func (w *worker) stopIfDone() {
	if !w.leaves || w.asked || w.proc == nil {
		return
	}
	for _, it := range w.held {
		if !it.over {
			return
		}
	}
	w.asked = true
	w.proc.Stop()
}

// answered records a worker's answer. The error says why the line is no answer.
func (p *pool) answered(w *worker, line []byte) error {
	answer, err := module.ParseAnswer(line)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	it := w.held[answer.ID]
	if it == nil {
		return fmt.Errorf("the answer to %q is to no event that the worker has", answer.ID)
	}
	delete(w.held, answer.ID)
	it.timer.Stop()
	p.crashes.answered(it.event, answer.Outcome)
	res := result{Answer: answer}
	if answer.Outcome == sluice.Delivered {
		p.pause.Reset()
	} else {
		res.output = w.proc.Log.Since(it.wrote)
	}
	it.finish(res)
	w.stopIfDone()
	p.assign()
	p.rest()
	return nil
}

// rest starts the timer that stops the workers after a time without events. The caller holds the
// lock.
func (p *pool) rest() {
	switch {
	case p.busy():
	case p.idling != nil:
		p.idling.Reset(p.idle)
	default:
		p.idling = time.AfterFunc(p.idle, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.busy() {
				p.leave()
			}
		})
	}
}

func (p *pool) busy() bool {
	return len(p.queue) > 0 || slices.ContainsFunc(p.live, func(w *worker) bool { return len(w.held) > 0 })
}

// leave stops the workers as soon as they have no event. The caller holds the lock.
func (p *pool) leave() {
	for _, w := range p.live {
		w.leaves = true
		w.stopIfDone()
	}
}

// retire closes the pool to events; no attempt is made for the queued ones. Workers finish the
// events that they have, and are then stopped. It does not wait, and may be repeated.
func (p *pool) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, it := range p.queue {
		it.finish(p.notMade())
	}
	p.queue = nil
	p.leave()
}

// wait returns when every worker of a retired pool has ended. When the context is done, it kills
// the workers. Call it after retire.
func (p *pool) wait(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.live {
			if w.asked = true; w.proc != nil {
				w.proc.Kill()
			}
		}
	})()
	p.workers.Wait()
}
