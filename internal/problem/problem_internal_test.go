package problem

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// shelf keeps records, and tells all its followers of them.
type shelf struct {
	mu        sync.Mutex
	records   map[string]Record
	revisions map[string]uint64
	followers []func(string, *Record)
}

func (s *shelf) Get(_ context.Context, id string) (Record, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	if !ok {
		return r, 0, sluice.Errorf(sluice.NotFound, "none")
	}
	r.Events, r.Paths = append(sketch(nil), r.Events...), append(sketch(nil), r.Paths...)
	return r, s.revisions[id], nil
}

func (s *shelf) Put(_ context.Context, r Record, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision != s.revisions[r.ID()] {
		return sluice.Errorf(sluice.Conflict, "changed")
	}
	s.revisions[r.ID()]++
	s.records[r.ID()] = r
	for _, tell := range s.followers {
		told := r
		tell(r.ID(), &told)
	}
	return nil
}

func (s *shelf) Delete(_ context.Context, id string, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, id)
	delete(s.revisions, id)
	for _, tell := range s.followers {
		tell(id, nil)
	}
	return nil
}

func (s *shelf) Follow(ctx context.Context, _ func(string, *Record)) error {
	<-ctx.Done()
	return nil
}

// entries are the ledger.
type entries struct{ all []sluice.LedgerEntry }

func (e *entries) Append(_ context.Context, entry *sluice.LedgerEntry) error {
	e.all = append(e.all, *entry)
	return nil
}

// world is two replicas, of which the first serves the subscription, and its endpoint.
type world struct {
	t        *testing.T
	now      time.Time
	shelf    *shelf
	ledger   *entries
	one, two *Book
	sub      *sluice.Subscription
	stand    Standing
	at       Situation
	gone     bool
	events   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Unix(6_000_000, 0).UTC(), shelf: &shelf{records: map[string]Record{}, revisions: map[string]uint64{}}, ledger: &entries{}}
	w.sub = &sluice.Subscription{ID: "orders", Namespace: "acme", Mode: sluice.Push, Lifecycle: sluice.Lifecycle{State: sluice.Active, CreatedAt: time.Unix(1000, 0)}}
	w.at.Sub = w.sub
	w.one, w.two = w.book(true), w.book(false)
	return w
}

func (w *world) book(owns bool) *Book {
	b := New(Deps{
		Store: w.shelf, Ledger: ledger.New(w.ledger, slog.New(slog.DiscardHandler)), Owns: func(string) bool { return owns }, Lease: func(s *sluice.Subscription) string { return s.ID },
		Stands: func() map[string]Standing { return map[string]Standing{"orders": w.stand} },
		Situations: func(context.Context) (func(string) (Situation, bool), error) {
			return func(string) (Situation, bool) { return w.at, !w.gone }, nil
		},
		Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler),
	})
	w.shelf.followers = append(w.shelf.followers, b.enter)
	return b
}

// fails enters failed attempts at different events.
func (w *world) fails(b *Book, n, status int) {
	for range n {
		w.events++
		b.Attempted(w.sub, &sluice.Attempt{
			Outcome: sluice.Failed, Status: status, Response: strings.Repeat("x", 500), EventID: strconv.Itoa(w.events), Path: sluice.Path(fmt.Sprintf("/%d", w.events%7)),
			StartedAt: w.now, Verdict: sluice.Verdict{Again: w.now.Add(time.Minute)},
		})
	}
}

func (w *world) succeeds() {
	w.now = w.now.Add(time.Second)
	w.one.Attempted(w.sub, &sluice.Attempt{Outcome: sluice.Delivered, StartedAt: w.now})
}

// only returns the only problem.
func (w *world) only() Found {
	w.t.Helper()
	page, err := w.two.List(w.t.Context(), Query{})
	require.NoError(w.t, err)
	require.Len(w.t, page.Problems, 1)
	return page.Problems[0]
}

func (w *world) settle(after time.Duration) {
	w.now = w.now.Add(after)
	w.one.Flush(w.t.Context())
	w.two.Settle(w.t.Context())
	w.one.Settle(w.t.Context())
}

const server = "orders.http_5xx"

