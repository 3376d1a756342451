package watch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// What it costs to look at a reading, with a condition and as many paths as are remembered.
func BenchmarkStep(b *testing.B) {
	matcher, err := filter.Compile(sluice.Filter{CEL: "event.data.celsius > 30"})
	require.NoError(b, err)
	s, err := watch.NewState(watch.Kept{}, watch.DefaultPaths)
	require.NoError(b, err)
	r := &watch.Rule{Most: 1 << 30, Condition: matcher.Match}
	events := make([]sluice.Event, 2*watch.DefaultPaths)
	for i := range events {
		events[i] = sluice.Event{Path: sluice.Path(fmt.Sprintf("/sensors/%d", i/2)), Type: "reading", Stored: time.Now(), Data: fmt.Appendf(nil, `{"celsius":%d}`, 20+20*(i%2))}
	}
	var verdicts []watch.Verdict
	b.ReportAllocs()
	for seq := uint64(1); b.Loop(); seq++ {
		ev := &events[int(seq)%len(events)]
		ev.Seq = seq
		verdicts = s.Step(r, ev, verdicts[:0])
	}
}
