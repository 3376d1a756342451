package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/fairsem"
)

// idleWorker is how long a worker without a task waits for the next one.
const idleWorker = 5 * time.Second

// workers execute the tasks of all runners. There are as many as there are tasks in progress; idle
// ones end after idleWorker.
type workers struct {
	orders  chan order
	running sync.WaitGroup
}

// order is a task of a runner.
type order struct {
	ctx    context.Context //nolint:containedctx // of the task
	runner *runner
	task   task
}

// executor executes the tasks of a runner.
type executor struct {
	workers *workers
	share   *fairsem.Share // of the process's permits for attempts
	results chan *result
	busy    sync.WaitGroup // tasks, and other work outside the loop
}

// open makes room for the results of a window. Each task has one result, so that sending it never
// blocks.
func (x *executor) open(window int) { x.results = make(chan *result, window) }

// start starts a task, for which a permit was taken.
func (x *executor) start(o order) {
	x.busy.Add(1)
	x.workers.give(o)
}

// perform executes a task, and then gives its permit back.
func (x *executor) perform(o order) {
	defer x.busy.Done()
	job{r: o.runner, sub: o.task.sub, match: o.task.match, spare: o.task.spare}.do(o.ctx, o.task)
	x.share.Give()
}

func newWorkers() *workers { return &workers{orders: make(chan order)} }

// give starts to execute a task at once, with an idle worker or a new one.
func (w *workers) give(o order) {
	select {
	case w.orders <- o:
	default:
		w.running.Go(func() { w.work(o) })
	}
}

// work executes tasks until there is none for idleWorker.
func (w *workers) work(o order) {
	idle := time.NewTimer(idleWorker)
	defer idle.Stop()
	for ok := true; ok; {
		o.runner.executor.perform(o)
		o.runner = nil // keep no runner alive
		idle.Reset(idleWorker)
		select {
		case o, ok = <-w.orders:
		case <-idle.C:
			return
		}
	}
}

// end ends the workers and waits for them. give must not be called after it.
func (w *workers) end() {
	close(w.orders)
	w.running.Wait()
}
