package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// standIn are wakes of one consumer.
type standIn struct {
	one   sluice.WakeConsumer
	ended []string
	err   error
}

func (*standIn) Call(context.Context, string, string, string, []byte) (model.WakeAnswer, error) {
	return model.WakeAnswer{}, nil
}

func (*standIn) Admit(context.Context, string, string, string) error { return nil }

func (w *standIn) Consumers(context.Context, *sluice.Subscription, model.WakeQuery) (model.WakePage, error) {
	other := w.one
	other.Path = "/secret/a"
	return model.WakePage{Consumers: []sluice.WakeConsumer{w.one, other}}, nil
}

func (w *standIn) Consumer(context.Context, *sluice.Subscription, sluice.Path) (sluice.WakeConsumer, error) {
	return w.one, nil
}

func (w *standIn) Ended(ctx context.Context, namespace string, path sluice.Path) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.ended = append(w.ended, namespace+string(path))
	return w.err
}

// S1-122: what was interrupted between a stream's end and that of its consumers is mended by deleting again, which
// finds no stream; a caller that has gone meanwhile interrupts nothing.
func TestStream_RepeatedDeletionEndsItsConsumers(t *testing.T) {
	t.Parallel()
	failed := errors.New("no answer")
	missing, gone := sluice.Errorf(sluice.NotFound, "none"), sluice.Errorf(sluice.StreamGone, "kept for its forks")
	for _, tt := range []struct {
		name                 string
		deleted, ended, want error
		told                 bool
	}{
		{"deleted", nil, nil, nil, true},
		{"deleted, and its consumers are there still", nil, failed, failed, true},
		{"deleted before", missing, nil, missing, true},
		{"deleted before, and its consumers are there still", missing, failed, failed, true},
		{"deleted before and kept for its forks", gone, nil, gone, true},
		{"not deleted", failed, nil, failed, false},
	} {
		w := &standIn{err: tt.ended}
		s := &Server{opts: Options{Wakes: w}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, tt.want, s.ended(ctx, "acme", "/a", tt.deleted), tt.name)
		require.Equal(t, tt.told, len(w.ended) == 1, tt.name)
	}
	require.NoError(t, (&Server{}).ended(t.Context(), "acme", "/a", nil))
}

// restricted is a server for whose caller the paths below /secret do not exist.
func restricted(t *testing.T, w Wakes) (*Server, sluice.Caller) {
	t.Helper()
	index := authz.NewIndex()
	index.CaughtUp()
	now := time.Now()
	object, err := sluice.ParseObject("path:acme/agents/**")
	require.NoError(t, err)
	g := authz.Granted{Grant: sluice.Grant{ID: "g", Principal: "user:ann", Verbs: []sluice.Verb{sluice.VerbSubscribe}, Object: object, IssuedBy: sluice.Root, IssuedAt: now, ExpiresAt: now.Add(time.Hour)}}
	index.Set(streams.GrantKey("g"), authz.Record{Grant: &g}, 1)
	return New(Options{Metrics: http.NotFoundHandler(), Authentication: Authentication{Access: index}, Wakes: w}), sluice.Caller{Principal: "user:ann", Grant: "g"}
}

// C14, S1-99: a worker subscribes to any path; a reader is shown the paths that it may know of.
func TestConsumer_HidesForbiddenPaths(t *testing.T) {
	t.Parallel()
	w := &standIn{one: sluice.WakeConsumer{Path: "/agents/a", Streams: []sluice.WakeStream{{Path: "/agents/a"}, {Path: "/secret/a"}, {Path: "/agents/b"}}}}
	s, who := restricted(t, w)
	ask := func(handle echo.HandlerFunc, name string) (string, error) {
		req := httptest.NewRequestWithContext(model.WithCaller(t.Context(), who), http.MethodGet, "/x", http.NoBody)
		rec := httptest.NewRecorder()
		c := s.echo.NewContext(req, rec)
		c.Set(subscriptionKey, &sluice.Subscription{ID: "handler", Namespace: "acme", Pattern: "/**", Mode: sluice.Wake})
		c.SetParamNames("consumer")
		c.SetParamValues(name)
		err := handle(c)
		return rec.Body.String(), err
	}
	body, err := ask(s.listConsumers, "")
	require.NoError(t, err)
	var list consumerList
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list.Consumers, 1)
	require.Equal(t, []sluice.WakeStream{{Path: "/agents/a"}, {Path: "/agents/b"}}, list.Consumers[0].Streams)
	require.NotContains(t, body, "secret")
	require.Len(t, w.one.Streams, 3, "what the engine has stays as it is")

	body, err = ask(s.getConsumer, "/agents/a")
	require.NoError(t, err)
	require.NotContains(t, body, "secret")
	_, err = ask(s.getConsumer, "/secret/a")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	require.NotContains(t, err.Error(), "secret")
}
