package wake

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// shelf holds one record, and says of streams and of what may leave what it was told.
type shelf struct {
	Records
	Streams
	nobody

	entry     Entry
	conflicts int   // so many writes meet another's
	full      error // of all writes
	lost      error // of all reads
	gets      int
	woken     int

	tails     Tails
	away      sluice.Path // its tail is unknown
	asked     atomic.Int64
	decisions map[sluice.Path]model.Decision
	shown     map[sluice.Path]uint64 // of what is withheld in part
	looked    []sluice.Path          // how far who may see it

	end     uint64 // of the log
	endless error  // instead of it
	ended   int    // so often was it asked for
}

func (s *shelf) Get(context.Context, string, sluice.Path) (Entry, error) {
	s.gets++
	return s.entry, s.lost
}

func (s *shelf) Put(_ context.Context, _ string, c Consumer, revision uint64) (uint64, error) {
	switch {
	case s.full != nil:
		return 0, s.full
	case s.conflicts > 0 || revision != s.entry.Revision:
		s.conflicts--
		return 0, sluice.Errorf(sluice.Conflict, "another writer changed it")
	}
	s.entry = Entry{c, revision + 1}
	return revision + 1, nil
}

func (s *shelf) Tail(_ context.Context, _ string, path sluice.Path) (Tail, error) {
	s.asked.Add(1)
	if path == s.away {
		return Tail{}, errors.New("away")
	}
	return s.tails[path], nil
}

func (s *shelf) Visible(_ context.Context, _ *sluice.Subscription, path sluice.Path, upTo uint64) (uint64, error) {
	s.looked = append(s.looked, path)
	if seq, ok := s.shown[path]; ok {
		return seq, nil
	}
	return upTo, nil
}

func (s *shelf) Last(_ context.Context, _ string, path sluice.Path) (uint64, error) {
	return s.tails[path].Seq, nil
}

func (s *shelf) End(context.Context, string) (uint64, error) {
	s.ended++
	return s.end, s.endless
}

func (s *shelf) Woken(*sluice.Subscription) { s.woken++ }

func (s *shelf) Decide(_ *sluice.Subscription, ev *sluice.Event, _ time.Time) model.Decision {
	if d, ok := s.decisions[ev.Path]; ok {
		return d
	}
	return model.Pass
}

func shelved() (*Engine, *shelf, *sluice.Subscription) {
	s := &shelf{tails: Tails{}, decisions: map[sluice.Path]model.Decision{}}
	now := time.Unix(1000, 0)
	e := New(Deps{Records: s, Streams: s, Gate: s, Observe: s}, Options{Now: func() time.Time { return now }})
	sub := &sluice.Subscription{ID: "s", Namespace: "n", Lifecycle: sluice.Lifecycle{CreatedBy: string(sluice.Root), CreatedAt: time.Unix(1, 0)}}
	sub.Policy.Retry.Preset = sluice.PresetPersistent
	return e, s, sub
}

