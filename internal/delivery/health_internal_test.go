package delivery

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decision 0008, "what is seen": no answer, a timeout, 5xx and 429 are trouble of the endpoint; another answer says that it
// works, and a request that could not be made says nothing.
func TestBreaker_CountsNoAnswer5xxAnd429(t *testing.T) {
	t.Parallel()
	failed := func(status int) *sluice.Attempt { return &sluice.Attempt{Outcome: sluice.Failed, Status: status} }
	for status, want := range map[int]outcomeClass{
		0: saidTrouble, http.StatusInternalServerError: saidTrouble, http.StatusServiceUnavailable: saidTrouble, 599: saidTrouble,
		http.StatusTooManyRequests: saidTrouble,
		http.StatusBadRequest:      saidWell, http.StatusNotFound: saidWell, http.StatusRequestTimeout: saidWell, 430: saidWell, 428: saidWell, 301: saidWell,
	} {
		require.Equal(t, want, classify(failed(status)), status)
	}
	require.Equal(t, saidWell, classify(&sluice.Attempt{Outcome: sluice.Delivered, Status: http.StatusOK}))
	require.Equal(t, saidNothing, classify(&sluice.Attempt{Outcome: sluice.Refused}))
	require.Equal(t, saidNothing, classify(nil))
}
