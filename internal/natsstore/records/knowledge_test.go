package records_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore/knowledgestore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openAccess lets everybody see everything.
type openAccess struct{}

func (openAccess) Shows(sluice.Caller, sluice.Verb, *sluice.Event, time.Time) model.Decision {
	return model.Pass
}

func (openAccess) Label(string) sluice.Label { return sluice.Label{} }

// oneKey signs tokens.
type oneKey struct{}

func (oneKey) WakeKeys() [][]byte { return [][]byte{[]byte("a key of thirty-two bytes at least")} }

// always owns everything.
type always bool

func (a always) Owns(string) bool { return bool(a) }

// enriches returns an engine of enrichment on a store, which runs until the test ends.
func enriches(t *testing.T, store storetest.Rooms, owner bool) *knowledge.Engine {
	t.Helper()
	return enrichesWithin(t, store, owner, 0)
}

// enrichesWithin is enriches with a limit of memory.
func enrichesWithin(t *testing.T, store storetest.Rooms, owner bool, memory int64) *knowledge.Engine {
	t.Helper()
	e := knowledge.New(knowledge.Deps{
		Definitions: records.NewEnrichments(store.Store), Records: knowledgestore.New(store.Store),
		Log:     records.KnowledgeLog{EventLog: records.EventLog{Log: store.Log}},
		Mirrors: records.KnowledgeMirrors{Mirrors: records.NewMirrors(store.Store), Copies: mirrorstore.New(store.Store, 0)},
		Access:  openAccess{}, Keys: oneKey{}, Ledger: ledger.New(store.Ledger(), slog.New(slog.DiscardHandler)), Owns: always(owner),
	}, knowledge.Options{Sweep: 20 * time.Millisecond, Memory: memory})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, e.Run(ctx)) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return e
}

func acme(t *testing.T, store storetest.Rooms) {
	t.Helper()
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
}

// notes stores a mirror of acme with n entries.
func notes(t *testing.T, store storetest.Rooms, n int) {
	t.Helper()
	c := mirror.Commit{Place: mirror.Place{Incarnation: "i", Watermark: uint64(n)}}
	for i := range n {
		c.Entries = append(c.Entries, mirror.Entry{MirroredAt: time.Now(), Change: sluice.ChangeOf(sluice.Event{
			Seq: uint64(i + 1), ID: fmt.Sprint("n", i), Path: "/n", Type: "t", Source: "/s", Time: time.Now(), ContentType: "application/json", Data: fmt.Appendf(nil, "%d", i),
		})})
	}
	_, err := mirrorstore.New(store.Store, 0).Commit(t.Context(), "m", c)
	require.NoError(t, err)
	m := mirror.Stored{Mirror: sluice.Mirror{ID: "m", Namespace: "acme", Source: "low", Weight: 0.5, State: sluice.Active}, Settled: true}
	_, err = records.NewMirrors(store.Store).Put(t.Context(), "m", m, 0)
	require.NoError(t, err)
}

func configured(t *testing.T, e *knowledge.Engine) {
	t.Helper()
	c := sluice.Enrichment{Namespace: "acme", Model: "test", Dimensions: 2, TopK: 3, ReviewAbove: 0.2}
	c.SetDefaults()
	_, err := e.Put(t.Context(), c, "root")
	require.NoError(t, err)
}

// Two replicas give each job to one worker, whichever is asked, and each knows the results of the other.
func TestKnowledge_ReplicasGiveEachJobOnce(t *testing.T) {
	t.Parallel()
	server := natstest.Listening(t)
	one, two := storeOn(t, server), storeOn(t, server)
	acme(t, one)
	notes(t, one, 60)
	a, b := enriches(t, one, true), enriches(t, two, false)
	configured(t, a)
	var mu sync.Mutex
	given := map[string]int{}
	var workers sync.WaitGroup
	for i, e := range []*knowledge.Engine{a, b, a, b} {
		workers.Go(func() {
			for {
				jobs, err := e.Claim(t.Context(), "acme", knowledge.ClaimRequest{Worker: strconv.Itoa(i), Max: 7}, sluice.Caller{})
				require.NoError(t, err)
				if len(jobs) == 0 {
					return
				}
				for _, j := range jobs {
					mu.Lock()
					given[j.ID]++
					mu.Unlock()
					// Any replica takes the report.
					other := []*knowledge.Engine{b, a, b, a}[i]
					require.NoError(t, other.Complete(t.Context(), knowledge.Claim{Namespace: "acme", Job: j.ID, Token: j.Token}, sluice.JobResult{Embedding: []float32{1, float32(i)}}))
				}
			}
		})
	}
	workers.Wait()
	require.Len(t, given, 60)
	for id, n := range given {
		require.Equal(t, 1, n, id)
	}
	for _, e := range []*knowledge.Engine{a, b} {
		require.Eventually(t, func() bool {
			found, err := e.Search(t.Context(), "acme", knowledge.SearchRequest{Vector: []float32{1, 1}, Top: 100}, sluice.Caller{})
			require.NoError(t, err)
			return len(found.Neighbours) == 60
		}, time.Minute, 5*time.Millisecond)
	}
}

