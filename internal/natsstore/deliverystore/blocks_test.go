package deliverystore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// attempted is the attempt at the event with a sequence.
func attempted(sub string, seq int) *sluice.Attempt {
	return &sluice.Attempt{
		Subscription: sub, EventID: strconv.Itoa(seq), Seq: uint64(seq), Path: "/a", Number: 1, StartedAt: time.Now().UTC(),
		Outcome: sluice.Delivered, Verdict: sluice.Verdict{Settled: true},
	}
}

// messages returns what a subscription's messages hold: for each the lines. A block whose answer was late is stored again, directly
// behind the first, and counts once.
func messages(t *testing.T, js jetstream.JetStream, sub string) (all [][][]byte) {
	t.Helper()
	return slices.CompactFunc(everyMessage(t, js, sub), func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) })
}

// everyMessage is messages with the repeated ones.
func everyMessage(t *testing.T, js jetstream.JetStream, sub string) (all [][][]byte) {
	t.Helper()
	stream, err := js.Stream(t.Context(), streams.Names{}.Attempts())
	require.NoError(t, err)
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		if msg.Subject == (streams.Names{}).AttemptsSubject(sluice.DefaultNamespace, sub) {
			all = append(all, bytes.Split(msg.Data, []byte("\n")))
		}
	}
	return all
}

// seqs returns the events of attempts in lines of JSON.
func seqs(t *testing.T, lines ...[]byte) (all []int) {
	t.Helper()
	for _, line := range lines {
		var a sluice.Attempt
		require.NoError(t, json.Unmarshal(line, &a))
		all = append(all, int(a.Seq))
	}
	return all
}

// inOrder returns the numbers from 1 up to n.
func inOrder(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// recorded waits until all of the attempts are recorded.
func recorded(t *testing.T, done <-chan error, n int) {
	t.Helper()
	limit := time.After(time.Minute)
	for range n {
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-limit:
			require.Fail(t, "attempts are not recorded")
		}
	}
}

// Decision 0041: an attempt that is alone is a message by itself, as it was before there were blocks.
func TestAttempts_AloneIsOneMessage(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log := runLog(t, store)
	done := make(chan error, 1)
	var want [][][]byte
	for seq := range 3 {
		a := attempted("s", seq+1)
		a.Error, a.Response = "<a>\nb", "line\r\nline\u2028"
		log.Record(a, sluice.DefaultNamespace, func(err error) { done <- err })
		recorded(t, done, 1)
		line, err := json.Marshal(a)
		require.NoError(t, err)
		want = append(want, [][]byte{line})
	}
	require.Equal(t, want, messages(t, natstest.JetStream(t, server), "s"))
}

// Decision 0041: what comes while a subscription's block is stored is its next one. A block has one subscription, and an attempt for
// each line, in the order of their recording.
func TestAttempts_ShareABlockUnderLoad(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log := runLog(t, store)
	const many, blocks = 200, 12
	done := make(chan error, 2*many)
	server.Stop(t) // so that all come meanwhile
	require.Eventually(t, func() bool { return !store.core.Conn().IsConnected() }, patience, time.Millisecond)
	for seq := range many {
		for _, sub := range []string{"s", "other"} {
			log.Record(attempted(sub, seq+1), sluice.DefaultNamespace, func(err error) { done <- err })
		}
	}
	server.Start(t)
	recorded(t, done, 2*many)
	js := natstest.JetStream(t, server)
	for _, sub := range []string{"s", "other"} {
		all := messages(t, js, sub)
		require.LessOrEqual(t, len(all), blocks)
		for _, lines := range all {
			require.LessOrEqual(t, len(lines), 64)
		}
		require.Equal(t, inOrder(many), seqs(t, slices.Concat(all...)...), sub)
	}
	known, err := log.Recover(t.Context(), &sluice.Subscription{ID: "s", Namespace: sluice.DefaultNamespace}, 0, 0)
	require.NoError(t, err)
	require.Len(t, known, many)
}

// retries receives a value for a line of a log about attempts that are not recorded yet, and counts those whose answer was late.
type retries struct {
	told chan struct{}
	late atomic.Int64
}

