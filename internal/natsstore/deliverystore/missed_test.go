package deliverystore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func (g graveyard) buryGap(t *testing.T, from, to uint64) bool {
	t.Helper()
	told, err := g.log.BuryGap(t.Context(), g.sub, sluice.DeadLetter{
		Subscription: g.sub.ID, Namespace: g.sub.Namespace, Seq: from, LastSeq: to, Reason: sluice.Unreadable, At: time.Now().UTC(),
	})
	require.NoError(t, err)
	return told
}

// Issue 13, F5: of a gap, what was attempted is no loss; and it is told once, also if its letter was discarded.
func TestBuryGap_AnnouncesUnattemptedEventsOnce(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	g := graveyard{store, runLog(t, store), &sluice.Subscription{ID: "s", Namespace: "default", Lifecycle: sluice.Lifecycle{CreatedAt: time.Now().Add(-time.Hour)}}}
	done := make(chan error, 1)
	for _, seq := range []uint64{4, 5, 8} {
		a := sluice.Attempt{Subscription: "s", EventID: "e", Seq: seq, Number: 1, StartedAt: time.Now(), Verdict: sluice.Verdict{Settled: true}}
		g.log.Record(&a, g.sub.Namespace, func(err error) { done <- err })
		require.NoError(t, <-done)
	}
	probe := sluice.Attempt{Subscription: "s", EventID: "e", Seq: 20, Number: 1, StartedAt: time.Now(), Probe: true}
	g.log.Record(&probe, g.sub.Namespace, func(err error) { done <- err })
	require.NoError(t, <-done)
	require.False(t, g.buryGap(t, 4, 5))
	require.Zero(t, g.count(t))
	require.True(t, g.buryGap(t, 20, 20), "a failed probe parks no lane that would tell of it")
	require.NoError(t, g.Discard(t.Context(), g.sub, "20"))
	require.True(t, g.buryGap(t, 4, 8))
	letters, err := g.DeadLetters(t.Context(), g.sub, 1, 100, 100)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, [2]uint64{6, 7}, [2]uint64{letters[0].Seq, letters[0].LastSeq})
	require.False(t, letters[0].Redrivable())
	can, err := g.Redrivable(t.Context(), g.sub)
	require.NoError(t, err)
	require.Equal(t, 1, can.Not)

	require.NoError(t, g.Discard(t.Context(), g.sub, "6"))
	require.False(t, g.buryGap(t, 4, 8))
	require.False(t, g.buryGap(t, 6, 7))
	require.Zero(t, g.count(t))
	g.sub.CreatedAt = time.Now()
	require.True(t, g.buryGap(t, 4, 8), "a later subscription of the same id has its own")
	require.EqualValues(t, 1, g.count(t))
}

// Issue 13, F5: a gap is one dead letter, however long, and one that a look made in its place gives way.
func TestBuryGap_MakesOneLetter(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	expired := g.letter(7, "")
	expired.EventID, expired.Event, expired.Reason = "", nil, sluice.Expired
	g.bury(t, expired)
	require.True(t, g.buryGap(t, 7, 2_000_000))
	letters, err := g.DeadLetters(t.Context(), g.sub, 1, 100, 100)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, sluice.Unreadable, letters[0].Reason)
	require.EqualValues(t, 2_000_000, letters[0].LastSeq)
}

// Issue 13, F5: how far a subscription has come is what its lookout says, and no further than the head of its parked lanes.
func TestAcknowledged_EndsBeforeParkedLanes(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	kv, err := natstest.JetStream(t, server).KeyValue(t.Context(), streams.Lanes)
	require.NoError(t, err)
	began := time.Now().UTC().Truncate(time.Second)
	since := `"since":"` + began.Format(time.RFC3339) + `"`
	for key, record := range map[string]string{
		"=lookout.idle":    `{` + since + `,"marks":[{"floor":5,"seen":9}]}`,
		"=lookout.open":    `{` + since + `,"marks":[{"floor":3,"open":4,"next":8,"seen":7}]}`,
		"=lookout.waits":   `{` + since + `,"marks":[{"floor":3,"next":8,"seen":2}]}`,
		"=lookout.two":     `{` + since + `,"marks":[{"floor":20},{"floor":6}]}`,
		"=lookout.parked":  `{` + since + `,"marks":[{"floor":30}]}`,
		"parked.p.a":       `{` + since + `,"lane":"parked.p.a","from_seq":12}`,
		"=lookout.another": `{` + since + `,"marks":[{"floor":30}]}`,
		"another.p.a":      `{"since":"2020-01-01T00:00:00Z","lane":"another.p.a","from_seq":12}`,
		"=lookout.new":     `{` + since + `,"marks":null}`,
		"=health.idle":     `{}`,
	} {
		_, err := kv.Put(t.Context(), key, []byte(record))
		require.NoError(t, err)
	}
	had, err := store.Had(t.Context())
	require.NoError(t, err)
	want := map[string]deliverystore.Had{}
	for id, seq := range map[string]uint64{"idle": 9, "open": 3, "waits": 7, "two": 6, "parked": 11, "another": 30} {
		want[id] = deliverystore.Had{Since: began, Seq: seq}
	}
	require.Equal(t, want, had)
}