// The decision of a step is stored once, by the writer that finds the record unchanged.
func TestChange_StoresTheStepsDecision(t *testing.T) { // S1-28, S1-33
	t.Parallel()
	e, s, sub := shelved()
	seen := Input{Tails: Tails{"/a": {Seq: 7}}}
	steps := 0
	change := func(known Entry, in Input) (Entry, error) {
		return e.change(t.Context(), sub, "/a", known, func(_ context.Context, c Consumer) (Input, error) {
			steps++
			require.LessOrEqual(t, steps, 2*tries)
			require.Equal(t, sluice.Path("/a"), c.Path)
			return in, nil
		})
	}
	got, err := change(Entry{}, seen)
	require.NoError(t, err)
	require.Equal(t, []any{Entry{}, 1, Entry{}}, []any{got, s.gets, s.entry}, "consumer not found")

	born := NewConsumer("/a", incarnation(sub), 1, 3)
	s.conflicts = 1
	got, err = change(Entry{}, Input{Tails: seen.Tails, Instead: &born})
	require.NoError(t, err)
	require.Equal(t, s.entry, got)
	require.Equal(t, []any{uint64(1), uint64(1), sluice.WakeWaking, 3, 1}, []any{got.Revision, got.Consumer.Epoch, got.Consumer.State, s.gets, s.woken})

	again, err := change(got, seen)
	require.NoError(t, err)
	require.Equal(t, []any{got, 3, 1}, []any{again, s.gets, s.woken}, "nothing changed, nothing stored, nothing read")

	old := got
	old.Revision, old.Consumer.Epoch = 9, 0
	call := Input{Tails: seen.Tails, Callback: &Callback{Epoch: 1, WakeID: got.Consumer.WakeID, Acks: []Position{{Path: "/a", Acked: 7}}, Done: true}}
	done, err := change(old, call)
	require.NoError(t, err, "what was refused on a guess is decided on what is stored")
	require.Equal(t, []any{uint64(2), sluice.WakeIdle, 4}, []any{done.Revision, done.Consumer.State, s.gets})

	call.Callback.Epoch = 5
	_, err = change(Entry{}, call)
	require.Equal(t, sluice.WakeStale, sluice.CodeOf(err))
	require.Equal(t, 1, s.woken)

	boom := errors.New("boom")
	steps = 0
	_, err = e.change(t.Context(), sub, "/a", done, func(context.Context, Consumer) (Input, error) {
		steps++
		return Input{}, boom
	})
	require.ErrorIs(t, err, boom)
	require.Equal(t, 1, steps, "what no record can mend is not tried again")
	var points []string
	e.opts.Fault = func(point string) { points = append(points, point) }
	s.conflicts = 1000
	_, err = change(done, Input{Tails: Tails{"/a": {Seq: 8}}})
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err), "too many change it")
	s.full = errors.New("full")
	_, err = change(done, Input{Tails: Tails{"/a": {Seq: 8}}})
	require.ErrorIs(t, err, s.full)
	require.Equal(t, done, s.entry)
	require.Equal(t, []string{"before put", "after put"}, points[len(points)-2:])
	s.full, s.conflicts = nil, 0
	left, err := change(done, Input{Tails: Tails{"/a": {Seq: 8, Gone: true}}})
	require.NoError(t, err)
	require.Equal(t, []any{sluice.WakeRemoved, left}, []any{left.Consumer.State, s.entry}, "that it is gone is stored")

	s.lost = errors.New("lost")
	steps = 0
	_, err = change(Entry{}, seen)
	require.ErrorIs(t, err, s.lost)
	free, err := e.turns.Take(t.Context(), model.WakeConsumerID(sub.ID, "/a"))
	require.NoError(t, err)
	defer free()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.change(over, sub, "/a", left, nil)
	require.ErrorIs(t, err, context.Canceled, "it is another's turn")
	require.Zero(t, steps)
}

// A record of an earlier subscription of the id is of a consumer that is no more, but for its epoch.
func TestChange_OfAnEarlierSubscription(t *testing.T) { // S1-128
	t.Parallel()
	e, s, sub := shelved()
	s.entry = Entry{NewConsumer("/a", "earlier", 1, 3), 4}
	s.entry.Consumer.Epoch = 6
	boom := errors.New("no")
	got, err := e.change(t.Context(), sub, "/a", Entry{}, func(_ context.Context, c Consumer) (Input, error) {
		require.Equal(t, Consumer{Path: "/a", Of: "earlier", State: sluice.WakeRemoved, Epoch: 6}, c)
		return Input{}, boom
	})
	require.ErrorIs(t, err, boom)
	require.Equal(t, s.entry, got)
}

