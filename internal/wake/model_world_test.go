package wake_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/testkit/waketest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// world is everything around Step that is not pure, simulated: streams, a store with compare-and-set, two replicas that
// may die between any two of their reads, writes and effects, an endpoint, its workers, and the clock. One seed is one
// history.
type world struct {
	random   *rand.Rand
	now      time.Time
	seq      uint64
	streams  map[sluice.Path]*stream
	sub      int    // the incarnation of the subscription; 0: there is none
	subs     int    // how many there have been
	from     uint64 // what was there when it was made is not news
	store    map[sluice.Path]row
	replicas [2]*replica
	owner    int // who has the lease
	term     int // how often that has changed
	requests []*request
	workers  []*worker
	letters  []*letter
	witness  *waketest.Witness
	ids      int
	deaf     bool // the endpoint never answers well, and no callback comes
	calm     bool // nothing goes wrong any more, and every notice is answered with done
	seen     map[string]int
	told     []string
	err      error
}

// stream is a path's log. Its lives follow one another.
type stream struct {
	messages []uint64
	erased   uint64 // the last message that is no more
	start    uint64
	life     int
	alive    bool
}

type row struct {
	data     []byte
	revision int
}

func primaries() []sluice.Path   { return []sluice.Path{"/agents/1", "/agents/2"} }
func secondaries() []sluice.Path { return []sluice.Path{"/tools/1", "/tools/2", "/tools/3"} }
func everywhere() []sluice.Path  { return append(primaries(), secondaries()...) }

func newWorld(seed uint64) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, seed)), now: noon, streams: map[sluice.Path]*stream{}, store: map[sluice.Path]row{},
		witness: waketest.New(), seen: map[string]int{}, deaf: seed%8 == 0,
	}
	for _, path := range everywhere() {
		w.streams[path] = &stream{}
	}
	for i := range w.replicas {
		w.replicas[i] = &replica{world: w, id: i}
		w.replicas[i].start()
	}
	return w
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.random.IntN(n) == 0 }

func pick[T any](w *world, all []T) T { return all[w.random.IntN(len(all))] }

// tell writes the history, of which the end is shown if something is wrong.
func (w *world) tell(kind, format string, args ...any) {
	w.seen[kind]++
	w.told = append(w.told, fmt.Sprintf("%s %s: %s", w.now.Format(time.TimeOnly), kind, fmt.Sprintf(format, args...)))
}

// wrong ends the history.
func (w *world) wrong(err error) { w.err = errors.Join(w.err, err) }

func (w *world) story() string { return strings.Join(w.told[max(0, len(w.told)-60):], "\n") }

func (w *world) append(path sluice.Path) {
	s := w.streams[path]
	if !s.alive {
		w.create(path)
	}
	w.seq++
	s.messages = append(s.messages, w.seq)
	w.tell("append", "%s gets %d", path, w.seq)
}

// create makes a stream without messages. That has a place among the messages here, so that no two lives of a path
// look the same.
func (w *world) create(path sluice.Path) {
	s := w.streams[path]
	if s.alive {
		return
	}
	s.alive = true
	s.life++
	if s.life > 1 {
		w.seq++
		s.start = w.seq
	}
	w.tell("create", "%s behind %d", path, s.start)
}

func (w *world) delete(path sluice.Path) {
	s := w.streams[path]
	if !s.alive {
		return
	}
	w.seq++
	s.alive, s.start = false, w.seq
	w.tell("delete", "%s at %d", path, w.seq)
}

// erase removes the messages of a stream, which goes on without them.
func (w *world) erase(path sluice.Path) {
	s := w.streams[path]
	if len(s.messages) == 0 {
		return
	}
	s.erased, s.messages = s.messages[len(s.messages)-1], nil
	w.tell("erase", "%s up to %d", path, s.erased)
}

func (s *stream) tail() wake.Tail {
	t := wake.Tail{Seq: s.upTo(^uint64(0)), Start: s.start, Gone: s.life > 0 && !s.alive}
	if t.Seq <= t.Start {
		t.Seq = 0 // it has none of its own
	}
	return t
}

// upTo returns the last message that is not behind a sequence.
func (s *stream) upTo(limit uint64) uint64 {
	last := uint64(0)
	for _, seq := range s.messages {
		if seq <= limit {
			last = seq
		}
	}
	return last
}

func (w *world) tails(paths []sluice.Path) wake.Tails {
	tails := wake.Tails{}
	for _, path := range paths {
		tails[path] = w.streams[path].tail()
	}
	return tails
}

// subscribe makes the subscription, or deletes it.
func (w *world) subscribe() {
	w.subs++
	w.sub, w.from = w.subs, w.seq
	w.tell("subscribe", "incarnation %d from %d", w.sub, w.from)
}

func (w *world) cancel() {
	w.sub = 0
	w.tell("cancel", "the subscription")
}

func incarnation(n int) string { return fmt.Sprintf("made-%d", n) }

// get reads a consumer; revision 0 is none.
func (w *world) get(path sluice.Path) (wake.Consumer, int) {
	r := w.store[path]
	var c wake.Consumer
	if r.revision > 0 {
		if err := json.Unmarshal(r.data, &c); err != nil {
			w.wrong(err)
		}
	}
	return c, r.revision
}

// put writes a consumer unless another writer did since it was read.
func (w *world) put(c *wake.Consumer, revision int) bool {
	if w.store[c.Path].revision != revision {
		w.tell("lost race", "for %s at revision %d", c.Path, revision)
		return false
	}
	data, err := json.Marshal(c)
	if err != nil {
		w.wrong(err)
	}
	w.store[c.Path] = row{data, revision + 1}
	w.tell("write", "%s %s, due %s", c.Path, of(c), c.Due.Format(time.TimeOnly))
	return true
}

// concerned reports whether there should be a consumer of a stream.
func (w *world) concerned(path sluice.Path) bool { return w.sub > 0 && w.streams[path].alive }

// birth tells apart what the paths of streams and the ids of subscriptions do not.
func birth(of string, since uint64) string { return fmt.Sprintf("%s since %d", of, since) }

// current is the life of the consumer that there should be.
func (w *world) current(path sluice.Path) string {
	return birth(incarnation(w.sub), w.streams[path].start+1)
}
