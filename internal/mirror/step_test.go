package mirror_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/pkg/sluice"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func secret(compartments ...string) sluice.Label {
	return sluice.Label{Level: sluice.LevelSecret, Compartments: compartments}
}

func rule() mirror.Rule {
	m := &sluice.Mirror{ID: "m", Namespace: "high", Source: "low", Depth: sluice.DepthFull}
	return mirror.Rule{Mirror: m, Label: secret("a"), Own: "own"}
}

func write(seq uint64, id string, path sluice.Path) sluice.Change {
	return sluice.ChangeOf(sluice.Event{Seq: seq, ID: id, Path: path, Type: "t", Data: []byte(`"` + id + `"`)})
}

func revise(seq uint64, id, of string, path sluice.Path) sluice.Change {
	return sluice.ChangeOf(sluice.Event{Seq: seq, ID: id, Path: path, Type: "t", Extensions: map[string]string{"revisionof": of}, Data: []byte(`"` + id + `"`)})
}

func erase(seq uint64, id string) sluice.Change {
	return sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: seq, ID: id}}
}

// page returns a page of the log "origin" that ends with its last item, or further on.
func page(through uint64, items ...sluice.Change) *sluice.ObservePage {
	return &sluice.ObservePage{Incarnation: "origin", FirstSeq: 1, LastSeq: through, ThroughSeq: through, Items: items}
}

// take returns what a mirror holds after a page.
func take(t *testing.T, r mirror.Rule, held mirror.Held, p *sluice.ObservePage) (mirror.Held, mirror.Commit) {
	t.Helper()
	c, err := r.Next(held, p, noon)
	require.NoError(t, err)
	next := mirror.Held{Place: c.Place, Entries: map[string]mirror.Entry{}}
	maps.Copy(next.Entries, held.Entries)
	for _, e := range c.Entries {
		next.Entries[e.Change.Key()] = e
	}
	return next, c
}

// S3-48, S3-49, S3-56: the watermark goes to the end of the page, also over entries that are not
// wanted, and a page that is taken twice changes nothing.
func TestNext_TakesAPageOnce(t *testing.T) {
	t.Parallel()
	r := rule()
	r.Mirror.PathPrefix = "/a"
	p := page(9, write(2, "x", "/a/1"), write(5, "y", "/b/1"), write(7, "z", "/ab"))
	held, c := take(t, r, mirror.Held{}, p)
	require.Len(t, c.Entries, 2, "S3-60: a prefix of the path's text")
	require.Equal(t, mirror.Place{Incarnation: "origin", Watermark: 9, SourceSeq: 9, Live: 2, SyncedAt: noon, CaughtUpAt: noon, Label: &sluice.Label{}}, c.Place)
	again := held
	again.Place.Watermark = 0
	_, c = take(t, r, again, p)
	require.Empty(t, c.Entries)
	require.Equal(t, 2, c.Place.Live)
}

// S3-57, S3-59, S3-34: a revision replaces the content under the original's id; a deletion leaves what
// it was without its content.
func TestNext_RevisionsReplaceAndDeletionsBury(t *testing.T) {
	t.Parallel()
	r := rule()
	held, _ := take(t, r, mirror.Held{}, page(2, write(1, "x", "/a"), write(2, "y", "/a")))
	held, _ = take(t, r, held, page(4, revise(3, "x2", "x", "/a"), erase(4, "y")))
	x, y := held.Entries["x"], held.Entries["y"]
	require.Equal(t, `"x2"`, string(x.Change.Event.Data))
	require.EqualValues(t, 3, x.Seq())
	require.True(t, y.Tombstone())
	require.Nil(t, y.Change.Event.Data)
	require.Equal(t, sluice.Path("/a"), y.Change.Event.Path)
	require.EqualValues(t, 4, y.Seq())
	require.Equal(t, []int{1, 1}, []int{held.Place.Live, held.Place.Deleted})
	held, _ = take(t, r, held, page(6, erase(5, "never seen"), erase(6, "y")))
	require.Equal(t, 1, held.Place.Live)
	require.Len(t, held.Entries, 2, "what was never mirrored leaves no tombstone")
	held, _ = take(t, r, held, page(7, write(7, "y", "/a")))
	require.Equal(t, 2, held.Place.Live, "an id that is published again is an entry again")
}

