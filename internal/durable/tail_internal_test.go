package durable

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// told returns the news of an event with this much data, or of a record.
func told(t *testing.T, seq uint64, size int, record *Record) News {
	t.Helper()
	if record == nil {
		return News{Seq: seq, Size: size, Event: func() (sluice.Event, error) { return sluice.Event{Seq: seq}, nil }}
	}
	data, err := json.Marshal(record)
	require.NoError(t, err)
	return News{Seq: seq, Size: size, Record: data}
}

// tailOf returns the tail of a stream with an id that was read behind these news.
func tailOf(e *Engine, s *stream, end uint64, early ...News) *tail {
	t, _ := e.tails.get(s.key)
	for _, n := range early {
		t.take([]News{n})
	}
	t.begun(s, end)
	return t
}

func live(name string, revision uint64) *stream {
	return &stream{key: Key{"ns", sluice.Path("/" + name)}, revision: revision, Record: Record{ID: name, ContentType: DefaultType}}
}

// seqs returns what a tail has behind a place, nil if it does not reach back to it.
func (t *tail) seqs(after uint64) (seqs []uint64, p part) {
	var room [followPage]*item
	p, ok := t.part(after, room[:], time.Time{}, time.Now())
	if !ok {
		return nil, p
	}
	seqs = []uint64{}
	for _, it := range p.items {
		seqs = append(seqs, it.seq)
	}
	return seqs, p
}

// However many streams are followed, what is kept for them has one bound, and each has its share of it.
func TestTail_MemoryIsDivided(t *testing.T) {
	t.Parallel()
	for n := 1; n < 1<<17; n += 1 + n/9 {
		require.LessOrEqual(t, n*shareOf(n), tailsBytes)
		require.LessOrEqual(t, shareOf(n), tailBytes)
		require.True(t, shareOf(n) == tailBytes || 2*n*shareOf(n) > tailsBytes, n)
	}
	e := New(nil, time.Now)
	const streams = 1000
	var all []*tail
	for i := range streams {
		tail := tailOf(e, live(strconv.Itoa(i), 1), 1)
		all = append(all, tail)
		for seq := range uint64(8) {
			tail.take([]News{told(t, seq+2, 70<<10, nil)})
		}
	}
	sum := 0
	for _, tail := range all {
		sum += tail.ring.Weight()
	}
	require.LessOrEqual(t, sum, tailsBytes)
	for _, tail := range all {
		tail.leave()
	}
	e.tails.mu.Lock()
	require.Len(t, e.tails.all, streams, "they stay a while")
	e.tails.mu.Unlock()
	for _, tail := range all {
		tail.retire()
	}
	require.Empty(t, e.tails.all)
	require.Equal(t, tailBytes, e.tails.share)
}

// With very many streams, one without followers does not stay.
func TestTail_NoneStaysAmongMany(t *testing.T) {
	t.Parallel()
	e := New(nil, time.Now)
	for i := range tailsMost + 1 {
		tailOf(e, live(strconv.Itoa(i), 1), 1)
	}
	for _, tail := range e.tails.all {
		tail.leave()
		break
	}
	require.Len(t, e.tails.all, tailsMost)
}

// What is told before the stream was read counts as far as it is later than what was read.
func TestTail_NewsBeforeTheReading(t *testing.T) {
	t.Parallel()
	e := New(nil, time.Now)
	closed := Record{ID: "a", Closed: true}
	a := tailOf(e, live("a", 9), 7, told(t, 5, 1, nil), told(t, 6, 1, &closed), told(t, 8, 1, nil))
	seqs, p := a.seqs(7)
	require.Equal(t, []uint64{8}, seqs)
	require.False(t, p.Closed, "the record that was read is later")
	seqs, _ = a.seqs(6)
	require.Nil(t, seqs, "there may be others behind 6, which were not told")

	closed.ID = "b"
	b := tailOf(e, live("b", 3), 2, told(t, 6, 1, &closed))
	seqs, p = b.seqs(2)
	require.Equal(t, []uint64{}, seqs)
	require.True(t, p.Closed)
	require.Nil(t, p.changed)

	other := tailOf(e, live("c", 3), 2, told(t, 6, 1, &Record{ID: "other"}))
	require.True(t, other.isOver())
	missed, _ := e.tails.get(Key{"ns", "/d"})
	missed.take(nil)
	missed.begun(live("d", 3), 2)
	require.True(t, missed.isOver())
	next, made := e.tails.get(Key{"ns", "/d"})
	require.True(t, made)
	require.NotSame(t, missed, next)
}

