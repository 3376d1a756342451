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
	var last sluice.Verification
	require.Eventuallyf(t, func() bool {
		storage, err := s.api.Storage(t.Context())
		require.NoError(t, err)
		last = storage.Verification
		_, missing := os.Stat(filepath.Join(s.dir, "missed.json"))
		return !last.EndedAt.IsZero() && os.IsNotExist(missing)
	}, patience, 10*time.Millisecond, "verification: %+v", &last)
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
	flipStored(t, s.dir, jsNames(t).EventsStream("default"), "marker-07", true)
	s = start(t, s.dir, nil)
	watch.Recovered()
	_, err := s.api.ResumeSubscription(t.Context(), "paused")
	require.NoError(t, err)
	s.verified(t)
	want := []sluice.DeadLetter{{
		Subscription: "paused", Namespace: sluice.DefaultNamespace, Seq: seq, LastSeq: seq, Path: "/a/7", Reason: sluice.Unreadable,
		LastError: fmt.Sprintf("%s: messages %d to %d cannot be read", jsNames(t).EventsStream("default"), seq, seq),
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
	require.NotEmpty(t, s.damageOf(t, jsNames(t).EventsStream("default")))
	s.verified(t)
	require.Empty(t, s.letters(t, "paused"), "what was discarded does not come again, also if its damage was settled and found again")
}

// Issue 13, F5: of a log that was cut, a subscription gets one dead letter for all that it had not got.
func TestMissed_CutLogIsOneDeadLetter(t *testing.T) {
	t.Parallel()
	s, seq := lossy(t)
	last := s.lastSeq(t)
	s.stop(t)
	flipStored(t, s.dir, jsNames(t).EventsStream("default"), "marker-07", false)
	s = start(t, s.dir, nil)
	s.verified(t)
	found := s.letters(t, "paused")
	require.Len(t, found, 1)
	require.Equal(t, sluice.Unreadable, found[0].Reason)
	require.Equal(t, [2]uint64{seq, last}, [2]uint64{found[0].Seq, found[0].LastSeq})
	require.Empty(t, s.letters(t, "other"))
	require.Empty(t, s.letters(t, "got"))
}

// Issue 13, F5: readers are told of an event that cannot be read: a feed by a frame, also one that has passed it when it is found, a page
// of events and a stream by its range. Other paths and other readers are not.
func TestMissed_ReadersAreToldOfTheGap(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for i := range 20 {
		s.tells(t, fmt.Sprintf("marker-%02d", i))
	}
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/b/1","type":"t"}`)
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/a/1"})
	require.NoError(t, err)
	require.Len(t, page.Items, 20)
	before, seq := page.Items[6].Seq, page.Items[7].Seq
	require.Empty(t, page.Unreadable)
	s.stop(t)
	flipStored(t, s.dir, jsNames(t).EventsStream("default"), "marker-07", true)
	s = start(t, s.dir, nil)
	at := strconv.FormatUint(before, 10)
	early, _ := s.feed(t, "pattern=/a/*&since="+at) // the gap may be known already
	s.damageOf(t, jsNames(t).EventsStream("default"))

	late, _ := s.feed(t, "pattern=/a/*&since="+at)
	for name, r := range map[string]*feedReader{"early": early, "late": late} {
		var told []shown
		for events := 0; events < 12; {
			f := r.frame()
			if f.Event != nil {
				events++
				continue
			}
			told = append(told, f)
			require.Zero(t, map[string]int{"late": events}[name], "before what follows")
		}
		if len(told) == 0 { // it is told when the feed is next idle
			told = append(told, r.frame())
		}
		require.Len(t, told, 1, name)
		require.NotNil(t, told[0].Lagged, name)
		require.Equal(t, &sluice.Gap{From: seq, To: seq}, told[0].Lagged.Unreadable, name)
		require.Equal(t, [2]uint64{1, seq + 1}, [2]uint64{uint64(told[0].Lagged.Missed), told[0].Lagged.Oldest}, name)
	}
	other, _ := s.feed(t, "pattern=/b/*&since="+at)
	require.NotNil(t, other.frame().Event, "of another path")
	behind, _ := s.feed(t, fmt.Sprintf("pattern=/a/*&since=%d", seq))
	require.NotNil(t, behind.frame().Event, "behind the gap")

	events := func(q client.EventsQuery) []sluice.Gap {
		page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, q)
		require.NoError(t, err)
		return page.Unreadable
	}
	require.Equal(t, []sluice.Gap{{From: seq, To: seq}}, events(client.EventsQuery{Since: at}))
	require.Empty(t, events(client.EventsQuery{Since: at, Pattern: "/b/*"}))
	require.Empty(t, events(client.EventsQuery{Since: strconv.FormatUint(seq, 10)}))
	require.Empty(t, events(client.EventsQuery{Until: at}))
	require.Empty(t, events(client.EventsQuery{Limit: 3}))

	gap := fmt.Sprintf("%d-%d", seq, seq)
	read := func(query string) reply {
		return s.must(t, http.StatusOK, "GET /streams/default/a/1?offset="+query, "")
	}
	whole := read("-1")
	require.Equal(t, gap, whole.header.Get("Stream-Unreadable"))
	require.Empty(t, read(fmt.Sprintf("%016d_%016d", seq, 0)).header.Get("Stream-Unreadable"))
	require.Equal(t, gap, read("-1&live=long-poll").header.Get("Stream-Unreadable"))
	require.Empty(t, s.must(t, http.StatusOK, "GET /streams/default/b/1?offset=-1", "").header.Get("Stream-Unreadable"))
}