// S3-57: only the event whose content is mirrored is missed: not an earlier version, nor one that the id was given to again.
func TestNext_DeletionIsOfOneVersion(t *testing.T) {
	t.Parallel()
	r := rule()
	held, _ := take(t, r, mirror.Held{}, page(3, write(1, "x", "/a"), revise(2, "x2", "x", "/b"), write(3, "y", "/a")))
	original, revision, again := erase(4, "x"), erase(5, "x2"), erase(6, "y")
	original.ErasedSeq, again.ErasedSeq = 1, 2
	revision.Event.Extensions = map[string]string{"revisionof": "x"}
	held, c := take(t, r, held, page(4, original))
	require.Empty(t, c.Entries, "the revision stays")
	_, c = take(t, r, held, page(6, again))
	require.Empty(t, c.Entries)
	held, _ = take(t, r, held, page(5, revision))
	x := held.Entries["x"]
	require.True(t, x.Tombstone())
	require.Equal(t, "x", x.Change.Key())
}

// S3-60: an entry that a revision moves out of the mirrored paths is not mirrored any more.
func TestNext_RevisionThatLeavesThePathsBuries(t *testing.T) {
	t.Parallel()
	r := rule()
	r.Mirror.PathPrefix = "/a"
	held, _ := take(t, r, mirror.Held{}, page(2, write(1, "x", "/a"), revise(2, "x2", "x", "/b")))
	x := held.Entries["x"]
	require.True(t, x.Tombstone())
	require.Zero(t, held.Place.Live)
}

// S3-44: at depth catalog no content is kept, even if the source sends some.
func TestNext_CatalogKeepsNoContent(t *testing.T) {
	t.Parallel()
	r := rule()
	r.Mirror.Depth = sluice.DepthCatalog
	held, _ := take(t, r, mirror.Held{}, page(1, write(1, "x", "/a")))
	require.Nil(t, held.Entries["x"].Change.Event.Data)
}

// Issue 16: history that was trimmed before it was read is a gap, never silence.
func TestNext_NotesMissingRanges(t *testing.T) {
	t.Parallel()
	r := rule()
	p := page(20, write(12, "x", "/a"))
	p.FirstSeq = 10
	p.Lost = []sluice.Gap{{From: 8, To: 11}, {From: 15, To: 30}}
	_, c := take(t, r, mirror.Held{Place: mirror.Place{Incarnation: "origin", Watermark: 5}}, p)
	require.Equal(t, []sluice.MirrorGap{
		{From: 6, To: 9, Cause: sluice.GapRetention, At: noon}, {From: 10, To: 11, Cause: sluice.GapDamage, At: noon}, {From: 15, To: 20, Cause: sluice.GapDamage, At: noon},
	}, c.Gaps)
	p = page(20)
	p.FirstSeq = 6
	_, c = take(t, r, mirror.Held{Place: mirror.Place{Incarnation: "origin", Watermark: 5}}, p)
	require.Empty(t, c.Gaps, "the next event is there")
}

// S3-95, S3-96: an entry above the subscriber's label is not mirrored, its place is a gap, and an older
// version of it goes.
func TestNext_KeepsNothingAboveTheLabel(t *testing.T) {
	t.Parallel()
	r := rule()
	labelled := func(c sluice.Change, label string) sluice.Change {
		if c.Event.Extensions == nil {
			c.Event.Extensions = map[string]string{}
		}
		c.Event.Extensions[sluice.AttributeClassification] = label
		return c
	}
	held, c := take(t, r, mirror.Held{}, page(4, write(1, "x", "/a"), labelled(write(2, "y", "/a"), "SECRET/a"),
		labelled(revise(3, "x2", "x", "/a"), "TOP_SECRET"), labelled(write(4, "z", "/a"), "no label")))
	require.Len(t, held.Entries, 2)
	x := held.Entries["x"]
	require.True(t, x.Tombstone())
	require.Equal(t, 1, held.Place.Live)
	require.Equal(t, []sluice.MirrorGap{{From: 3, To: 3, Cause: sluice.GapLabel, At: noon}, {From: 4, To: 4, Cause: sluice.GapLabel, At: noon}}, c.Gaps)
	require.Equal(t, 2, c.Place.Gaps)
}

