package streamsub_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/streamsub"
)

// world is a log, a subscription and workers that may be slow, wrong or dead.
type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	last   uint64
	events map[string][]uint64 // by path
	s      streamsub.Subscription
	wakes  int

	forgets bool // there are more streams than a record has room for
	largest int  // of the records, in bytes

	due     map[string]map[uint64]bool // events that a worker has to be told of, until it was
	workers []worker
}

// worker was woken, and remembers it for ever.
type worker struct {
	wake       string
	generation uint64
	streams    []streamsub.Stream
}

func newWorld(t *testing.T, seed uint64, kind streamsub.Kind) *world {
	t.Helper()
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)),
		now: start, events: map[string][]uint64{}, due: map[string]map[uint64]bool{}, s: made(kind), last: 10,
	}
	return w
}

// paths is how many paths there are: enough that links have to be forgotten.
const paths = 400

func (w *world) path() string {
	if w.random.IntN(20) == 0 {
		return "named"
	}
	return fmt.Sprintf("events/%d", w.random.IntN(paths))
}

func (w *world) add(path string) {
	w.last++
	w.events[path] = append(w.events[path], w.last)
	if w.s.Follows(path) {
		if w.due[path] == nil {
			w.due[path] = map[uint64]bool{}
		}
		w.due[path][w.last] = true
	}
}

func (w *world) view(in streamsub.Input) streamsub.View {
	v := streamsub.View{At: w.last, Tails: map[string]uint64{}}
	for path, seqs := range w.events {
		_, linked := w.s.Links[path]
		if tail := seqs[len(seqs)-1]; tail > w.s.Floor || linked {
			v.Tails[path] = tail
		}
	}
	for _, a := range in.Acks {
		if seqs := w.events[a.Path]; len(seqs) > 0 {
			v.Tails[a.Path] = seqs[len(seqs)-1]
		}
	}
	return v
}

// step does something to the subscription. Generations only grow, and a refusal for what is over changes no cursor.
func (w *world) step(in streamsub.Input) (refused string) {
	w.wakes++
	in.WakeID, in.Jitter = fmt.Sprintf("w%d", w.wakes), w.random.Float64()
	before := w.s
	next, woken, err := streamsub.Step(before, in, w.view(in), w.now)
	refused = code(err)
	require.GreaterOrEqual(w.t, next.Generation, before.Generation)
	require.LessOrEqual(w.t, next.Generation, before.Generation+1)
	if woken {
		require.NotNil(w.t, next.Wake)
		require.NotEmpty(w.t, next.Wake.Snapshot, "no wake without a cause")
		require.Equal(w.t, before.Generation+1, next.Generation)
	}
	if refused == streamsub.Fenced || refused == streamsub.InvalidOffset {
		require.True(w.t, maps.Equal(before.Links, next.Links), "%s moved a cursor", refused)
	}
	if refused == "" && !w.forgets {
		w.keeps(in, &next)
	}
	w.s = next
	w.lossless(in)
	return refused
}

// lossless fails if a cursor is behind an event of which no worker was told, in the record or in what workers are told.
func (w *world) lossless(in streamsub.Input) {
	first := func(path string) uint64 { // of the events of which no worker was told
		lowest := uint64(math.MaxUint64)
		for seq := range w.due[path] {
			lowest = min(lowest, seq)
		}
		return lowest
	}
	for path, seqs := range w.due {
		if len(seqs) == 0 || !w.s.Follows(path) {
			continue
		}
		tail := w.events[path][len(w.events[path])-1]
		cursor := w.s.Base
		if link, ok := w.s.Links[path]; ok {
			cursor = link.Acked
		} else if tail <= w.s.Floor {
			cursor = tail
		}
		if first(path) <= cursor {
			require.Failf(w.t, "the cursor is too far", "%.20q: %d (floor %d, base %d) after %d", path, cursor, w.s.Floor, w.s.Base, in.Do)
		}
	}
	for _, p := range w.s.Told() {
		if first(p.Path) <= p.Acked {
			require.Failf(w.t, "what is told is too far", "%.20q: %d (floor %d, base %d) after %d", p.Path, p.Acked, w.s.Floor, w.s.Base, in.Do)
		}
	}
}

