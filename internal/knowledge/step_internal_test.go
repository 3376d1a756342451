package knowledge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

const lease = 30 * time.Second

func pending() Record {
	return Record{ID: "j", Type: sluice.JobEmbed, Model: "m", Fingerprint: "f", State: sluice.JobPending}
}

func badgeOf(r *Record) badge { return badge{Generation: r.Generation, Fingerprint: r.Fingerprint} }

func TestRecord_IsClaimedRenewedAndCompleted(t *testing.T) {
	t.Parallel()
	r := pending().claim("w", lease, noon)
	require.Equal(t, []any{sluice.JobClaimed, "w", uint64(1), 1, noon.Add(lease)}, []any{r.State, r.Worker, r.Generation, r.Attempts, r.Until})
	b := badgeOf(&r)
	require.NoError(t, r.fence(b, noon.Add(lease-1)))
	require.Equal(t, sluice.Fenced, sluice.CodeOf(r.fence(b, noon.Add(lease))), "the lease has ended")
	r = r.renewed(lease, noon.Add(20*time.Second))
	require.NoError(t, r.fence(b, noon.Add(lease)))
	r = r.completed(noon.Add(lease))
	require.Equal(t, done, r.State)
	require.Zero(t, r.Until)
	require.Equal(t, sluice.Fenced, sluice.CodeOf(r.fence(b, noon)), "it is done")
}

// A failed attempt is tried again after a growing pause, until it was the last one.
func TestRecord_FailsAfterItsAttempts(t *testing.T) {
	t.Parallel()
	r, now := pending(), noon
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		r = r.claim("w", lease, now).failed(Failure{Error: "e"}, 9, 0.5, now)
		require.Equal(t, []any{sluice.JobPending, "e", i + 1, now.Add(wait)}, []any{r.State, r.Error, r.Attempts, r.NotBefore})
		now = r.NotBefore
	}
	r = r.claim("w", lease, now).failed(Failure{Error: strings.Repeat("x", 5000)}, 9, 0.5, now)
	require.Equal(t, []any{sluice.JobFailed, 9, maxError}, []any{r.State, r.Attempts, len(r.Error)})
	r = r.again(now)
	require.Equal(t, []any{sluice.JobPending, 0}, []any{r.State, r.Attempts})
	r = r.claim("w", lease, now).failed(Failure{Error: "never", Final: true}, 9, 0.5, now)
	require.Equal(t, sluice.JobFailed, r.State)

	low, high := pending().claim("w", lease, noon), pending().claim("w", lease, noon)
	require.Equal(t, noon.Add(800*time.Millisecond), low.failed(Failure{}, 9, 0, noon).NotBefore)
	require.Equal(t, noon.Add(1200*time.Millisecond), high.failed(Failure{}, 9, 1, noon).NotBefore)
}

// A lease that ended counts as a failed attempt, and the last one as a failure of the job.
func TestRecord_LeaseThatEndedIsAnAttempt(t *testing.T) {
	t.Parallel()
	r := pending().claim("w", lease, noon)
	require.Equal(t, sluice.JobClaimed, r.asOf(noon.Add(lease-1), 2).State)
	is := r.asOf(noon.Add(lease), 2)
	require.Equal(t, []any{sluice.JobPending, leaseOver, ""}, []any{is.State, is.Error, is.Worker})
	is = is.claim("v", lease, noon.Add(lease))
	require.EqualValues(t, 2, is.Generation)
	require.Equal(t, sluice.JobFailed, is.asOf(noon.Add(2*lease), 2).State)
}

// S3-82: another model, or another content, begins anew; tokens of before stay fenced.
func TestRecord_AnotherModelOrContentBeginsAnew(t *testing.T) {
	t.Parallel()
	r := pending().claim("w", lease, noon)
	old := badgeOf(&r)
	r = r.completed(noon)
	require.Equal(t, r, r.renewedFor("m", "f"))
	for _, next := range []Record{r.renewedFor("n", "f"), r.renewedFor("m", "g")} {
		require.Equal(t, []any{sluice.JobPending, 0}, []any{next.State, next.Attempts})
		next = next.claim("w", lease, noon)
		require.EqualValues(t, 2, next.Generation)
		require.Equal(t, sluice.Fenced, sluice.CodeOf(next.fence(old, noon)))
	}
}

// reporters returns the places of the tokens whose reports would be taken.
func reporters(r *Record, tokens []badge, now time.Time) (good []int) {
	for i, b := range tokens {
		if r.fence(b, now) == nil {
			good = append(good, i)
		}
	}
	return good
}

// At any time at most one token reports successfully: that of the last claim.
func TestRecord_OnlyTheLastClaimReports(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, now, tokens := pending(), noon, []badge{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			good := reporters(&r, tokens, now)
			require.True(t, len(good) == 0 || slices.Equal(good, []int{len(tokens) - 1}), "%v of %d", good, len(tokens))
			is := r.asOf(now, 100)
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step < 2 && is.State == sluice.JobPending && !is.NotBefore.After(now):
				r = is.claim("w", lease, now)
				tokens = append(tokens, badgeOf(&r))
			case step == 2 && len(good) == 1:
				r = r.renewed(lease, now)
			case step == 3 && len(good) == 1:
				r = r.failed(Failure{Error: "e"}, 100, 0, now)
			case step == 4:
				r = r.renewedFor("m", rapid.SampledFrom([]string{"f", "g"}).Draw(t, "content"))
			}
		}
	})
}

