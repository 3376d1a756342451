package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const observe = "GET /v1/namespaces/default/observe"

// ops returns the items of a page as "op seq id".
func ops(t *testing.T, a *answer) (all []string) {
	t.Helper()
	for _, item := range a.list(t, "items") {
		all = append(all, fmt.Sprint(item["op"], " ", item["seq"], " ", item["id"]))
	}
	return all
}

// S3-40, S3-43, S3-59: pages of changes go on where the one before ended.
func TestObserve_IsReadPageByPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	empty := b.must(t, http.StatusOK, observe, "")
	incarnation, err := b.store.Log.Incarnation(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
	require.Equal(t, incarnation, empty.body["incarnation"])
	require.Equal(t, []any{}, empty.body["items"])
	require.Equal(t, []any{}, empty.body["passed"])
	require.Equal(t, map[string]any{"level": "PUBLIC", "compartments": []any{}}, empty.body["label"])
	require.Equal(t, []any{0.0, 0.0, false}, []any{empty.body["last_seq"], empty.body["through_seq"], empty.body["has_more"]})
	for i, extra := range []string{"", `,"revisionof":"e0"`, ""} {
		b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"specversion":"1.0","source":"/s","path":"/a","type":"t","id":"e%d"%s,"data":{"n" : %d.0, "<": 1}}`, i, extra, i),
			"Content-Type", "application/cloudevents+json")
	}
	first := b.must(t, http.StatusOK, observe+"?limit=2", "")
	require.Equal(t, []string{"write 1 e0", "revise 2 e1"}, ops(t, first))
	require.Equal(t, []any{1.0, 3.0, 2.0, true, nil}, []any{first.body["first_seq"], first.body["last_seq"], first.body["through_seq"], first.body["has_more"], first.body["since_tag"]})
	require.Contains(t, first.text, `"data":{"n" : 0.0, "<": 1}`, "data stays byte for byte what it is")
	require.Equal(t, "e0", first.list(t, "items")[1]["revision_of"])
	second := b.must(t, http.StatusOK, observe+"?since=2&limit=2", "")
	require.Equal(t, []string{"write 3 e2"}, ops(t, second))
	require.Equal(t, []any{3.0, false, first.body["through_tag"]}, []any{second.body["through_seq"], second.body["has_more"], second.body["since_tag"]})
	require.NotEmpty(t, second.body["since_tag"])
	beyond := b.must(t, http.StatusOK, observe+"?since=9", "")
	require.Equal(t, []any{[]any{}, 3.0, 9.0, false}, []any{beyond.body["items"], beyond.body["last_seq"], beyond.body["through_seq"], beyond.body["has_more"]})
}

// S3-40: what is no longer stored is told by the first sequence, and what cannot be meant is refused.
func TestObserve_TellsOfTheBeginAndRefusesNonsense(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 3 {
		b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a"}`)
	}
	log, err := natstest.JetStream(t, b.nats).Stream(t.Context(), "EVENTS_default")
	require.NoError(t, err)
	require.NoError(t, log.Purge(t.Context(), jetstream.WithPurgeSequence(3)))
	page := b.must(t, http.StatusOK, observe+"?since=1", "")
	require.Equal(t, []any{3.0, 3.0}, []any{page.body["first_seq"], page.body["through_seq"]})
	require.Len(t, ops(t, page), 1)
	for _, query := range []string{"since=x", "since=-1", "since=1.5", "since=18446744073709551616", "limit=0", "limit=1001", "depth=deep", "pattern=/a", "cursor=1", "since=1&since=2"} {
		require.Equal(t, "invalid_request", b.must(t, http.StatusBadRequest, observe+"?"+query, "").code(), query)
	}
	b.must(t, http.StatusOK, observe+"?since=18446744073709551615", "")
	require.Equal(t, "not_found", b.must(t, http.StatusNotFound, "GET /v1/namespaces/nowhere/observe", "").code())
}

// S3-44, S3-45, S3-46: a depth has as much of the data as it says.
func TestObserve_DepthsHaveTheirData(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/t", `{"summary_fields":["title"]}`)
	b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","type":"t","data":{"title":"shown","body":"whole"}}`)
	b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","type":"other","data":{"body":"whole"}}`)
	for query, want := range map[string][]any{
		"":               {map[string]any{"title": "shown", "body": "whole"}, map[string]any{"body": "whole"}},
		"?depth=full":    {map[string]any{"title": "shown", "body": "whole"}, map[string]any{"body": "whole"}},
		"?depth=entries": {map[string]any{"title": "shown", "body": "whole"}, map[string]any{"body": "whole"}},
		"?depth=summary": {map[string]any{"title": "shown"}, nil},
		"?depth=claims":  {map[string]any{"title": "shown"}, nil},
		"?depth=catalog": {nil, nil},
	} {
		for i, item := range b.must(t, http.StatusOK, observe+query, "").list(t, "items") {
			require.Equal(t, want[i], item["data"], query)
			require.Equal(t, "/a", item["path"])
		}
	}
}

