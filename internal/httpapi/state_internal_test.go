package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// slowLog says who asks for a state, and answers when it is told to.
type slowLog struct {
	Log

	asked  chan sluice.Principal
	answer chan struct{}
}

func (l *slowLog) State(ctx context.Context, _ string, _ model.StateQuery) (model.StatePage, error) {
	l.asked <- model.CallerFrom(ctx).Principal
	<-l.answer
	return model.StatePage{}, nil
}

// Issue 13, attack 3: a principal has one expression at a time evaluated over the state of a namespace.
func TestState_PrincipalsTakeTurns(t *testing.T) {
	t.Parallel()
	log := &slowLog{asked: make(chan sluice.Principal, 10), answer: make(chan struct{})}
	s := New(Options{Log: log, Authentication: Authentication{Access: authz.NewIndex()}})
	ask := func(ctx context.Context, who sluice.Principal, query string) error {
		ctx = model.WithCaller(ctx, sluice.Caller{Principal: who, Grant: "g"})
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/namespaces/default/state?"+query, http.NoBody)
		c := echo.New().NewContext(req, httptest.NewRecorder())
		c.SetParamNames("ns")
		c.SetParamValues("default")
		return s.listState(c)
	}
	errs := make(chan error, 3)
	for who, query := range map[sluice.Principal]string{"user:ann": "cel=event.seq>0", "user:bob": "cel=event.seq>0", "user:eve": "types=t"} {
		go func() { errs <- ask(t.Context(), who, query) }()
		require.Equal(t, who, <-log.asked, "others do not wait")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, query := range []string{"cel=event.seq>0", "filter=" + url.QueryEscape(`{"cel":"event.seq>0"}`)} {
		second := make(chan error, 1)
		go func() { second <- ask(ended, "user:ann", query) }()
		select {
		case err := <-second:
			require.ErrorIs(t, err, context.Canceled)
		case <-log.asked:
			require.Fail(t, "it does not wait for the principal's first")
		}
	}
	close(log.answer)
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.NoError(t, ask(t.Context(), "user:ann", "cel=event.seq>0"))
}
