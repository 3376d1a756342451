package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// keeping returns a server that keeps answers.
func keeping(t *testing.T) *Server {
	t.Helper()
	store, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	require.NoError(t, store.Provision(t.Context()))
	return New(Options{Answers: store.Answers()})
}

// A replica that dies with a request under way holds its key up for a while only.
func TestReserve_TakesOverAbandonedKeys(t *testing.T) {
	t.Parallel()
	s := keeping(t)
	for key, c := range map[string]struct {
		begun time.Duration
		code  sluice.Code
	}{"now": {0, sluice.Conflict}, "soon": {abandonedAfter - time.Minute, sluice.Conflict}, "dead": {abandonedAfter + time.Minute, ""}} {
		_, err := s.opts.Answers.Put(t.Context(), key, model.KeptAnswer{Request: "r", Begun: time.Now().Add(-c.begun)}, 0)
		require.NoError(t, err)
		kept, revision, err := s.reserve(t.Context(), key, "r")
		require.Equal(t, c.code, sluice.CodeOf(err), key)
		require.Zero(t, kept.Status)
		require.Equal(t, c.code == "", revision > 0)
	}
	_, _, err := s.reserve(t.Context(), "dead", "r")
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "it is under way again")
	_, _, err = s.reserve(t.Context(), "dead", "other")
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
}

// A repetition of a request that failed has its seed; one that was refused, and another request, have their own.
func TestReserve_RepetitionHasTheSeedOfAFailure(t *testing.T) {
	t.Parallel()
	s := keeping(t)
	seeds := func(key, body string, code sluice.Code) (seed string) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/things", strings.NewReader(body))
		req.Header.Set(headerIdempotencyKey, key)
		c := s.echo.NewContext(req, httptest.NewRecorder())
		c.SetPath("/v1/things")
		require.Error(t, s.once(c, func(c echo.Context) error {
			seed = model.SeedFrom(c.Request().Context())
			return sluice.Errorf(code, "no")
		}))
		require.NotEmpty(t, seed)
		return seed
	}
	first := seeds("k", "x", sluice.Unavailable)
	require.Equal(t, first, seeds("k", "x", sluice.Internal))
	require.NotEqual(t, first, seeds("k", "y", sluice.Unavailable), "its first request may be another one")
	refused := seeds("l", "x", sluice.InvalidRequest)
	require.NotEqual(t, refused, seeds("l", "x", sluice.InvalidRequest))
}

// once as a handler does what it is told, and is asked again.
func TestOnce_KeepsAnswersAndForgetsErrors(t *testing.T) {
	t.Parallel()
	s := keeping(t)
	served := 0
	ask := func(key string, handle echo.HandlerFunc) (*httptest.ResponseRecorder, error) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/things", strings.NewReader("x"))
		req.Header.Set(headerIdempotencyKey, key)
		w := httptest.NewRecorder()
		c := s.echo.NewContext(req, w)
		c.SetPath("/v1/things")
		return w, guarded(func(c echo.Context) error {
			return s.once(c, func(c echo.Context) error {
				served++
				return handle(c)
			})
		}, c)
	}
	large := func(c echo.Context) error {
		return c.Blob(http.StatusCreated, "application/json", bytes.Repeat([]byte("x"), maxKeptAnswer+1))
	}
	empty := func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }
	for _, failing := range []echo.HandlerFunc{
		func(echo.Context) error { return sluice.Errorf(sluice.Unavailable, "no") }, func(echo.Context) error { panic("no") },
	} {
		_, err := ask("fails", failing)
		require.Error(t, err)
	}
	for _, key := range []string{"fails", "fails"} {
		w, err := ask(key, empty)
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, w.Code)
	}
	require.Equal(t, 3, served, "after two errors, once")
	w, err := ask("large", large)
	require.NoError(t, err)
	require.Equal(t, maxKeptAnswer+1, w.Body.Len())
	_, err = ask("large", large)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "it is not served again")
	require.Equal(t, 4, served)
}

// fullAnswers is a store that takes nothing more.
type fullAnswers struct{ Answers }

func (fullAnswers) Put(context.Context, string, model.KeptAnswer, uint64) (uint64, error) {
	return 0, sluice.Errorf(sluice.Unavailable, "the store is full").With("reason", sluice.ReasonStorage)
}

// What frees room or takes rights away is done on a full store, also with an Idempotency-Key.
func TestOnce_ActsOnAFullStore(t *testing.T) {
	t.Parallel()
	s := New(Options{Answers: fullAnswers{}})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/subscriptions/s/pause", strings.NewReader("{}"))
	req.Header.Set(headerIdempotencyKey, "k")
	w := httptest.NewRecorder()
	c := s.echo.NewContext(req, w)
	c.SetPath("/v1/subscriptions/:id/pause")
	require.NoError(t, s.once(c, func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }))
	require.Equal(t, http.StatusNoContent, w.Code)
}