// S3-57: an erased event is told of by its id.
func TestObserve_TellsOfDeletions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/people/ann","id":"e1","type":"t","source":"/s","specversion":"1.0"}`, "Content-Type", "application/cloudevents+json")
	require.NoError(t, b.store.Log.ErasePath(t.Context(), sluice.DefaultNamespace, "/people/ann", 1))
	page := b.must(t, http.StatusOK, observe, "")
	require.Equal(t, []map[string]any{{"op": "delete", "seq": 2.0, "id": "e1", "erased_seq": 1.0}}, page.list(t, "items"))
}

// S3-119: a page names the logs that the namespace has content of.
func TestObserve_NamesTheLogsPassed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts := b.options()
	opts.Mirrors.Passed = func(_ context.Context, ns string) ([]sluice.Hop, error) {
		return []sluice.Hop{{Incarnation: "of " + ns, Hops: 2}}, nil
	}
	b.http.Close()
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	page := b.must(t, http.StatusOK, observe, "")
	require.Equal(t, []any{map[string]any{"incarnation": "of default", "hops": 2.0}}, page.body["passed"])
}

// S3-137, S3-133, S3-51: the source does not know that it is followed: a hundred requests leave every stream and bucket, the ledger
// among them, and every consumer as they were.
func TestObserve_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 5 {
		b.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a"}`)
	}
	require.NoError(t, b.store.Log.ErasePath(t.Context(), sluice.DefaultNamespace, "/a", 2))
	before := stored(t, b)
	require.Contains(t, before, "LEDGER")
	for n := range 100 {
		b.must(t, http.StatusOK, fmt.Sprintf("%s?since=%d&limit=2&depth=summary", observe, n%8), "")
	}
	require.Equal(t, before, stored(t, b))
}

// stored returns the state and the configuration of every stream.
func stored(t *testing.T, b *bench) map[string]string {
	t.Helper()
	all := map[string]string{}
	list := natstest.JetStream(t, b.nats).ListStreams(t.Context())
	for info := range list.Info() {
		all[info.Config.Name] = fmt.Sprintf("%+v %+v", info.State, info.Config)
	}
	require.NoError(t, list.Err())
	return all
}

// waiting is a log that does not answer.
type waiting struct{ until time.Duration }

func (w *waiting) Changes(ctx context.Context, _ string, _ model.ChangeQuery) (sluice.ObservePage, error) {
	deadline, _ := ctx.Deadline()
	w.until = time.Until(deadline)
	return sluice.ObservePage{}, context.DeadlineExceeded
}

// S3-42: a page that cannot be read in 30 s is refused, and may be asked for again.
func TestObserve_EndsInTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts, log := b.options(), &waiting{}
	opts.Mirrors.Changes = log
	b.http.Close()
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	require.Equal(t, "unavailable", b.must(t, http.StatusServiceUnavailable, observe, "").code())
	require.LessOrEqual(t, log.until, 30*time.Second)
	require.Greater(t, log.until, 10*time.Second)
}

// S3-57: an event whose erasing began is left out, for root too, and without the permissions nothing is shown.
func TestObserve_LeavesOutErasedEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts := b.options()
	opts.Access = authz.NewIndex()
	b.http.Close()
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	for _, id := range []string{"a", "b"} {
		_, err := b.store.Log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{ID: id, Path: sluice.Path("/" + id)}})
		require.NoError(t, err)
	}
	require.Equal(t, "unavailable", b.must(t, http.StatusServiceUnavailable, observe, "").code())
	opts.Access.CaughtUp()
	require.Equal(t, []string{"write 1 a", "write 2 b"}, ops(t, b.must(t, http.StatusOK, observe, "")))
	stone := sluice.Tombstone{Namespace: sluice.DefaultNamespace, Path: "/b", UpTo: 2}
	opts.Access.Set(streams.TombstoneKey(stone.Namespace, stone.Path), authz.Record{Tombstone: &stone}, 1)
	page := b.must(t, http.StatusOK, observe, "")
	require.Equal(t, []string{"write 1 a"}, ops(t, page))
	require.InDelta(t, 2, page.body["through_seq"], 0)
}
