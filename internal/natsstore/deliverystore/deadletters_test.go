package deliverystore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// graveyard is a store with the dead letters of a subscription.
type graveyard struct {
	rooms

	log *deliverystore.AttemptLog
	sub *sluice.Subscription
}

func newGraveyard(t *testing.T) graveyard {
	t.Helper()
	store, _ := provisioned(t)
	log, err := store.AttemptLog()
	require.NoError(t, err)
	return graveyard{store, log, &sluice.Subscription{ID: "s", Namespace: "default", Lifecycle: sluice.Lifecycle{CreatedAt: time.Now().Add(-time.Hour)}}}
}

// letter returns the dead letter of an event at a path.
func (g graveyard) letter(seq uint64, path sluice.Path) sluice.DeadLetter {
	id := fmt.Sprintf("e-%d", seq)
	return sluice.DeadLetter{
		Subscription: g.sub.ID, Namespace: g.sub.Namespace, EventID: id, Seq: seq, Path: path, Attempts: 3, Reason: sluice.Exhausted,
		LastError: "status 500", LastStatus: 500, FirstFailedAt: time.Now().Add(-time.Minute).UTC(), At: time.Now().UTC(),
		Event: &sluice.Event{Namespace: g.sub.Namespace, ID: id, Seq: seq, Path: path, Type: "t", Source: "/s", Time: time.Now().UTC(), Data: []byte(`{ "n": 1 }`)},
	}
}

func (g graveyard) bury(t *testing.T, letters ...sluice.DeadLetter) {
	t.Helper()
	for _, d := range letters {
		require.NoError(t, g.log.Bury(t.Context(), d))
	}
}

func (g graveyard) list(t *testing.T, q model.DeadLetterQuery) (ids []string, next uint64) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	letters, next, err := g.ListDeadLetters(t.Context(), g.sub, q)
	require.NoError(t, err)
	for _, d := range letters {
		ids = append(ids, d.EventID)
	}
	return ids, next
}

func (g graveyard) count(t *testing.T) uint64 {
	t.Helper()
	n, err := g.CountDeadLetters(t.Context(), g.sub)
	require.NoError(t, err)
	return n
}

// S4-53, S4-84…87: a dead letter is read as it was written, its event's data byte for byte.
func TestDeadLetter_RoundTrips(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	want := g.letter(7, "/a")
	g.bury(t, want)
	got, err := g.DeadLetter(t.Context(), g.sub, "e-7")
	require.NoError(t, err)
	require.NotZero(t, got.LetterSeq)
	require.Equal(t, `{ "n": 1 }`, string(got.Event.Data))
	want.Event.ContentType = "application/json"
	require.Equal(t, want, got.DeadLetter)
	require.True(t, got.Redrivable())
	_, err = g.DeadLetter(t.Context(), g.sub, "e-8")
	requireCode(t, sluice.NotFound, err)
}

// S4-53: dead letters are listed newest first, page by page, and those that are asked for only.
func TestDeadLetters_AreListedNewestFirst(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	require.Zero(t, g.count(t))
	other := g.letter(99, "/a")
	other.Subscription = "other"
	begin := time.Now()
	for seq := uint64(1); seq <= 5; seq++ {
		d := g.letter(seq, "/a/x")
		d.At = begin.Add(time.Duration(seq) * time.Second).UTC()
		if seq == 3 {
			d.Reason, d.Path = sluice.NotSendable, "/b"
		}
		g.bury(t, d, other)
	}
	ids, next := g.list(t, model.DeadLetterQuery{Limit: 2})
	require.Equal(t, []string{"e-5", "e-4"}, ids)
	ids, next = g.list(t, model.DeadLetterQuery{Limit: 2, Before: next})
	require.Equal(t, []string{"e-3", "e-2"}, ids)
	ids, next = g.list(t, model.DeadLetterQuery{Limit: 2, Before: next})
	require.Equal(t, []string{"e-1"}, ids)
	require.Zero(t, next)
	ids, _ = g.list(t, model.DeadLetterQuery{Reason: sluice.NotSendable})
	require.Equal(t, []string{"e-3"}, ids)
	ids, _ = g.list(t, model.DeadLetterQuery{Pattern: "/a/**"})
	require.Equal(t, []string{"e-5", "e-4", "e-2", "e-1"}, ids)
	ids, _ = g.list(t, model.DeadLetterQuery{Since: begin.Add(4 * time.Second)})
	require.Equal(t, []string{"e-5", "e-4"}, ids)
	require.Equal(t, uint64(5), g.count(t))
}

// S4-53: a list reaches back over many letters of others.
func TestDeadLetters_AreFoundBehindManyOfOthers(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	g.bury(t, g.letter(1, "/a"))
	other := g.letter(1, "/a")
	other.Subscription = "other"
	for seq := uint64(2); seq <= 700; seq++ {
		other.Seq = seq
		g.bury(t, other)
	}
	g.bury(t, g.letter(2, "/a"))
	ids, next := g.list(t, model.DeadLetterQuery{})
	require.Equal(t, []string{"e-2", "e-1"}, ids)
	require.Zero(t, next)
}

