package delivery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, "Tests that would not notice": the dead letter of a parked lane whose events aged out names all of them and no
// other: the first that is still there is delivered.
func TestExpire_NamesExactlyExpiredEvents(t *testing.T) { // S4-25, S4-45
	t.Parallel()
	w, op := newLookoutWorld(t, sluice.Policy{Window: 4})
	w.sub.Policy.Retry = steps(time.Hour, 3)
	w.endpoint.failing("e1", 1)
	proc := w.start(t)
	w.publish(t, "/a/p", "e1")
	eventually(t, "the lane is parked", func() bool { return parked(t, w) == 1 && inFlight(t, w) == 0 })
	for _, id := range []string{"e2", "e3", "e4"} {
		w.publish(t, "/a/p", id)
	}
	eventually(t, "the others wait behind it", func() bool { return w.status(t).AckFloor == 4 })
	proc.stop()
	op.purge("n", 4)
	dueNow(t, w)
	proc = w.start(t)
	defer proc.stop()
	eventually(t, "the last is there still", func() bool { return w.endpoint.delivered() == 1 })
	op.requireLost(w.sub, 1, 3)
	require.Len(t, op.letters(w.sub), 1)
}