// A record has room for so many names of streams; what is there stays.
func TestChange_BoundsTheNamesOfStreams(t *testing.T) {
	t.Parallel()
	c := Consumer{Streams: []Position{{Path: "/"}}}
	data, err := json.Marshal(c.Streams)
	require.NoError(t, err)
	c.Streams[0].Path = sluice.Path(strings.Repeat("x", mostStreams-len(data)+1))
	require.NoError(t, c.fits())
	c.Streams[0].Path += "x"
	require.Equal(t, sluice.WakeInvalid, sluice.CodeOf(c.fits()))

	e, s, sub := shelved()
	s.entry = Entry{NewConsumer("/a", incarnation(sub), 1, 3), 1}
	s.entry.Consumer.WakeID, s.entry.Consumer.Epoch = "w", 1
	call := func(paths ...sluice.Path) error {
		_, err := e.change(t.Context(), sub, "/a", Entry{}, func(context.Context, Consumer) (Input, error) {
			return Input{Tails: Tails{"/a": {Seq: 3}}, Callback: &Callback{Epoch: 1, Subscribe: paths}}, nil
		})
		return err
	}
	require.NoError(t, call("/b"))
	long := sluice.Path(strings.Repeat("x", mostStreams))
	require.Equal(t, sluice.WakeInvalid, sluice.CodeOf(call(long)))
	s.entry.Consumer.Streams = append(s.entry.Consumer.Streams, Position{Path: long})
	_, err = e.change(t.Context(), sub, "/a", Entry{}, func(context.Context, Consumer) (Input, error) {
		return Input{Tails: Tails{"/a": {Seq: 9}}}, nil
	})
	require.NoError(t, err, "it was stored by an earlier release")
	require.Equal(t, sluice.WakeWaking, s.entry.Consumer.State)
}

func TestRefused_IsAnAnswerOfS1(t *testing.T) {
	t.Parallel()
	for code, want := range map[sluice.Code]bool{
		sluice.WakeTaken: true, sluice.WakeOffset: true, sluice.WakeStale: true, sluice.WakeGone: true, sluice.WakeTokenInvalid: true, sluice.WakeTokenExpired: true,
		sluice.Unavailable: false, sluice.Conflict: false,
	} {
		require.Equal(t, want, refused(sluice.Errorf(code, "x")), code)
	}
}

// Of streams is known what the subscription may see; without its own a consumer is no more.
func TestTails_AreOfVisibleStreams(t *testing.T) {
	t.Parallel()
	e, s, sub := shelved()
	paths := []sluice.Path{"/a", "/b"}
	for i := range 40 {
		path := sluice.Path("/more/" + strings.Repeat("x", i+1))
		s.tails[path] = Tail{Seq: uint64(i + 10)}
		paths = append(paths, path)
	}
	s.tails["/a"], s.tails["/b"] = Tail{Seq: 7}, Tail{Seq: 8}
	all, err := e.tails(t.Context(), sub, "/a", paths)
	require.NoError(t, err)
	require.Equal(t, s.tails, all)
	one, err := e.tails(t.Context(), sub, "/a", paths[:1])
	require.NoError(t, err)
	require.Equal(t, Tails{"/a": {Seq: 7}}, one)

	for _, d := range []model.Decision{model.Withhold, model.Lost} {
		s.decisions["/b"] = d
		some, err := e.tails(t.Context(), sub, "/a", paths[:2])
		require.NoError(t, err)
		require.Equal(t, Tails{"/a": {Seq: 7}}, some)
	}
	s.decisions["/b"] = model.Undecided
	_, err = e.tails(t.Context(), sub, "/a", paths[:2])
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	s.decisions = map[sluice.Path]model.Decision{"/a": model.Lost}
	_, err = e.tails(t.Context(), sub, "/a", paths[:2])
	require.ErrorIs(t, err, errLost)

	s.away = "/a"
	s.asked.Store(0)
	_, err = e.tails(t.Context(), sub, "/a", paths)
	require.EqualError(t, err, "away")
	require.LessOrEqual(t, s.asked.Load(), int64(len(paths)))
	require.Equal(t, model.Pass, New(Deps{}, Options{}).decide(sub, "/a", 1), "without a gate everything may leave")
}