// Issue 16: an entry that the subscriber's store does not admit is a gap, and an older version of it goes. A mirror
// does not stop at it.
func TestNext_NotesLargeEntries(t *testing.T) {
	t.Parallel()
	r := rule()
	r.Most = 4 << 10
	large := revise(2, "x2", "x", "/a")
	large.Event.Data = make([]byte, 2<<10)
	wide := write(4, "z", "/a")
	wide.Event.Subject = strings.Repeat("\x00", 1<<10) // six bytes each in JSON
	held, c := take(t, r, mirror.Held{}, page(4, write(1, "x", "/a"), large, write(3, "y", "/a"), wide))
	x := held.Entries["x"]
	require.True(t, x.Tombstone())
	require.Len(t, held.Entries, 2)
	require.Equal(t, []sluice.MirrorGap{{From: 2, To: 2, Cause: sluice.GapSize, At: noon}, {From: 4, To: 4, Cause: sluice.GapSize, At: noon}}, c.Gaps)
	r.Most, wide.Event.Subject = 5<<10, strings.Repeat("x", 1<<10)
	held, c = take(t, r, mirror.Held{}, page(4, large, wide))
	require.Empty(t, c.Gaps, "what it takes in JSON counts")
	require.Len(t, held.Entries, 2)
}

// S3-108, S3-119, S3-124: what must stop a mirror stops it before anything is stored.
func TestNext_StopsWithTheReason(t *testing.T) {
	t.Parallel()
	at := mirror.Place{Incarnation: "origin", Watermark: 5, Tag: "five"}
	for name, c := range map[string]struct {
		change func(p *sluice.ObservePage)
		want   string
	}{
		"another log":         {func(p *sluice.ObservePage) { p.Incarnation = "other" }, sluice.MirrorOriginReplaced},
		"a log that is short": {func(p *sluice.ObservePage) { p.LastSeq, p.ThroughSeq, p.Items = 4, 4, nil }, sluice.MirrorOriginReplaced},
		"another event":       {func(p *sluice.ObservePage) { p.SinceTag = "six" }, sluice.MirrorOriginReplaced},
		"a raised level":      {func(p *sluice.ObservePage) { p.Label.Level = sluice.LevelTopSecret }, sluice.MirrorLabelRaised},
		"a new compartment":   {func(p *sluice.ObservePage) { p.Label = secret("b") }, sluice.MirrorLabelRaised},
		"itself":              {func(p *sluice.ObservePage) { p.Incarnation, at.Incarnation = "own", "own" }, sluice.MirrorInCycle},
		"a cycle":             {func(p *sluice.ObservePage) { p.Passed = []sluice.Hop{{Incarnation: "own", Hops: 3}} }, sluice.MirrorInCycle},
		"too many hops":       {func(p *sluice.ObservePage) { p.Passed = []sluice.Hop{{Incarnation: "far", Hops: 8}} }, sluice.MirrorInCycle},
		"nothing": {func(p *sluice.ObservePage) {
			p.SinceTag, p.Label, p.Passed = "five", secret("a"), []sluice.Hop{{Incarnation: "far", Hops: 7}}
		}, ""},
	} {
		at.Incarnation = "origin"
		p := page(6, write(6, "x", "/a"))
		c.change(p)
		commit, err := rule().Next(mirror.Held{Place: at}, p, noon)
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		stop, ok := errors.AsType[*mirror.Stop](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, c.want, stop.Reason, name)
		require.Empty(t, commit.Entries, name)
	}
}