// What is stored about an event goes when the event does: its embedding, and its comparisons.
func TestKnowledge_RecordsGoWithTheirEvent(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	acme(t, store)
	notes(t, store, 1)
	e := enriches(t, store, true)
	configured(t, e)
	work := func(result sluice.JobResult) {
		t.Helper()
		jobs, err := e.Claim(t.Context(), "acme", knowledge.ClaimRequest{Worker: "w", Wait: 10 * time.Second}, sluice.Caller{})
		require.NoError(t, err)
		require.Len(t, jobs, 1)
		require.NoError(t, e.Complete(t.Context(), knowledge.Claim{Namespace: "acme", Job: jobs[0].ID, Token: jobs[0].Token}, result))
	}
	work(sluice.JobResult{Embedding: []float32{1, 0}})
	_, err := store.Log.Publish(t.Context(), "acme", []sluice.Event{
		{ID: "gone", Path: "/gone", Data: []byte("1")}, {ID: "kept", Path: "/kept", Data: []byte("2")},
	})
	require.NoError(t, err)
	for range 2 {
		work(sluice.JobResult{Embedding: []float32{1, 0}})
	}
	for range 3 { // gone with n0; kept with both
		work(sluice.JobResult{Comparison: []byte(`{"friction":1}`)})
	}
	stored := knowledgestore.New(store.Store)
	of := func(entry string) int {
		all, err := stored.Comparisons(t.Context(), "acme", entry)
		require.NoError(t, err)
		return len(all)
	}
	require.Equal(t, []int{1, 2}, []int{of("gone"), of("kept")})
	require.NoError(t, store.Log.ErasePath(t.Context(), "acme", "/gone", 1))
	require.Eventually(t, func() bool {
		r, err := stored.Get(t.Context(), "acme", "entry.gone")
		require.NoError(t, err)
		return r.Revision == 0 && of("gone") == 0
	}, time.Minute, 10*time.Millisecond)
	r, err := stored.Get(t.Context(), "acme", "entry.kept")
	require.NoError(t, err)
	require.NotZero(t, r.Revision)
	require.Equal(t, 2, of("kept"), "what the other was compared with stays")
	review, all, err := e.Comparisons(t.Context(), "acme", "kept", sluice.Caller{})
	require.NoError(t, err)
	require.True(t, review.NeedsReview)
	require.True(t, slices.ContainsFunc(all, func(c sluice.Comparison) bool { return c.Against.ID == "gone" && c.EffectiveFriction == 1 }), "S3-90")
	require.True(t, slices.ContainsFunc(all, func(c sluice.Comparison) bool { return c.Against.ID == "n0" && c.EffectiveFriction == 0.5 }), "S3-87")
}

// A deletion that was interrupted after the configuration was removed is finished by its repetition.
func TestKnowledge_RepeatedDeletionLeavesNoRecord(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	e, stored := enriches(t, store, true), knowledgestore.New(store.Store)
	for code, remove := range map[sluice.Code]func(ctx context.Context, namespace, by string) error{sluice.NotFound: e.Delete, "": e.DeleteAll} {
		r := knowledge.Record{ID: "entry.e", Type: sluice.JobEmbed, Entry: sluice.EntryRef{Source: sluice.SourceLocal, ID: "e"}}
		_, err := stored.Put(t.Context(), "acme", r, 0)
		require.NoError(t, err)
		require.Equal(t, code, sluice.CodeOf(remove(t.Context(), "acme", "root")))
		r, err = stored.Get(t.Context(), "acme", r.ID)
		require.NoError(t, err)
		require.Zero(t, r.Revision)
	}
}

