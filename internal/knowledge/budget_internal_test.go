package knowledge

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestBudget_GrantsAsMuchAsStaysFree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, used, mine, more int64
		want                    bool
	}{
		{0, 1 << 40, 1 << 40, 1 << 40, true}, // unlimited
		{100, 0, 0, 50, true},                // alone: half
		{100, 0, 0, 51, false},
		{100, 50, 50, 1, false},
		{100, 50, 0, 25, true}, // the next one: half of the rest
		{100, 50, 0, 26, false},
		{100, 100, 100, -1, true}, // giving back
		{100, 120, 120, 0, true},
		{100, 120, 0, 1, false},
	} {
		require.Equal(t, c.want, grants(c.limit, c.used, c.mine, c.more), "%+v", c)
	}
	require.Equal(t, []int64{50, 25, 0, 0}, []int64{room(100, 0, 0), room(100, 50, 0), room(100, 50, 50), room(100, 130, 0)})
}

// All namespaces together stay within the limit, a taking never takes from
// others, and a namespace without anything gets something as long as anything is free.
func TestBudget_StaysWithinItsLimitAndShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &budget{limit: rapid.Int64Range(1, 10_000).Draw(t, "limit")}
		all := make([]account, rapid.IntRange(1, 6).Draw(t, "namespaces"))
		for i := range all {
			all[i].of = b
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			a := &all[rapid.IntRange(0, len(all)-1).Draw(t, "namespace")]
			before, more := a.bytes()
			n := rapid.Int64Range(-before, b.limit).Draw(t, "bytes")
			got := a.take(n)
			require.Equal(t, n <= more, got, "the room is what is granted")
			var sum int64
			for i := range all {
				require.GreaterOrEqual(t, all[i].mine, int64(0))
				sum += all[i].mine
			}
			require.Equal(t, b.used, sum)
			require.LessOrEqual(t, sum, b.limit)
			if got && n > 0 {
				require.LessOrEqual(t, a.mine, b.limit-b.used, "it has no more than stays free")
			}
			require.Equal(t, b.limit-b.used >= 2, b.admits(1), "a newcomer gets a part of what is free")
		}
		for i := range all {
			all[i].close()
		}
		all[0].force(1)
		require.Zero(t, b.used, "a closed account changes nothing")
	})
}

// One namespace that takes all it can leaves half; each further one halves the rest.
func TestBudget_LeavesRoomForLaterNamespaces(t *testing.T) {
	t.Parallel()
	b := &budget{limit: 1 << 20}
	for i := 1; i <= 5; i++ {
		a := &account{of: b}
		for a.take(1) {
		}
		require.Equal(t, int64(1<<20)>>i, a.mine)
	}
}

func TestMemory_EntriesAreReadAgainWhenItIsWorthIt(t *testing.T) {
	t.Parallel()
	require.False(t, worthReading(1000, 0, 1600), "nothing is missing")
	require.True(t, worthReading(10, 10, 1600), "all have room")
	require.False(t, worthReading(9, 10, 1600))
	require.True(t, worthReading(100, 1600, 1600), "a sixteenth")
	require.False(t, worthReading(99, 1600, 1600))
	require.True(t, worthReading(0, 1, 0), "unlimited")
}

// event is an entry with a content.
func event(id string, content int) *sluice.Event {
	return &sluice.Event{Path: sluice.Path("/" + id), ID: id, Type: "t", Data: fmt.Appendf(nil, "%d", content)}
}

// A space stays within its budget, counts what it has, gives no
// job for an entry that it does not have, and knows each entry as held or as missed.
func TestSpace_StaysWithinItsBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			w.step(t)
			w.check(t)
		}
		for id := range w.seqs { // all are deleted
			w.s.drop(w.ref(id), 0)
			delete(w.seqs, id)
		}
		w.check(t)
		for range ownersSweeps {
			for _, ref := range w.s.orphans(ownersSweeps) {
				w.s.forget(ref)
			}
		}
		require.Empty(t, w.s.records)
		require.Empty(t, w.s.tasks)
		mine, _ := w.s.account.bytes()
		require.Equal(t, spaceBytes(w.s.config.Dimensions), mine, "everything is given back")
	})
}

// world is a space with the entries that its sources have.
type world struct {
	s    *space
	seqs map[string]uint64 // of each entry
	last uint64
}

