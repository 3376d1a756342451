package mirror

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-37: when the records come at a start, all mirrors are due but those that are suspended. Those that get
// bundles alone are not polled: they may be stale.
func TestEngine_SchedulesAllButSuspendedMirrors(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}}, Options{})
	set := time.Now()
	suspended, carried, keyed := active("suspended", "a"), active("carried", "a"), active("keyed", "a")
	suspended.State = sluice.Suspended
	carried.Source = "https://low.example/v1/namespaces/low"
	keyed.Source, keyed.CredentialAt = carried.Source, &set
	for _, m := range []*Stored{suspended, active("local", "a"), carried, keyed} {
		e.change(m.ID, m)
	}
	due := []string{}
	for _, j := range e.queue {
		due = append(due, j.record.ID)
		require.LessOrEqual(t, time.Until(j.due), time.Duration(0))
	}
	require.ElementsMatch(t, []string{"local", "carried", "keyed"}, due)
}

// silent is a source that never answers.
type silent struct{ Sources }

func (silent) Observe(ctx context.Context, _ *sluice.Mirror, _ string, _ uint64) (*sluice.ObservePage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// S3-42: a source has 30 seconds for a page.
func TestReader_GivesUpASilentSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New(Deps{Sources: silent{}}, Options{})
		begun := time.Now()
		b := reader{engine: e, mirror: &sluice.Mirror{}, until: begun.Add(time.Hour)}.read(t.Context(), 0)
		require.ErrorIs(t, b.err, context.DeadlineExceeded)
		require.Equal(t, 30*time.Second, time.Since(begun))
	})
}

// crowded is a source that sends more than was asked for.
type crowded struct {
	Sources

	items int
}

func (c crowded) Observe(_ context.Context, _ *sluice.Mirror, _ string, since uint64) (*sluice.ObservePage, error) {
	through := since + uint64(c.items)
	return &sluice.ObservePage{ThroughSeq: through, LastSeq: through, Items: make([]sluice.Change, c.items)}, nil
}

// S3-43: a page has a hundred changes at most, also if the source sends more.
func TestReader_RefusesAPageOfMore(t *testing.T) {
	t.Parallel()
	for items, code := range map[int]sluice.Code{100: "", 101: sluice.Unprocessable} {
		e := New(Deps{Sources: crowded{items: items}}, Options{})
		b := reader{engine: e, mirror: &sluice.Mirror{}, until: time.Now().Add(time.Hour)}.read(t.Context(), 0)
		require.Equal(t, code, sluice.CodeOf(b.err))
		require.Equal(t, code == "", len(b.pages) == 1)
	}
}
