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

// pool has the workers of a subscription. They are started when an event comes, and stopped when there was none for a while.
//
//	queue → a worker with a free place → answered, over its time, or back to the queue if the worker crashed
type pool struct {
	poolOptions

	workers sync.WaitGroup // until each has ended

	mu      sync.Mutex
	queue   []*item // not sent yet
	live    []*worker
	crashes crashes
	ids     uint64 // of the last line
	pause   *backoff.ExponentialBackOff
	fallen  fallen
	pausing bool // no worker is started, since one has just crashed
	closed  bool // no event is taken any more
	idling  *time.Timer
	logs    string // of the last worker that ended
}

// poolOptions are the settings of a pool.
type poolOptions struct {
	module  *module.Module // whose programs they are
	handler *module.Handler
	start   func() (*program.Process, func(), error) // a process, and what removes its files after its end
	idle    time.Duration                            // without an event, until the workers are stopped
	log     *slog.Logger
}

// item is an event on its way through a pool.
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
	timer  *time.Timer // until its time is over
	over   bool        // it has a result, though the worker may still handle it
}

// result is the outcome of an item.
type result struct {
	module.Answer

	output string // what the worker wrote to its log since it had the event; if it failed
}

// worker is one process of a pool. The pool's lock guards it.
type worker struct {
	lines  chan []byte // to be written; as many as it may have events
	proc   *program.Process
	held   map[string]*item // by the ID of the line: sent and not answered
	ready  bool
	leaves bool // it gets no event any more, and is stopped when it has none
	asked  bool // it was told to end
	alone  bool // it has an event that must be alone
	cause  string
}

func newPool(o poolOptions) *pool {
	p := &pool{poolOptions: o, crashes: newCrashes()}
	p.pause = backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(maxBackoff), backoff.WithMaxElapsedTime(0))
	return p
}

// most returns how many events a worker has at once.
func (p *pool) most() int {
	return (p.handler.Policy.Window + p.handler.Processes - 1) / p.handler.Processes
}

// do has an event handled, and returns the outcome. It returns early when the context is done: the worker may still handle it.
func (p *pool) do(ctx context.Context, it *item) result {
	it.result = make(chan result, 1)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return failure("module " + p.module.Name + " does not run here any more")
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
		it.over = true // its place stays taken until the worker answers, or its time is over
		p.crashes.ended(it.event)
		return failure("the attempt was cut off: " + context.Cause(ctx).Error())
	}
}

func failure(text string) result {
	return result{Answer: module.Answer{Outcome: sluice.Failed, Text: text}}
}

// assign sends events to workers that have a place, in order, and has workers started for the others. The caller holds the lock.
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

// pick returns the worker that gets the next event: the one with the fewest, of those that have a place; nil: none. An event that must
// be alone gets one without any.
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

// send gives an event to a worker. The caller holds the lock.
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
	case w.lines <- line: // there is room, as it holds as many as the worker may have
	default: // it has answered events that it has not read
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

// timedOut ends the attempt of an event that was not answered in time. Its worker gets no other any more, and is stopped when the
// events beside it are answered, or their times are over, too.
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

// stopIfDone stops a worker that leaves, if nothing waits for its answers. The caller holds the lock.
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

// answered enters a worker's answer. The error says why it is none.
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

// rest has the workers stopped after a time without events. The caller holds the lock.
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

// leave has the workers stopped when they have no event. The caller holds the lock.
func (p *pool) leave() {
	for _, w := range p.live {
		w.leaves = true
		w.stopIfDone()
	}
}

// retire has the pool take no event any more. Those that are sent are finished.
func (p *pool) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, it := range p.queue {
		it.finish(failure("module " + p.module.Name + " does not run here any more"))
	}
	p.queue = nil
	p.leave()
}

// wait returns when every worker has ended, which it is killed for when the context is done. The pool is retired.
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