// S4-53, C07: a delivery that is given up again has one dead letter, the later one, however soon
// that is and in any order in which the earlier one is taken away; a repeated write changes nothing.
func TestDeadLetter_IsOnePerDelivery(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	first := g.letter(1, "/a")
	g.bury(t, first, first)
	before, err := g.DeadLetter(t.Context(), g.sub, "e-1")
	require.NoError(t, err)
	require.Equal(t, uint64(1), before.LetterSeq, "the second write was known")
	again := g.letter(1, "/a")
	again.Attempts, again.LastError, again.At = 6, "status 503", first.At.Add(time.Second)
	g.bury(t, again)
	require.NoError(t, g.Unbury(t.Context(), before.LetterSeq), "it is gone already")
	require.Equal(t, uint64(1), g.count(t))
	after, err := g.DeadLetter(t.Context(), g.sub, "e-1")
	require.NoError(t, err)
	require.Equal(t, []any{6, "status 503"}, []any{after.Attempts, after.LastError})

	require.NoError(t, g.Unbury(t.Context(), after.LetterSeq), "it was delivered")
	require.Zero(t, g.count(t))
	again.At = again.At.Add(time.Second)
	g.bury(t, again)
	require.Equal(t, uint64(1), g.count(t), "what was taken away can come back")
}

// S4-53: a dead letter is discarded by its event's id, or by its sequence if the event was never
// seen, or with all others of its subscription.
func TestDeadLetters_AreDiscarded(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	odd := g.letter(1, "/a")
	odd.EventID = "../a b.>*/é\x01"
	long := g.letter(2, "/a")
	long.EventID = strings.Repeat("x", 4000)
	unseen := g.letter(3, "")
	unseen.EventID, unseen.Event, unseen.Reason, unseen.LastSeq = "", nil, sluice.Expired, 9
	ofLane := unseen
	ofLane.Path = "/a/b"
	other := g.letter(4, "/a")
	other.Subscription = "other"
	g.bury(t, odd, long, unseen, ofLane, g.letter(5, "/a"), other)
	require.Equal(t, uint64(5), g.count(t), "two lanes may have lost events from the same sequence on")
	for _, name := range []string{odd.EventID, long.EventID, "3"} {
		require.NoError(t, g.Discard(t.Context(), g.sub, name))
		requireCode(t, sluice.NotFound, g.Discard(t.Context(), g.sub, name))
	}
	ids, _ := g.list(t, model.DeadLetterQuery{})
	require.Equal(t, []string{"e-5"}, ids)
	require.NoError(t, g.DiscardAll(t.Context(), g.sub))
	require.Zero(t, g.count(t))
	g.sub.ID = "other"
	require.Equal(t, uint64(1), g.count(t))
}

// S4-53: what is to be redriven is read in the order in which it was given up, in parts, and it
// is known how much of it can be.
func TestRedrive_ReadsDeadLettersInOrder(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	lost := g.letter(3, "/a")
	lost.Event, lost.Reason, lost.LastSeq = nil, sluice.Expired, 3
	g.bury(t, g.letter(1, "/a"), g.letter(2, "/a"), lost, g.letter(4, "/a"))
	can, err := g.Redrivable(t.Context(), g.sub)
	require.NoError(t, err)
	require.Equal(t, model.Redrivable{Last: 4, Can: 3, Not: 1}, can)
	g.bury(t, g.letter(5, "/a"))
	var ids []string
	from := uint64(1)
	for from <= can.Last {
		part, err := g.DeadLetters(t.Context(), g.sub, from, can.Last, 2)
		require.NoError(t, err)
		require.NotEmpty(t, part)
		require.LessOrEqual(t, len(part), 2)
		for _, d := range part {
			ids, from = append(ids, d.EventID), d.LetterSeq+1
			require.Equal(t, d.EventID != "e-3", d.Redrivable(), d.EventID)
		}
	}
	require.Equal(t, []string{"e-1", "e-2", "e-3", "e-4"}, ids)
	part, err := g.DeadLetters(t.Context(), g.sub, from, can.Last, 2)
	require.NoError(t, err)
	require.Empty(t, part)
}

// S4-53: an event that is too large to be stored once more has a dead letter all the same, and is
// read from the log while that has it.
func TestDeadLetter_OfALargeEventRefersToTheLog(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	data := strings.Repeat("\x00\x01", 500<<10)
	stored, err := g.rooms.log.Publish(t.Context(), "default", []sluice.Event{{ID: "e-1", Path: "/a", Type: "t", ContentType: "application/octet-stream", Data: []byte(data)}})
	require.NoError(t, err)
	d := g.letter(stored[0].Seq, "/a")
	d.Event.Data, d.Event.ContentType = []byte(data), "application/octet-stream"
	g.bury(t, d)
	got, err := g.DeadLetter(t.Context(), g.sub, "e-1")
	require.NoError(t, err)
	require.Equal(t, data, string(got.Event.Data))
	part, err := g.DeadLetters(t.Context(), g.sub, 1, got.LetterSeq, 10)
	require.NoError(t, err)
	require.True(t, part[0].Redrivable())
}

