package schedule

import (
	"errors"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// errPaused is the cause of a pausedError without an attempt.
var errPaused = errors.New("another record of the namespace is tried for all")

// pausedError is an error of the end of a record that is tried again after a wait.
type pausedError struct {
	error

	wait time.Duration
}

// Unwrap returns the cause, for package errors.
func (e pausedError) Unwrap() error { return e.error }

// End calls end, which announces that a record of a namespace has ended, and removes it. Such a
// record stores no attempts, and nothing waits for it. So if end fails, one record is tried for all
// of its namespace, less often each time, and the others get an error without a call. A full store
// has its own probe.
func (e *Engine[T]) End(namespace string, end func() error) error {
	if wait := e.pauses.enter(namespace, e.needs.Now()); wait > 0 {
		return pausedError{errPaused, wait}
	}
	err := end()
	if err == nil || sluice.IsFull(err) || sluice.CodeOf(err) == sluice.Conflict {
		e.pauses.end(namespace)
		return err
	}
	return pausedError{err, e.pauses.refused(namespace, e.needs.Now())}
}

// pauses are the namespaces in which the last end of a record failed. It is safe for concurrent
// use.
type pauses struct {
	mu sync.Mutex
	by map[string]*pause // by namespace
}

type pause struct {
	began  time.Time // the first failure
	until  time.Time // when a record is tried
	trying bool      // one is being tried
}

// enter returns how long a record of a namespace has to wait; 0: it is tried now.
func (p *pauses) enter(namespace string, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.by[namespace]
	switch {
	case is == nil:
		return 0
	case is.trying:
		return patience(now.Sub(is.began))
	case now.Before(is.until):
		return is.until.Sub(now)
	}
	is.trying = true
	return 0
}

// refused records that the end of a record failed, and returns how long the records of the
// namespace wait.
func (p *pauses) refused(namespace string, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.by[namespace]
	if is == nil || now.Sub(is.until) > 2*maxRefused { // the failures before were others
		is = &pause{began: now}
		p.by[namespace] = is
	}
	wait = patience(now.Sub(is.began))
	is.until, is.trying = now.Add(wait), false
	return wait
}

// end ends the pause of a namespace.
func (p *pauses) end(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, namespace)
}

// patience returns how long a record waits whose steps have been refused for a time.
func patience(lasted time.Duration) time.Duration {
	return min(max(lasted, probeEvery), maxRefused)
}
