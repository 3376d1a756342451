package delivery

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// healthRecord is the stored health of a subscription, with its writes. One write is in progress at
// most, and one is made within saveEvery.
type healthRecord struct {
	store    Healths
	recalled bool              // it was read
	stored   model.Health      // last stored health
	storing  bool              // a write is in progress, or was made within saveEvery
	outcomes chan healthStored // outcome of the write
	next     <-chan time.Time  // ends the pause after a write
}

// healthStored is the outcome of a write.
type healthStored struct {
	health model.Health
	err    error
}

// open forgets the writes of an earlier run.
func (h *healthRecord) open() {
	h.storing, h.next, h.outcomes = false, nil, make(chan healthStored, 1)
}

// recall reads the stored health once. first is false if it was read before.
func (h *healthRecord) recall(ctx context.Context, sub *sluice.Subscription) (first bool, err error) {
	if h.recalled {
		return false, nil
	}
	is, err := h.store.Health(ctx, sub)
	if err != nil {
		return false, err
	}
	h.recalled, h.stored = true, is
	return true, nil
}

// begin begins a write of another health than the stored one, and returns the function that makes
// it; nil if there is nothing to write now.
func (h *healthRecord) begin(work context.Context, sub *sluice.Subscription, is model.Health) (write func()) {
	if h.storing || is == h.stored {
		return nil
	}
	h.storing = true
	store, outcomes := h.store, h.outcomes
	return func() {
		limit, cancel := context.WithTimeout(work, recordLimit)
		defer cancel()
		outcomes <- healthStored{health: is, err: store.PutHealth(limit, sub, is)}
	}
}

// written returns the channel that receives the outcome of a write; nil if none is in progress.
func (h *healthRecord) written() <-chan healthStored {
	if !h.storing {
		return nil
	}
	return h.outcomes
}

// end applies the outcome of a write, and starts the pause before the next one.
func (h *healthRecord) end(s healthStored) error {
	h.next = time.After(saveEvery)
	if s.err == nil {
		h.stored = s.health
	}
	return s.err
}

// goOn ends the pause after a write.
func (h *healthRecord) goOn() { h.storing, h.next = false, nil }

// writing reports whether a write is in progress.
func (h *healthRecord) writing() bool { return h.storing && h.next == nil }

// put stores a health at once.
func (h *healthRecord) put(ctx context.Context, sub *sluice.Subscription, is model.Health) error {
	err := h.store.PutHealth(ctx, sub, is)
	if err == nil {
		h.stored = is
	}
	return err
}

// allWell reports whether no trouble is stored, and nothing is being stored.
func (h *healthRecord) allWell() bool {
	return !h.storing && h.stored.Breaker == "" && h.stored.FailingSince.IsZero() && h.stored.HeldUntil.IsZero() && h.stored.Unopened == ""
}

// noHealths stores nothing.
type noHealths struct{}

// Health returns the zero health.
func (noHealths) Health(context.Context, *sluice.Subscription) (model.Health, error) {
	return model.Health{}, nil
}

// PutHealth does nothing.
func (noHealths) PutHealth(context.Context, *sluice.Subscription, model.Health) error { return nil }