// The last message of a stream may be withheld by its label: then the last one counts that the subscription's owner may see. The question is
// asked only where the answer can differ.
func TestEndOf_IsTheLastVisibleEvent(t *testing.T) { // issue 13, attack 10
	t.Parallel()
	e, s, sub := shelved()
	bound := *sub
	bound.CreatedBy = "user:ann"
	s.tails = Tails{"/a": {Seq: 9, Start: 2}, "/whole": {Seq: 5}, "/gone": {Seq: 4, Gone: true}, "/empty": {}}
	s.shown, s.away = map[sluice.Path]uint64{"/a": 6}, "/away"
	for path, want := range map[sluice.Path]Tail{
		"/a": {Seq: 9, Start: 2, Withheld: true, Shown: 6}, "/whole": {Seq: 5}, "/gone": s.tails["/gone"], "/empty": {},
	} {
		got, err := e.endOf(t.Context(), &bound, path)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
	require.ElementsMatch(t, []sluice.Path{"/a", "/whole"}, s.looked)
	_, err := e.endOf(t.Context(), &bound, "/away")
	require.EqualError(t, err, "away")
	got, err := e.endOf(t.Context(), sub, "/a")
	require.NoError(t, err)
	require.Equal(t, s.tails["/a"], got, "root may see everything")
	require.Len(t, s.looked, 2)

	r := &runner{engine: e}
	a := r.lookAhead(t.Context(), &bound, "/a", []sluice.Path{"/a"})
	<-a.done
	require.Equal(t, Tails{"/a": {Seq: 9, Start: 2, Withheld: true, Shown: 6}}, a.tails, "a look ahead asks, too")
	r.work.Wait()
}

// What was looked up ahead is used if it is of now, was found, and may be told.
func TestLookAhead_SavesALookThatIsOfNow(t *testing.T) {
	t.Parallel()
	e, s, sub := shelved()
	now := time.Unix(1000, 0)
	e.opts.Now = func() time.Time { return now }
	r := &runner{engine: e}
	c := NewConsumer("/a", "x", 1, 3)
	s.tails = Tails{"/a": {Seq: 7, Start: 2}, "/b": {Seq: 8}}

	a := r.lookAhead(t.Context(), sub, "/a", []sluice.Path{"/a"})
	<-a.done
	require.Equal(t, Tails{"/a": {Seq: 7}}, a.tails, "of one's own stream the end is enough")
	take := func() Tails {
		got, err := r.tails(t.Context(), sub, &c, a)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, a.tails, take())
	now = now.Add(aheadFor - 1)
	require.Equal(t, a.tails, take())
	now = now.Add(1)
	fresh := Tails{"/a": {Seq: 7, Start: 2}}
	require.Equal(t, fresh, take(), "it is too old")

	a = r.lookAhead(t.Context(), sub, "/a", []sluice.Path{"/a", "/b"})
	require.Equal(t, s.tails, take())
	s.decisions["/b"] = model.Lost
	require.Equal(t, fresh, take(), "it may not be told any more")
	s.away = "/b"
	s.decisions = map[sluice.Path]model.Decision{}
	a = r.lookAhead(t.Context(), sub, "/a", []sluice.Path{"/a", "/b"})
	require.Equal(t, fresh, take(), "it was not found")
	a = nil
	require.Equal(t, fresh, take())
	r.work.Wait()
}

// The end of the log is asked for only if an offset is beyond the end of its stream.
func TestCall_LooksForTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	e, s, sub := shelved()
	s.tails["/a"], s.end = Tail{Seq: 3}, 7
	c := NewConsumer("/a", incarnation(sub), 1, 3)
	decide := func(acked uint64) (Input, error) {
		k := &call{engine: e, sub: sub, path: "/a", claim: Claim{Of: c.Of}, cb: Callback{Acks: []Position{{Path: "/a", Acked: acked}}}}
		return k.decide(t.Context(), c)
	}
	for acked, end := range map[uint64]uint64{3: 0, 4: 7, 8: 7} {
		in, err := decide(acked)
		require.NoError(t, err)
		require.Equal(t, end, in.End)
	}
	require.Equal(t, 2, s.ended)
	s.endless = errors.New("away")
	_, err := decide(4)
	require.ErrorIs(t, err, s.endless)
}
