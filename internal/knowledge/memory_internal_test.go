package knowledge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// filled returns a space with n entries, embedded and compared, as its followers would fill it.
func filled(tb testing.TB, n, dims, pairs int, source string) *space {
	tb.Helper()
	c := sluice.Enrichment{Namespace: "acme", Model: "a-model-with-a-name", Dimensions: dims, TopK: pairs, ReviewAbove: 0.2}
	c.SetDefaults()
	s := newSpace(Stored{Enrichment: c}, Deps{}, Options{}.filled(), &budget{})
	s.account.force(spaceBytes(dims))
	s.mirrors["m"] = &sluice.Mirror{}
	random := rand.New(rand.NewPCG(1, 2))
	ref := func(i int) sluice.EntryRef {
		r := sluice.EntryRef{Source: source, ID: fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", i)}
		if source == sluice.SourceMirrored {
			r.Subscription = "m"
		}
		return r
	}
	learn := func(r Record, id string) {
		data, err := json.Marshal(r)
		require.NoError(tb, err)
		var is Record
		require.NoError(tb, json.Unmarshal(data, &is)) // the strings are those of the store
		is.ID, is.Revision = id, 1
		s.learn(is)
	}
	for i := range n {
		ev := sluice.Event{
			Namespace: "acme", Path: sluice.Path(fmt.Sprintf("/articles/%d", i)), Seq: uint64(i + 1), ID: ref(i).ID, Type: "article.published", Source: "https://example.com",
			ContentType: "application/json", Data: fmt.Appendf(nil, `{"n":%d}`, i),
		}
		s.set(ref(i), &ev, uint64(i+1), 1)
		v := make([]float32, dims)
		for j := range v {
			v[j] = float32(random.NormFloat64())
		}
		r := Record{Type: embeddingType(ref(i)), Entry: ref(i), Model: c.Model, Fingerprint: Fingerprint(&ev), Seq: uint64(i + 1), State: done, Generation: 1, Worker: "worker-1", Attempts: 1, Embedding: encodeVector(v)}
		if source == sluice.SourceLocal {
			for j := range pairs {
				r.Pairs = append(r.Pairs, Pair{Against: ref((i + j + 1) % n), Similarity: 0.5, Discount: 1})
			}
		}
		learn(r, embeddingID(ref(i)))
		for j := range r.Pairs {
			learn(Record{Type: sluice.JobCompare, Entry: ref(i), Fingerprint: r.Fingerprint, Seq: r.Seq, State: done, Generation: 1, Worker: "worker-1", Attempts: 1, Pair: &r.Pairs[j], Friction: 0.5, Comparison: []byte(`{"friction":0.5}`)},
				comparisonID(ref(i), r.Fingerprint, r.Pairs[j].Against))
		}
	}
	return s
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSpace_Memory measures the memory of an entry beside the bytes that the budget counts.
func BenchmarkSpace_Memory(b *testing.B) {
	for _, c := range []struct{ n, dims, pairs int }{{100_000, 384, 0}, {50_000, 384, 5}, {2000, 8192, 0}, {1, 8192, 0}, {100_000, 1, 0}, {2000, 1, 100}} {
		for _, source := range []string{sluice.SourceLocal, sluice.SourceMirrored} {
			if source == sluice.SourceMirrored && c.pairs > 0 {
				continue
			}
			b.Run(fmt.Sprintf("%s/entries=%d/dimensions=%d/pairs=%d", source, c.n, c.dims, c.pairs), func(b *testing.B) {
				for b.Loop() {
					before := heapBytes()
					s := filled(b, c.n, c.dims, c.pairs, source)
					took := float64(heapBytes() - before)
					counted, _ := s.account.bytes()
					require.Len(b, s.items, c.n)
					b.ReportMetric(took/float64(c.n), "heap-B/entry")
					b.ReportMetric(float64(counted)/float64(c.n), "counted-B/entry")
					runtime.KeepAlive(s)
				}
			})
		}
	}
}
