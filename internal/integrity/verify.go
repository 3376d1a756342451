package integrity

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// verifyRest is how long the verification rests that a start makes by itself, as a multiple of the time it has read for.
const verifyRest = 9

// Verification reads everything that is stored, one at a time, and enters what cannot be read.
type Verification struct {
	memory *Memory
	wanted chan struct{}

	// Of the one that goes on, or the last. memory.mu guards it.
	state sluice.Verification
}

// NewVerification returns a verification that does nothing before Run.
func NewVerification(m *Memory) *Verification {
	return &Verification{memory: m, wanted: make(chan struct{}, 1)}
}

// Run verifies once by itself, at its ease, and then whenever it is asked to, until ctx is done.
func (v *Verification) Run(ctx context.Context) error {
	for rest := verifyRest; ctx.Err() == nil; rest = 0 {
		err := v.verify(ctx, rest)
		if err != nil && ctx.Err() == nil {
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

// Begin asks for a verification, at full speed, unless one is already asked for. It returns how far it is.
func (v *Verification) Begin(context.Context) (sluice.Verification, error) {
	v.memory.mu.Lock()
	defer v.memory.mu.Unlock()
	select {
	case v.wanted <- struct{}{}:
		v.state = sluice.Verification{StartedAt: time.Now().UTC()} // the one that goes on makes room for it
	default:
	}
	return v.state, nil
}

// Now returns how far it is.
func (v *Verification) Now() sluice.Verification {
	v.memory.mu.Lock()
	defer v.memory.mu.Unlock()
	return v.state
}

func (v *Verification) change(f func(*sluice.Verification)) {
	v.memory.mu.Lock()
	defer v.memory.mu.Unlock()
	if len(v.wanted) == 0 { // else what is shown is already of the next
		f(&v.state)
	}
}

// verify reads every stream. Between two steps it rests for so many times as long as the step took. It ends when another one is
// asked for.
func (v *Verification) verify(ctx context.Context, rest int) error {
	counts, err := v.memory.store.Counts(ctx)
	if err != nil {
		return err
	}
	var total, before uint64
	for _, c := range counts {
		total += c.Count
	}
	v.change(func(s *sluice.Verification) { *s = sluice.Verification{StartedAt: time.Now().UTC(), Total: total} })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		step := time.Now()
		found, err := v.memory.store.Verify(ctx, name, func(read, _ uint64) {
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
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := v.memory.enter(ctx, found, nil); err != nil {
			return err
		}
		before += counts[name].Count
		v.change(func(s *sluice.Verification) { s.Stream, s.Read = name, before })
	}
	return nil
}

// pause rests, and gives up if a verification is asked for.
func (v *Verification) pause(ctx context.Context, d time.Duration, giveUp func()) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	if len(v.wanted) > 0 {
		giveUp()
	}
}
