package mirror

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// quiet is a source that has had one change, and counts its readers.
type quiet struct {
	Sources

	last  uint64
	reads int
}

func (q *quiet) Observe(_ context.Context, _ *sluice.Mirror, _ string, since uint64) (*sluice.ObservePage, error) {
	q.reads++
	page := &sluice.ObservePage{Incarnation: "i", FirstSeq: 1, LastSeq: q.last, ThroughSeq: q.last, SinceTag: "x"}
	if since < q.last {
		page.Items = []sluice.Change{{Op: sluice.OpWrite, Event: sluice.Event{Seq: q.last, ID: "x", Path: "/a"}}}
	}
	return page, nil
}

// labels has a label for every namespace.
type labels struct {
	Namespaces

	label sluice.Label
}

func (l labels) Label(string) sluice.Label { return l.label }

// Polls of one source share the answer that there is nothing new, while it is not older than a tenth of their interval. A
// caller that syncs, a mirror that is at another place or follows another log, and one of another server get one of their own.
func TestReader_SharesThatThereIsNothingNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &quiet{last: 5}
		e := New(Deps{Sources: source, Namespaces: labels{label: sluice.Label{Level: sluice.LevelSecret}}}, Options{})
		log := "i"
		reads := func(m *sluice.Mirror, since uint64, age time.Duration, times int) *sluice.ObservePage {
			t.Helper()
			page, err := reader{engine: e, mirror: m, age: age, log: log}.observe(t.Context(), since)
			require.NoError(t, err)
			require.Equal(t, times, source.reads)
			return page
		}
		low := &sluice.Mirror{Source: "low", PollInterval: sluice.Duration(time.Minute)}
		reads(low, 0, sharedAge(low), 1)
		<-time.After(6 * time.Second)
		page := reads(low, 5, sharedAge(low), 1)
		require.Equal(t, &sluice.ObservePage{Incarnation: "i", FirstSeq: 1, LastSeq: 5, ThroughSeq: 5, Label: sluice.Label{Level: sluice.LevelSecret}}, page, "with the label of now")
		reads(low, 4, sharedAge(low), 2)
		reads(low, 5, 0, 3)
		<-time.After(6*time.Second + time.Millisecond)
		source.last = 6
		require.Len(t, reads(low, 5, sharedAge(low), 4).Items, 1, "what came by any way is found")
		reads(&sluice.Mirror{Source: "other"}, 6, time.Minute, 5)
		far := &sluice.Mirror{Source: "https://low.example/v1/namespaces/low"}
		reads(far, 6, time.Minute, 6)
		reads(far, 6, time.Minute, 7)
		e.heads.forget("low")
		reads(low, 6, time.Minute, 8)
		for n, is := range []string{"", "j"} { // begun anew, or by another replica, after the log was replaced
			log = is
			reads(low, 6, time.Minute, 9+n)
		}
	})
}

// allowed lets every creator have its mirror, unless it does not.
type allowed struct{ model.Decision }

func (a *allowed) Holds(*sluice.Mirror) model.Decision { return a.Decision }

// A mirror whose source another one has just read to the end has had its turn, unless there is anything to do for it: then
// it gets a worker.
func TestEngine_PollsAQuietSourceOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		high, now := sluice.Label{Level: sluice.LevelSecret}, time.Now()
		at := Place{Incarnation: "i", Watermark: 5, Tag: "x", Revision: 7, Live: 1, Label: &high, stored: now}
		type world struct {
			engine *Engine
			job    *job
			gate   *allowed
			page   *sluice.ObservePage
		}
		for name, c := range map[string]struct {
			change func(w *world)
			polled bool
		}{
			"nothing new":         {func(*world) {}, true},
			"not read":            {func(w *world) { w.engine.heads.forget("low") }, false},
			"read too long ago":   {func(w *world) { w.job.record.PollInterval = sluice.Duration(time.Second) }, false},
			"a new event":         {func(w *world) { w.page.LastSeq++ }, false},
			"another log":         {func(w *world) { w.page.Incarnation = "j" }, false},
			"a cycle":             {func(w *world) { w.page.Passed = []sluice.Hop{{Incarnation: "own"}} }, false},
			"a label":             {func(w *world) { w.engine.deps.Namespaces = raised{"low"} }, false},
			"no access":           {func(w *world) { w.gate.Decision = model.Lost }, false},
			"a failure":           {func(w *world) { w.job.failures = 1 }, false},
			"a system event":      {func(w *world) { w.job.record.Untold = []Said{{}} }, false},
			"an unknown place":    {func(w *world) { w.job.place = Place{} }, false},
			"an old stored place": {func(w *world) { w.job.place.stored = now.Add(-placeEvery) }, false},
			"another server":      {func(w *world) { w.job.record.Source = "https://low.example/v1/namespaces/low" }, false},
			"deleted":             {func(w *world) { w.job.record.Gone = true }, false},
			"its log is unknown":  {func(w *world) { delete(w.engine.own, "a") }, false},
		} {
			gate := &allowed{model.Pass}
			e := New(Deps{Owns: owner{}, Gate: gate, Namespaces: labels{label: high}}, Options{Jitter: func() float64 { return 0.5 }})
			m := active("m", "a")
			m.Source = "low"
			e.change("m", m)
			e.own["a"] = incarnation{"own", now}
			w := world{e, e.mirrors["m"], gate, &sluice.ObservePage{Incarnation: "i", FirstSeq: 1, LastSeq: 5, ThroughSeq: 5}}
			w.job.place = at
			e.heads.note("low", w.page, now.Add(-time.Second))
			c.change(&w)
			if w.page.LastSeq != 5 || w.page.Incarnation != "i" || w.page.Passed != nil {
				e.heads.note("low", w.page, now.Add(-time.Second))
			}
			require.Equal(t, c.polled, e.polled(w.job, now), name)
			if c.polled {
				require.Equal(t, now.UTC(), w.job.seen.SyncedAt)
				require.Equal(t, now.UTC(), w.job.place.CaughtUpAt)
				require.Equal(t, now.Add(time.Minute), w.job.due)
				require.Len(t, e.queue, 1)
				continue
			}
			require.True(t, w.job.seen.SyncedAt.IsZero(), name)
		}
	})
}

// raised is a namespace whose label nothing dominates.
type raised struct{ name string }

func (r raised) Label(namespace string) sluice.Label {
	if namespace == r.name {
		return sluice.Label{Level: sluice.LevelTopSecret}
	}
	return sluice.Label{}
}

func (raised) Incarnation(context.Context, string) (string, error) { return "", nil }