func (r *retries) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("not recorded yet")) {
		if bytes.Contains(line, []byte(nats.ErrAsyncPublishTimeout.Error())) {
			r.late.Add(1)
		}
		select {
		case r.told <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// What the NATS client gets during an outage it sends afterwards, and reports as failed.
func TestAttempts_OutageStoresEachOnce(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	retried := &retries{told: make(chan struct{})}
	store := connected(t, natsstore.Options{Conn: server, Log: slog.New(slog.NewTextHandler(retried, nil))})
	require.NoError(t, store.core.Provision(t.Context()))
	log := runLog(t, store)
	server.Stop(t)
	require.Eventually(t, func() bool { return !store.core.Conn().IsConnected() }, patience, time.Millisecond)
	done := make(chan error, 1)
	log.Record(attempted("s", 1), sluice.DefaultNamespace, func(err error) { done <- err })
	for range 2 {
		<-retried.told
	}
	server.Start(t)
	recorded(t, done, 1)
	require.LessOrEqual(t, len(everyMessage(t, natstest.JetStream(t, server), "s")), 1+int(retried.late.Load()))
}

// Decision 0041: while blocks cannot be stored, those behind them wait, each subscription's attempts keep their order, and each is
// answered once.
func TestAttempts_KeepTheirOrderThoughBlocksFail(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log := runLog(t, store)
	js := natstest.JetStream(t, server)
	stream, err := js.Stream(t.Context(), streams.Names{}.Attempts())
	require.NoError(t, err)
	lifted := stream.CachedInfo().Config
	full := lifted
	full.Discard, full.MaxBytes = jetstream.DiscardNew, 1
	_, err = js.UpdateStream(t.Context(), full)
	require.NoError(t, err)
	const many = 300
	subs := []string{"a", "b", "c"}
	done := make(chan error, len(subs)*many)
	for seq := range many {
		for _, sub := range subs {
			log.Record(attempted(sub, seq+1), sluice.DefaultNamespace, func(err error) { done <- err })
		}
	}
	require.Empty(t, done)
	_, err = js.UpdateStream(t.Context(), lifted)
	require.NoError(t, err)
	recorded(t, done, len(subs)*many)
	for _, sub := range subs {
		require.Equal(t, inOrder(many), seqs(t, slices.Concat(messages(t, js, sub)...)...), sub)
	}
	require.Empty(t, done)
}

// Decision 0041: an operator may limit messages to less than a block has.
func TestAttempts_AreStoredWhereBlocksAreTooLarge(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	stream, err := js.Stream(t.Context(), streams.Names{}.Attempts())
	require.NoError(t, err)
	small := stream.CachedInfo().Config
	small.MaxMsgSize = 600
	_, err = js.UpdateStream(t.Context(), small)
	require.NoError(t, err)
	log := runLog(t, store)
	const many = 64
	done := make(chan error, many)
	for seq := range many {
		log.Record(attempted("s", seq+1), sluice.DefaultNamespace, func(err error) { done <- err })
	}
	recorded(t, done, many)
	require.Equal(t, inOrder(many), seqs(t, slices.Concat(messages(t, js, "s")...)...))
}

// C01: whenever the log ends, each attempt is answered once, and what was answered without an error is stored.
func TestAttempts_AreAnsweredOnceWhenTheLogEnds(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	log, err := store.AttemptLog()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running, recording sync.WaitGroup
	running.Go(func() { _ = log.Run(ctx) }) // it only ends with ctx
	const writers, each, enough = 8, 500, 300
	var stored atomic.Int64
	answers := make([]atomic.Int64, writers*each)
	for w := range writers {
		recording.Go(func() {
			for i := range each {
				n := w*each + i
				log.Record(attempted("s"+strconv.Itoa(w%3), n+1), sluice.DefaultNamespace, func(err error) {
					answers[n].Add(1)
					if err == nil && stored.Add(1) == enough {
						cancel()
					}
				})
			}
		})
	}
	recording.Wait()
	cancel()
	running.Wait()
	for n := range answers {
		require.EqualValues(t, 1, answers[n].Load(), n)
	}
	var kept int
	for _, id := range []string{"s0", "s1", "s2"} {
		known, err := log.Recover(t.Context(), &sluice.Subscription{ID: id, Namespace: sluice.DefaultNamespace}, 0, 0)
		require.NoError(t, err)
		kept += len(known)
	}
	require.GreaterOrEqual(t, kept, int(stored.Load()))
}

// mixedLog is a log that has single attempts, as an earlier server wrote them, beside blocks.
func mixedLog(t *testing.T) (rooms, *sluice.Subscription) {
	t.Helper()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	next := 0
	for _, n := range []int{1, 3, 1, 1, 64, 2, 1} {
		var lines [][]byte
		for range n {
			next++
			line, err := json.Marshal(attempted("s", next))
			require.NoError(t, err)
			lines = append(lines, line)
		}
		for _, subject := range []string{streams.Names{}.AttemptsSubject(sluice.DefaultNamespace, "s"), streams.Names{}.AttemptsSubject(sluice.DefaultNamespace, "other")} {
			_, err := js.Publish(t.Context(), subject, streams.JoinBlock(lines))
			require.NoError(t, err)
		}
	}
	return store, &sluice.Subscription{ID: "s", Namespace: sluice.DefaultNamespace}
}

// Decision 0041: pages count attempts, and meet each once, wherever a page ends; newer attempts move no place.
func TestAttempts_PagesCrossBlocks(t *testing.T) {
	t.Parallel()
	store, sub := mixedLog(t)
	const all = 73
	want := inOrder(all)
	slices.Reverse(want)
	for limit := 1; limit <= all; limit += 1 + limit/3 {
		var got []int
		places := map[uint64]bool{}
		q := model.HistoryQuery{Limit: limit}
		for more := true; more; {
			page, next, err := store.Attempts(t.Context(), sub, q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			for _, a := range page {
				got = append(got, int(a.Value.Seq))
				require.False(t, places[a.Place], "a place is one attempt's")
				places[a.Place] = true
			}
			q.Before, more = next, next != 0
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
}

// An attempt is stored when it ends, so a long one comes behind those that began later.
func TestAttempts_SinceReachesBehindALongOne(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	at := time.Now().UTC()
	publish := func(sub string, seq int, began time.Time) {
		a := attempted(sub, seq)
		a.StartedAt = began
		data, err := json.Marshal(a)
		require.NoError(t, err)
		_, err = js.PublishAsync(streams.Names{}.AttemptsSubject(sluice.DefaultNamespace, sub), data)
		require.NoError(t, err)
	}
	publish("s", 1, at.Add(time.Second))
	for i := range 600 { // more than are read at first
		publish("other", i+1, at.Add(2*time.Second))
	}
	publish("s", 2, at.Add(-5*time.Second))
	<-js.PublishAsyncComplete()
	sub := &sluice.Subscription{ID: "s", Namespace: sluice.DefaultNamespace}
	page, _, err := store.Attempts(t.Context(), sub, model.HistoryQuery{Since: at, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.EqualValues(t, 1, page[0].Value.Seq)
}

// Decision 0041: the place of a single attempt is the sequence of its message, as it was before there were blocks.
func TestAttempts_PlacesOfBeforeAreValid(t *testing.T) {
	t.Parallel()
	store, sub := mixedLog(t)
	last := map[uint64]int{1: 0, 2: 1, 3: 1, 5: 4, 7: 5, 9: 6, 11: 70, 13: 72, 14: 73, 99: 73} // before a message: the attempts up to here
	for before, want := range last {
		page, _, err := store.Attempts(t.Context(), sub, model.HistoryQuery{Limit: 100, Before: before})
		require.NoError(t, err)
		require.Len(t, page, want, before)
		if want > 0 {
			require.EqualValues(t, want, page[0].Value.Seq)
		}
	}
	for _, foreign := range []uint64{1 << 56, 1<<56 | 1, 200<<56 | 2, 1<<64 - 1} { // no list has it
		_, _, err := store.Attempts(t.Context(), sub, model.HistoryQuery{Limit: 100, Before: foreign})
		require.NoError(t, err)
	}
}

// Decision 0041: everything that reads attempts reads those in blocks.
func TestAttempts_InBlocksAreReadEverywhere(t *testing.T) {
	t.Parallel()
	store, sub := mixedLog(t)
	log, err := store.AttemptLog()
	require.NoError(t, err)
	known, err := log.Recover(t.Context(), sub, 0, 0)
	require.NoError(t, err)
	require.Len(t, known, 73)
	notices, err := log.Notices(t.Context(), sub, "40", time.Time{})
	require.NoError(t, err)
	require.Len(t, notices, 1)
	told, err := log.BuryGap(t.Context(), sub, sluice.DeadLetter{Subscription: sub.ID, Namespace: sub.Namespace, Seq: 1, LastSeq: 73, Reason: sluice.Unreadable, At: time.Now().UTC()})
	require.NoError(t, err)
	require.False(t, told, "all were attempted")
	parked := func(seq uint64) sluice.Parked {
		return sluice.Parked{Lane: strconv.FormatUint(seq, 10), FromSeq: seq, Attempts: 1, FirstFailedAt: time.Now().Add(-time.Hour)}
	}
	forgotten, err := store.Forgotten(t.Context(), sub, []sluice.Parked{parked(3), parked(50), parked(74)})
	require.NoError(t, err)
	require.Equal(t, []sluice.Parked{forgotten[0]}, forgotten)
	require.EqualValues(t, 74, forgotten[0].FromSeq)
}

// A line that is no attempt is an error that names its message, and hides no other of the block from those that count what was attempted.
func TestAttempts_UnreadableLineIsAnError(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	sub := &sluice.Subscription{ID: "s", Namespace: sluice.DefaultNamespace}
	_, err := natstest.JetStream(t, server).Publish(t.Context(), streams.Names{}.AttemptsSubject(sub.Namespace, sub.ID), []byte(strings.Join([]string{`{"seq":1}`, `{"seq"`, `{"seq":3}`}, "\n")))
	require.NoError(t, err)
	_, _, err = store.Attempts(t.Context(), sub, model.HistoryQuery{Limit: 9})
	require.ErrorContains(t, err, "ATTEMPTS 1")
	var log *deliverystore.AttemptLog
	log, err = store.AttemptLog()
	require.NoError(t, err)
	_, err = log.Recover(t.Context(), sub, 0, 0)
	require.ErrorContains(t, err, "attempt")
	told, err := log.BuryGap(t.Context(), sub, sluice.DeadLetter{Subscription: sub.ID, Namespace: sub.Namespace, Seq: 1, LastSeq: 3, Reason: sluice.Unreadable, At: time.Now().UTC()})
	require.NoError(t, err)
	require.True(t, told)
	letters, err := store.DeadLetters(t.Context(), sub, 1, 9, 9)
	require.NoError(t, err)
	require.Equal(t, []uint64{2, 2}, []uint64{letters[0].Seq, letters[0].LastSeq})
}
