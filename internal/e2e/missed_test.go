package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// letters returns a subscription's dead letters, without when they were made.
func (s *running) letters(t *testing.T, id string) []sluice.DeadLetter {
	t.Helper()
	page, err := s.api.DeadLetters(t.Context(), id, client.DeadLettersQuery{})
	require.NoError(t, err)
	var all []sluice.DeadLetter
	for _, d := range page.Items {
		require.False(t, d.Redrivable)
		d.At = time.Time{}
		all = append(all, d.DeadLetter)
	}
	return all
}

// verified waits until everything that is stored was read, and the subscriptions were told what came of it.
func (s *running) verified(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		storage, err := s.api.Storage(t.Context())
		require.NoError(t, err)
		_, missing := os.Stat(filepath.Join(s.dir, "missed.json"))
		return !storage.Verification.EndedAt.IsZero() && os.IsNotExist(missing)
	}, patience, 10*time.Millisecond)
}

// lossy is a server with 20 events in a log, that of /a/7 with the text marker-07, and subscriptions: "got" has all of them, "paused" has
// got the first five, "elsewhere" is of another path, and "other" of another namespace.
func lossy(t *testing.T) (*running, uint64) {
	t.Helper()
	hook := hooktest.New(t, nil)
	s := start(t, t.TempDir(), nil)
	put := func(id, namespace, pattern string) {
		_, _, err := s.api.PutSubscription(t.Context(), id, map[string]any{
			"namespace": namespace, "pattern": pattern, "endpoint": map[string]string{"url": hook.URL + "/" + id},
		})
		require.NoError(t, err)
	}
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/other", "{}")
	put("got", sluice.DefaultNamespace, "/a/**")
	put("paused", sluice.DefaultNamespace, "/a/**")
	put("elsewhere", sluice.DefaultNamespace, "/b/**")
	put("other", "other", "/**")
	publish := func(i int) {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"path":"/a/%d","type":"t","data":"marker-%02d"}`, i, i))
	}
	for i := range 5 {
		publish(i)
	}
	hook.Wait(10)
	_, err := s.api.PauseSubscription(t.Context(), "paused")
	require.NoError(t, err)
	_, err = s.api.PauseSubscription(t.Context(), "elsewhere")
	require.NoError(t, err)
	for i := 5; i < 20; i++ {
		publish(i)
	}
	hook.Wait(25)
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/a/7"})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	return s, page.Items[0].Seq
}

// Issue 13, F5: an event that cannot be read any more is one dead letter for the subscription that had not got it, and none for others,
// however often the server starts.
func TestMissed_UnreadableEventIsADeadLetter(t *testing.T) {
	t.Parallel()
	s, seq := lossy(t)
	watch := faulttest.Begin(t, "event-unreadable")
	s.stop(t)
	flipStored(t, s.dir, "EVENTS_default", "marker-07", true)
	s = start(t, s.dir, nil)
	watch.Recovered()
	_, err := s.api.ResumeSubscription(t.Context(), "paused")
	require.NoError(t, err)
	s.verified(t)
	want := []sluice.DeadLetter{{
		Subscription: "paused", Namespace: sluice.DefaultNamespace, Seq: seq, LastSeq: seq, Path: "/a/7", Reason: sluice.Unreadable,
		LastError: fmt.Sprintf("EVENTS_default: messages %d to %d cannot be read", seq, seq),
	}}
	require.Equal(t, want, s.letters(t, "paused"))
	for _, id := range []string{"got", "elsewhere", "other"} {
		require.Empty(t, s.letters(t, id), id)
	}
	_, err = s.api.Redrive(t.Context(), "paused", client.RedriveSpec{All: true})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	require.ErrorContains(t, err, "unreadable")
	watch.End(faulttest.Arrived{Events: 19}, "one dead letter for the subscription that had not got the event; none for one that had, of another path, or of another namespace")

	s.stop(t)
	s = start(t, s.dir, nil)
	s.verified(t)
	require.Equal(t, want, s.letters(t, "paused"), "it is told once")
	require.NoError(t, s.api.DiscardDeadLetter(t.Context(), "paused", strconv.FormatUint(seq, 10)))
	require.NoError(t, s.api.ForgetDamage(t.Context()))
	s.stop(t)
	s = start(t, s.dir, nil)
	require.NotEmpty(t, s.damageOf(t, "EVENTS_default"))
	s.verified(t)
	require.Empty(t, s.letters(t, "paused"), "what was discarded does not come again, also if its damage was settled and found again")
}

// Issue 13, F5: of a log that was cut, a subscription gets one dead letter for all that it had not got.
func TestMissed_CutLogIsOneDeadLetter(t *testing.T) {
	t.Parallel()
	s, seq := lossy(t)
	last := s.lastSeq(t)
	s.stop(t)
	flipStored(t, s.dir, "EVENTS_default", "marker-07", false)
	s = start(t, s.dir, nil)
	s.verified(t)
	found := s.letters(t, "paused")
	require.Len(t, found, 1)
	require.Equal(t, sluice.Unreadable, found[0].Reason)
	require.Equal(t, [2]uint64{seq, last}, [2]uint64{found[0].Seq, found[0].LastSeq})
	require.Empty(t, s.letters(t, "other"))
	require.Empty(t, s.letters(t, "got"))
}
