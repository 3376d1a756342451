package e2e_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/knowledge/vector"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/knowledgestore"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The entries of BenchmarkKnowledge_Search.
const (
	searchEntries    = 100_000
	searchDimensions = 384
	searchQueries    = 300
)

// BenchmarkKnowledge_Search prints the time of a search for 5 of 100,000 embedded events over HTTP, beside that of the bare index
// with the same vectors, query by query, and the heap that an event takes.
func BenchmarkKnowledge_Search(b *testing.B) {
	for b.Loop() {
		searches(b)
	}
}

func searches(b *testing.B) {
	b.Helper()
	s := start(b, b.TempDir(), func(c *config.Config) { c.Limits.KnowledgeMemory = 0 })
	random := rand.New(rand.NewPCG(3, 4))
	next := func() []float32 {
		v := make([]float32, searchDimensions)
		for i := range v {
			v[i] = float32(random.NormFloat64())
		}
		return v
	}
	bare := vector.New[string](searchDimensions)
	for i := range searchEntries {
		require.NoError(b, bare.Put(fmt.Sprint("e", i), next()))
	}
	s.storesEmbeddings(b, bare)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.must(b, http.StatusOK, "PUT /v1/namespaces/default/enrichment", fmt.Sprintf(`{"model":"test","dimensions":%d,"top_k":0}`, searchDimensions))
	begun := time.Now()
	for embedded := 0.0; embedded < searchEntries; {
		is := s.must(b, http.StatusOK, "GET /v1/namespaces/default/enrichment", "")
		if is.field(b, "status") != nil {
			embedded = is.field(b, "status.embedded").(float64)
		}
	}
	b.ReportMetric(time.Since(begun).Seconds(), "s-to-read")
	runtime.GC()
	runtime.GC() // what pools had
	runtime.ReadMemStats(&after)
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/searchEntries, "heap-B/entry")

	var alone, whole []time.Duration
	for range searchQueries {
		q := next()
		body, err := json.Marshal(map[string]any{"vector": q, "top_k": 5})
		require.NoError(b, err)
		begun := time.Now()
		found, err := bare.Nearest(q, 5)
		alone = append(alone, time.Since(begun))
		require.NoError(b, err)
		begun = time.Now()
		is := s.call(b, "POST /v1/namespaces/default/search", string(body))
		whole = append(whole, time.Since(begun))
		require.Equal(b, http.StatusOK, is.status)
		require.Contains(b, is.text, `"id":"`+found[0].Key+`"`)
	}
	for name, all := range map[string][]time.Duration{"index": alone, "http": whole} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-ms/p50")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-ms/p99")
	}
	b.ReportMetric(float64(whole[len(whole)/2])/float64(alone[len(alone)/2]), "ratio/p50")
}

// storesEmbeddings publishes the events e0, e1, … and stores the embeddings that an index has of them, as workers would have done.
func (s *running) storesEmbeddings(b *testing.B, of *vector.Index[string]) {
	b.Helper()
	store := knowledgestore.New(storetest.Connect(b, natsstore.Options{Names: jsNames(b), URL: s.at.NATS, User: tester.Name, Password: testerPassword}).Store)
	event := func(i int) sluice.Event {
		return sluice.Event{ID: fmt.Sprint("e", i), Path: sluice.Path(fmt.Sprint("/a/", i)), Type: "t", Source: "/s", ContentType: "application/json", Data: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	for at := 0; at < searchEntries; at += 500 {
		events := make([]sluice.Event, 500)
		for i := range events {
			events[i] = event(at + i)
		}
		_, err := s.api.Publish(b.Context(), "default", events...)
		require.NoError(b, err)
	}
	const writers = 16
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < searchEntries; i += writers {
				ev := event(i)
				var embedding []byte
				for _, f := range of.Vector(ev.ID) {
					embedding = binary.LittleEndian.AppendUint32(embedding, math.Float32bits(f))
				}
				_, err := store.Put(b.Context(), "default", knowledge.Record{
					ID: "entry." + ev.ID, Type: sluice.JobEmbed, Entry: sluice.EntryRef{Source: sluice.SourceLocal, ID: ev.ID}, Model: "test",
					Fingerprint: knowledge.Fingerprint(&ev), State: "done", Generation: 1, Attempts: 1, Worker: "w", Embedding: embedding,
				}, 0)
				require.NoError(b, err)
			}
		})
	}
	all.Wait()
}
