package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A status counts everything that waits, also what lies behind the heads of parked lanes.
func TestStatus_CountsWaitingEvents(t *testing.T) {
	t.Parallel()
	for ordering, want := range map[string]uint64{"path": 6, "all": 9, "none": 1} {
		t.Run(ordering, func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir(), nil)
			hook := hooktest.New(t, status(http.StatusInternalServerError, refusing("bad-1").refuses))
			sub := subscribe(t, s.api, wish(hook.URL, `"policy":{"ordering":"`+ordering+`","retry":{"preset":"custom","steps":["1h"],"max_attempts":5}}`))
			put(t, s.api, "/bad", 1, 6)
			put(t, s.api, "/good", 1, 3)
			st := statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 && st.Backlog == 0 })
			require.Equal(t, want, st.Undelivered)
			require.NotNil(t, st.NextAttemptAt)
			require.WithinRange(t, *st.NextAttemptAt, time.Now(), time.Now().Add(2*time.Hour))

			s.must(t, http.StatusOK, "POST /v1/subscriptions/"+sub.ID+"/pause", "")
			put(t, s.api, "/bad", 7, 9)
			st = statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.Backlog >= 3 })
			require.Equal(t, want+3, st.Undelivered, "what was not handed out yet is counted once")
		})
	}
}