func TestProblem_IsThatOfAllReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fails(w.one, 30, http.StatusServiceUnavailable)
	w.fails(w.two, 10, http.StatusBadGateway)
	w.one.Flush(t.Context())
	w.two.Flush(t.Context())
	p := w.only()
	require.Equal(t, server, p.ID)
	require.Equal(t, sluice.ProblemOpen, p.State)
	require.EqualValues(t, 40, p.Attempts)
	require.InDelta(t, 40, p.Events, 1)
	require.EqualValues(t, 7, p.Paths)
	require.Len(t, p.Answer, maxAnswer+1)
	require.Equal(t, w.now.Add(time.Minute), *p.NextAttemptAt)
	require.Contains(t, p.Sentence, "status 503")
	require.Equal(t, []sluice.ProblemAct{sluice.ActPause, sluice.ActSeek}, p.Acts)

	w.fails(w.two, 5, http.StatusBadGateway)
	w.now = w.now.Add(time.Second)
	w.two.Flush(t.Context())
	require.EqualValues(t, 40, w.only().Attempts, "counts are stored after a while")
	w.now = w.now.Add(again)
	w.two.Flush(t.Context())
	require.EqualValues(t, 45, w.only().Attempts)
	w.now = w.now.Add(time.Minute)
	require.Nil(t, w.only().NextAttemptAt, "it was due")
	after := w.book(true)
	for id, r := range w.shelf.records {
		after.enter(id, &r)
	}
	page, err := after.List(t.Context(), Query{Namespace: "acme", State: sluice.ProblemOpen})
	require.NoError(t, err)
	require.Equal(t, w.only(), page.Problems[0], "a server that starts knows it")
}

func TestProblem_IsResolvedByQuietAndSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(0)
	w.settle(quiet)
	require.Equal(t, sluice.ProblemOpen, w.only().State, "nothing was delivered since")
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(again)
	w.succeeds()
	w.settle(quiet - 2*time.Minute)
	require.Equal(t, sluice.ProblemOpen, w.only().State)
	w.two.Attempted(w.sub, &sluice.Attempt{Outcome: sluice.Delivered, StartedAt: w.now})
	w.now = w.now.Add(quiet)
	w.two.Settle(t.Context())
	require.Equal(t, sluice.ProblemOpen, w.only().State, "the replica with the lease resolves it")
	w.now = w.now.Add(-quiet)
	w.settle(2 * time.Minute)
	p := w.only()
	require.Equal(t, sluice.ProblemResolved, p.State)
	require.Equal(t, w.now, *p.ResolvedAt)
	require.Empty(t, p.Acts)

	w.fails(w.one, 3, http.StatusServiceUnavailable)
	w.settle(again)
	p = w.only()
	require.Equal(t, sluice.ProblemOpen, p.State, "it occurs again")
	require.EqualValues(t, 3, p.Attempts)
	require.Nil(t, p.ResolvedAt)
	w.succeeds()
	w.settle(quiet)
	w.settle(keep)
	page, err := w.two.List(t.Context(), Query{})
	require.NoError(t, err)
	require.Empty(t, page.Problems, "it was resolved a week ago")
	require.Empty(t, w.one.sick)
}

func TestProblem_IsResolvedWhenTheBreakerCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stand = Standing{Parked: 2, Breaker: sluice.BreakerOpen}
	w.at.Breaker, w.at.Parked, w.at.DeadLetters = sluice.BreakerOpen, 2, 1
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(time.Second)
	require.Equal(t, []sluice.ProblemAct{sluice.ActProbe, sluice.ActRetry, sluice.ActRedrive, sluice.ActPause, sluice.ActSeek}, w.only().Acts)
	w.succeeds()
	w.stand.Breaker = sluice.BreakerClosed
	w.settle(time.Second)
	require.Equal(t, sluice.ProblemOpen, w.only().State, "lanes are parked")
	w.stand.Parked = 0
	w.settle(time.Second)
	require.Equal(t, sluice.ProblemResolved, w.only().State)

	w.now = w.now.Add(time.Second)
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.succeeds()
	w.settle(again)
	w.settle(time.Second)
	require.Equal(t, sluice.ProblemOpen, w.only().State, "the breaker stayed closed")
	w.one.Turned(w.sub, sluice.BreakerOpen)
	w.one.Turned(w.sub, sluice.BreakerClosed)
	w.settle(time.Second)
	w.settle(time.Second)
	require.Equal(t, sluice.ProblemResolved, w.only().State, "it was open for a moment")
}

func TestChange_IsAnOperatorsAndInTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(0)
	note := "they know"
	ctx := t.Context()
	require.NoError(t, w.two.Change(ctx, server, sluice.ProblemChange{State: sluice.ProblemAcknowledged, Note: &note}, "user:ann"))
	p := w.only()
	require.Equal(t, sluice.ProblemAcknowledged, p.State)
	require.Equal(t, []string{"they know", "user:ann"}, []string{p.Note, p.ChangedBy})
	require.Len(t, w.ledger.all, 1)
	require.Equal(t, "user:ann", w.ledger.all[0].Actor)
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(again)
	require.Equal(t, sluice.ProblemAcknowledged, w.only().State, "it goes on")
	w.succeeds()
	w.settle(quiet)
	require.Equal(t, sluice.ProblemResolved, w.only().State)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(w.two.Change(ctx, server, sluice.ProblemChange{State: sluice.ProblemOpen}, "user:ann")))
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(again)
	require.Equal(t, sluice.ProblemOpen, w.only().State, "it opens anew")

	require.NoError(t, w.two.Change(ctx, server, sluice.ProblemChange{State: sluice.ProblemIgnored}, "user:ann"))
	w.succeeds()
	w.settle(quiet)
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(again)
	require.Equal(t, sluice.ProblemIgnored, w.only().State, "it stays so")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(w.two.Change(ctx, "orders.dns", sluice.ProblemChange{State: sluice.ProblemOpen}, "user:ann")))
	for _, bad := range []sluice.ProblemChange{{}, {State: sluice.ProblemResolved}, {State: "x"}} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(w.two.Change(ctx, server, bad, "user:ann")))
	}
}

func TestProblem_EndsWithItsSubscription(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fails(w.one, 4, http.StatusServiceUnavailable)
	w.settle(0)
	again := *w.sub
	again.CreatedAt = again.CreatedAt.Add(time.Hour)
	w.sub, w.at.Sub = &again, &again
	page, err := w.two.List(t.Context(), Query{})
	require.NoError(t, err)
	require.Empty(t, page.Problems, "it is that of an earlier one of the ID")
	w.fails(w.one, 1, http.StatusServiceUnavailable)
	w.settle(time.Second)
	require.EqualValues(t, 1, w.only().Attempts)
	w.gone = true
	w.two.Clear(t.Context())
	require.Len(t, w.shelf.records, 1, "its replica does that")
	w.one.Clear(t.Context())
	require.Empty(t, w.shelf.records)
}

func TestList_HasTheOldestOpenFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, status := range []int{503, 429, 404, 401, 302} {
		w.fails(w.one, 1, status)
		w.now = w.now.Add(time.Second)
	}
	w.one.Flush(t.Context())
	require.NoError(t, w.two.Change(t.Context(), "orders.http_429", sluice.ProblemChange{State: sluice.ProblemAcknowledged}, "root"))
	var got []string
	q := Query{Limit: 2}
	for {
		page, err := w.two.List(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, map[sluice.ProblemState]int{sluice.ProblemOpen: 4, sluice.ProblemAcknowledged: 1}, page.Counts)
		for _, p := range page.Problems {
			got = append(got, string(p.Class))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	require.Equal(t, []string{"http_5xx", "http_4xx", "http_auth", "http_3xx", "http_429"}, got)
	_, err := w.two.List(t.Context(), Query{Cursor: "x"})
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	page, err := w.two.List(t.Context(), Query{Visible: func(*sluice.Subscription) bool { return false }})
	require.NoError(t, err)
	require.Empty(t, page.Problems)
	require.Empty(t, page.Counts)
}

// There are few classes, each with a sentence and a remedy, and a thousand failing subscriptions are written by and by.
func TestProblems_AreBounded(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, len(sluice.FailureClasses()), 16)
	said := map[string]bool{}
	for _, class := range sluice.FailureClasses() {
		said[sentence(class, 500)] = true
	}
	require.Len(t, said, len(sluice.FailureClasses()))
	w := newWorld(t)
	for i := range 3 * atOnce {
		w.sub.ID = fmt.Sprint("s", i)
		w.fails(w.one, 1, 500)
	}
	for i := range 3 {
		w.one.Flush(t.Context())
		require.Len(t, w.shelf.records, (i+1)*atOnce)
	}
	require.Empty(t, w.one.news)
}

func TestSketch_CountsDifferentElements(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 5, 100, 4_000} {
		var s, half sketch
		for i := range n {
			s.add(fmt.Sprint("event-", i/2))
			half.add(fmt.Sprint("event-", i))
		}
		s.merge(half)
		require.InEpsilon(t, n+1, s.count()+1, 0.05, n)
	}
	var none sketch
	none.merge(nil)
	require.Zero(t, none.count())
}
