package streamsub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// weighing returns the name of a stream that takes so many bytes in a record.
func weighing(i, bytes int) string {
	name := fmt.Sprintf("events/%d/", i)
	return name + strings.Repeat("x", bytes-weight(name))
}

// numbered returns a link for each of so many streams.
func numbered(prefix string, count int, link func(i int) Link) map[string]Link {
	links := map[string]Link{}
	for i := range count {
		links[fmt.Sprintf("%s%d", prefix, i)] = link(i)
	}
	return links
}

// news returns streams that have something new from first on, one after the other, and are done up to 900.
func news(prefix string, count int, first uint64) []Stream {
	all := make([]Stream, count)
	for i := range all {
		all[i] = Stream{Path: fmt.Sprintf("%s%d", prefix, i), Acked: 900, Tail: first + uint64(i)}
	}
	return all
}

func tailsOf(all []Stream) map[string]uint64 {
	tails := map[string]uint64{}
	for _, s := range all {
		tails[s.Path] = s.Tail
	}
	return tails
}

// follower returns a subscription to all below events with these links, as a log that has come to 1000 has left it.
func follower(links map[string]Link) *Subscription {
	return &Subscription{Config: Config{Kind: PullWake, Pattern: "events/**", Lease: time.Second}, Floor: 1000, Base: 900, Links: links}
}

// Whether a record has room is decided by what its names take as JSON.
func TestWeight_IsTheSizeOfJSON(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "a/b", `a"b`, `a\b`, "a<b", "a>b", "a&b", "a\u2028b", "a\u2029b", "ß", "🌊", `<<"\\&` + "\u2028"} {
		record, err := json.Marshal(map[string]Link{path: {Acked: 9999999999999999}})
		require.NoError(t, err)
		require.Equal(t, len(record)-len("{}")+len(","), weight(path), "%q", path)
	}
}

func TestWithin_NamesThatFit(t *testing.T) {
	t.Parallel()
	all := []Stream{{Path: "a"}, {Path: "bb"}, {Path: "ccc"}}
	two := weight("a") + weight("bb")
	for bytes, want := range map[int]int{0: 0, weight("a") - 1: 0, weight("a"): 1, two - 1: 1, two: 2, two + weight("ccc"): 3, 1 << 20: 3} {
		require.Equal(t, want, within(all, bytes), "%d bytes", bytes)
	}
}

func TestRoom_IsTakenUpToItsBounds(t *testing.T) {
	t.Parallel()
	w := weight("a")
	for _, tt := range []struct {
		name string
		room room
		want []bool // of streams of the same length, one after the other
	}{
		{"links are used up", room{2, 9 * w}, []bool{true, true, false}},
		{"text is used up", room{9, 2 * w}, []bool{true, true, false}},
		{"a byte is missing", room{9, 2*w - 1}, []bool{true, false, false}},
		{"below zero", room{-1, 9 * w}, []bool{false}},
	} {
		for i, want := range tt.want {
			require.Equal(t, want, tt.room.take(string(rune('a'+i))), "%s: %d", tt.name, i)
		}
	}
}

func TestRest_IsLeftByLinks(t *testing.T) {
	t.Parallel()
	links := func(count, bytes int) map[string]Link {
		all := map[string]Link{"named": {Explicit: true}} // which takes none of it
		for i := range count {
			all[weighing(i, bytes)] = Link{}
		}
		return all
	}
	const few, long = 96, mostLinkText / 96
	for _, tt := range []struct {
		name  string
		links map[string]Link
		over  bool
	}{
		{"none", nil, false},
		{"all links", links(mostLinks, 60), false},
		{"one more", links(mostLinks+1, 60), true},
		{"all text", links(few, long), false},
		{"some bytes more", links(few, long+1), true},
	} {
		left := rest(tt.links)
		require.Equal(t, tt.over, left.over(), tt.name)
	}
	left := rest(links(few, long))
	require.Equal(t, room{mostLinks - few, 0}, left)
}

