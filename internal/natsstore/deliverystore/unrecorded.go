package deliverystore

import (
	"context"
	"fmt"
	"sync"
)

// unrecorded counts the attempts of this process that are passed to Record and not stored yet. Such
// an attempt may outlive the run of the runner that made it: the next run must not read the log of
// attempts before it is there.
type unrecorded struct {
	mu sync.Mutex
	of map[string]*backlog // by subject; none: all are stored
}

// backlog are the attempts of one subject. They are stored in the order in which they were entered.
type backlog struct {
	entered, left uint64
	waiting       []waiter // ascending
}

// waiter waits until a number of attempts have left.
type waiter struct {
	number uint64
	done   chan struct{}
}

// enter counts an attempt that is to be stored.
func (u *unrecorded) enter(subject string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.of[subject]
	if b == nil {
		b = &backlog{}
		u.of[subject] = b
	}
	b.entered++
}

// leave counts an attempt that is stored, or never will be.
func (u *unrecorded) leave(subject string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.of[subject]
	b.left++
	for len(b.waiting) > 0 && b.waiting[0].number <= b.left {
		close(b.waiting[0].done)
		b.waiting = b.waiting[1:]
	}
	if b.left == b.entered {
		delete(u.of, subject)
	}
}

// wait waits until the attempts of a subject that were entered before the call have left. Later
// ones do not prolong it.
func (u *unrecorded) wait(ctx context.Context, subject string) error {
	done := u.emptied(subject)
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("attempts are not recorded yet: %w", ctx.Err())
	}
}

// emptied returns a channel that is closed when the present attempts of a subject have left; nil if
// there are none.
func (u *unrecorded) emptied(subject string) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.of[subject]
	if b == nil {
		return nil
	}
	done := make(chan struct{})
	b.waiting = append(b.waiting, waiter{b.entered, done})
	return done
}

// subjects returns the subjects with attempts that are not stored yet.
func (u *unrecorded) subjects() map[string]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make(map[string]bool, len(u.of))
	for subject := range u.of {
		all[subject] = true
	}
	return all
}