// keeps fails if a link was forgotten of a stream that has something new: what is done of it would be told again.
func (w *world) keeps(in streamsub.Input, next *streamsub.Subscription) {
	done := map[string]uint64{}
	for path, link := range w.s.Links {
		done[path] = link.Acked
	}
	if in.Do == streamsub.Called {
		for _, a := range in.Acks {
			done[a.Path] = max(done[a.Path], a.Offset)
		}
	}
	if in.Do == streamsub.Sent && in.Done && w.s.Wake != nil && w.s.Wake.ID == in.Wake {
		for path, tail := range w.s.Wake.Snapshot {
			done[path] = max(done[path], tail)
		}
	}
	for path, seq := range done {
		if _, kept := next.Links[path]; !kept && next.Follows(path) && len(w.events[path]) > 0 {
			seqs := w.events[path]
			require.LessOrEqual(w.t, seqs[len(seqs)-1], seq, "%s lost its cursor", path)
		}
	}
}

// told gives the wake to a worker.
func (w *world) told() worker {
	return worker{w.s.Wake.ID, w.s.Generation, w.s.Told()}
}

// finish is a worker that reads what it was told of and says so. What it read counts, whether it is believed or not.
func (w *world) finish(one worker, in streamsub.Input) (refused string) {
	in.Do, in.Wake, in.Generation = streamsub.Called, one.wake, one.generation
	stale := false // another report was faster
	for _, p := range one.streams {
		if !p.Pending() || !in.Done && w.random.IntN(2) == 0 {
			continue
		}
		if seqs := w.events[p.Path]; len(seqs) > 0 && w.random.IntN(4) == 0 { // on to the present end
			p.Tail = max(p.Tail, seqs[len(seqs)-1])
		}
		in.Acks = append(in.Acks, streamsub.Ack{Path: p.Path, Offset: p.Tail})
		w.read(p)
		if w.random.IntN(40) == 0 {
			w.erase(p.Path)
		}
		stale = stale || !w.s.Follows(p.Path) || w.s.Links[p.Path].Acked > p.Tail || w.s.Base > p.Tail
	}
	current := w.s.Wake != nil && w.s.Wake.ID == one.wake
	refused = w.step(in)
	require.False(w.t, !stale && refused == streamsub.InvalidOffset, "what a worker has read is valid")
	if !current {
		require.Equal(w.t, streamsub.Fenced, refused, "an earlier wake's worker is not heard")
	}
	return refused
}

// erase removes the events of a path: no worker has to be told of them any more.
func (w *world) erase(path string) {
	delete(w.events, path)
	delete(w.due, path)
}

func (w *world) read(p streamsub.Stream) {
	for _, seq := range w.events[p.Path] {
		if seq > p.Acked && seq <= p.Tail {
			delete(w.due[p.Path], seq)
		}
	}
}

// random does one thing or another.
func (w *world) anything() {
	switch w.random.IntN(12) {
	case 0, 1, 2, 3:
		for range w.random.IntN(20) {
			w.add(w.path())
		}
	case 4, 5:
		w.step(streamsub.Input{Do: streamsub.Look})
	case 6:
		w.now = w.now.Add(time.Duration(w.random.Int64N(int64(40 * time.Second))))
	case 7, 8:
		w.work()
	case 9:
		if len(w.workers) > 0 {
			w.finish(w.workers[w.random.IntN(len(w.workers))], streamsub.Input{Done: w.random.IntN(3) > 0})
		}
	case 10:
		w.membership()
	case 11:
		if len(w.workers) > 0 {
			one := w.workers[w.random.IntN(len(w.workers))]
			w.step(streamsub.Input{Do: streamsub.Released, Wake: one.wake, Generation: one.generation})
		}
	}
}