// When a wake is over, up to 256 cursors stay as they are. Of more, those of streams that are done are forgotten; streams that
// are named keep theirs.
func TestStep_CursorsAreForgottenAfterAWake(t *testing.T) {
	t.Parallel()
	for count, kept := range map[int]bool{keepLinks: true, keepLinks + 1: false} {
		s := follower(numbered("events/", count, func(i int) Link { return Link{Acked: 1001 + uint64(i)} }))
		s.Links["named"] = Link{Explicit: true, Acked: 7}
		s.Links["events/new"] = Link{Acked: 950} // one of these, too
		delete(s.Links, "events/0")
		s.Wake = &Wake{ID: "w", Holder: "x", Until: time.Unix(9, 0), Snapshot: map[string]uint64{"events/new": 1500}}
		tails := map[string]uint64{"events/new": 1600, "named": 7}
		for path, link := range s.Links {
			if _, ok := tails[path]; !ok {
				tails[path] = link.Acked
			}
		}
		next, woken, err := Step(*s, Input{Do: Released, Wake: "w", WakeID: "v"}, View{At: 2000, Tails: tails}, time.Unix(5, 0))
		require.NoError(t, err)
		require.True(t, woken)
		if kept {
			require.Equal(t, s.Links, next.Links)
			require.Equal(t, []uint64{1000, 900}, []uint64{next.Floor, next.Base})
			continue
		}
		require.Equal(t, map[string]Link{"named": {Explicit: true, Acked: 7}, "events/new": {Acked: 950}}, next.Links)
		require.Equal(t, []uint64{2000, 2000}, []uint64{next.Floor, next.Base})
	}
}

// As many streams with something new as there is room for all get cursors of their own; of one more, none that is not needed does.
func TestSettle_KeepsCursorsForNewStreamsWithinTheRoom(t *testing.T) {
	t.Parallel()
	few := map[string]Link{"events/old": {Acked: 990}, "events/ahead": {Acked: 9000}, "named": {Explicit: true, Acked: 3}}
	s := follower(maps.Clone(few))
	pending := news("events/", mostLinks, 1001)
	s.settle(View{At: 9999, Tails: tailsOf(pending)})
	require.Len(t, s.Links, mostLinks+1)
	require.Equal(t, Link{Acked: 900}, s.Links["events/7"])
	require.Equal(t, few["named"], s.Links["named"])
	require.Equal(t, []uint64{9999, 9999}, []uint64{s.Floor, s.Base})

	s = follower(maps.Clone(few))
	pending = news("events/", mostLinks+1, 1021)
	s.settle(View{At: 9999, Tails: tailsOf(pending)})
	delete(few, "events/old")
	require.Equal(t, few, s.Links, "what is done behind Floor is forgotten")
	require.Equal(t, []uint64{1020, 900}, []uint64{s.Floor, s.Base}, "the first that is new comes after Floor, and is read from Base on")

	s = follower(numbered("done/", mostLinks+1, func(i int) Link { return Link{Acked: 20_000 + uint64(i)} }))
	s.settle(View{At: 30_000, Tails: tailsOf(pending)})
	left := rest(s.Links)
	require.False(t, left.over(), "there is no room for so many")
	require.Equal(t, Link{Acked: 900}, s.Links["events/0"], "those that are told of next have one")
}

// A few streams with long names take as much room as many with short ones.
func TestSettle_LongNamesTakeRoomToo(t *testing.T) {
	t.Parallel()
	const count, long = 96, mostLinkText / 96
	for bytes, all := range map[int]bool{long: true, long + 1: false} {
		s, tails := follower(map[string]Link{}), map[string]uint64{}
		for i := range count {
			tails[weighing(i, bytes)] = 1001 + uint64(i)
		}
		s.settle(View{At: 9999, Tails: tails})
		require.Equal(t, all, len(s.Links) == count)
		require.Equal(t, all, s.Base == 9999)
	}
}

// In the middle of a wake, too, a record takes no more than it has room for.
func TestStep_RecordHasRoomInTheMiddleOfAWake(t *testing.T) {
	t.Parallel()
	s := follower(numbered("events/", mostLinks, func(i int) Link { return Link{Acked: 2000 + uint64(i)} }))
	s.Wake = &Wake{ID: "w", Holder: "x", Until: time.Unix(9, 0), Snapshot: map[string]uint64{"events/new": 8000, "events/last": 9000}}
	v := View{At: 9000, Tails: map[string]uint64{"events/new": 8000, "events/last": 9000}}
	next, _, err := Step(*s, Input{Do: Called, Wake: "w", Acks: []Ack{{"events/new", 8000}}}, v, time.Unix(5, 0))
	require.NoError(t, err)
	require.Equal(t, map[string]Link{"events/last": {Acked: 900}}, next.Links, "all else is done")
	require.Equal(t, uint64(9000), next.Floor)
}

