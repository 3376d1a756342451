package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/wake"
)

// notice reads a notice.
func notice(t *testing.T, r hooktest.Request) wake.Notice {
	t.Helper()
	var n wake.Notice
	require.NoError(t, json.Unmarshal(r.Body, &n), "%s", r.Body)
	return n
}

// One event or many wake a consumer once; what comes after it was done wakes it again (S1-28, S1-59).
func TestWake_StreamWithNewsWakesItsConsumer(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Body: `{"done":true}`} })
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"agents","mode":"wake","pattern":"/agents/*","endpoint":{"url":"`+hook.URL+`"}}`)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/agents/one", "", text()...)
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/agents/one", "first", text()...)
	n := notice(t, hook.Wait(1)[0])
	require.Equal(t, "agents:%2Fagents%2Fone", n.ConsumerID)
	require.EqualValues(t, 1, n.Epoch)
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/agents/one", "second", text()...)
	again := notice(t, hook.Wait(2)[1])
	require.EqualValues(t, 2, again.Epoch)
	require.NotEqual(t, n.WakeID, again.WakeID)
	t.Logf("%+v", again)
}
