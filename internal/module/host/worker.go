package host

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// run starts the process of a worker, and returns when that has ended.
func (p *pool) run(w *worker) {
	proc, remove, err := p.start()
	if err != nil {
		p.ended(w, "it could not be started: "+err.Error())
		return
	}
	defer remove()
	defer proc.Close()
	p.mu.Lock()
	w.proc = proc
	w.stopIfDone() // the pool was retired in the meantime
	if w.asked {
		proc.Kill()
	}
	p.mu.Unlock()
	late := time.AfterFunc(p.handler.Ready, func() { p.notReady(w) })
	defer late.Stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.write()
	}()
	cause := p.read(w)
	if cause != nil { // it is alive, and violates the protocol
		proc.Kill()
	}
	<-proc.Done()
	_ = proc.In.Close() // otherwise a process that has left the group could block a write
	<-written
	why := describe(proc.Exit())
	if cause != nil {
		why = cause.Error()
	}
	p.ended(w, why)
}

// write writes the lines of a worker until it has ended.
func (w *worker) write() {
	out := bufio.NewWriterSize(w.proc.In, 64<<10)
	for {
		select {
		case <-w.proc.Done():
			return
		case line := <-w.lines:
			_, err := out.Write(line)
			if err == nil && len(w.lines) == 0 {
				err = out.Flush()
			}
			if err != nil {
				return // it reads no more: it has ended, or its events will time out
			}
		}
	}
}

// read reads the lines of a worker until its end. The error says how the worker violated the
// protocol.
func (p *pool) read(w *worker) error {
	in, hear := bufio.NewScanner(w.proc.Out), p.begins
	in.Buffer(nil, module.MaxAnswer)
	in.Split(wholeLines)
	for in.Scan() {
		if err := hear(w, in.Bytes()); err != nil {
			return err
		}
		hear = p.answered
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a line on its standard output has more than %d bytes", module.MaxAnswer)
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("read its standard output: %w", err)
	}
	return nil
}

// wholeLines is a bufio.SplitFunc for lines. It drops an incomplete last line, which is no answer.
func wholeLines(data []byte, _ bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n') + 1; end > 0 {
		return end, data[:end], nil
	}
	return 0, nil, nil
}

// begins marks a worker as ready. It returns an error unless the line is the first that a worker
// must write.
func (p *pool) begins(w *worker, line []byte) error {
	if err := module.CheckReady(line); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.ready = true
	p.assign()
	p.rest()
	return nil
}

// notReady kills a worker that is not ready in time.
func (p *pool) notReady(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.ready {
		w.cause = fmt.Sprintf("it was not ready within %s", p.handler.Ready)
		w.proc.Kill()
	}
}

// ended removes a worker that has ended. If the worker was not asked to end, the next one is
// started only after a pause. Events go back to the queue with their attempt, unless crashes blames
// them: an attempt counts only if the event itself was at fault.
func (p *pool) ended(w *worker, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = slices.DeleteFunc(p.live, func(other *worker) bool { return other == w })
	held := slices.SortedFunc(maps.Values(w.held), func(a, b *item) int { return cmp.Compare(a.line, b.line) })
	var tokens []string
	for _, it := range held {
		it.timer.Stop()
		tokens = append(tokens, it.token)
	}
	why = cmp.Or(w.cause, why)
	if w.proc != nil {
		p.logs = w.proc.Log.Since(0)
		if line := lastLine(mask(p.logs, p.handler.Env, tokens...)); line != "" {
			why += ": " + line
		}
	}
	switch {
	case w.asked:
		p.again(held)
	case !w.ready:
		p.neverReady(why)
	default:
		p.crashed(w, held, why)
	}
	p.assign()
}

// again puts the events that have no result yet back at the front of the queue. In a retired pool
// it fails them.
func (p *pool) again(held []*item) {
	held = slices.DeleteFunc(held, func(it *item) bool {
		if it.over {
			p.crashes.ended(it.event)
		}
		return it.over
	})
	if !p.closed {
		p.queue = append(held, p.queue...)
		return
	}
	for _, it := range held {
		it.finish(failure("the worker was stopped"))
	}
}

// neverReady fails the queued events, unless another worker can take them.
func (p *pool) neverReady(why string) {
	p.backOff("it did not become ready: " + why)
	if slices.ContainsFunc(p.live, func(w *worker) bool { return !w.leaves }) {
		return
	}
	for _, it := range p.queue {
		res := failure("the worker did not become ready: " + why)
		res.output = p.logs
		it.finish(res)
	}
	p.queue = nil
}

// crashed decides about the events of a worker that has crashed.
func (p *pool) crashed(w *worker, held []*item, why string) {
	p.backOff(why)
	if len(held) == 0 {
		return
	}
	events := make([]string, len(held))
	for i, it := range held {
		events[i] = it.event
	}
	res := failure("the worker crashed at this event: " + why)
	switch p.crashes.crashed(events) {
	case blameNone:
		p.again(held)
		return
	case blamePoison:
		res.Outcome, res.Dead = sluice.Refused, sluice.HandlerCrashed
		res.Text = "the worker crashed at this event again, and has handled others in between: " + why
	case blameFails:
	}
	res.output = w.proc.Log.Since(held[0].wrote)
	held[0].finish(res)
}

// backOff prevents the start of workers for a while.
func (p *pool) backOff(why string) {
	now := time.Now()
	p.fallen.times, p.fallen.last, p.fallen.at = p.fallen.times+1, why, now
	if p.closed || p.pausing {
		return
	}
	p.pausing = true
	pause := p.pause.NextBackOff()
	p.fallen.next = now.Add(pause)
	p.log.Warn("worker ended", slog.String("module", p.module.Name), slog.String("handler", p.handler.ID), slog.String("reason", why), slog.Duration("again", pause))
	time.AfterFunc(pause, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pausing = false
		p.assign()
	})
}

// describe returns how a process ended.
func describe(exit module.Exit) string {
	_, _, text := module.OutcomeOf(exit, module.Sysexits)
	return cmp.Or(text, "the program ended with exit code 0")
}
