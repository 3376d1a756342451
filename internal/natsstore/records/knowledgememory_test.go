package records_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/natsstore/knowledgestore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// embedsAll does all jobs of acme that there are, and returns how many.
func embedsAll(t *testing.T, e *knowledge.Engine) (n int) {
	t.Helper()
	for {
		jobs, err := e.Claim(t.Context(), "acme", knowledge.ClaimRequest{Worker: "w", Max: 100}, sluice.Caller{})
		require.NoError(t, err)
		if len(jobs) == 0 {
			return n
		}
		for _, j := range jobs {
			n++
			require.NoError(t, e.Complete(t.Context(), knowledge.Claim{Namespace: "acme", Job: j.ID, Token: j.Token}, sluice.JobResult{Embedding: []float32{1, float32(n)}}))
		}
	}
}

// has waits until a replica has so many entries of acme, so many of them embedded, and lacks others.
func has(t *testing.T, e *knowledge.Engine, entries, embedded, lacks int) sluice.EnrichmentStatus {
	t.Helper()
	var is sluice.EnrichmentStatus
	require.Eventually(t, func() bool {
		var err error
		is, err = e.Status(t.Context(), "acme")
		require.NoError(t, err)
		return is.Entries == entries && is.Embedded == embedded && is.NotHeld == lacks
	}, time.Minute, 5*time.Millisecond, "%d entries, %d embedded, %d not held", entries, embedded, lacks)
	return is
}

// enrich configures a namespace without comparisons.
func enrich(t *testing.T, e *knowledge.Engine, ns string) error {
	t.Helper()
	c := sluice.Enrichment{Namespace: ns, Model: "test", Dimensions: 2, ReviewAbove: 0.2}
	c.SetDefaults()
	_, err := e.Put(t.Context(), c, "root")
	return err
}

func publish(t *testing.T, store storetest.Rooms, ns string, n int) {
	t.Helper()
	events := make([]sluice.Event, n)
	for i := range events {
		events[i] = sluice.Event{ID: fmt.Sprint("e", i), Path: sluice.Path(fmt.Sprint("/p/", i)), Data: []byte("1")}
	}
	_, err := store.Log.Publish(t.Context(), ns, events)
	require.NoError(t, err)
}

// A namespace that fills the memory leaves room for another one. Entries without room get no jobs, are
// not found, and this is said. They are read as soon as there is room, with the results that they have.
func TestKnowledge_FullMemoryIsSaidAndHeals(t *testing.T) {
	t.Parallel()
	const memory = 500 << 10
	store := storeOn(t, natstest.Listening(t))
	acme(t, store)
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "hog"})
	require.NoError(t, err)
	publish(t, store, "hog", 400)
	publish(t, store, "acme", 80)
	small := enrichesWithin(t, store, true, memory)
	require.NoError(t, enrich(t, small, "hog"))
	hog, err := small.Status(t.Context(), "hog")
	require.NoError(t, err)
	require.Equal(t, 400, hog.Entries+hog.NotHeld)
	require.LessOrEqual(t, hog.MemoryBytes, int64(memory/2+48*400), "it has no more than stayed free, besides notes")
	require.Positive(t, hog.Entries)

	require.NoError(t, enrich(t, small, "acme"))
	is, err := small.Status(t.Context(), "acme")
	require.NoError(t, err)
	require.Positive(t, is.Entries, "there is room for a part")
	require.Equal(t, 80, is.Entries+is.NotHeld)
	require.Contains(t, is.Problem, "limits.knowledge_memory")
	require.Equal(t, is.Entries, embedsAll(t, small), "no jobs for entries without room")
	found, err := small.Search(t.Context(), "acme", knowledge.SearchRequest{Vector: []float32{1, 1}, Top: 100}, sluice.Caller{})
	require.NoError(t, err)
	require.Len(t, found.Neighbours, is.Entries)
	require.Equal(t, []any{is.NotHeld, is.Problem}, []any{found.Status.NotHeld, found.Status.Problem})

	// A replica with more memory has the rest embedded. The owner, which lacks them, does not sweep their records.
	large := enrichesWithin(t, store, false, 0)
	has(t, large, 80, is.Entries, 0)
	require.Equal(t, is.NotHeld, embedsAll(t, large))
	has(t, large, 80, 80, 0)

	// An erased entry takes its record along, also one without room.
	require.NoError(t, store.Log.ErasePath(t.Context(), "acme", "/p/79", 80))
	stored := knowledgestore.New(store.Store)
	require.Eventually(t, func() bool {
		r, err := stored.Get(t.Context(), "acme", "entry.e79")
		require.NoError(t, err)
		return r.Revision == 0
	}, time.Minute, 5*time.Millisecond)
	has(t, small, is.Entries, is.Entries, is.NotHeld-1)

	require.NoError(t, small.Delete(t.Context(), "hog", "root"))
	healed := has(t, small, 79, 79, 0)
	require.Empty(t, healed.Problem)
	require.Zero(t, embedsAll(t, small), "the results are those of the other replica")
	for i := range 79 {
		r, err := stored.Get(t.Context(), "acme", fmt.Sprint("entry.e", i))
		require.NoError(t, err)
		require.NotZero(t, r.Revision, "nothing was swept")
	}
}