// A source that contradicts itself is not believed: out of order, endless, with lower sequences.
func TestNext_RefusesPagesThatContradictThemselves(t *testing.T) {
	t.Parallel()
	at := mirror.Place{Incarnation: "origin", Watermark: 5}
	lost := func(gaps ...sluice.Gap) *sluice.ObservePage {
		p := page(900)
		p.Lost = gaps
		return p
	}
	many := make([]sluice.Gap, 501)
	for i := range many {
		many[i] = sluice.Gap{From: uint64(i) + 6, To: uint64(i) + 6}
	}
	for name, p := range map[string]*sluice.ObservePage{
		"no incarnation":      {LastSeq: 9, ThroughSeq: 9},
		"a falling watermark": {Incarnation: "origin", LastSeq: 9, ThroughSeq: 4},
		"through the future":  {Incarnation: "origin", LastSeq: 9, ThroughSeq: 10},
		"out of order":        page(9, write(7, "x", "/a"), write(6, "y", "/a")),
		"twice":               page(9, write(7, "x", "/a"), write(7, "y", "/a")),
		"an old sequence":     page(9, write(5, "x", "/a")),
		"behind its end":      page(9, write(10, "x", "/a")),
		"no id":               page(9, write(7, "", "/a")),
		"no path":             page(9, write(7, "x", "")),
		"overlapping ranges":  lost(sluice.Gap{From: 6, To: 8}, sluice.Gap{From: 8, To: 8}),
		"an inverted range":   lost(sluice.Gap{From: 8, To: 7}),
		"too many ranges":     lost(many...),
		"an unknown op":       page(9, sluice.Change{Op: "merge", Event: sluice.Event{Seq: 7, ID: "x", Path: "/a"}}),
	} {
		_, err := rule().Next(mirror.Held{Place: at}, p, noon)
		require.Error(t, err, name)
		_, stops := errors.AsType[*mirror.Stop](err)
		require.False(t, stops, name)
	}
}

// The message at the watermark is remembered, and learned from the source if it is not known.
func TestNext_RemembersTheMessageAtItsPlace(t *testing.T) {
	t.Parallel()
	r := rule()
	p := page(2, write(1, "x", "/a"), write(2, "y", "/b"))
	p.ThroughTag = "two"
	_, c := take(t, r, mirror.Held{}, p)
	require.Equal(t, "two", c.Place.Tag)
	_, c = take(t, r, mirror.Held{Place: c.Place}, page(3))
	require.Empty(t, c.Place.Tag, "the message at 3 is not known")
	p = page(3)
	p.SinceTag = "three"
	_, c = take(t, r, mirror.Held{Place: c.Place}, p)
	require.Equal(t, "three", c.Place.Tag)
}

// world is a source's log in a model test.
type world struct {
	*rand.Rand

	log []sluice.Change // in order
	all []sluice.Change // ever, in order

	erased map[uint64]bool // sequences
	first  uint64
	last   uint64
}

// erase removes the events of a path, and leaves records of them.
func (w *world) erase(path sluice.Path) {
	var kept, records []sluice.Change
	for _, c := range w.log {
		if c.Op == sluice.OpDelete || c.Event.Path != path {
			kept = append(kept, c)
			continue
		}
		w.erased[c.Event.Seq] = true
		record := erase(w.last+uint64(len(records)), c.Event.ID)
		record.ErasedSeq = c.Event.Seq
		if c.Op == sluice.OpRevise {
			record.Event.Extensions = map[string]string{"revisionof": c.Key()}
		}
		records = append(records, record)
	}
	w.log, w.last = append(kept, records...), w.last+uint64(max(len(records), 1))-1
}

