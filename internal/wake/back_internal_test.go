package wake

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// grows is a shelf whose log has another end at each reading.
type grows struct {
	*shelf

	ends []uint64
}

func (g *grows) End(context.Context, string) (uint64, error) {
	end := g.ends[0]
	g.ends = g.ends[1:]
	return end, nil
}

// Positions go back to the end of a log that lost its last messages, and only then.
func TestMoveBack_OnlyFromBeyondTheEnd(t *testing.T) {
	t.Parallel()
	at := func(state sluice.WakeState, since, own, other uint64) Consumer {
		return Consumer{Path: "/a", State: state, Since: since, Epoch: 2, WakeID: "w", Streams: []Position{{Path: "/a", Acked: own}, {Path: "/b", Acked: other}}}
	}
	for _, tt := range []struct {
		name       string
		give, want Consumer
		ends       []uint64
	}{
		{"at the end", at(sluice.WakeIdle, 5, 5, 5), at(sluice.WakeIdle, 5, 5, 5), []uint64{5}},
		{"acknowledged since the end was read", at(sluice.WakeIdle, 1, 9, 5), at(sluice.WakeIdle, 1, 9, 5), []uint64{5, 9}},
		{"beyond it", at(sluice.WakeIdle, 1, 10, 3), at(sluice.WakeIdle, 1, 0, 3), []uint64{5, 9}},
		{"beyond it in another stream", at(sluice.WakeIdle, 1, 2, 10), at(sluice.WakeIdle, 1, 2, 0), []uint64{5, 5}},
		{"live", at(sluice.WakeLive, 9, 9, 9), at(sluice.WakeLive, 7, 0, 0), []uint64{5, 7}},
		{"removed", at(sluice.WakeRemoved, 9, 4, 4), at(sluice.WakeRemoved, 0, 4, 4), []uint64{5, 5}},
		{"of an empty log", at(sluice.WakeIdle, 9, 9, 9), at(sluice.WakeIdle, 0, 0, 0), []uint64{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, s, sub := shelved()
			s.tails["/a"] = Tail{Start: max(tt.want.Since, 1) - 1} // it was deleted before the consumer began
			e.ports.Streams = &grows{s, tt.ends}
			tt.give.Of, tt.want.Of = incarnation(sub), incarnation(sub)
			if tt.give.State == sluice.WakeLive {
				tt.give.Due = e.opts.Now().UTC().Add(LiveFor)
				tt.want.Due = tt.give.Due
			}
			r := newRunner(t.Context(), e, sub)
			s.entry = Entry{tt.give, 1}
			r.observe(s.entry)
			require.NoError(t, r.moveBack(t.Context()))
			require.Equal(t, tt.want, s.entry.Consumer)
		})
	}
}
