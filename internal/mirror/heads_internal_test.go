package mirror

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
	page := &sluice.ObservePage{Incarnation: "i", FirstSeq: 1, LastSeq: q.last, ThroughSeq: q.last, SinceID: "x"}
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
// caller that syncs, a mirror that is at another place, and one of another server get one of their own.
func TestReader_SharesThatThereIsNothingNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &quiet{last: 5}
		e := New(Deps{Sources: source, Namespaces: labels{label: sluice.Label{Level: sluice.LevelSecret}}}, Options{})
		reads := func(m *sluice.Mirror, since uint64, age time.Duration, times int) *sluice.ObservePage {
			t.Helper()
			page, err := reader{engine: e, mirror: m, age: age}.observe(t.Context(), since)
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
	})
}
