package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// publisher stores events, and has its own way of saying so.
type publisher struct {
	ingest.Publisher

	publish func(ctx context.Context, store func(context.Context) ([]sluice.Stored, error)) ([]sluice.Stored, error)
}

func (p publisher) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	return p.publish(ctx, func(ctx context.Context) ([]sluice.Stored, error) { return p.Publisher.Publish(ctx, namespace, events) })
}

// publishing makes the API on the bench publish in a way of the test's.
func (b *bench) publishing(t *testing.T, publish func(context.Context, func(context.Context) ([]sluice.Stored, error)) ([]sluice.Stored, error)) {
	t.Helper()
	opts := b.options()
	opts.Answers = b.store.Answers()
	opts.Ingest = ingest.New(ingest.Deps{Publisher: publisher{eventlog.Exact{Log: b.store.Log}, publish}, Catalogue: b.catalogue})
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
}

// An event without an ID has the same one in a repeated request with its key: it is stored once, although the first
// request did not tell.
func TestIdempotencyKey_UnknownOutcomeIsNotRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	told := 0
	b.publishing(t, func(ctx context.Context, store func(context.Context) ([]sluice.Stored, error)) ([]sluice.Stored, error) {
		stored, err := store(ctx)
		if told++; told%2 == 1 {
			return nil, sluice.Errorf(sluice.Unavailable, "no answer")
		}
		return stored, err
	})
	for key, body := range map[string]string{
		"one": `{"path":"/a","data":1}`, "batch": `[{"path":"/a","data":1},{"path":"/a","data":1},{"path":"/b"}]`,
	} {
		want := len(b.must(t, http.StatusOK, "GET "+events, "").list(t, "events")) + strings.Count(body, "path")
		b.must(t, http.StatusServiceUnavailable, "POST "+events, body, "Idempotency-Key", key)
		again := b.must(t, http.StatusCreated, "POST "+events, body, "Idempotency-Key", key)
		require.Empty(t, again.header.Get("Idempotent-Replayed"))
		for _, e := range again.list(t, "events") {
			id, _ := e["id"].(string)
			require.EqualValues(t, 7, uuid.MustParse(id).Version())
		}
		require.Equal(t, again.text, b.must(t, http.StatusCreated, "POST "+events, body, "Idempotency-Key", key).text)
		require.Len(t, b.must(t, http.StatusOK, "GET "+events, "").list(t, "events"), want, key)
	}
}

// A request with a key goes on without its caller, which gets the response when it asks again.
func TestIdempotencyKey_CallerThatLeftGetsTheAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begun, left := make(chan struct{}), make(chan struct{})
	b.publishing(t, func(ctx context.Context, store func(context.Context) ([]sluice.Stored, error)) ([]sluice.Stored, error) {
		close(begun)
		<-left
		return store(ctx)
	})
	ctx, leave := context.WithCancel(t.Context())
	server := b.http.Config.Handler
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, events, strings.NewReader(`{"path":"/a"}`))
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}
	go server.ServeHTTP(httptest.NewRecorder(), req)
	<-begun
	leave()
	require.Equal(t, "conflict", b.must(t, http.StatusConflict, "POST "+events, `{"path":"/a"}`, "Idempotency-Key", "k").code())
	close(left)
	var got *answer
	require.Eventually(t, func() bool {
		got = b.do(t, "POST "+events, `{"path":"/a"}`, "Idempotency-Key", "k")
		return got.status == http.StatusCreated
	}, time.Minute, time.Millisecond)
	require.Equal(t, "true", got.header.Get("Idempotent-Replayed"))
	require.Len(t, b.must(t, http.StatusOK, "GET "+events, "").list(t, "events"), 1)
}