// A mirror that is created again under the id of a deleted one is enriched again: jobs that failed with
// it are given to workers, and comparisons with its entries, too.
func TestKnowledge_MirrorThatComesBackIsEnriched(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	acme(t, store)
	notes(t, store, 2)
	e := enriches(t, store, true)
	configured(t, e)
	first := worksAt(t, e)
	completes(t, e, first, sluice.JobResult{Embedding: []float32{1, 0}})
	publish(t, store, "acme", 1)
	completes(t, e, worksAt(t, e, sluice.JobEmbed), sluice.JobResult{Embedding: []float32{1, 0}}) // is to be compared with the first

	mirrors := records.NewMirrors(store.Store)
	require.NoError(t, mirrors.Delete(t.Context(), "m", 0))
	require.NoError(t, mirrorstore.New(store.Store, 0).Purge(t.Context(), "m", 1000))
	failed := func() (failed []string) {
		all, err := e.Jobs(t.Context(), "acme", knowledge.JobsRequest{State: sluice.JobFailed}, sluice.Caller{})
		require.NoError(t, err)
		for _, j := range all {
			failed = append(failed, j.Error+": "+string(j.Type))
		}
		return failed
	}
	require.Eventually(t, func() bool {
		return slices.Equal(failed(), []string{"subscription deleted: embed_mirrored", "subscription deleted: compare"})
	}, time.Minute, 5*time.Millisecond)
	jobs, err := e.Claim(t.Context(), "acme", knowledge.ClaimRequest{Worker: "w", Max: 10}, sluice.Caller{})
	require.NoError(t, err)
	require.Empty(t, jobs)

	_, err = e.Retry(t.Context(), "acme", "mirrored.m.n1")
	require.ErrorContains(t, err, "subscription deleted")
	require.Eventually(t, func() bool { // the embedding goes with the mirror
		r, err := knowledgestore.New(store.Store).Get(t.Context(), "acme", first.ID)
		require.NoError(t, err)
		return r.Revision == 0
	}, time.Minute, 5*time.Millisecond)

	notes(t, store, 2)
	require.Eventually(t, func() bool { return len(failed()) == 0 }, time.Minute, 5*time.Millisecond)
	again := []string{worksAt(t, e, sluice.JobEmbedMirrored).ID, worksAt(t, e, sluice.JobEmbedMirrored).ID}
	require.ElementsMatch(t, []string{"mirrored.m.n0", "mirrored.m.n1"}, again)
	require.Equal(t, first.Entry, *worksAt(t, e, sluice.JobCompare).Against)
}

// A worker's error text does not keep a job from being tried again: only a missing mirror or neighbour does.
func TestKnowledge_RetryDoesNotBelieveTheWorker(t *testing.T) {
	t.Parallel()
	store := storeOn(t, natstest.Listening(t))
	acme(t, store)
	notes(t, store, 1)
	e := enriches(t, store, true)
	configured(t, e)
	j := worksAt(t, e)
	_, err := e.Fail(t.Context(), knowledge.Claim{Namespace: "acme", Job: j.ID, Token: j.Token}, knowledge.Failure{Error: "subscription deleted", Final: true})
	require.NoError(t, err)
	again, err := e.Retry(t.Context(), "acme", j.ID)
	require.NoError(t, err)
	require.Equal(t, sluice.JobPending, again.State)
}

// worksAt claims a job.
func worksAt(t *testing.T, e *knowledge.Engine, types ...sluice.JobType) *sluice.ClaimedJob {
	t.Helper()
	jobs, err := e.Claim(t.Context(), "acme", knowledge.ClaimRequest{Worker: "w", Types: types, Wait: 30 * time.Second}, sluice.Caller{})
	require.NoError(t, err)
	require.Len(t, jobs, 1, "%v", types)
	return &jobs[0]
}

func completes(t *testing.T, e *knowledge.Engine, j *sluice.ClaimedJob, result sluice.JobResult) {
	t.Helper()
	require.NoError(t, e.Complete(t.Context(), knowledge.Claim{Namespace: "acme", Job: j.ID, Token: j.Token}, result))
}