// A Floor that cannot move forgets nothing; otherwise it comes to the first stream that is new and has no cursor.
func TestFoldPart_FloorMovesUpToNewStreams(t *testing.T) {
	t.Parallel()
	links := map[string]Link{
		"done": {Acked: 1010}, "last": {Acked: 1019}, "ahead": {Acked: 1020}, "named": {Explicit: true, Acked: 5}, "partly": {Acked: 950}, "old": {Acked: 800},
	}
	partly, first, second := Stream{Path: "partly", Acked: 950, Tail: 1005}, Stream{Path: "first", Tail: 1020}, Stream{Path: "second", Tail: 1030}
	for _, tt := range []struct {
		name      string
		pending   []Stream
		floor     uint64
		forgotten []string
	}{
		{"right before the first without a cursor", []Stream{partly, first, second}, 1019, []string{"done", "last", "old"}},
		{"it is there already", []Stream{partly, {Path: "first", Tail: 1001}}, 1000, nil},
		{"it is behind it", []Stream{{Path: "first", Tail: 990}, partly}, 1000, nil},
		{"all that is new has a cursor", []Stream{partly}, 1000, nil},
	} {
		s, want := follower(maps.Clone(links)), maps.Clone(links)
		for _, path := range tt.forgotten {
			delete(want, path)
		}
		s.foldPart(tt.pending)
		require.Equal(t, want, s.Links, tt.name)
		require.Equal(t, []uint64{tt.floor, 900}, []uint64{s.Floor, s.Base}, tt.name)
	}
}

// A cursor is needed where nothing else says that a stream has something new, or what of it is done.
func TestHeld_CursorsThatAreNeeded(t *testing.T) {
	t.Parallel()
	s := follower(map[string]Link{
		"before base": {Acked: 899}, "at base": {Acked: 900}, "at floor": {Acked: 950}, "behind floor": {Acked: 950},
		"done": {Acked: 10}, "named": {Explicit: true, Acked: 2000},
	})
	got := s.held([]Stream{
		{Path: "before base", Tail: 1500}, {Path: "at base", Tail: 1500}, {Path: "at floor", Tail: 1000}, {Path: "behind floor", Tail: 1001}, {Path: "no link", Tail: 1000},
	})
	require.Equal(t, map[string]Link{"before base": {Acked: 899}, "at floor": {Acked: 950}, "named": {Explicit: true, Acked: 2000}}, got)
}

// Floor does not overtake what a wake has told of, though its streams have gone on since.
func TestBehind_StreamsOfTheWakeEndWhereTheyDidThen(t *testing.T) {
	t.Parallel()
	s := follower(map[string]Link{"events/linked": {Acked: 500}, "events/other": {Acked: 600}})
	s.Wake = &Wake{Snapshot: map[string]uint64{"events/on": 1400, "events/linked": 800, "events/floor": 1000, "events/short": 1700}}
	got := s.behind(View{At: 2000, Tails: map[string]uint64{
		"events/on": 1800, "events/linked": 1900, "events/floor": 1500, "events/short": 1600, "events/new": 1450, "events/other": 1650,
	}})
	ends := make([]string, len(got))
	for i, p := range got {
		ends[i] = fmt.Sprintf("%s %d", strings.TrimPrefix(p.Path, "events/"), p.Tail)
	}
	require.Equal(t, []string{"linked 800", "on 1400", "new 1450", "floor 1500", "short 1600", "other 1650"}, ends)
}

// Without room for all cursors, those are kept without which something would be lost, then those of the streams told of next,
// then those of other streams with something new, then those that save telling something again.
func TestShed_CursorsThatAreKept(t *testing.T) {
	t.Parallel()
	const named, aheads = mostNamed, mostLinks - mostNamed - 1 // with one that is linked, the room is used up
	links := numbered("ahead/", aheads+5, func(i int) Link { return Link{Acked: 5000 + uint64(i)} })
	links["explicit"], links["done"], links["at floor"] = Link{Explicit: true, Acked: 1}, Link{Acked: 1900}, Link{Acked: 2000}
	links["partly"] = Link{Acked: 950}
	s := follower(links)
	pending := news("new/", named+1, 1001) // up to 2001
	pending = append(pending, Stream{Path: "partly", Acked: 950, Tail: 3000})
	s.shed(pending, 9000)
	require.Equal(t, []uint64{2000, 900}, []uint64{s.Floor, s.Base}, "right before the first without a cursor")
	want := numbered("new/", named, func(int) Link { return Link{Acked: 900} })
	maps.Copy(want, numbered("ahead/", aheads, func(i int) Link { return links[fmt.Sprintf("ahead/%d", i)] }))
	want["explicit"], want["partly"] = links["explicit"], links["partly"]
	require.Equal(t, want, s.Links)

	s = follower(map[string]Link{"explicit": {Explicit: true, Acked: 1}, "done": {Acked: 1900}, "ahead": {Acked: 5000}, "at floor": {Acked: 2000}})
	s.shed(news("new/", named+1, 1001), 9000)
	require.Contains(t, s.Links, "ahead")
	require.NotContains(t, s.Links, "at floor", "Floor says the same, though there is room")
	require.NotContains(t, s.Links, "done")

	s = follower(map[string]Link{"explicit": {Explicit: true, Acked: 1}, "ahead": {Acked: 5000}})
	s.shed([]Stream{{Path: "explicit", Explicit: true, Acked: 1, Tail: 1500}, {Path: "new", Acked: 900, Tail: 1600}}, 9000)
	require.Equal(t, map[string]Link{"explicit": {Explicit: true, Acked: 1}, "new": {Acked: 900}}, s.Links)
	require.Equal(t, []uint64{9000, 9000}, []uint64{s.Floor, s.Base}, "all that is new has a cursor, all else is done")
}

