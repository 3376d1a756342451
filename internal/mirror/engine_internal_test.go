package mirror

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// owner owns everything.
type owner struct{ supervise.Ownership }

func (owner) Owns(string) bool { return true }

// A mirror that becomes due while a caller syncs it is left to the caller. If the caller's time is over before
// the end, the mirror is due again.
func TestEngine_ResumesAfterACallerLeft(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}}, Options{})
	e.change("m", &Stored{Settled: true, Mirror: sluice.Mirror{ID: "m", State: sluice.Active}})
	j := e.mirrors["m"]
	record, at, busy := e.enter(j)
	require.Nil(t, busy)
	e.begin(t.Context())
	require.Empty(t, e.queue, "the caller has it")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.leave(ctx, j, record, outcome{place: at, err: ctx.Err()})
	require.Equal(t, queue{j}, e.queue)
}

// told has the types of the system events that were published.
type told struct{ kinds []string }

func (t *told) Tell(_ context.Context, _ string, e model.SystemEvent) error {
	t.kinds = append(t.kinds, e.Kind)
	return nil
}

// gate does not know the access of a creator. Its answer is late until it is told.
type gate struct {
	asked  chan string // namespaces
	answer chan struct{}
}

func (g gate) Holds(m *sluice.Mirror) model.Decision {
	g.asked <- m.Namespace
	<-g.answer
	return model.Undecided
}

func active(id, namespace string) *Stored {
	return &Stored{Settled: true, Mirror: sluice.Mirror{ID: id, Namespace: namespace, State: sluice.Active, PollInterval: sluice.Duration(time.Minute)}}
}

// Slow sources of one namespace hold half of the workers at most: the mirrors of another one sync.
func TestEngine_LeavesWorkersToOtherNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gate{make(chan string, 10), make(chan struct{})}
		e := New(Deps{Owns: owner{}, Copies: &onePlace{}, Gate: g, Teller: &told{}}, Options{Workers: 4})
		for i := range 6 {
			e.change(fmt.Sprint("a", i), active(fmt.Sprint("a", i), "a"))
		}
		<-time.After(time.Millisecond) // later than those
		e.change("b", active("b", "b"))
		require.LessOrEqual(t, e.begin(t.Context()), putOff)
		synctest.Wait()
		require.Len(t, g.asked, 3)
		require.ElementsMatch(t, []string{"a", "a", "b"}, []string{<-g.asked, <-g.asked, <-g.asked})
		close(g.answer)
		synctest.Wait()
		<-time.After(putOff)
		e.begin(t.Context())
		e.running.Wait()
		require.Len(t, g.asked, 2, "half of the workers again")
		require.Empty(t, e.holds)
	})
}

// S3-100: requests for a sync that come while another one runs are one sync.
func TestEngine_SharesTheNextSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gate{make(chan string, 10), make(chan struct{})}
		e := New(Deps{Owns: owner{}, Copies: &onePlace{}, Gate: g, Teller: &told{}}, Options{})
		m := active("m", "a")
		e.change("m", m)
		go func() { _ = e.Sync(t.Context(), m) }() // it runs until the gate answers
		synctest.Wait()
		ended := make(chan error, 10)
		for range 10 {
			go func() { ended <- e.SyncShared(t.Context(), m) }()
		}
		synctest.Wait()
		require.Len(t, ended, 9, "one waits")
		close(g.answer)
		synctest.Wait()
		require.Len(t, ended, 10)
		require.Len(t, g.asked, 2)
		require.Error(t, e.SyncShared(t.Context(), m), "another one syncs again")
		require.Len(t, g.asked, 3)
	})
}

// A mirror that was resumed a moment ago is synced, before its record has come by the watch. It is due again afterwards.
func TestEngine_SyncsTheRecordOfItsCaller(t *testing.T) {
	t.Parallel()
	g := gate{make(chan string, 10), make(chan struct{})}
	close(g.answer)
	e := New(Deps{Owns: owner{}, Copies: &onePlace{}, Gate: g, Teller: &told{}}, Options{})
	m := active("m", "a")
	m.State, m.Revision = sluice.Suspended, 1
	e.change("m", m)
	resumed := *m
	resumed.State, resumed.Revision = sluice.Active, 2
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(e.Sync(t.Context(), &resumed)), "the gate was asked")
	require.Len(t, e.queue, 1)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(e.Sync(t.Context(), m)), "a record that was read earlier counts no more")
	e.change("m", m)
	require.Equal(t, sluice.Active, e.mirrors["m"].record.State, "nor one that comes late")
}

// A creator has a minute to settle its mirror, also if ownership changes meanwhile. Then the engine does.
func TestEngine_LeavesANewMirrorToItsCreator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New(Deps{Owns: owner{}}, Options{})
		m := active("m", "a")
		m.Settled, m.CreatedAt = false, time.Now()
		e.change("m", m)
		e.owned()
		require.Equal(t, time.Minute, e.begin(t.Context()))
		<-time.After(time.Second)
		e.owned()
		require.Equal(t, 59*time.Second, e.begin(t.Context()))
	})
}

