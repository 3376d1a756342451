// Package shutdown sets a common deadline for all work that is left when the server stops.
//
// The deadline travels with the context: Lasting returns a context that outlives the one that ended,
// and ends with the deadline. So no step of the stop path needs a limit of its own.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrOver is the cause of contexts that end at the deadline.
var ErrOver = errors.New("shutdown grace period exceeded")

// closingShare is the part of the time that is reserved for closing connections and files: one
// fifth.
const closingShare = 5

// Deadline is the end of a shutdown: the grace period after it began, or after the last attempt in
// flight has ended, whichever is later.
type Deadline struct {
	grace time.Duration

	work, closing       context.Context //nolint:containedctx // they are this type's purpose
	endWork, endClosing context.CancelCauseFunc

	mu      sync.Mutex
	begun   bool
	sending int
	timer   *time.Timer // runs while the shutdown has begun and no attempt is in flight
	left    map[string]int
}

type deadlineKey struct{}

// New returns a deadline that is not set before Begin, and does not end with ctx. Close releases
// its resources.
func New(ctx context.Context, grace time.Duration) *Deadline {
	ctx = context.WithoutCancel(ctx)
	d := &Deadline{grace: grace, left: map[string]int{}}
	d.work, d.endWork = context.WithCancelCause(ctx)
	d.closing, d.endClosing = context.WithCancelCause(ctx)
	return d
}

// Context returns a context that carries the deadline.
func (d *Deadline) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, deadlineKey{}, d)
}

// Begin sets the deadline. Calling it again changes nothing.
func (d *Deadline) Begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.begun {
		d.begun = true
		d.arm()
	}
}

// arm sets the timer if no attempt delays the deadline. The caller holds the lock.
func (d *Deadline) arm() {
	if d.begun && d.sending == 0 && d.work.Err() == nil {
		reserve := d.grace / closingShare
		d.timer = time.AfterFunc(d.grace-reserve, func() { d.fire(reserve) })
	}
}

// fire ends the work unless an attempt has begun, and the closing after reserve.
func (d *Deadline) fire(reserve time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sending > 0 || d.closing.Err() != nil {
		return
	}
	d.endWork(ErrOver)
	d.timer = time.AfterFunc(reserve, func() { d.endClosing(ErrOver) })
}

// Closing returns the context for closing connections and files, which ends at the deadline.
// Contexts of Lasting end a fifth of the grace period earlier.
func (d *Deadline) Closing() context.Context { return d.closing }

// Do executes the last step of a component and returns its error. A step that is not done at the
// deadline is abandoned and counted as unfinished: the process is about to end.
func (d *Deadline) Do(what string, step func() error) error {
	done := make(chan error, 1)
	go func() { done <- step() }()
	select {
	case err := <-done:
		return err
	case <-d.closing.Done():
	}
	select {
	case err := <-done:
		return err
	default:
		d.Add(what, 1)
		return nil
	}
}

// Close stops the timer and ends all contexts of the deadline.
func (d *Deadline) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.endWork(nil)
	d.endClosing(nil)
}

// Add counts n unfinished items of a kind.
func (d *Deadline) Add(what string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > 0 {
		d.left[what] += n
	}
}

// Left returns the unfinished items, such as "attempts: 3, leases: 16"; "" if there are none.
func (d *Deadline) Left() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(d.left)) {
		all = append(all, fmt.Sprintf("%s: %d", what, d.left[what]))
	}
	return strings.Join(all, ", ")
}

// Sending delays the deadline of the context until over is called: an attempt is in flight, with a
// timeout of its own.
func Sending(ctx context.Context) (over func()) {
	d := of(ctx)
	if d == nil {
		return func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sending++
	if d.timer != nil && d.work.Err() == nil {
		d.timer.Stop()
	}
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.sending--
		d.arm()
	})
}

// Lasting returns a context with the values of ctx that does not end with ctx. It ends at the
// deadline that ctx carries, or never if ctx carries none.
func Lasting(ctx context.Context) context.Context {
	without := context.WithoutCancel(ctx)
	if d := of(ctx); d != nil {
		return lasting{d.work, without}
	}
	return without
}

// Failure returns the error of work that ended early. It is nil if ctx is done: the work was told to
// end.
func Failure(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// Left counts n unfinished items of a kind with the deadline that ctx carries. It returns false if
// no shutdown has begun: then the caller logs the items itself.
func Left(ctx context.Context, what string, n int) bool {
	d := of(ctx)
	if d == nil || !d.hasBegun() {
		return false
	}
	d.Add(what, n)
	return true
}

func (d *Deadline) hasBegun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun
}

func of(ctx context.Context) *Deadline {
	d, _ := ctx.Value(deadlineKey{}).(*Deadline)
	return d
}

// lasting ends with one context and has the values of another.
type lasting struct {
	context.Context //nolint:containedctx // it is one

	values context.Context //nolint:containedctx // and has another's values
}

// Value returns the ending context's own value where values has none: package context uses it to
// avoid a goroutine for each child.
func (l lasting) Value(key any) any {
	if v := l.values.Value(key); v != nil {
		return v
	}
	return l.Context.Value(key)
}