// membership names a stream, or takes it out: events that came while it was out are for no worker.
func (w *world) membership() {
	do := streamsub.Linked
	if w.random.IntN(2) == 0 {
		do = streamsub.Unlinked
	}
	w.step(streamsub.Input{Do: do, Paths: []string{"named", "events/1"}})
	if !w.s.Follows("named") {
		delete(w.due, "named")
	}
}

// work sends a wake that is to be sent, or claims one.
func (w *world) work() {
	if w.s.Config.Kind == streamsub.PullWake {
		if refused := w.step(streamsub.Input{Do: streamsub.Claimed, Worker: "x"}); refused == "" {
			w.workers = append(w.workers, w.told())
		}
	}
	if w.s.Wake == nil || !w.s.Wake.Send || w.s.NotBefore.After(w.now) {
		return
	}
	one := w.told()
	arrived := w.random.IntN(3) > 0
	if arrived && w.s.Config.Kind == streamsub.Webhook {
		w.workers = append(w.workers, one)
	}
	known := arrived && w.random.IntN(4) > 0 // the answer may be lost
	done := known && w.s.Config.Kind == streamsub.Webhook && w.random.IntN(3) == 0
	if done {
		for _, p := range one.streams {
			w.read(p)
		}
	}
	if w.random.IntN(8) > 0 { // or the process dies before it writes down what came of it
		w.step(streamsub.Input{Do: streamsub.Sent, Wake: one.wake, OK: known, Done: done})
	}
}

// drain lets the clocks run and workers work until all is quiet, which has to come.
func (w *world) drain() {
	for range 200 {
		if at := w.s.Next(); at.After(w.now) {
			w.now = at
		}
		w.step(streamsub.Input{Do: streamsub.Look})
		if w.s.Wake == nil && w.s.Next().IsZero() {
			return
		}
		if w.s.Config.Kind == streamsub.PullWake && w.step(streamsub.Input{Do: streamsub.Claimed, Worker: "x"}) != "" {
			continue // the lease of another one runs out
		}
		if w.s.Wake != nil {
			require.Empty(w.t, w.finish(w.told(), streamsub.Input{Done: true}))
		}
	}
	require.Fail(w.t, "it never comes to rest", "%s", state(&w.s))
}

// In any order of steps, every event on a stream of the subscription was told to a worker that
// said so, or is told in the end.
func TestEngine_RandomInterleavingsLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		kind := []streamsub.Kind{streamsub.Webhook, streamsub.PullWake}[seed%2]
		t.Run(fmt.Sprintf("%s %d", kind, seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, kind)
			for range 500 {
				w.anything()
			}
			w.drain()
			for path, seqs := range w.due {
				require.Empty(t, slices.Sorted(maps.Keys(seqs)), "%s was not told to its end (floor %d, base %d)", path, w.s.Floor, w.s.Base)
			}
			require.LessOrEqual(t, len(w.s.Links), 256+paths, "links are forgotten")
		})
	}
}

// More streams than links can be kept for at once are told of all the same, and the record stays small.
func TestLink_ShortageLosesNoStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, streamsub.PullWake)
	const many = 12_000
	for i := range many {
		w.add(fmt.Sprintf("events/m%d", i))
	}
	largest := 0
	for round := range 30 {
		if refused := w.step(streamsub.Input{Do: streamsub.Claimed, Worker: "x"}); refused == streamsub.NoPendingWork {
			break
		}
		one := w.told()
		for i := 0; i < 10 && round < 12; i++ { // some go on meanwhile
			w.add(fmt.Sprintf("events/m%d", w.random.IntN(many)))
		}
		require.Empty(t, w.finish(one, streamsub.Input{Done: true}))
		largest = max(largest, len(w.s.Links))
	}
	refused := w.step(streamsub.Input{Do: streamsub.Claimed, Worker: "x"})
	require.Equal(t, streamsub.NoPendingWork, refused)
	for path, seqs := range w.due {
		require.Empty(t, seqs, path)
	}
	require.LessOrEqual(t, largest, 5000)
}
