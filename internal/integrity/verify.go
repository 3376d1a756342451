package integrity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// verifyRest is the pause of the verification at start, as a multiple of its reading time.
const verifyRest = 9

// errSuperseded is the error of a verification that ended early because another one was requested.
var errSuperseded = errors.New("another verification was requested")

// Verification reads all stored data and records unreadable parts as damage. One verification runs
// at a time.
type Verification struct {
	memory *Memory
	wanted chan struct{}

	// State of the running verification, or else the last one. Memory.mu guards it.
	state sluice.Verification
}

// NewVerification returns a verification, which does nothing until Run.
func NewVerification(m *Memory) *Verification {
	return &Verification{memory: m, wanted: make(chan struct{}, 1)}
}

// Run verifies the store once, slowly, and then on request, until ctx is done. The first takes
// about ten times as long as reading does, so that it leaves the disk to others.
func (v *Verification) Run(ctx context.Context) error {
	for rest := verifyRest; ctx.Err() == nil; rest = 0 {
		err := v.verify(ctx, rest)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errSuperseded) {
			v.memory.log.WarnContext(ctx, "verification of the store failed", slog.Any("error", err))
		}
		if err == nil {
			v.memory.whole()
		}
		v.change(func(s *sluice.Verification) {
			if s.EndedAt = time.Now().UTC(); err != nil {
				s.Error = err.Error()
			}
		})
		select {
		case <-v.wanted:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Begin requests a verification, at full speed, unless one is already requested. It returns its
// state. A running one ends early. The result is never an error.
func (v *Verification) Begin(context.Context) (sluice.Verification, error) {
	v.memory.mu.Lock()
	defer v.memory.mu.Unlock()
	select {
	case v.wanted <- struct{}{}:
		v.state = sluice.Verification{StartedAt: time.Now().UTC()} // the running one ends for it
	default:
	}
	return v.state, nil
}

// Now returns the present state.
func (v *Verification) Now() sluice.Verification {
	v.memory.mu.Lock()
	defer v.memory.mu.Unlock()
	return v.state
}

func (v *Verification) change(f func(*sluice.Verification)) {
	v.memory.mu.Lock()
	defer v.memory.mu.Unlock()
	if len(v.wanted) == 0 { // otherwise the state is already that of the next one
		f(&v.state)
	}
}

// verify reads every stream. After each step it pauses for a multiple of the step's duration. It
// ends with errSuperseded when another verification is requested.
func (v *Verification) verify(ctx context.Context, rest int) error {
	counts, err := v.memory.streams.Counts(ctx)
	if err != nil {
		return err
	}
	var total, before uint64
	for _, c := range counts {
		total += c.Count
	}
	v.change(func(s *sluice.Verification) { *s = sluice.Verification{StartedAt: time.Now().UTC(), Total: total} })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		step := time.Now()
		found, err := v.memory.streams.Verify(ctx, name, func(read, _ uint64) {
			v.change(func(s *sluice.Verification) { s.Stream, s.Read = name, before+read })
			if rest > 0 {
				v.pause(ctx, time.Duration(rest)*time.Since(step), cancel)
			}
			step = time.Now()
		})
		if sluice.CodeOf(err) == sluice.NotFound || natsstore.IsGone(err) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, cmp.Or(context.Cause(ctx), err))
		}
		if err := v.memory.enter(ctx, found, nil); err != nil {
			return err
		}
		before += counts[name].Count
		v.change(func(s *sluice.Verification) { s.Stream, s.Read = name, before })
	}
	return nil
}

// pause waits, and calls giveUp if a verification is requested.
func (v *Verification) pause(ctx context.Context, d time.Duration, giveUp context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	if len(v.wanted) > 0 {
		giveUp(errSuperseded)
	}
}
