package wake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Any callback, to any address: it is refused with one of S1's codes and changes nothing, or it does
// what Step allows, and never acknowledges what is not there. A consumer's id comes back from what it was taken for.
func FuzzParseCallback(f *testing.F) {
	for _, body := range []string{
		`{"epoch":3}`, `{"epoch":3,"wake_id":"w3","acks":[{"path":"/agents/a","offset":"0000000000000000_0000000000000012"}],"done":true}`,
		`{"epoch":3,"subscribe":["/a","/a","/b/%20"],"unsubscribe":["/agents/a"]}`, `{"epoch":3,"acks":[{"path":"/agents/a","offset":"-1"}]}`,
		`{"epoch":1e0}`, `{"epoch":3,"acks":null}`, `{"epoch":3} {}`, `[`, ``, "{\"epoch\":3,\"subscribe\":[\"/\\u0000\"]}",
	} {
		f.Add("agents:%2Fagents%2Fa", []byte(body))
	}
	for _, id := range []string{"", ":", "a:", "a:%2F", "a:%2f%2f", "a:%252F", "a:/x", "a:b:%2Fx", "*:%2F%3E", "a:%zz"} {
		f.Add(id, []byte(`{"epoch":3}`))
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rules := wake.Rules{Retry: sluice.Retry{Preset: sluice.PresetPersistent}, NewWakeID: func() string { return "w4" }, Random: func() float64 { return 0 }}
	f.Fuzz(func(t *testing.T, id string, body []byte) {
		if subscription, path, ok := model.ParseWakeConsumerID(id); ok {
			again, same, ok := model.ParseWakeConsumerID(model.WakeConsumerID(subscription, path))
			require.True(t, ok)
			require.Equal(t, []any{subscription, path}, []any{again, same})
		}
		cb, err := wake.ParseCallback(body, durable.ParseOffset)
		if err != nil {
			require.Equal(t, sluice.WakeInvalid, sluice.CodeOf(err))
			return
		}
		require.LessOrEqual(t, max(len(cb.Acks), len(cb.Subscribe), len(cb.Unsubscribe)), wake.MaxStreams)
		before := wake.NewConsumer("/agents/a", "of", 1, 10)
		before.State, before.Epoch, before.WakeID, before.Due = sluice.WakeLive, 3, "w3", now.Add(time.Second)
		tails := wake.Tails{"/agents/a": {Seq: 12}}
		after, err := rules.Step(before, wake.Input{Tails: tails, Callback: &cb}, now)
		if err != nil {
			require.Contains(t, []sluice.Code{sluice.WakeInvalid, sluice.WakeStale, sluice.WakeTaken, sluice.WakeOffset}, sluice.CodeOf(err))
			require.Equal(t, before, after)
			return
		}
		require.LessOrEqual(t, len(after.Streams), wake.MaxStreams)
		seen := map[sluice.Path]bool{}
		for _, p := range after.Streams {
			require.False(t, seen[p.Path], "twice: %s", p.Path)
			seen[p.Path] = true
			_, err := sluice.ParsePath(string(p.Path))
			require.NoError(t, err)
			require.LessOrEqual(t, p.Acked, tails[p.Path].Seq)
		}
	})
}