func newWorld(t *rapid.T) *world {
	c := sluice.Enrichment{Namespace: "acme", Model: "m", Dimensions: 2, TopK: 2}
	c.SetDefaults()
	limit := rapid.Int64Range(150_000, 400_000).Draw(t, "limit")
	w := &world{s: newSpace(Stored{Enrichment: c}, Deps{}, Options{}.filled(), &budget{limit: limit}), seqs: map[string]uint64{}}
	w.s.account.force(spaceBytes(2))
	w.s.mirrors["m"] = &sluice.Mirror{}
	w.s.begin("")
	return w
}

func (w *world) ref(id string) sluice.EntryRef {
	if id[0] == 'm' {
		return sluice.EntryRef{Source: sluice.SourceMirrored, Subscription: "m", ID: id}
	}
	return sluice.EntryRef{Source: sluice.SourceLocal, ID: id}
}

func (w *world) step(t *rapid.T) {
	id := fmt.Sprint(rapid.SampledFrom([]string{"m", "o"}).Draw(t, "source"), rapid.IntRange(0, 40).Draw(t, "entry"))
	ref := w.ref(id)
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0, 1, 2:
		w.last++
		w.seqs[id] = w.last
		ev := event(id, rapid.IntRange(0, 2).Draw(t, "content"))
		ev.Extensions = map[string]string{sluice.AttributeClassification: rapid.SampledFrom([]string{"", "SECRET", "SECRET/b,a"}).Draw(t, "label")}
		w.s.set(ref, ev, w.last, 1)
	case 3:
		w.s.drop(ref, 0)
		delete(w.seqs, id)
	case 4: // a result
		w.last++
		r := Record{ID: embeddingID(ref), Revision: w.last, Type: embeddingType(ref), Entry: ref, Model: "m", State: done, Seq: w.seqs[id]}
		r.Fingerprint, r.Embedding = Fingerprint(event(id, rapid.IntRange(0, 2).Draw(t, "content"))), encodeVector([]float32{1, 0})
		if ref.Source == sluice.SourceLocal {
			r.Pairs = []Pair{{Against: w.ref("m1")}, {Against: w.ref("o1")}, {Against: w.ref("o2")}}
			c := Record{Revision: w.last, Type: sluice.JobCompare, Entry: ref, Fingerprint: r.Fingerprint, Seq: r.Seq, Pair: &r.Pairs[0], State: done}
			c.ID = comparisonID(ref, c.Fingerprint, c.Pair.Against)
			defer w.s.learn(c)
		}
		w.s.learn(r)
	case 5:
		w.s.orphans(1000)
	}
}

func (w *world) check(t *rapid.T) {
	s := w.s
	loose, mine := 0, spaceBytes(s.config.Dimensions)
	for _, it := range s.items {
		require.Equal(t, s.bytesOf(it), it.bytes)
		mine += it.bytes
	}
	for _, rec := range s.records {
		if rec.loose {
			loose++
			mine += s.looseBytes(&rec.Record)
		}
		require.Equal(t, s.items[rec.Entry] == nil, rec.loose, "%s", rec.ID)
	}
	mine += missedBytes * int64(s.omitted.notes)
	is, _ := s.account.bytes()
	require.Equal(t, mine, is, "what is counted is what is there")
	require.LessOrEqual(t, is, s.account.of.limit/2+int64(s.omitted.notes*missedBytes+loose*1000), "notes and records of deleted entries are forced")
	for id, j := range s.tasks {
		require.NotNil(t, s.items[j.entry], "a job without its entry: %s", id)
	}
	for id, seq := range w.seqs {
		it := s.items[w.ref(id)]
		require.True(t, it != nil && it.seq == seq || it == nil && s.omitted.partial(w.ref(id).Subscription), "%s is neither held nor missed", id)
	}
	w.checkQueue(t)
	lacks, more := s.omitted.count()
	require.False(t, more)
	require.Equal(t, len(w.seqs), len(s.items)+lacks, "each entry once")
}

// checkQueue checks that each job is where a claim and a change of its neighbour look for it.
func (w *world) checkQueue(t *rapid.T) {
	q := &w.s.queue
	for _, all := range q.ready {
		for of, ready := range all {
			for _, k := range ready.all {
				require.True(t, k.in == ready && (q.labels(k) == of || k.pair != nil && w.s.missing(k.pair.Against) != ""), "%s", k.id)
			}
		}
	}
	compared := 0
	for _, k := range w.s.tasks {
		if k.pair != nil && k.in != nil {
			compared++
			require.Same(t, k, q.against[k.pair.Against][k.nth])
		}
	}
	for _, all := range q.against {
		require.NotEmpty(t, all)
		compared -= len(all)
	}
	require.Zero(t, compared, "no others")
}
