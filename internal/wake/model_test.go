package wake_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// act does one random thing.
func (w *world) act() {
	switch n := w.random.IntN(30); {
	case n < 15:
		pick(w, w.replicas[:]).work()
	case n < 20:
		w.own()
	case n < 22:
		w.nature()
	case n < 24:
		w.reply()
	case n < 26:
		w.write()
	case n < 29:
		w.deliver()
	default:
		w.pass()
	}
	for _, r := range w.replicas {
		r.wait()
	}
}

// own is what an owner does of itself. A replica that lost its lease goes on for a while.
func (w *world) own() {
	r, path := pick(w, w.replicas[:]), pick(w, primaries())
	if !r.alive || r.busy() {
		return
	}
	if !r.leads {
		r.leads = w.owner == r.id
		return
	}
	if w.owner != r.id && w.chance(4) {
		r.leads = false
		return
	}
	r.begin([]func(sluice.Path) op{r.sweep, r.look, r.post}[w.random.IntN(3)](path))
}

// nature is what happens by itself.
func (w *world) nature() {
	switch n := w.random.IntN(60); {
	case n < 26:
		w.append(pick(w, everywhere()))
	case n < 28:
		w.create(pick(w, everywhere()))
	case n < 29 && w.chance(3):
		w.delete(pick(w, primaries()))
	case n < 31:
		w.delete(pick(w, secondaries()))
	case n < 40:
		if w.sub == 0 {
			w.subscribe()
		}
	case n < 41 && w.chance(4):
		w.cancel()
	case n < 43:
		w.owner = w.random.IntN(2)
		w.term++
	case n < 44 && w.chance(2):
		w.erase(pick(w, everywhere()))
	case n < 44:
		if r := pick(w, w.replicas[:]); r.alive {
			r.kill()
		}
	case n > 44:
		for _, r := range w.replicas {
			if !r.alive {
				r.start()
			}
		}
	}
}

// pass lets time pass: mostly a little, sometimes more than any clock of S1, rarely a day.
func (w *world) pass() {
	second := int64(time.Second)
	most := []int64{second, second, 5 * second, 11 * second, 31 * second, 46 * second}[w.random.IntN(6)]
	if w.chance(60) || w.deaf && w.chance(6) {
		most = int64(48 * time.Hour)
	}
	w.now = w.now.Add(time.Duration(w.random.Int64N(most)))
}

// rest ends everything that goes wrong, and requires that within five minutes nothing is pending any more: that
// a worker was woken for each pending event (L1), and left in peace afterwards (L2).
func (w *world) rest() {
	w.letters, w.requests, w.calm = nil, nil, true
	for _, r := range w.replicas {
		if !r.alive {
			r.start()
		}
		r.leads = w.owner == r.id
	}
	for range 100 {
		for range 4 {
			w.turn()
		}
		if w.err != nil || len(w.unsettled()) == 0 {
			break
		}
		w.now = w.now.Add(3 * time.Second)
	}
	for _, path := range w.unsettled() {
		c, _ := w.get(path)
		w.wrong(fmt.Errorf("L1: %s is not settled after five minutes: %s with %v", path, of(&c), w.tails(c.Paths())))
	}
	notices := w.seen["notice"]
	w.turn()
	if w.seen["notice"] != notices {
		w.wrong(errors.New("L2: a worker was woken without pending work"))
	}
}

// turn is one of everything that the owner does, to its end.
func (w *world) turn() {
	for _, r := range w.replicas {
		for _, path := range primaries() {
			if r.leads {
				r.begin(r.sweep(path))
				r.begin(r.look(path))
				r.begin(r.post(path))
			}
		}
		r.wait()
		for len(r.tasks) > 0 {
			r.work()
		}
	}
}

// unsettled returns the streams whose consumer is not there, or not idle, or has pending work.
func (w *world) unsettled() (paths []sluice.Path) {
	for _, path := range primaries() {
		c, revision := w.get(path)
		switch {
		case !w.concerned(path):
		case revision == 0, c.Of != incarnation(w.sub):
			paths = append(paths, path)
		case c.State == sluice.WakeRemoved:
			if w.streams[path].upTo(^uint64(0)) > c.Since { // which brings it back
				paths = append(paths, path)
			}
		case c.State != sluice.WakeIdle, len(c.Pending(w.tails(c.Paths()))) > 0:
			paths = append(paths, path)
		}
	}
	return paths
}

// The history of a seed: so many steps, and then rest.
func history(seed uint64, steps int) *world {
	w := newWorld(seed)
	for range steps {
		w.act()
		if w.err != nil {
			return w
		}
	}
	w.rest()
	return w
}

// whatHasToHappen is what the histories together must have met: a model that never gets there shows nothing.
func whatHasToHappen() []string {
	return []string{
		"lost race", "kill in the middle", "notice without the lease", "comes back", "late answer", "hang", "callback succeeds",
		"callback: ALREADY_CLAIMED", "callback: STALE_EPOCH", "callback: INVALID_OFFSET", "callback: CONSUMER_GONE", "callback acknowledges what is no more",
		"look: idle to waking", "look: live to idle", "look: live to waking", "look: waking to removed", "look: live to removed", "look: idle to removed",
		"answer: waking to live", "done: waking to idle", "done: waking to waking", "done: live to idle", "done: live to waking", "three days: waking to removed",
		"callback: waking to live", "callback: waking to idle", "callback: live to idle", "callback: live to waking", "callback: live to removed",
	}
}

// TestModel_RandomHistoriesKeepTheGuarantees drives random histories against Step: appends, streams and subscriptions that come and go, answers of every
// kind, callbacks that are valid, stale, forged, repeated and out of order, time, replicas that die between any two
// reads, writes and effects, and leases that two believe to have. After every step the reference says whether what Step made
// of it is allowed, and the witness whether S1 to S7 hold of what can be seen; at the end of each history L1 and L2 do.
// SLUICE_SEED=n tells one history again; SLUICE_LONG=1 tells 2,000, of 2,000 steps each.
func TestModel_RandomHistoriesKeepTheGuarantees(t *testing.T) { // S1-28…44, S1-55…65, S1-72…101, S1-115…140
	t.Parallel()
	first, histories, steps := uint64(1), uint64(100), 1000
	if os.Getenv("SLUICE_LONG") != "" {
		first, histories, steps = uint64(time.Now().UnixNano()), 2000, 2000
	}
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		first, histories = seed, 1
	}
	t.Logf("%d histories of %d steps from SLUICE_SEED=%d", histories, steps, first)
	seen := map[string]int{}
	for seed := first; seed < first+histories; seed++ {
		w := history(seed, steps)
		require.NoError(t, w.err, "SLUICE_SEED=%d:\n%s", seed, w.story())
		for kind, n := range w.seen {
			seen[kind] += n
		}
	}
	t.Log(seen)
	if histories == 1 {
		return
	}
	for _, kind := range whatHasToHappen() {
		require.NotZero(t, seen[kind], "it never came to this: %s", kind)
	}
}
