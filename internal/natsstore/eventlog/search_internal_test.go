package eventlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// searched returns a store that looks for ids among a few messages.
func searched(tb testing.TB, most uint64) *Log {
	tb.Helper()
	server := natstest.New(tb)
	core, err := natsstore.Connect(tb.Context(), natsstore.Options{Conn: server})
	require.NoError(tb, err)
	tb.Cleanup(core.Close)
	l := New(tb.Context(), core)
	l.searched = most
	require.NoError(tb, core.Provision(tb.Context()))
	return l
}

// send stores an event whose id JetStream does not know.
func send(t *testing.T, l *Log, id string) {
	t.Helper()
	_, err := l.core.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: "events.default.a", Header: nats.Header{"ce-id": {id}}})
	require.NoError(t, err)
}

// A reader may ask for ids that do not exist: the server's reads for that are bounded, and reported.
func TestSearch_ReadsABoundedPartOfTheLog(t *testing.T) {
	t.Parallel()
	l := searched(t, 40)
	var v7 string
	for n := range 400 {
		id := fmt.Sprint("e", n+1)
		if n == 199 {
			now := time.Now().UnixMilli()
			require.Eventually(t, func() bool { return time.Now().UnixMilli() > now }, time.Minute, time.Millisecond)
			h := fmt.Sprintf("%012x", time.Now().UnixMilli())
			v7 = h[:8] + "-" + h[8:] + "-7000-8000-000000000001"
			id = v7
		}
		send(t, l, id)
	}
	for id, seq := range map[string]uint64{"e400": 400, "e361": 361, v7: 200, "_default-7": 0, "e360": 0, "e1": 0, "none": 0} {
		e, err := l.EventByID(t.Context(), "default", id)
		if seq == 0 {
			require.Equal(t, sluice.NotFound, sluice.CodeOf(err), id)
			require.Contains(t, err.Error(), "use its sequence")
			continue
		}
		require.NoError(t, err, id)
		require.Equal(t, seq, e.Seq)
	}
	_, err := l.Resolve(t.Context(), "default", "e5")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	require.Contains(t, err.Error(), "use its sequence")
}

// A caller that must know whether an event was stored since a time finds it, however many came after it, and reads no other path.
func TestStoredSince_ReadsAPathSinceATime(t *testing.T) {
	t.Parallel()
	l := searched(t, 1)
	send(t, l, "before")
	stored := time.Now()
	require.Eventually(t, func() bool { return time.Now().After(stored) }, time.Minute, time.Millisecond)
	since := time.Now()
	send(t, l, "after")
	for n := range 100 {
		send(t, l, strconv.Itoa(n))
	}
	for _, c := range []struct {
		id    string
		path  sluice.Path
		since time.Time
		want  uint64
	}{
		{"after", "/a", since, 2},
		{"before", "/a", since, 0},
		{"before", "/a", since.Add(-time.Hour), 1},
		{"after", "/b", since, 0},
		{"none", "/a", time.Time{}, 0},
		{"after", "/a", time.Now().Add(time.Hour), 0},
	} {
		seq, err := l.StoredSince(t.Context(), &sluice.Event{Namespace: "default", Path: c.path, ID: c.id}, c.since)
		require.NoError(t, err)
		require.Equal(t, c.want, seq, "%+v", c)
	}
	_, err := l.StoredSince(t.Context(), &sluice.Event{Namespace: "none", Path: "/a", ID: "after"}, since)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	for range checksAtOnce {
		l.checks <- struct{}{}
	}
	_, err = l.StoredSince(t.Context(), &sluice.Event{Namespace: "default", Path: "/a", ID: "after"}, since)
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	e, err := l.EventByID(t.Context(), "default", "99")
	require.NoError(t, err, "others still search")
	require.Equal(t, uint64(102), e.Seq)
}

func TestSearch_ConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	l := searched(t, 10)
	send(t, l, "there")
	for range searchAtOnce {
		l.searches <- struct{}{}
	}
	_, err := l.EventByID(t.Context(), "default", "there")
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	info, err := l.core.EventsInfo(t.Context(), "default")
	require.NoError(t, err)
	_, err = l.search(ctx, "default", "there", info.State)
	require.ErrorIs(t, err, context.Canceled)
	<-l.searches
	e, err := l.EventByID(t.Context(), "default", "there")
	require.NoError(t, err)
	require.Equal(t, uint64(1), e.Seq)
}

func BenchmarkSearchForAnIDThatIsNotThere(b *testing.B) {
	l := searched(b, defaultSearch)
	for range defaultSearch {
		_, err := l.core.JetStream().PublishMsgAsync(&nats.Msg{Subject: fmt.Sprint("events.default.a", rand.N(1000)), Header: nats.Header{"ce-id": {"x"}}, Data: make([]byte, 256)})
		require.NoError(b, err)
	}
	<-l.core.JetStream().PublishAsyncComplete()
	for b.Loop() {
		_, err := l.EventByID(b.Context(), "default", "none")
		require.Equal(b, sluice.NotFound, sluice.CodeOf(err))
	}
}