// S4-53: what an earlier subscription of the same id gave up is none of its business.
func TestDeadLetters_HideThoseOfAnEarlierSubscription(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	g.bury(t, g.letter(1, "/a"))
	g.sub.CreatedAt = time.Now()
	g.bury(t, g.letter(2, "/a"))
	ids, _ := g.list(t, model.DeadLetterQuery{})
	require.Equal(t, []string{"e-2"}, ids)
	require.Equal(t, uint64(1), g.count(t))
	_, err := g.DeadLetter(t.Context(), g.sub, "e-1")
	requireCode(t, sluice.NotFound, err)
	can, err := g.Redrivable(t.Context(), g.sub)
	require.NoError(t, err)
	require.Equal(t, 1, can.Can)
}

// Counts of all subscriptions are without the letters of former subscriptions with their ids, in any namespace.
func TestDeadLetterGauges_CountOwnLettersOnly(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	foreign, gone := g.letter(1, "/a"), g.letter(1, "/a")
	foreign.Namespace, gone.Subscription = "foreign", "gone"
	g.bury(t, g.letter(1, "/a"), foreign, gone)
	created := func(namespace, id string) (time.Time, bool) {
		return g.sub.CreatedAt, namespace == g.sub.Namespace && id == g.sub.ID
	}
	check := func(total uint64, own ...model.SubscriptionLetters) {
		all, err := g.DeadLetterGauges(t.Context(), created)
		require.NoError(t, err)
		require.Equal(t, model.DeadLetterGauges{Total: total, Of: append([]model.SubscriptionLetters{}, own...)}, all)
		want := map[string]map[sluice.Reason]uint64{}
		for _, of := range own {
			want[of.Subscription] = map[sluice.Reason]uint64{sluice.Exhausted: of.Letters}
		}
		reasons, err := g.DeadLetterReasons(t.Context(), created)
		require.NoError(t, err)
		require.Equal(t, want, reasons)
	}
	is := model.SubscriptionLetters{Namespace: "default", Subscription: "s", Letters: 1}
	check(3, is)
	g.sub.CreatedAt = time.Now()
	check(3)
	g.bury(t, g.letter(2, "/a"))
	check(4, is)
	require.NoError(t, g.DiscardAll(t.Context(), g.sub))
	g.bury(t, g.letter(3, "/a"), g.letter(4, "/a"))
	is.Letters = 2
	check(4, is)
	check(4, is)
	g.sub.CreatedAt = time.Now()
	check(4)
}

// The subjects of dead letters are valid for any ids.
func TestDeadLetter_SubjectFitsAnyEventID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "a.b", "*", ">", "=", " ", "\x7f", strings.Repeat(".", 256), strings.Repeat("é", 3000)} {
		subject := streams.Names{}.DeadLetterSubject(&sluice.DeadLetter{Namespace: "n", Subscription: "s", Seq: 1, EventID: id, Path: "/a/b"})
		require.Len(t, strings.Split(subject, "."), 5, id)
		require.NotContains(t, subject, " ")
		require.Less(t, len(subject), 1000)
	}
}

// Reasons are read once for each letter, of all subscriptions, and forgotten with it.
func TestDeadLetterReasons_FollowTheLetters(t *testing.T) {
	t.Parallel()
	g := newGraveyard(t)
	counts := func() map[string]map[sluice.Reason]uint64 {
		all, err := g.DeadLetterReasons(t.Context(), func(string, string) (time.Time, bool) { return g.sub.CreatedAt, true })
		require.NoError(t, err)
		return all
	}
	require.Empty(t, counts())
	require.NotNil(t, counts())
	g.bury(t, g.letter(1, "/a"), g.letter(2, "/b"))
	gone, other := g.letter(3, "/c"), g.letter(3, "/c")
	gone.Reason, other.Subscription = sluice.Expired, "others"
	g.bury(t, gone, other)
	require.Equal(t, map[string]map[sluice.Reason]uint64{"s": {sluice.Exhausted: 2, sluice.Expired: 1}, "others": {sluice.Exhausted: 1}}, counts())
	again := g.letter(1, "/a")
	again.Reason = sluice.EventTooLarge
	g.bury(t, again)
	require.NoError(t, g.Discard(t.Context(), g.sub, "e-2"))
	want := map[string]map[sluice.Reason]uint64{"s": {sluice.EventTooLarge: 1, sluice.Expired: 1}, "others": {sluice.Exhausted: 1}}
	require.Equal(t, want, counts())
	require.Equal(t, want, counts())
	require.NoError(t, g.DiscardAll(t.Context(), g.sub))
	require.Equal(t, map[string]map[sluice.Reason]uint64{"others": {sluice.Exhausted: 1}}, counts())
}
