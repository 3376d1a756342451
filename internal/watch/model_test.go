package watch_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// reading is one of a made-up log.
type reading struct {
	At   int64 // ms
	Path sluice.Path
	Met  bool
}

// world is a rule, a log, and what happens to the state meanwhile.
type world struct {
	Level         bool
	Cooldown, For int64 // ms
	Most          int
	Log           []reading
	Ticks         []int // after how many readings the time comes by itself
	Restarts      []int // after how many readings the state is read from what was stored
	End           int64 // ms
	Lag           int64 // ms; by how much the time is ahead of what is looked at, where nothing waits for it
}

func worlds() *rapid.Generator[world] {
	return rapid.Custom(func(t *rapid.T) world {
		w := world{
			Level:    rapid.Bool().Draw(t, "level"),
			Cooldown: rapid.SampledFrom([]int64{0, 0, 700, 3000}).Draw(t, "cooldown"),
			For:      rapid.SampledFrom([]int64{0, 0, 500, 2500}).Draw(t, "for"),
			Most:     rapid.SampledFrom([]int{2, 5, 1000}).Draw(t, "most"),
		}
		at := int64(1)
		for range rapid.IntRange(0, 40).Draw(t, "readings") {
			at += rapid.SampledFrom([]int64{0, 1, 100, 499, 500, 700, 1000, 2500}).Draw(t, "later")
			w.Log = append(w.Log, reading{
				At: at, Path: rapid.SampledFrom([]sluice.Path{"/a", "/b", "/c"}).Draw(t, "path"), Met: rapid.Bool().Draw(t, "met"),
			})
		}
		w.Ticks = rapid.SliceOfN(rapid.IntRange(0, 40), 0, 5).Draw(t, "ticks")
		w.Restarts = rapid.SliceOfN(rapid.IntRange(0, 40), 0, 5).Draw(t, "restarts")
		if w.Level || w.For == 0 {
			w.Lag = rapid.SampledFrom([]int64{0, 900, 5000}).Draw(t, "lag")
		}
		w.End = at + rapid.SampledFrom([]int64{0, 1, 3000}).Draw(t, "end")
		return w
	})
}

// firing is that a watch fired for a reading, and when.
type firing struct {
	Seq uint64
	At  int64
}

// expected says what a watch does, from the words of its description: for each path, over the whole log.
func expected(w world) (fired []firing, cooled, dropped uint64) {
	kept := affordable(w)
	dropped = uint64(len(w.Log) - len(kept))
	for _, path := range []sluice.Path{"/a", "/b", "/c"} {
		last := int64(-1 << 40)
		for _, f := range candidates(w, kept, path) {
			if f.At-last < w.Cooldown {
				cooled++
				continue
			}
			last = f.At
			fired = append(fired, f)
		}
	}
	return fired, cooled, dropped
}

// affordable returns the indexes of the readings that are looked at: the first so many of each second that begins with
// a reading.
func affordable(w world) []int {
	var kept []int
	for i := 0; i < len(w.Log); {
		j := i
		for ; j < len(w.Log) && w.Log[j].At-w.Log[i].At < 1000; j++ {
			if j-i < w.Most {
				kept = append(kept, j)
			}
		}
		i = j
	}
	return kept
}

// candidates returns when a path would fire if nothing cooled down.
func candidates(w world, kept []int, path sluice.Path) []firing {
	var own []int
	for _, i := range kept {
		if w.Log[i].Path == path {
			own = append(own, i)
		}
	}
	var all []firing
	for n := 0; n < len(own); n++ {
		if !w.Log[own[n]].Met {
			continue
		}
		run := n // to the last of the readings that meet it without one that does not
		for run+1 < len(own) && w.Log[own[run+1]].Met {
			run++
		}
		until := w.End
		if run+1 < len(own) {
			until = w.Log[own[run+1]].At
		}
		all = append(all, ofRun(w, own[n:run+1], until)...)
		n = run
	}
	return all
}

// ofRun is candidates for readings on one path that all meet the condition, which then holds until a time.
func ofRun(w world, run []int, until int64) (all []firing) {
	start := w.Log[run[0]].At
	if due := start + w.For; !w.Level && due <= until {
		return []firing{{uint64(run[0] + 1), due}}
	}
	for _, i := range run {
		if w.Level && w.Log[i].At-start >= w.For {
			all = append(all, firing{uint64(i + 1), w.Log[i].At})
		}
	}
	return all
}

// faults is what may be wrong with a watch: what restores its state, and its rule.
type faults struct {
	restore func(watch.Kept) watch.Kept
	rule    func(*watch.Rule)
	paths   int
}

