package wake_test

import (
	"fmt"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// notified is a notice as whoever receives it sees it.
type notified struct {
	consumer string
	life     string // of its stream and its subscription
	epoch    uint64
	wakeID   string
	offsets  map[sluice.Path]uint64
	overtook bool // it was sent by a replica that had lost its lease: it may be late
}

// replied is a callback that was answered.
type replied struct {
	consumer string
	epoch    uint64
	wakeID   string
	code     sluice.Code // "" is success
	offsets  map[sluice.Path]uint64

	forged   bool   // nobody was ever told what it says
	dead     bool   // when it was sent, its consumer was gone: the subscription, or the primary stream, was deleted
	outdated uint64 // the largest epoch that anybody had seen of the consumer when it was sent
}

// witness sees what can be seen from outside, and checks the invariants S1 to S7 of the specification in it.
type witness struct {
	epochs map[string]uint64            // the largest epoch of each consumer
	ids    map[string]string            // what each wake id is of
	wakes  map[string]string            // the wake id of each consumer's epoch
	acked  map[string]map[string]uint64 // of each consumer's life and stream the largest offset
}

func newWitness() *witness {
	return &witness{epochs: map[string]uint64{}, ids: map[string]string{}, wakes: map[string]string{}, acked: map[string]map[string]uint64{}}
}

// notice checks S1 (epochs), S2 (wake ids) and S4 (offsets).
func (w *witness) notice(n *notified) error {
	cycle := fmt.Sprintf("%s epoch %d", n.consumer, n.epoch)
	if is, known := w.ids[n.wakeID]; known && is != cycle {
		return fmt.Errorf("S2: the wake id %s of %s was that of %s", n.wakeID, cycle, is)
	}
	if is, known := w.wakes[cycle]; known && is != n.wakeID {
		return fmt.Errorf("S2: %s has the wake ids %s and %s", cycle, is, n.wakeID)
	}
	if n.epoch < w.epochs[n.consumer] && !n.overtook {
		return fmt.Errorf("S1: %s was noticed after epoch %d", cycle, w.epochs[n.consumer])
	}
	if n.epoch == 0 || n.wakeID == "" {
		return fmt.Errorf("%s has the wake id %q", cycle, n.wakeID)
	}
	w.ids[n.wakeID], w.wakes[cycle] = cycle, n.wakeID
	if n.overtook {
		return nil
	}
	w.epochs[n.consumer] = max(n.epoch, w.epochs[n.consumer])
	return w.grow(n.consumer+" "+n.life, n.offsets)
}

// grow checks that no offset goes back.
func (w *witness) grow(life string, offsets map[sluice.Path]uint64) error {
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

// reply checks S3 (claims), S6 (old epochs) and S7 (what is gone).
func (w *witness) reply(r *replied) error {
	cycle := fmt.Sprintf("%s epoch %d", r.consumer, r.epoch)
	known := w.wakes[cycle]
	switch {
	case r.forged && r.code == "":
		return fmt.Errorf("a forged callback of %s succeeded", cycle)
	case r.forged:
	case r.dead && r.code != sluice.WakeGone && r.code != sluice.WakeStale:
		return fmt.Errorf("S7: a callback of %s, which is gone, was answered with %q", cycle, r.code)
	case r.epoch < r.outdated && r.code != sluice.WakeStale && r.code != sluice.WakeGone:
		return fmt.Errorf("S6: a callback of %s was answered with %q after epoch %d", cycle, r.code, r.outdated)
	case r.code == "" && r.wakeID != "" && r.wakeID != known:
		return fmt.Errorf("S3: a claim of %s with %s succeeded; it is %s", cycle, r.wakeID, known)
	case r.code == sluice.WakeTaken && r.wakeID == known && known != "":
		return fmt.Errorf("S3: a claim of %s with its wake id %s was refused", cycle, known)
	}
	return nil
}