// An enrichment that would have no memory at all is refused, with the remedy.
func TestKnowledge_FullMemoryRefusesMore(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	e := enrichesWithin(t, store, true, 200<<10)
	refused := 0
	for i := range 6 {
		name := fmt.Sprint("ns", i)
		_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: name})
		require.NoError(t, err)
		if err := enrich(t, e, name); err != nil {
			require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
			require.ErrorContains(t, err, "limits.knowledge_memory")
			refused++
		}
	}
	require.Equal(t, 4, refused, "a namespace without entries takes 56 KiB")
	require.NoError(t, e.Delete(t.Context(), "ns0", "root"))
	require.Eventually(t, func() bool { return enrich(t, e, "ns5") == nil }, time.Minute, 5*time.Millisecond)
}

// The results of entries outlast a reader of the log that begins again, and a content that changes and
// comes back.
func TestKnowledge_OldContentHasItsResult(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	acme(t, store)
	publish(t, store, "acme", 3)
	e := enriches(t, store, true)
	require.NoError(t, enrich(t, e, "acme"))
	require.Equal(t, 3, embedsAll(t, e))
	revise := func(data string) {
		t.Helper()
		_, err := store.Log.Publish(t.Context(), "acme", []sluice.Event{{
			ID: "r" + data, Path: "/p/1", Data: []byte(data), Extensions: map[string]string{sluice.RevisionOf: "e1"},
		}})
		require.NoError(t, err)
	}
	revise("2")
	has(t, e, 3, 2, 0)
	revise("1")
	has(t, e, 3, 3, 0)
	require.Zero(t, embedsAll(t, e), "the first content has its result")
}

// Results of events outside a narrower pattern stay as long as the events, and count again under the former
// pattern.
func TestKnowledge_NarrowerPatternKeepsResults(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	acme(t, store)
	publish(t, store, "acme", 3)
	e := enriches(t, store, true)
	narrow := func(pattern sluice.Pattern) {
		t.Helper()
		c := sluice.Enrichment{Namespace: "acme", Model: "test", Dimensions: 2, Pattern: pattern}
		c.SetDefaults()
		_, err := e.Put(t.Context(), c, "root")
		require.NoError(t, err)
	}
	narrow("/**")
	require.Equal(t, 3, embedsAll(t, e))
	narrow("/p/0")
	has(t, e, 1, 1, 0)
	stored := func(id string) bool {
		r, err := knowledgestore.New(store.Store).Get(t.Context(), "acme", id)
		require.NoError(t, err)
		return r.Revision != 0
	}
	for i, path := range []sluice.Path{"/p/0", "/p/1"} { // the second is outside the pattern
		require.NoError(t, store.Log.ErasePath(t.Context(), "acme", path, uint64(i+1)))
		require.Eventually(t, func() bool { return !stored(fmt.Sprint("entry.e", i)) }, time.Minute, 5*time.Millisecond)
		require.True(t, stored("entry.e2"), "its event is in the log")
	}
	narrow("/**")
	has(t, e, 1, 1, 0)
	require.Zero(t, embedsAll(t, e))
}