// act publishes, revises, erases or trims.
func (w *world) act() {
	w.last++
	defer func() {
		for _, c := range w.log {
			if len(w.all) == 0 || c.Event.Seq > w.all[len(w.all)-1].Event.Seq {
				w.all = append(w.all, c)
			}
		}
	}()
	id := fmt.Sprint("e", w.IntN(12))
	path := sluice.Path([]string{"/a/1", "/a/2", "/b"}[w.IntN(3)])
	switch w.IntN(10) {
	case 0, 1:
		w.log = append(w.log, revise(w.last, fmt.Sprint("r", w.last), id, path))
	case 2:
		w.erase(path)
	case 3:
		w.first = min(w.first+uint64(w.IntN(4)), w.last)
		for len(w.log) > 0 && w.log[0].Event.Seq < w.first {
			w.log = w.log[1:]
		}
	default:
		w.log = append(w.log, write(w.last, id, path))
	}
}

// read returns a page of the log behind a sequence.
func (w *world) read(since uint64, limit int) *sluice.ObservePage {
	p := &sluice.ObservePage{Incarnation: "origin", FirstSeq: w.first, LastSeq: w.last, ThroughSeq: w.last}
	for _, c := range w.log {
		if c.Event.Seq <= since {
			continue
		}
		if len(p.Items) == limit {
			p.ThroughSeq, p.HasMore = p.Items[limit-1].Event.Seq, true
			break
		}
		p.Items = append(p.Items, c)
	}
	return p
}

// follower is a mirror of a world, with the entries whose changes lay in gaps.
type follower struct {
	rule   mirror.Rule
	held   mirror.Held
	missed map[string]bool
}

// sync takes a page of the world.
func (f *follower) sync(t *testing.T, w *world, limit int) {
	t.Helper()
	var c mirror.Commit
	f.held, c = take(t, f.rule, f.held, w.read(f.held.Place.Watermark, limit))
	for _, gap := range c.Gaps {
		for i := range w.all {
			if seq := w.all[i].Event.Seq; seq >= gap.From && seq <= gap.To {
				f.missed[w.all[i].Key()] = true
			}
		}
	}
}

// wants returns the data of the entries that a mirror without gaps has now, by key: of each the last version. If that
// was erased, the mirror has none or the one before, as it came before the erasing or after it: either, it says.
func (f *follower) wants(w *world) (live map[string]string, either map[string]bool) {
	live, either = map[string]string{}, map[string]bool{}
	for i := range w.all {
		c := &w.all[i]
		switch key := c.Key(); {
		case c.Op == sluice.OpDelete:
		case w.erased[c.Event.Seq]:
			either[key] = true
		case !f.rule.Mirror.Wants(c.Event.Path):
			delete(live, key)
			delete(either, key)
		default:
			live[key] = string(c.Event.Data)
			delete(either, key)
		}
	}
	return live, either
}

// has returns those that the mirror has.
func (f *follower) has() map[string]string {
	live := map[string]string{}
	for key, e := range f.held.Entries {
		if !e.Tombstone() {
			live[key] = string(e.Change.Event.Data)
		}
	}
	return live
}

// Issue 16: a mirror is what its source has on the mirrored paths, but for gaps that it knows, however
// its syncs and the source's changes lie in time.
func TestNext_MirrorIsTheSourceWithoutTheGaps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), first: 1, erased: map[uint64]bool{}}
		f := &follower{rule: rule(), missed: map[string]bool{}}
		f.rule.Mirror.PathPrefix = "/a"
		for range 60 {
			if w.act(); w.IntN(3) == 0 {
				f.sync(t, w, 1+w.IntN(5))
			}
		}
		for f.held.Place.Watermark < w.last {
			f.sync(t, w, 3)
		}
		f.agrees(t, w, seed)
	}
}

// agrees requires that the mirror has what it should have of a world, but for entries whose changes lay in gaps.
func (f *follower) agrees(t *testing.T, w *world, seed uint64) {
	t.Helper()
	has := f.has()
	require.Equal(t, len(has), f.held.Place.Live, "seed %d", seed)
	want, either := f.wants(w)
	for key := range either {
		if data, had := has[key]; had && !f.missed[key] {
			require.Equal(t, want[key], data, "seed %d: %s has no erased version", seed, key)
		}
		f.missed[key] = true
	}
	for key := range f.missed {
		delete(want, key)
		delete(has, key)
	}
	require.Equal(t, want, has, "seed %d", seed)
}