var errModel = errors.New("the watch and its description differ")

// check runs a world and compares it with what is expected.
func check(w world, f faults) error {
	r := &watch.Rule{
		Level: w.Level, Cooldown: time.Duration(w.Cooldown) * time.Millisecond, For: time.Duration(w.For) * time.Millisecond, Most: w.Most,
		Condition: func(ev *sluice.Event) (bool, error) { return w.Log[ev.Seq-1].Met, nil },
	}
	if f.rule != nil {
		f.rule(r)
	}
	s, err := watch.NewState(watch.Kept{}, f.paths)
	if err != nil {
		return err
	}
	at := time.UnixMilli
	var said []watch.Verdict
	for i, one := range w.Log {
		said = s.Step(r, &sluice.Event{Seq: uint64(i + 1), Path: one.Path, Stored: at(one.At)}, said)
		if slices.Contains(w.Ticks, i) {
			said = s.Tell(at(one.At+w.Lag), s.Tick(r, at(one.At+w.Lag), said))
		}
		if slices.Contains(w.Restarts, i) {
			if s, err = again(s, f); err != nil {
				return err
			}
		}
	}
	said = s.Tick(r, at(w.End), said)
	said = s.Tell(at(w.End+20_000), s.Tick(r, at(w.End), said)) // nothing is held any more but the window
	held := s.Kept().Window.Dropped
	return compare(w, said, held)
}

func again(s *watch.State, f faults) (*watch.State, error) {
	raw, err := json.Marshal(s.Kept())
	if err != nil {
		return nil, err
	}
	var kept watch.Kept
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, err
	}
	if f.restore != nil {
		kept = f.restore(kept)
	}
	return watch.NewState(kept, f.paths)
}

func compare(w world, said []watch.Verdict, held uint64) error {
	fired, cooled, dropped := expected(w)
	var got []firing
	var gotCooled uint64
	gotDropped := held
	for _, v := range said {
		switch v.Kind {
		case watch.Fires:
			got = append(got, firing{v.Seq, v.At.UnixMilli()})
		case watch.Missed:
			gotCooled += v.Count
		case watch.Throttled:
			gotDropped += v.Count
		}
	}
	order := func(a, b firing) int { return int(a.At-b.At)*1000 + int(a.Seq) - int(b.Seq) }
	slices.SortFunc(got, order)
	slices.SortFunc(fired, order)
	if !slices.Equal(got, fired) || gotCooled != cooled || gotDropped != dropped {
		return errModel
	}
	return nil
}

// S2-42, S2-46: for any events, any timers, and any number of times that the state is stored and read again.
func TestWatch_AgreesWithTheReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := worlds().Draw(t, "world")
		if err := check(w, faults{paths: 10}); err != nil {
			t.Fatalf("%v", err)
		}
	})
}

// A test that finds nothing wrong with what is wrong would be worth nothing.
func TestReference_FindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]faults{
		"a restart forgets which conditions hold": {paths: 10, restore: func(k watch.Kept) watch.Kept {
			k.Paths = slices.DeleteFunc(k.Paths, func(p watch.Standing) bool { return p.Met })
			return k
		}},
		"a restart forgets what cools down": {paths: 10, restore: func(k watch.Kept) watch.Kept {
			for i := range k.Paths {
				k.Paths[i].Fired = 0
			}
			return k
		}},
		"a restart forgets what waits": {paths: 10, restore: func(k watch.Kept) watch.Kept {
			for i := range k.Paths {
				k.Paths[i].Armed = false
			}
			return k
		}},
		"a restart begins a second anew": {paths: 10, restore: func(k watch.Kept) watch.Kept {
			k.Window.Looked = 0
			return k
		}},
		"a restart forgets what was not looked at": {paths: 10, restore: func(k watch.Kept) watch.Kept {
			k.Window.Dropped = 0
			return k
		}},
		"levels are edges":          {paths: 10, rule: func(r *watch.Rule) { r.Level = false }},
		"a duration is a bit short": {paths: 10, rule: func(r *watch.Rule) { r.For -= min(r.For, time.Millisecond) }},
		"a cooldown is a bit long":  {paths: 10, rule: func(r *watch.Rule) { r.Cooldown += time.Millisecond }},
		"one path is remembered":    {paths: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gen := worlds()
			found := false
			for seed := range 3000 {
				if found = check(gen.Example(seed), f) != nil; found {
					break
				}
			}
			require.True(t, found)
		})
	}
}
