package delivery_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// shift makes the only parked lane's record what a clock would have written that is so far
// ahead of ours.
func (o operator) shift(lane string, ahead time.Duration) {
	kv, err := o.js.KeyValue(o.t.Context(), streams.Lanes)
	require.NoError(o.t, err)
	entry, err := kv.Get(o.t.Context(), lane)
	require.NoError(o.t, err)
	var record map[string]any
	require.NoError(o.t, json.Unmarshal(entry.Value(), &record))
	for _, name := range []string{"next_at", "at", "first_failed_at"} {
		text, ok := record[name].(string)
		require.True(o.t, ok, name)
		at, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(o.t, err)
		record[name] = at.Add(ahead)
	}
	data, err := json.Marshal(record)
	require.NoError(o.t, err)
	_, err = kv.Update(o.t.Context(), lane, data, entry.Revision())
	require.NoError(o.t, err)
}

// Issue 3, "Faults": what a record says about the time is of the clock that wrote it. If the
// clock was set back since, the lane waits once more for as long as it was to wait, and not for
// as long as the clock was set back; if it was set forward, the retry comes early.
func TestClock_SetBackWaitsOnceMoreAtMost(t *testing.T) { // S4-52, C01
	t.Parallel()
	for _, tt := range []struct {
		id    string
		ahead time.Duration
	}{
		{"clock-back", time.Hour},
		{"clock-ahead", -time.Hour},
	} {
		t.Run(tt.id, func(t *testing.T) {
			t.Parallel()
			server := natstest.New(t)
			w := newWorld(t, connectTo(t, server), "n", sluice.Policy{Retry: sluice.Retry{
				Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(10 * time.Second)}, MaxAttempts: 10,
			}})
			w.total = 2
			w.endpoint.fails["late"] = 1
			w.publish(t, "/a/1", "late")
			w.publish(t, "/a/1", "behind")
			proc := w.start(t)
			var parked []model.ParkedEntry
			require.True(t, within(patience, func() (ok bool) {
				var err error
				parked, err = w.deliveries.Parked(t.Context(), w.sub)
				return err == nil && len(parked) == 1
			}))
			proc.crash()
			require.Contains(t, parked[0].NextAt.String(), " m=", "what was read waits by the clock that does not jump")
			newOperator(t, server).shift(parked[0].Lane, tt.ahead)

			watch := faulttest.Begin(t, tt.id)
			watch.Recovered()
			proc = w.start(t)
			defer proc.stop()
			require.True(t, within(2*time.Minute, func() bool { return w.endpoint.delivered() == w.total }))
			t.Log(watch.Resumed())
			watch.End(w.compare(sluice.OrderByPath), "the retry was due in a second")
		})
	}
}

// steadyLanes notes of which clock the times are that lanes wait for.
type steadyLanes struct {
	delivery.Lanes

	steady chan bool
}

func (l steadyLanes) Park(ctx context.Context, sub *sluice.Subscription, p sluice.Parked, revision uint64) (uint64, error) {
	l.steady <- strings.Contains(p.NextAt.String(), " m=") // as package time says it
	return l.Lanes.Park(ctx, sub, p, revision)
}

// Issue 3, "Faults": while the process runs, a lane's next attempt is a time of the clock that
// never jumps: setting the machine's clock moves no retry.
func TestClock_RunningProcessUsesTheMonotonicOne(t *testing.T) { // S4-52
	t.Parallel()
	watch := faulttest.Begin(t, "clock-running")
	w := newWorld(t, connect(t), "n", sluice.Policy{Retry: quickRetries})
	w.total = 1
	w.endpoint.fails["late"] = 3 // a live head, and a parked one
	w.publish(t, "/a/1", "late")
	steady := make(chan bool, 10)
	w.ports = func(p *delivery.Deps) { p.Lanes = steadyLanes{p.Lanes, steady} }
	proc := w.start(t)
	require.True(t, within(patience, func() bool { return w.endpoint.delivered() == 1 }))
	proc.stop()
	require.GreaterOrEqual(t, len(steady), 3)
	for range len(steady) {
		require.True(t, <-steady)
	}
	watch.End(w.compare(sluice.OrderByPath), "the clock itself is not set by the test")
}
