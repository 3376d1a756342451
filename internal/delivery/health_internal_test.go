package delivery

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decision 0008, "what is seen": no answer, a timeout, 5xx and 429 are trouble of the endpoint; another answer says that it
// works, and a request that could not be made says nothing.
func TestBreaker_CountsNoAnswer5xxAnd429(t *testing.T) {
	t.Parallel()
	failed := func(status int) *sluice.Attempt { return &sluice.Attempt{Outcome: sluice.Failed, Status: status} }
	for status, want := range map[int]breaker.Outcome{
		0: breaker.Trouble, http.StatusInternalServerError: breaker.Trouble, http.StatusServiceUnavailable: breaker.Trouble, 599: breaker.Trouble,
		http.StatusTooManyRequests: breaker.Trouble,
		http.StatusBadRequest:      breaker.Well, http.StatusNotFound: breaker.Well, http.StatusRequestTimeout: breaker.Well, 430: breaker.Well, 428: breaker.Well, 301: breaker.Well,
	} {
		require.Equal(t, want, classify(failed(status)), status)
	}
	require.Equal(t, breaker.Well, classify(&sluice.Attempt{Outcome: sluice.Delivered, Status: http.StatusOK}))
	require.Equal(t, breaker.Nothing, classify(&sluice.Attempt{Outcome: sluice.Refused}))
	require.Equal(t, breaker.Nothing, classify(nil))
}

func TestBreaker_ResumesFromItsRecord(t *testing.T) {
	t.Parallel()
	now, is := time.Now(), breaker.Opened(time.Now(), time.Second)
	for range 3 {
		if _, at := is.Admits(now); !at.IsZero() {
			now = at
		}
		is = is.Began().Ended(breaker.Answer{Epoch: is.Epoch(), Lane: "a", Outcome: breaker.Trouble}, 64, now, 0.5)
	}
	r := &runner{dispatcher: dispatcher{breaker: is, sub: &sluice.Subscription{}}}
	b := breakerOf(r.health(now))
	require.Equal(t, sluice.BreakerOpen, b.State())
	require.True(t, b.ProbeAt().Equal(is.ProbeAt()))
	require.Equal(t, 16*time.Second, b.NextPause())
	require.True(t, breakerOf(model.Health{}).Closed())
	require.Equal(t, sluice.BreakerOpen, breakerOf(model.Health{Breaker: sluice.BreakerHalfOpen}).State())
}

// The position of a new subscription may take a moment to be known, on a busy machine several: only longer is a warning.
func TestRunner_UnknownPositionIsNoWarningAtFirst(t *testing.T) {
	t.Parallel()
	unknown := &openError{sluice.Errorf(sluice.Unavailable, "not known yet")}
	r := &runner{board: gaugeBoard{}}
	for range 3 {
		r.unopened(t.Context(), unknown)
		require.Equal(t, slog.LevelDebug, r.severity(unknown))
	}
	r.unopenedAt = r.unopenedAt.Add(-unopenedQuiet)
	require.Equal(t, slog.LevelWarn, r.severity(unknown))
	require.Equal(t, slog.LevelWarn, r.severity(&openError{errors.New("gone")}))
	r.unopened(t.Context(), nil)
	r.unopened(t.Context(), unknown)
	require.Equal(t, slog.LevelDebug, r.severity(unknown))
}