// S3-87, S3-89, S3-90, S3-91, S3-94: the discount of the pair counts; within the namespace it is 1 and changes nothing.
func TestRecord_FrictionIsDiscounted(t *testing.T) {
	t.Parallel()
	across := Record{Friction: 0.9, Pair: &Pair{Against: sluice.EntryRef{Source: sluice.SourceMirrored}, Discount: 0.3}}
	within := Record{Friction: 0.9, Pair: &Pair{Against: sluice.EntryRef{Source: sluice.SourceLocal}, Discount: 1}}
	require.InDelta(t, 0.27, across.effective(), 1e-12)
	require.InDelta(t, 0.9, within.effective(), 0)
	require.True(t, across.Pair.crosses())
	require.False(t, within.Pair.crosses())
}

// The content of an entry has one fingerprint, whichever event it is of.
func TestFingerprint_IsOfTheContent(t *testing.T) {
	t.Parallel()
	ev := sluice.Event{ID: "1", Seq: 7, Path: "/a", Type: "t", Subject: "s", ContentType: "c", Data: []byte("d")}
	same := ev
	same.ID, same.Seq, same.Time = "2", 8, noon
	require.Equal(t, Fingerprint(&ev), Fingerprint(&same))
	require.Empty(t, Fingerprint(&sluice.Event{Path: "/a", Type: "t"}), "no content")
	for _, change := range []func(*sluice.Event){
		func(e *sluice.Event) { e.Path = "/b" }, func(e *sluice.Event) { e.Type = "u" }, func(e *sluice.Event) { e.Subject = "x" },
		func(e *sluice.Event) { e.ContentType = "x" }, func(e *sluice.Event) { e.Data = []byte("e") },
		func(e *sluice.Event) { e.Type, e.Subject = "ts", "" },
	} {
		other := ev
		change(&other)
		require.NotEqual(t, Fingerprint(&ev), Fingerprint(&other))
	}
}

func TestVector_SurvivesItsStoredForm(t *testing.T) {
	t.Parallel()
	v := []float32{0, 1, -1, math.SmallestNonzeroFloat32, math.MaxFloat32, 1.0 / 3}
	require.Equal(t, v, decodeVector(encodeVector(v)))
}

// S3-84: a greater priority first, within it the older entry; what is not due waits.
func TestQueue_GivesByPriorityAgeAndTime(t *testing.T) {
	t.Parallel()
	all := []sluice.JobType{sluice.JobEmbed, sluice.JobEmbedMirrored, sluice.JobCompare}
	require.Equal(t, []int{30, 25, 20}, []int{all[0].Priority(), all[1].Priority(), all[2].Priority()})
	every := func(labels) bool { return true }
	q, r := newQueue(func(*task) labels { return labels{} }), rand.New(rand.NewPCG(1, 2))
	tasks := []*task{
		{id: "e1", kind: all[0], order: 1},
		{id: "e2", kind: all[0], order: 2},
		{id: "m1", kind: all[1], order: 1},
		{id: "c1", kind: all[2], order: 1},
		{id: "late", kind: all[0], order: 0},
		{id: "dropped", kind: all[0], order: 0},
	}
	r.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	for _, k := range tasks {
		due := time.Time{}
		if k.id == "late" {
			due = noon
		}
		q.set(k, due)
	}
	for _, k := range tasks {
		if k.id == "dropped" {
			q.drop(k)
		}
	}
	require.Equal(t, noon, q.next())
	q.advance(noon.Add(-1))
	require.Equal(t, "e1", q.take(all, every).id)
	require.Equal(t, "c1", q.take(all[2:], every).id, "only the wanted types")
	q.advance(noon)
	require.Zero(t, q.next())
	var got []string
	for k := q.take(all, every); k != nil; k = q.take(all, every) {
		got = append(got, k.id)
	}
	require.Equal(t, []string{"late", "e2", "m1"}, got)
}

// Further labels share a heap, of which each take sees a part. Labels without compartments are not
// among them.
func TestQueue_FindsTasksOfFurtherLabels(t *testing.T) {
	t.Parallel()
	of := map[*task]labels{}
	q := newQueue(func(k *task) labels { return of[k] })
	enter := func(order int, l labels) {
		k := &task{id: strconv.Itoa(order), kind: sluice.JobCompare, order: uint64(order), pair: &Pair{}}
		of[k] = l
		q.set(k, time.Time{})
	}
	const many = 10 * mostLabels
	for i := range many {
		enter(i, labels{"SECRET", fmt.Sprint("SECRET/", i)})
	}
	enter(many, labels{"SECRET", "SECRET"})
	require.Len(t, q.ready[sluice.JobCompare], mostLabels+2)
	compare := []sluice.JobType{sluice.JobCompare}
	seen := 0
	sees := func(want labels) func(labels) bool {
		return func(l labels) bool {
			seen++
			return l == want
		}
	}
	require.Equal(t, strconv.Itoa(many), q.take(compare, sees(labels{"SECRET", "SECRET"})).id)
	require.LessOrEqual(t, seen, 2*mostLabels+3)
	for _, i := range []int{many - 1, many / 2, 0} {
		var k *task
		for k == nil {
			k = q.take(compare, sees(labels{"SECRET", fmt.Sprint("SECRET/", i)}))
		}
		require.Equal(t, strconv.Itoa(i), k.id)
	}
	every := func(labels) bool { return true }
	last := -1
	for range many - 3 {
		k := q.take(compare, every)
		require.Greater(t, int(k.order), last)
		last = int(k.order)
	}
	require.Nil(t, q.take(compare, every))
}
