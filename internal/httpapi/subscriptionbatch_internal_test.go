package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Many items are in progress at the same time, but no more than the width, also while the first one is slow.
func TestInOrder_BoundsItemsInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		var got []int
		do := func(i int) func() int {
			return func() int {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				<-time.After(time.Duration(100-i) * time.Second)
				return i * i
			}
		}
		require.NoError(t, inOrder(100, 7, do, func(i, result int) error {
			require.Equal(t, i*i, result)
			got = append(got, i)
			return nil
		}))
		require.Len(t, got, 100)
		require.IsIncreasing(t, got)
		require.Equal(t, int64(7), most.Load())
	})
}

// What was begun has ended when it returns.
func TestInOrder_EndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun, ended atomic.Int64
		failed := errors.New("the client has left")
		err := inOrder(100, 7, func(int) func() int {
			begun.Add(1)
			return func() int {
				<-time.After(time.Second)
				return int(ended.Add(1))
			}
		}, func(i, _ int) error {
			if i == 3 {
				return failed
			}
			return nil
		})
		require.ErrorIs(t, err, failed)
		require.Equal(t, int64(10), begun.Load())
		require.Equal(t, begun.Load(), ended.Load())
	})
}

// ofAnHour returns a batch of a server.
func ofAnHour(opts Options) *batch {
	return &batch{s: New(opts), until: time.Now().Add(time.Hour), last: map[string]chan struct{}{}}
}

// post answers a batch of a caller, of which each item is done by do.
func post(t *testing.T, ctx context.Context, b *batch, n int, do work) ([]batchResult, error) { //nolint:revive // t is first
	t.Helper()
	w := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/subscriptions/batch", http.NoBody), w)
	items := make([]json.RawMessage, n)
	for i := range items {
		items[i] = json.RawMessage(`{"pattern":"/` + strconv.Itoa(i) + `"}`)
	}
	if err := b.answer(c, items, do); err != nil {
		return nil, err
	}
	var reply struct {
		Results []batchResult `json:"results"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &reply), w.Body.String())
	require.Len(t, reply.Results, n)
	return reply.Results, nil
}

func created(context.Context, *subscription.Request) (settle, error) {
	return func(context.Context) (batchResult, error) { return batchResult{Status: itemCreated}, nil }, nil
}

// An item that panics fails; the others do not.
func TestBatch_PanicIsOneItemsError(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	results, err := post(t, t.Context(), ofAnHour(Options{}), 40, func(ctx context.Context, req *subscription.Request) (settle, error) {
		if calls.Add(1) == 20 {
			panic("broken")
		}
		return created(ctx, req)
	})
	require.NoError(t, err)
	failed := 0
	for _, result := range results {
		if result.Status == itemError {
			require.Equal(t, sluice.Internal, result.Error.Code)
			require.NotContains(t, result.Error.Message, "broken")
			failed++
		}
	}
	require.Equal(t, 1, failed)
}

// A server that stops, or a batch that takes too long, ends at an item.
func TestBatch_EndsAtAnItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, says := range []string{"the batch took more than 1m0s", "the server stops"} {
			stopping, stop := context.WithCancel(t.Context())
			b, end := ofAnHour(Options{Stopping: stopping}), stop
			if !strings.Contains(says, "server") {
				b.until, end = time.Now().Add(batchLimit), func() { <-time.After(batchLimit) }
			}
			var calls atomic.Int64
			results, err := post(t, t.Context(), b, 3*batchWidth, func(ctx context.Context, req *subscription.Request) (settle, error) {
				if calls.Add(1) == batchWidth+1 {
					end()
				}
				<-time.After(time.Second)
				return created(ctx, req)
			})
			stop()
			require.NoError(t, err)
			require.Equal(t, itemCreated, results[batchWidth-1].Status)
			last := results[len(results)-1]
			require.Equal(t, itemError, last.Status)
			require.Equal(t, sluice.Unavailable, last.Error.Code)
			require.Contains(t, last.Error.Message, says)
		}
	})
}

// A caller that has left gets no further item, and its Idempotency-Key keeps no answer.
func TestBatch_EndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	var calls atomic.Int64
	_, err := post(t, ctx, ofAnHour(Options{}), 1000, func(ctx context.Context, req *subscription.Request) (settle, error) {
		if calls.Add(1) == 20 {
			leave()
		}
		return created(ctx, req)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.LessOrEqual(t, calls.Load(), int64(20+batchWidth))
}

// A principal that answers for several callers has one batch at a time; others have theirs.
func TestBatch_OneAtATimeForAPrincipal(t *testing.T) {
	t.Parallel()
	s := New(Options{Authentication: Authentication{Access: authz.NewIndex()}})
	ask := func(who sluice.Principal, body io.Reader) error {
		ctx := model.WithCaller(t.Context(), sluice.Caller{Principal: who, Grant: "g"})
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/subscriptions/batch", body)
		return s.createSubscriptions(echo.New().NewContext(req, httptest.NewRecorder()))
	}
	slow, send := io.Pipe()
	first := make(chan error)
	go func() { first <- ask("user:ann", slow) }()
	_, err := send.Write([]byte(" ")) // it is read, so the batch is entered
	require.NoError(t, err)
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(ask("user:ann", strings.NewReader("[]"))))
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(ask("user:eve", strings.NewReader("[]"))))
	require.NoError(t, send.Close())
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(<-first))
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(ask("user:ann", strings.NewReader("[]"))))
}

// An item waits for those before it that may be for the same subscription, and for no other.
func TestBatch_EqualItemsAreDoneInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var done []string
		var mu sync.Mutex
		do := func(ctx context.Context, req *subscription.Request) (settle, error) {
			<-time.After(time.Duration(10-len(req.Description)) * time.Second) // earlier ones are slower
			mu.Lock()
			defer mu.Unlock()
			done = append(done, req.Description)
			return created(ctx, req)
		}
		items := []json.RawMessage{
			json.RawMessage(`{"id":"a","pattern":"/a","description":""}`), json.RawMessage(`{"id":"a","pattern":"/b","description":"1"}`),
			json.RawMessage(`{"pattern":"/a","description":"12"}`), json.RawMessage(`{"pattern":"/a","namespace":"default","idempotency_key":"k","description":"123"}`),
			json.RawMessage(`{"pattern":"/other","description":"1234"}`), json.RawMessage(`{"id":"a","pattern":"/a","description":"12345"}`),
		}
		b := ofAnHour(Options{})
		require.NoError(t, inOrder(len(items), batchWidth, func(i int) func() pending { return b.begin(t.Context(), items[i], do) }, func(int, pending) error { return nil }))
		require.Equal(t, []string{"1234", "12", "", "123", "1", "12345"}, done)
	})
}
