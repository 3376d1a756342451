package eventlog_test

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const ns = sluice.DefaultNamespace

// publish stores one event without data at each path, the one after the other.
func publish(tb testing.TB, store rooms, namespace string, paths ...sluice.Path) {
	tb.Helper()
	for i, path := range paths {
		_, err := store.Publish(tb.Context(), namespace, []sluice.Event{{ID: fmt.Sprintf("%s#%d", path, i), Path: path}})
		require.NoError(tb, err)
	}
}

func batchOf(prefix string, n int) []sluice.Event {
	events := make([]sluice.Event, n)
	for i := range events {
		events[i] = sluice.Event{ID: prefix + strconv.Itoa(i), Path: "/b/" + sluice.Path(strconv.Itoa(i%3)), Data: []byte(`{"n":` + strconv.Itoa(i) + `}`)}
	}
	return events
}

func seqs(stored []sluice.Stored) (seqs []uint64, duplicates []bool) {
	for _, s := range stored {
		seqs, duplicates = append(seqs, s.Seq), append(duplicates, s.Duplicate)
	}
	return seqs, duplicates
}

func TestPublish_StoresOnceUnchanged(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	want := sluice.Event{
		ID: "order 1/ä", Path: "/orders/a b", Type: "order.made", Source: "/shop", Time: time.Unix(1000, 5).UTC(), Subject: "ö",
		ContentType: "application/json", DataSchema: "https://example.com/s", Extensions: map[string]string{"region": "eu", "traceparent": "00-1"},
		Data: []byte(`{"total":1}`),
	}
	stored, err := store.Publish(t.Context(), ns, []sluice.Event{want})
	require.NoError(t, err)
	require.Equal(t, []sluice.Stored{{ID: want.ID, Seq: 1, Path: want.Path}}, stored)
	stored, err = store.Publish(t.Context(), ns, []sluice.Event{want})
	require.NoError(t, err)
	require.Equal(t, []sluice.Stored{{ID: want.ID, Seq: 1, Path: want.Path, Duplicate: true}}, stored)

	got, err := store.Event(t.Context(), ns, 1)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), got.Stored, time.Minute)
	want.Namespace, want.Seq, want.Stored = ns, 1, got.Stored
	require.Equal(t, want, got)
}

func TestBatch_KeepsItsOrder(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	publish(t, store, ns, "/before")
	for _, n := range []int{2, 100, eventlog.MaxBatch} {
		last, err := store.LastSeq(t.Context(), ns)
		require.NoError(t, err)
		events := batchOf(strconv.Itoa(n)+"-", n)
		stored, err := store.Publish(t.Context(), ns, events)
		require.NoError(t, err)
		for i, s := range stored {
			require.Equal(t, sluice.Stored{ID: events[i].ID, Seq: last + uint64(i) + 1, Path: events[i].Path}, s)
		}
		e, err := store.Event(t.Context(), ns, last+uint64(n))
		require.NoError(t, err)
		require.Equal(t, events[n-1].ID, e.ID)
	}
}

func TestBatch_PartlyStoredOneCanBeRepeated(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	events := batchOf("x", 5)
	_, err := store.Publish(t.Context(), ns, events[1:3])
	require.NoError(t, err)

	stored, err := store.Publish(t.Context(), ns, events)
	require.NoError(t, err)
	places, duplicates := seqs(stored)
	require.Equal(t, []uint64{3, 1, 2, 4, 5}, places)
	require.Equal(t, []bool{false, true, true, false, false}, duplicates)

	stored, err = store.Publish(t.Context(), ns, events)
	require.NoError(t, err)
	again, duplicates := seqs(stored)
	require.Equal(t, places, again)
	require.Equal(t, []bool{true, true, true, true, true}, duplicates)

	last, err := store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, uint64(5), last)
}

func TestBatch_RepeatedIDIsStoredOnce(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	events := append(batchOf("x", 2), batchOf("x", 3)...)
	stored, err := store.Publish(t.Context(), ns, events)
	require.NoError(t, err)
	places, duplicates := seqs(stored)
	require.Equal(t, []uint64{1, 2, 1, 2, 3}, places)
	require.Equal(t, []bool{false, false, true, true, false}, duplicates)
}

func TestBatch_IsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	events := batchOf("x", 3)
	events[1].Data = bytes.Repeat([]byte("x"), 2<<20)
	_, err := store.Publish(t.Context(), ns, events)
	requireCode(t, sluice.TooLarge, err)
	last, err := store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.Zero(t, last)
}

func TestBatch_WritersOfTheSameGetTheSamePlaces(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	var wg sync.WaitGroup
	results := make([][]uint64, 8)
	errs := make([]error, 8)
	for i := range results {
		wg.Go(func() {
			var stored []sluice.Stored
			stored, errs[i] = store.Publish(t.Context(), ns, batchOf("x", 10))
			results[i], _ = seqs(stored)
		})
	}
	wg.Wait()
	for i := range results {
		require.NoError(t, errs[i])
		require.Equal(t, results[0], results[i])
	}
	last, err := store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, uint64(10), last)
}

