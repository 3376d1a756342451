package streamsub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/streamsub"
)

// mostRecord is how large a record may become: what NATS takes as one message, less some room for what is around it.
const mostRecord = 1<<20 - 64<<10

// longName returns a name that takes up to 3 KB as JSON.
func (w *world) longName(i int) string {
	parts := []string{"<", "<", "<", "&", "&", ">", `"`, `\`, "\u2028", "a", "ß", "🌊", "\u0085"}
	part := parts[w.random.IntN(len(parts))]
	return fmt.Sprintf("events/%s%d", strings.Repeat(part, (490-w.random.IntN(490)*w.random.IntN(2))/len(part)), i)
}

// wide is a world with more streams, of longer names, than there is room for.
type wide struct {
	*world

	names []string
}

func newWide(t *testing.T, seed uint64, kind streamsub.Kind) *wide {
	t.Helper()
	w := &wide{world: newWorld(t, seed, kind)}
	w.forgets = true
	for i := range 900 {
		name := w.longName(i)
		if i%9 == 0 {
			name = strings.Replace(name, "events", "named", 1) // which the pattern has not
		}
		w.names = append(w.names, name)
	}
	for i := 0; len(w.s.Config.Streams) < 45; i += 9 {
		w.s.Config.Streams = append(w.s.Config.Streams, w.names[i])
		w.s.Links[w.names[i]] = streamsub.Link{Explicit: true}
	}
	return w
}

func (w *wide) some(most int) []string {
	some := make([]string, 0, most)
	for range w.random.IntN(most) + 1 {
		some = append(some, w.names[w.random.IntN(len(w.names))])
	}
	return some
}

func (w *wide) anything() {
	switch w.random.IntN(8) {
	case 0:
		for _, path := range w.some(400) {
			w.add(path)
		}
	case 1:
		w.name(streamsub.Linked)
	case 2:
		w.name(streamsub.Unlinked)
	case 3, 4:
		w.further()
	default:
		w.world.anything()
	}
	data, err := json.Marshal(w.s)
	require.NoError(w.t, err)
	require.LessOrEqual(w.t, len(data), mostRecord)
	w.largest = max(w.largest, len(data))
}

// name names streams, or takes them out again: events of one that was out are for no worker.
func (w *wide) name(do streamsub.Do) {
	w.step(streamsub.Input{Do: do, Paths: w.some(120)})
	for path := range w.due {
		if !w.s.Follows(path) {
			delete(w.due, path)
		}
	}
}

// further is a worker that reads streams of which it was not told, and says so.
func (w *wide) further() {
	if w.s.Wake == nil {
		return
	}
	in := streamsub.Input{Do: streamsub.Called, Wake: w.s.Wake.ID, Generation: w.s.Generation}
	for _, path := range w.some(900) {
		seqs := w.events[path]
		if len(seqs) == 0 || !w.s.Follows(path) {
			continue
		}
		in.Acks = append(in.Acks, streamsub.Ack{Path: path, Offset: seqs[len(seqs)-1]})
		w.read(streamsub.Stream{Path: path, Tail: seqs[len(seqs)-1]})
	}
	w.step(in)
}

// With any number of streams, any names and any order of acknowledgements, the record of a subscription
// can be stored, and nothing is lost.
func TestRecord_FitsAnyStreams(t *testing.T) { //nolint:tparallel // the worlds have to be over before the largest is looked at
	t.Parallel()
	largest := make([]int, 4)
	t.Run("worlds", func(t *testing.T) {
		for seed := range uint64(len(largest)) {
			kind := []streamsub.Kind{streamsub.Webhook, streamsub.PullWake}[seed%2]
			t.Run(fmt.Sprintf("%s %d", kind, seed), func(t *testing.T) {
				t.Parallel()
				w := newWide(t, seed, kind)
				for range 150 {
					w.anything()
				}
				w.drain()
				for path, seqs := range w.due {
					require.Empty(t, seqs, "%s was not told to its end (floor %d, base %d)", path, w.s.Floor, w.s.Base)
				}
				largest[seed] = w.largest
			})
		}
	})
	most := 0
	for _, n := range largest {
		most = max(most, n)
	}
	require.Greater(t, most, mostRecord/2, "or nothing was tried")
	t.Logf("the largest record took %d KiB", most>>10)
}

// Streams that a worker never acknowledges do not keep it from the others, though their cursors are all that
// is ahead of them: fewer than a wake names.
func TestStream_UnacknowledgedOnesDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, streamsub.PullWake)
	w.forgets = true
	const streams, stuck = 500, 40
	for i := range streams {
		w.add(large(i))
	}
	told := map[string]int{}
	for n := 0; len(told) < streams; n++ {
		require.Less(t, n, 2*streams/10)
		require.Empty(t, w.step(streamsub.Input{Do: streamsub.Claimed, Worker: "x"}))
		one := w.told()
		in := streamsub.Input{Do: streamsub.Called, Wake: one.wake, Generation: one.generation, Done: true}
		for _, p := range one.streams {
			if !p.Pending() {
				continue
			}
			told[p.Path]++
			w.read(p)
			if p.Path >= large(stuck) {
				require.Equal(t, 1, told[p.Path], "it was acknowledged")
				in.Acks = append(in.Acks, streamsub.Ack{Path: p.Path, Offset: p.Tail})
			}
		}
		require.Empty(t, w.step(in))
	}
	for range 10 { // all else is done
		require.Empty(t, w.step(streamsub.Input{Do: streamsub.Claimed, Worker: "x"}))
		one := w.told()
		require.Len(t, w.s.Wake.Snapshot, stuck)
		require.Empty(t, w.step(streamsub.Input{Do: streamsub.Called, Wake: one.wake, Generation: one.generation, Done: true}))
	}
}

// large returns a name of 3 KB.
func large(i int) string { return fmt.Sprintf("events/%s%04d", strings.Repeat("<", 490), i) }

// claim has a worker claim the wake, and ahead has it acknowledge streams to their ends, of which it was not told.
func (w *world) claim() {
	require.Empty(w.t, w.step(streamsub.Input{Do: streamsub.Claimed, Worker: "x"}))
}

func (w *world) ahead(paths ...string) {
	in := streamsub.Input{Do: streamsub.Called, Wake: w.s.Wake.ID, Generation: w.s.Generation}
	for _, path := range paths {
		seqs := w.events[path]
		in.Acks = append(in.Acks, streamsub.Ack{Path: path, Offset: seqs[len(seqs)-1]})
		w.read(streamsub.Stream{Path: path, Tail: seqs[len(seqs)-1]})
	}
	require.Empty(w.t, w.step(in))
	data, err := json.Marshal(w.s)
	require.NoError(w.t, err)
	require.LessOrEqual(w.t, len(data), mostRecord)
}

// In the middle of a wake cursors are forgotten too, but none that makes what the wake tells of look done, though
// it went on meanwhile.
func TestCursor_ForgettingKeepsTheWakeTrue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, streamsub.PullWake)
	w.forgets = true
	for i := range 500 {
		w.add(large(i))
	}
	w.claim()
	for i := range 60 { // those that it tells of
		w.add(large(i))
	}
	var last []string
	for i := range 300 {
		last = append(last, large(60+i))
	}
	w.ahead(last...)
	w.ahead(last[:10]...)
	w.drain()
	for path, seqs := range w.due {
		require.Empty(t, seqs, "%.20q", path)
	}
}

// A cursor behind which a stream without one would be read is never forgotten, however many others there are.
func TestCursor_LastOneIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, streamsub.PullWake)
	w.forgets = true
	var done []string
	for i := range 300 {
		done = append(done, fmt.Sprintf("events/%d", i))
		w.add(done[i])
	}
	for i := range 40 {
		w.add(large(i))
	}
	w.claim()
	w.ahead(done...)
	require.Empty(t, w.step(streamsub.Input{Do: streamsub.Called, Wake: w.s.Wake.ID, Generation: w.s.Generation, Done: true}))
	require.Equal(t, w.last, w.s.Base, "what is new has a cursor, all else is done")
	require.Len(t, w.s.Links, 40)
	for i := range 900 { // others have something new
		w.add(large(100 + i))
	}
	for i := range 40 { // and these again, after them
		w.add(large(i))
	}
	w.claim()
	for part := range 4 { // some of the others are partly read
		var some []string
		for i := range 40 {
			some = append(some, large(100+part*40+i))
		}
		w.ahead(some...)
		for _, path := range some {
			w.add(path)
		}
	}
	for i := range 40 {
		w.add(large(i))
	}
	var last []string
	for i := range 150 {
		last = append(last, large(999-i))
	}
	w.ahead(last...)
	w.drain()
	for path, seqs := range w.due {
		require.Empty(t, seqs, "%.20q", path)
	}
}

// Names for which there is no room are refused, all that come with them too.
func TestNames_AreTakenTogetherOrRefused(t *testing.T) {
	t.Parallel()
	s := made(streamsub.Webhook)
	var long []string
	for i := range 100 {
		long = append(long, fmt.Sprintf("named/%s%d", strings.Repeat("<", 490), i))
	}
	next, _, err := streamsub.Step(s, streamsub.Input{Do: streamsub.Linked, Paths: long}, streamsub.View{At: 10}, start)
	require.Equal(t, streamsub.InvalidRequest, code(err))
	require.Empty(t, next.Links)
	next, _, err = streamsub.Step(s, streamsub.Input{Do: streamsub.Linked, Paths: long[:50]}, streamsub.View{At: 10}, start)
	require.NoError(t, err)
	require.Len(t, next.Links, 50)
}
