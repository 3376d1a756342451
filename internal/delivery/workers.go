package delivery

import (
	"context"
	"sync"
	"time"
)

// idleWorker is how long a worker without a task waits for the next one.
const idleWorker = 5 * time.Second

// workers execute the tasks of all runners: there are as many as tasks in progress at a time, and those
// that are idle for a while end.
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

func newWorkers() *workers { return &workers{orders: make(chan order)} }

// give has a task executed at once.
func (w *workers) give(o order) {
	select {
	case w.orders <- o:
	default:
		w.running.Go(func() { w.work(o) })
	}
}

// work executes tasks until there are none for a while.
func (w *workers) work(o order) {
	idle := time.NewTimer(idleWorker)
	defer idle.Stop()
	for ok := true; ok; {
		o.runner.perform(o.ctx, o.task)
		o.runner = nil // it may be gone
		idle.Reset(idleWorker)
		select {
		case o, ok = <-w.orders:
		case <-idle.C:
			return
		}
	}
}

// end ends the workers. No task is given any more.
func (w *workers) end() {
	close(w.orders)
	w.running.Wait()
}
