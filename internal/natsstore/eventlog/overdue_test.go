package eventlog_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Attack 7: what a publisher says of its event's lifetime does not outlive the namespace's retention. Events
// are deleted, records of streams are not, and nothing that retention keeps is.
func TestOverdue_TTLDoesNotOutliveMaxAge(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	for name, age := range map[string]time.Duration{"short": time.Second, "long": time.Hour} {
		_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: name, Retention: sluice.Retention{MaxAge: sluice.Duration(age)}})
		require.NoError(t, err)
		for i, subject := range []string{"durable." + name + ".s", "events." + name + ".a", "events." + name + ".b"} {
			_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Msg-Id": {strconv.Itoa(i)}, "Nats-TTL": {"never"}}})
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool {
		require.NoError(t, store.SweepOverdueOnce(t.Context(), 0))
		_, err := store.Event(t.Context(), "short", 3)
		return sluice.CodeOf(err) == sluice.NotFound
	}, time.Minute, 50*time.Millisecond)
	short, err := js.Stream(t.Context(), "EVENTS_short")
	require.NoError(t, err)
	require.Equal(t, uint64(1), short.CachedInfo().State.Msgs, "the record stays")
	_, err = store.Event(t.Context(), "short", 2)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	for seq := range uint64(2) {
		_, err = store.Event(t.Context(), "long", seq+2)
		require.NoError(t, err)
	}
}
