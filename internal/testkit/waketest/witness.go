// Package waketest checks the invariants of S1 in tests of wake consumers. Its Witness sees only
// the public behaviour: notices, and answers to callbacks.
package waketest

import (
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Notice is a notice as seen by its receiver.
type Notice struct {
	Consumer string
	Life     string // identifies the life of the consumer's stream and subscription
	Epoch    uint64
	WakeID   string
	Offsets  map[sluice.Path]uint64
	Overtook bool // sent by a replica that had lost its lease, so it may be late
}

// Reply is an answered callback.
type Reply struct {
	Consumer string
	Epoch    uint64
	WakeID   string
	Code     sluice.Code // "" is success
	Life     string      // as in Notice; answers may arrive in another order than notices
	Offsets  map[sluice.Path]uint64

	Forged   bool   // its token was never issued
	Dead     bool   // its consumer was gone when it was sent: the subscription or the primary stream was deleted
	Outdated uint64 // the largest epoch of the consumer that anyone had seen when it was sent
}

// Witness checks the invariants of the specification from the public behaviour: S1 to S4, S6 and
// S7. It is not safe for concurrent use.
//
// Its memory, and the checks that use it:
//
//	epochs   consumer              S1: no notice of an earlier epoch after a later one
//	ids      wake id               S2: it belongs to one consumer and epoch
//	wakes    consumer and epoch    S2, S3: it has one wake id, which alone claims it
//	acked    life and stream       S4: offsets never decrease
type Witness struct {
	epochs map[string]uint64            // the largest epoch of each consumer
	ids    map[string]string            // owner of each wake id
	wakes  map[string]string            // the wake id of each consumer's epoch
	acked  map[string]map[string]uint64 // the largest offset, by consumer's life and stream
}

// New returns a witness that has seen nothing yet.
func New() *Witness {
	return &Witness{epochs: map[string]uint64{}, ids: map[string]string{}, wakes: map[string]string{}, acked: map[string]map[string]uint64{}}
}

// Notice checks S1 (epochs), S2 (wake ids) and S4 (offsets). Call it in the order of arrival.
// Notices that overtook others are exempt from the order.
func (w *Witness) Notice(n *Notice) error {
	cycle := fmt.Sprintf("%s epoch %d", n.Consumer, n.Epoch)
	if is, known := w.ids[n.WakeID]; known && is != cycle {
		return fmt.Errorf("S2: the wake id %s of %s was that of %s", n.WakeID, cycle, is)
	}
	if is, known := w.wakes[cycle]; known && is != n.WakeID {
		return fmt.Errorf("S2: %s has the wake ids %s and %s", cycle, is, n.WakeID)
	}
	if n.Epoch < w.epochs[n.Consumer] && !n.Overtook {
		return fmt.Errorf("S1: %s was noticed after epoch %d", cycle, w.epochs[n.Consumer])
	}
	if n.Epoch == 0 || n.WakeID == "" {
		return fmt.Errorf("%s has the wake id %q", cycle, n.WakeID)
	}
	w.ids[n.WakeID], w.wakes[cycle] = cycle, n.WakeID
	if n.Overtook {
		return nil
	}
	w.epochs[n.Consumer] = max(n.Epoch, w.epochs[n.Consumer])
	return w.grow(n.Consumer+" "+n.Life, n.Offsets)
}

// grow checks that no offset decreases.
func (w *Witness) grow(life string, offsets map[sluice.Path]uint64) error {
	if w.acked[life] == nil {
		w.acked[life] = map[string]uint64{}
	}
	for path, seq := range offsets {
		if seq < w.acked[life][string(path)] {
			return fmt.Errorf("S4: %s was acknowledged up to %d of %s, and now up to %d", life, w.acked[life][string(path)], path, seq)
		}
		w.acked[life][string(path)] = seq
	}
	return nil
}

// Reply checks S3 (claims), S4 (offsets), S6 (old epochs) and S7 (deleted consumers). Outdated was
// read before the callback was sent, so the order of the calls does not matter for S6.
func (w *Witness) Reply(r *Reply) error {
	cycle := fmt.Sprintf("%s epoch %d", r.Consumer, r.Epoch)
	known := w.wakes[cycle]
	switch {
	case r.Forged && r.Code == "":
		return fmt.Errorf("a forged callback of %s succeeded", cycle)
	case r.Forged:
	case r.Dead && r.Code != sluice.WakeGone && r.Code != sluice.WakeStale:
		return fmt.Errorf("S7: a callback of %s, which is gone, was answered with %q", cycle, r.Code)
	case r.Epoch < r.Outdated && r.Code != sluice.WakeStale && r.Code != sluice.WakeGone:
		return fmt.Errorf("S6: a callback of %s was answered with %q after epoch %d", cycle, r.Code, r.Outdated)
	case r.Code == "" && r.WakeID != "" && r.WakeID != known:
		return fmt.Errorf("S3: a claim of %s with %s succeeded; it is %s", cycle, r.WakeID, known)
	case r.Code == sluice.WakeTaken && r.WakeID == known && known != "":
		return fmt.Errorf("S3: a claim of %s with its wake id %s was refused", cycle, known)
	}
	return w.grow(r.Consumer+" as replied "+r.Life, r.Offsets)
}