// A mirror whose system events were published is not synced again for that.
func TestEngine_IgnoresThatEventsWerePublished(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}}, Options{Jitter: func() float64 { return 0.5 }})
	m := active("m", "a")
	m.Untold = []Said{{Kind: sluice.TypeMirrorCreated}}
	e.change("m", m)
	j := e.mirrors["m"]
	record, at, _ := e.enter(j)
	e.queue.drop(j)
	told := *m
	told.Untold = nil
	e.change("m", &told)
	e.leave(t.Context(), j, record, outcome{place: at})
	require.Greater(t, time.Until(j.due), time.Second)
	j.place = Place{Revision: 1}
	edited := told
	edited.UpdatedAt = time.Now()
	e.change("m", &edited)
	require.Equal(t, Place{}, j.place, "it may have been resumed with another log")
	require.LessOrEqual(t, time.Until(j.due), time.Duration(0))
}

// settledByOthers has a record that another replica has settled since it was read.
type settledByOthers struct {
	Definitions

	record Stored
}

func (settledByOthers) Put(context.Context, string, Stored, uint64) (uint64, error) {
	return 0, sluice.Errorf(sluice.Conflict, "another revision is stored")
}

func (d settledByOthers) Get(context.Context, string) (Stored, uint64, error) {
	return d.record, d.record.Revision, nil
}

// A mirror that another replica settles meanwhile is created.
func TestKeeper_SettlesOnce(t *testing.T) {
	t.Parallel()
	m := active("m", "a")
	m.Settled, m.Revision = false, 1
	for settled, code := range map[bool]sluice.Code{true: "", false: sluice.Conflict} {
		other := *m
		other.Settled, other.Revision = settled, 2
		e := New(Deps{Owns: owner{}, Definitions: settledByOthers{record: other}}, Options{})
		e.change("m", m)
		revision, err := e.Keeper().settle(t.Context(), m)
		require.Equal(t, code, sluice.CodeOf(err))
		require.Equal(t, settled, revision == 2)
	}
}

// slowSource has endless pages, each of which takes time.
type slowSource struct {
	Sources

	took time.Duration
	lost int // ranges in each page
}

func (s slowSource) Observe(_ context.Context, _ *sluice.Mirror, _ string, since uint64) (*sluice.ObservePage, error) {
	<-time.After(s.took)
	page := &sluice.ObservePage{ThroughSeq: since + pageItems, LastSeq: 1 << 40, HasMore: true, Items: make([]sluice.Change, pageItems)}
	for i := range s.lost {
		page.Lost = append(page.Lost, sluice.Gap{From: since + uint64(i), To: since + uint64(i)})
	}
	return page, nil
}

// A slow source has a turn of 30 seconds, and one response more. A fast one has as many pages as fit into
// a step, with their gaps.
func TestReader_EndsWithItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			took, turn  time.Duration
			lost, pages int
		}{
			{20 * time.Second, 40 * time.Second, 0, 2}, {0, 0, 0, 9}, {0, 0, 100, 4}, {0, 0, 440, 1},
		} {
			e := New(Deps{Sources: slowSource{took: c.took, lost: c.lost}}, Options{})
			begun := time.Now()
			r := reader{engine: e, mirror: &sluice.Mirror{}, until: begun.Add(turnTime)}
			b := r.read(t.Context(), 0)
			require.Len(t, b.pages, c.pages)
			require.True(t, b.more)
			require.NoError(t, b.err)
			require.EqualValues(t, c.pages*pageItems, b.through)
			require.Equal(t, c.turn, time.Since(begun))
			require.Equal(t, c.took == 0, r.inTime())
		}
	})
}

// S3-50: the wait is doubled with each failure up to an hour, however many there are and however long the interval is.
func TestBackoff_DoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{1: 20 * time.Second, 2: 40 * time.Second, 8: 2560 * time.Second, 9: time.Hour, 1000: time.Hour} {
		require.Equal(t, want, backoff(10*time.Second, failures))
	}
	for failures := range 100 {
		require.Equal(t, time.Hour, backoff(24*time.Hour, failures))
	}
}

// A sync of a mirror that was deleted meanwhile leaves no trace: the same pair can be created again.
func TestEngine_ForgetsADeletedMirror(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}, Definitions: settledByOthers{record: Stored{Gone: true}}}, Options{})
	m := active("m", "a")
	e.change("m", m)
	e.change("m", nil)
	gone := *m
	gone.Gone = true
	require.Equal(t, sluice.SubscriptionMissing, sluice.CodeOf(e.Sync(t.Context(), &gone)))
	require.Empty(t, e.edges)
}

// Until a mirror is settled, no caller can sync it.
func TestEngine_SyncsSettledMirrorsAlone(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}}, Options{})
	m := active("m", "a")
	m.Settled = false
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(e.Sync(t.Context(), m)))
}