func TestPublish_RefusesInvalidEvents(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "small"})
	require.NoError(t, err)
	js := natstest.JetStream(t, server)
	stream, err := js.Stream(t.Context(), "EVENTS_small")
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgSize, config.MaxMsgs, config.Discard = 1000, 1, jetstream.DiscardNew
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	publish(t, store, "small", "/full")

	large := bytes.Repeat([]byte("x"), 2<<20)
	tests := []struct {
		name, namespace string
		give            []sluice.Event
		want            sluice.Code
	}{
		{"nothing", ns, nil, sluice.InvalidRequest},
		{"too many", ns, batchOf("x", eventlog.MaxBatch+1), sluice.InvalidRequest},
		{"no path", ns, []sluice.Event{{ID: "1"}}, sluice.InvalidRequest},
		{"no namespace", "nowhere", batchOf("x", 1), sluice.NotFound},
		{"no namespace, a batch", "nowhere", batchOf("x", 2), sluice.NotFound},
		{"not a namespace's name", "no.where", batchOf("x", 1), sluice.NotFound},
		{"larger than a message", ns, []sluice.Event{{ID: "1", Path: "/a", Data: large}}, sluice.TooLarge},
		{"exceeds the size limit of the log", "small", []sluice.Event{{ID: "1", Path: "/a", Data: large[:2000]}}, sluice.TooLarge},
		{"headers too large", ns, []sluice.Event{{ID: "1", Path: "/a", Subject: string(large[:70_000])}}, sluice.TooLarge},
		{"log full", "small", batchOf("x", 1), sluice.QuotaExceeded},
		{"log full, a batch", "small", batchOf("x", 2), sluice.QuotaExceeded},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := store.Publish(t.Context(), test.namespace, test.give)
			requireCode(t, test.want, err)
		})
	}
}

func TestPublish_WaitsForTheServer(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	for _, n := range []int{1, 3} {
		server.Stop(t)
		answered := make(chan error)
		go func() {
			_, err := store.Publish(t.Context(), ns, batchOf(strconv.Itoa(n)+"-", n))
			answered <- err
		}()
		server.Start(t)
		require.NoError(t, <-answered)
	}
	last, err := store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, uint64(4), last)
}

// Issue 13, attack 16: an id that is taken on the same path by something else is told, and not taken for a duplicate.
func TestExact_RefusesAnIDThatSaysSomethingElse(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	exact := eventlog.Exact{Log: store.Log}
	event := func(id, kind, data string) sluice.Event {
		return sluice.Event{Path: "/a", ID: id, Type: kind, Data: []byte(data)}
	}
	publish := func(events ...sluice.Event) ([]sluice.Stored, error) { return exact.Publish(t.Context(), ns, events) }
	_, err := publish(event("1", "t", `{"a": 1}`))
	require.NoError(t, err)
	again, err := publish(event("1", "t", ` {"a":1}`))
	require.NoError(t, err)
	require.Equal(t, []sluice.Stored{{ID: "1", Seq: 1, Path: "/a", Duplicate: true}}, again)
	for _, events := range [][]sluice.Event{
		{event("1", "t", `{"a":2}`)},
		{event("1", "u", `{"a":1}`)},
		{event("2", "t", ``), event("1", "t", ``)},
		{event("3", "t", `1`), event("3", "t", `2`)},
	} {
		_, err := publish(events...)
		require.Equal(t, sluice.Conflict, sluice.CodeOf(err), events)
	}
	last, err := store.LastSeq(t.Context(), ns)
	require.NoError(t, err)
	require.EqualValues(t, 1, last, "nothing of a batch that was refused is stored")
	lenient, err := store.Publish(t.Context(), ns, []sluice.Event{event("1", "t", `{"a":2}`)})
	require.NoError(t, err, "what the server itself tells again may say it otherwise")
	require.True(t, lenient[0].Duplicate)
}

// A publisher on one path must not keep out events of others elsewhere by taking their ids.
func TestPublish_IDOfAnotherPathIsAConflict(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	event := func(path sluice.Path, id string) sluice.Event {
		return sluice.Event{Namespace: sluice.DefaultNamespace, Path: path, ID: id, Type: "t", Source: "/s", Data: []byte(`1`)}
	}
	publish := func(events ...sluice.Event) ([]sluice.Stored, error) {
		return store.Publish(t.Context(), sluice.DefaultNamespace, events)
	}
	_, err := publish(event("/al/1", "order-17"))
	require.NoError(t, err)
	again, err := publish(event("/al/1", "order-17"))
	require.NoError(t, err)
	require.True(t, again[0].Duplicate)
	_, err = publish(event("/bo/1", "order-17"))
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	_, err = publish(event("/bo/1", "new"), event("/bo/1", "order-17"))
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	_, err = publish(event("/bo/1", "twice"), event("/bo/2", "twice"))
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "within a batch, too")
	stored, err := publish(event("/bo/1", "new"))
	require.NoError(t, err)
	require.False(t, stored[0].Duplicate, "nothing of a batch that was refused is there")
}