// A subscription names up to 1000 streams, of names up to a length together, however many requests name them.
func TestStep_NamesUpToTheBounds(t *testing.T) {
	t.Parallel()
	names := func(first, count, bytes int) []string {
		all := make([]string, count)
		for i := range all {
			all[i] = "n" + weighing(first+i, bytes-1) // the pattern has none of these
		}
		return all
	}
	// needed returns links of other streams that have something new, and that cannot be forgotten.
	needed := func(count, bytes int) map[string]Link {
		links := map[string]Link{}
		for i := range count {
			links[weighing(i, bytes)] = Link{Acked: 5}
		}
		return links
	}
	const few, long = 64, mostText / 64
	const all = 128 // names of the same length that fill all there is
	const share = (mostText + mostLinkText) / all
	for _, tt := range []struct {
		name    string
		links   map[string]Link
		before  []string
		paths   []string
		refused bool
	}{
		{name: "as many as there may be", paths: names(0, MaxNamed, 60)},
		{name: "one more", paths: names(0, MaxNamed+1, 60), refused: true},
		{name: "as many, in two requests", before: names(0, MaxNamed-1, 60), paths: names(MaxNamed-1, 1, 60)},
		{name: "one more, in two requests", before: names(0, MaxNamed-1, 60), paths: names(MaxNamed-1, 2, 60), refused: true},
		{name: "named twice", before: names(0, MaxNamed, 60), paths: names(0, 9, 60)},
		{name: "as long as they may be", paths: names(0, few, long)},
		{name: "a byte more", paths: append(names(0, few-1, long), names(few-1, 1, long+1)...), refused: true},
		{name: "a byte more, in two requests", before: names(0, few-1, long), paths: names(few-1, 1, long+1), refused: true},
		{name: "with all others as long as they may be", links: needed(all-1, share), paths: names(0, 1, share)},
		{name: "with all others a byte more", links: needed(all-1, share), paths: names(0, 1, share+1), refused: true},
		{name: "one of the others itself", links: needed(all, share), paths: []string{weighing(3, share)}},
	} {
		s := follower(tt.links)
		tails := map[string]uint64{}
		for path := range tt.links {
			tails[path] = 2000
		}
		v := View{At: 3000, Tails: tails}
		before, _, err := Step(*s, Input{Do: Linked, Paths: tt.before}, v, time.Unix(1, 0))
		require.NoError(t, err, tt.name)
		next, woken, err := Step(before, Input{Do: Linked, Paths: tt.paths}, v, time.Unix(1, 0))
		require.False(t, woken)
		if refusal, ok := errors.AsType[*Refusal](err); tt.refused {
			require.True(t, ok, tt.name)
			require.Equal(t, InvalidRequest, refusal.Code, tt.name)
			require.Equal(t, before, next, "all of them or none")
			continue
		}
		require.NoError(t, err, tt.name)
		for _, path := range tt.paths {
			require.True(t, next.Links[path].Explicit, tt.name)
		}
	}
}

// What workers report wakes only if they are done; a change of the streams does not.
func TestInput_MayWake(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   Input
		want bool
	}{
		{Input{Do: Look}, true},
		{Input{Do: Claimed}, true},
		{Input{Do: Released}, true},
		{Input{Do: Sent, OK: true}, false},
		{Input{Do: Sent, OK: true, Done: true}, true},
		{Input{Do: Called}, false},
		{Input{Do: Called, Done: true}, true},
		{Input{Do: Linked, Done: true}, false},
		{Input{Do: Unlinked, Done: true}, false},
		{Input{Do: Withdrawn, Done: true}, false},
	} {
		require.Equal(t, tt.want, tt.in.mayWake(), "%+v", tt.in)
	}
}