// The messages of a stream's predecessor on its path are not its own, even if they are told late.
func TestTail_MessagesOfThePredecessor(t *testing.T) {
	t.Parallel()
	s := live("a", 8)
	s.Start = 7
	seqs, _ := tailOf(New(nil, time.Now), s, 0, told(t, 6, 1, nil), told(t, 7, 1, nil), told(t, 9, 1, nil)).seqs(0)
	require.Equal(t, []uint64{9}, seqs)
}

// A follower takes a part of what there is, and knows that there is more.
func TestTail_GivesParts(t *testing.T) {
	t.Parallel()
	tail := tailOf(New(nil, time.Now), live("a", 1), 1)
	for seq := range uint64(followPage + 1) {
		tail.take([]News{told(t, seq+2, 1, nil)})
	}
	seqs, p := tail.seqs(1)
	require.Len(t, seqs, followPage)
	require.False(t, p.upToDate)
	seqs, next := tail.seqs(seqs[followPage-1])
	require.Equal(t, []uint64{followPage + 2}, seqs)
	require.True(t, next.upToDate)
	require.NotSame(t, p.form, next.form)
	_, last := tail.seqs(followPage)
	require.NotSame(t, next.form, last.form, "the same end, another beginning")
	_, same := tail.seqs(followPage)
	require.Same(t, last.form, same.form)
	tail.take([]News{told(t, followPage+3, 1, nil)})
	_, more := tail.seqs(followPage)
	require.NotSame(t, last.form, more.form, "the same beginning, another end")
}

// A closure without messages wakes those who wait.
func TestTail_ClosureIsTold(t *testing.T) {
	t.Parallel()
	tail := tailOf(New(nil, time.Now), live("a", 1), 1)
	_, p := tail.seqs(1)
	tail.take([]News{told(t, 2, 1, &Record{ID: "a", Closed: true})})
	<-p.changed
	seqs, p := tail.seqs(1)
	require.Equal(t, []uint64{}, seqs)
	require.True(t, p.Closed && p.upToDate)
	tail.take([]News{told(t, 3, 1, &Record{ID: "a", Closed: true, Writes: 7})})
	require.False(t, tail.isOver())
}

// A record that cannot be read, another stream's, or that of a deleted one ends the tail; so does a log that goes back.
func TestTail_IsOver(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]News{
		"another stream": told(t, 9, 1, &Record{ID: "b"}), "deleted": told(t, 9, 1, &Record{ID: "a", State: Gone}),
		"deleted, with forks": told(t, 9, 1, &Record{ID: "a", State: Soft}), "a marker": {Seq: 9}, "another log": told(t, 4, 1, nil),
	} {
		e := New(nil, time.Now)
		tail := tailOf(e, live("a", 3), 2, told(t, 5, 1, nil))
		_, p := tail.seqs(5)
		tail.take([]News{n})
		<-p.changed
		require.True(t, tail.isOver(), name)
		seqs, _ := tail.seqs(2)
		require.Nil(t, seqs, "nothing of it is given any more")
	}
	implicit := tailOf(New(nil, time.Now), live("", 0), 2)
	implicit.take([]News{{Seq: 9}})
	require.True(t, implicit.isOver(), "a marker, on a path without a record")
}

// One follower at a time has to read because of the record; each, if the lifetime is over: what follows is another stream.
func TestTail_RecordRequiresReading(t *testing.T) {
	t.Parallel()
	ttl, now := time.Minute, time.Now()
	for name, c := range map[string]struct {
		record      Record
		first, next bool
	}{
		"young":     {Record{Lifetime: Lifetime{TTL: &ttl}, Renewed: now}, false, false},
		"stale":     {Record{Lifetime: Lifetime{TTL: &ttl}, Renewed: now.Add(-ttl / 2)}, true, false},
		"abandoned": {Record{Owner: "x", OwnedAt: now.Add(-time.Minute)}, true, false},
	} {
		s := &stream{key: Key{"ns", "/a"}, Record: c.record}
		tail := tailOf(New(nil, time.Now), s, 2)
		for i, reads := range []bool{c.first, c.next} {
			_, ok := tail.part(2, nil, time.Time{}, now)
			require.Equal(t, !reads, ok, "%s, %d", name, i)
		}
		_, ok := tail.part(2, nil, now, now.Add(believed/2))
		require.True(t, ok, "%s: it has just read", name)
		_, ok = tail.part(2, nil, now, now.Add(believed))
		require.Equal(t, !c.first, ok, "%s: later again", name)
	}
	s := &stream{key: Key{"ns", "/a"}, Record: Record{Lifetime: Lifetime{ExpiresAt: new(now.Add(believed / 4))}}}
	tail := tailOf(New(nil, time.Now), s, 2)
	_, ok := tail.part(2, nil, now, now)
	require.True(t, ok)
	_, ok = tail.part(2, nil, now, now.Add(believed/2))
	require.False(t, ok, "it has expired")
	require.True(t, tail.isOver())
}
