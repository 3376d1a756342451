package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	jsonType = "application/json"
	textType = "text/plain"
)

// runServer runs a server until the test ends, or until stop is called, and returns a client of it.
func runServer(t *testing.T) (api *client.Client, stop func()) {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Dev = t.TempDir(), true
	cfg.HTTP.Listen, cfg.NATS.Listen, cfg.NATS.Sync = "127.0.0.1:0", "none", "1h"
	cfg.Durable.LongPoll = sluice.Duration(300 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan datadir.Addresses, 1), make(chan error, 1)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	go func() {
		ended <- app.Run(ctx, cfg, app.Options{Log: log, Silent: true, Ready: func(at datadir.Addresses) { ready <- at }})
		close(ended)
	}()
	stop = func() {
		cancel()
		require.NoError(t, <-ended)
	}
	t.Cleanup(stop)
	var at datadir.Addresses
	select {
	case at = <-ready:
	case err := <-ended:
		require.NoError(t, err)
		require.FailNow(t, "the server ended before it was ready")
	}
	token, err := os.ReadFile(filepath.Join(cfg.Data, datadir.RootTokenFile))
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	api = client.New(at.HTTP, strings.TrimSpace(string(token)))
	api.HTTP = &http.Client{Transport: transport}
	return api, stop
}

// all reads a stream from an offset to its end.
func all(t *testing.T, api *client.Client, path sluice.Path, offset string) (string, client.StreamPage) {
	t.Helper()
	var text strings.Builder
	for range 100 {
		page, err := api.ReadStream(t.Context(), "default", path, offset)
		require.NoError(t, err)
		text.Write(page.Data)
		if page.UpToDate {
			return text.String(), page
		}
		offset = page.Next
	}
	require.FailNow(t, "a hundred pages")
	return "", client.StreamPage{}
}

func TestStream_LivesThroughEveryCall(t *testing.T) {
	t.Parallel()
	api, _ := runServer(t)
	ctx := t.Context()
	const ns, path = "default", sluice.Path("/notes/a b/ü")
	spec := client.StreamSpec{ContentType: textType, Body: []byte("one,"), TTL: time.Hour}
	info, created, err := api.CreateStream(ctx, ns, path, spec)
	require.NoError(t, err)
	require.True(t, created)
	_, created, err = api.CreateStream(ctx, ns, path, spec)
	require.NoError(t, err)
	require.False(t, created, "it is the same one")
	spec.ContentType = jsonType
	_, _, err = api.CreateStream(ctx, ns, path, spec)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))

	appended, err := api.AppendStream(ctx, ns, path, client.StreamAppend{ContentType: textType, Data: []byte("two,"), Seq: "b"})
	require.NoError(t, err)
	require.Greater(t, appended.Next, info.Next)
	_, err = api.AppendStream(ctx, ns, path, client.StreamAppend{ContentType: textType, Data: []byte("late,"), Seq: "a"})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	_, err = api.AppendStream(ctx, ns, path, client.StreamAppend{Data: []byte{0}})
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "it is text")

	text, page := all(t, api, path, "")
	require.Equal(t, "one,two,", text)
	require.False(t, page.IsJSON())
	require.Equal(t, appended.Next, page.Next)
	require.False(t, page.Closed)
	text, _ = all(t, api, path, info.Next)
	require.Equal(t, "two,", text)
	text, page = all(t, api, path, client.FromNow)
	require.Empty(t, text)
	require.Equal(t, appended.Next, page.Next)

	got, err := api.Stream(ctx, ns, path)
	require.NoError(t, err)
	require.Equal(t, client.StreamInfo{ContentType: textType, Next: appended.Next, TTL: time.Hour}, got)

	closed, err := api.CloseStream(ctx, ns, path)
	require.NoError(t, err)
	require.Equal(t, client.StreamAppended{Next: appended.Next, Closed: true}, closed)
	_, err = api.AppendStream(ctx, ns, path, client.StreamAppend{ContentType: textType, Data: []byte("three")})
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, sluice.Conflict, e.Code)
	require.Equal(t, true, e.Details["closed"])
	require.Equal(t, appended.Next, e.Details["next_offset"])
	_, page = all(t, api, path, "")
	require.True(t, page.Closed)

	require.NoError(t, api.DeleteStream(ctx, ns, path))
	require.Equal(t, sluice.NotFound, sluice.CodeOf(api.DeleteStream(ctx, ns, path)))
	_, err = api.Stream(ctx, ns, path)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	require.EqualError(t, err, `stream "/notes/a b/ü" not found`)
	e, ok = errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.NotEmpty(t, e.Details["request_id"])
}

func TestStream_StoresAProducersAppendOnce(t *testing.T) {
	t.Parallel()
	api, _ := runServer(t)
	const path = sluice.Path("/p")
	_, _, err := api.CreateStream(t.Context(), "default", path, client.StreamSpec{ContentType: jsonType})
	require.NoError(t, err)
	give := func(data string, epoch, seq int64) (client.StreamAppended, error) {
		return api.AppendStream(t.Context(), "default", path, client.StreamAppend{
			ContentType: jsonType, Data: []byte(data), Producer: &client.StreamProducer{ID: "till", Epoch: epoch, Seq: seq},
		})
	}
	first, err := give(`[1,{"n":2}]`, 0, 0)
	require.NoError(t, err)
	require.False(t, first.Duplicate)
	again, err := give(`[1,{"n":2}]`, 0, 0)
	require.NoError(t, err)
	require.True(t, again.Duplicate)

	_, err = give(`3`, 0, 2)
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, sluice.Conflict, e.Code)
	require.Equal(t, "1", e.Details["expected_seq"])
	_, err = give(`3`, 1, 0)
	require.NoError(t, err)
	_, err = give(`4`, 0, 1)
	e, ok = errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, sluice.Forbidden, e.Code)
	require.Equal(t, "1", e.Details["epoch"])

	_, page := all(t, api, path, "")
	require.True(t, page.IsJSON())
	messages, err := page.Messages()
	require.NoError(t, err)
	require.Len(t, messages, 3)
	require.JSONEq(t, `{"n":2}`, string(messages[1]))
}

func TestFork_HoldsTheContentOfItsSource(t *testing.T) {
	t.Parallel()
	api, _ := runServer(t)
	ctx := t.Context()
	source, _, err := api.CreateStream(ctx, "default", "/source", client.StreamSpec{ContentType: textType, Body: []byte("ab")})
	require.NoError(t, err)
	_, err = api.AppendStream(ctx, "default", "/source", client.StreamAppend{ContentType: textType, Data: []byte("cdef")})
	require.NoError(t, err)
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	_, created, err := api.CreateStream(ctx, "default", "/fork", client.StreamSpec{
		ContentType: textType, ExpiresAt: until, Closed: true, Fork: &client.StreamFork{From: "/source", Offset: source.Next, Sub: 2},
	})
	require.NoError(t, err)
	require.True(t, created)
	text, page := all(t, api, "/fork", "")
	require.Equal(t, "abcd", text)
	require.True(t, page.Closed)
	got, err := api.Stream(ctx, "default", "/fork")
	require.NoError(t, err)
	require.True(t, until.Equal(got.ExpiresAt), got.ExpiresAt)

	require.NoError(t, api.DeleteStream(ctx, "default", "/source"))
	_, err = api.Stream(ctx, "default", "/source")
	require.Equal(t, sluice.StreamGone, sluice.CodeOf(err), "it is kept for the fork")
	_, _, err = api.CreateStream(ctx, "default", "/other", client.StreamSpec{Fork: &client.StreamFork{From: "/none"}})
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
}

// reader reads a stream of JSON and remembers where it was.
type reader struct {
	api    *client.Client
	path   sluice.Path
	offset string
	seen   []string
}

// follow reads on until there are so many messages, or to the end, and returns the last page.
func (r *reader) follow(t *testing.T, enough int) (last client.StreamPage) {
	t.Helper()
	for page, err := range r.api.FollowStream(t.Context(), "default", r.path, r.offset) {
		require.NoError(t, err)
		part, err := page.Messages()
		require.NoError(t, err)
		for _, m := range part {
			r.seen = append(r.seen, string(m))
		}
		r.offset, last = page.Next, page
		if len(r.seen) >= enough {
			break
		}
	}
	return last
}

// A reader follows while a writer appends, leaves in between, and goes on where the last page ended; long-polls
// end in between without anything having come.
func TestFollow_ReadsToTheEndAcrossPauses(t *testing.T) {
	t.Parallel()
	api, _ := runServer(t)
	const messages, path = 40, sluice.Path("/followed")
	_, _, err := api.CreateStream(t.Context(), "default", path, client.StreamSpec{ContentType: jsonType})
	require.NoError(t, err)
	var want []string
	for i := range messages {
		want = append(want, strconv.Itoa(i))
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for _, text := range want {
			_, err := api.AppendStream(t.Context(), "default", path, client.StreamAppend{ContentType: jsonType, Data: []byte(text)})
			if err != nil {
				t.Error(err)
			}
		}
	})
	r := reader{api: api, path: path}
	r.follow(t, messages/4)
	require.False(t, r.follow(t, messages).Closed)
	writing.Wait()
	late := reader{api: api, path: path, offset: client.FromNow}
	writing.Go(func() {
		if _, err := api.CloseStream(t.Context(), "default", path); err != nil {
			t.Error(err)
		}
	})
	last := late.follow(t, 1)
	require.True(t, last.Closed)
	require.Empty(t, last.Data)
	writing.Wait()
	require.True(t, r.follow(t, messages+1).Closed)
	require.Equal(t, want, r.seen)
}

func TestFollow_EndsWithContextServerOrStream(t *testing.T) {
	t.Parallel()
	api, stop := runServer(t)
	api.Retries = 1
	_, _, err := api.CreateStream(t.Context(), "default", "/f", client.StreamSpec{ContentType: textType, Body: []byte("x")})
	require.NoError(t, err)
	follow := func(ctx context.Context, path sluice.Path, each func()) (err error) {
		for page, failed := range api.FollowStream(ctx, "default", path, "") {
			if err = failed; err == nil {
				require.Equal(t, "x", string(page.Data))
				each()
			}
		}
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, follow(ctx, "/f", cancel), context.Canceled)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(follow(t.Context(), "/none", func() {})))
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(follow(t.Context(), "/f", stop)))
}

// Repeated, it could be stored twice.
func TestClient_RepeatsOnlyIdempotentAppends(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		append client.StreamAppend
		asked  int
	}{
		{"data", client.StreamAppend{Data: []byte("x")}, 1},
		{"data and the end", client.StreamAppend{Data: []byte("x"), Close: true}, 1},
		{"a producer's", client.StreamAppend{Data: []byte("x"), Producer: &client.StreamProducer{ID: "p"}}, 2},
		{"the end", client.StreamAppend{Close: true}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer{503, ""})
			s.Retries = 1
			_, err := s.AppendStream(t.Context(), "acme", "/a", tt.append)
			require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
			require.Len(t, s.requests(), tt.asked)
		})
	}
}

func TestPath_IsEscapedInURLs(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{204, ""})
	require.NoError(t, s.DeleteStream(t.Context(), "acme", "/a b/50%/c?d#e"))
	require.Equal(t, "DELETE /streams/acme/a%20b/50%25/c%3Fd%23e", s.requests()[0].line)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(s.DeleteStream(t.Context(), "acme", "/")))
	require.Len(t, s.requests(), 1)
}

// A connection that breaks off and a server that has just started are no end.
func TestFollow_ResumesAfterAnOutage(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.RawQuery)
		h := w.Header()
		h.Set("Content-Type", textType)
		switch len(asked) {
		case 1:
			h.Set("Stream-Next-Offset", "0_1")
			h.Set("Stream-Cursor", "7")
			_, _ = io.WriteString(w, "x")
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			h.Set("Stream-Next-Offset", "0_2")
			h.Set("Stream-Closed", "true")
			_, _ = io.WriteString(w, "y")
		}
	}))
	t.Cleanup(srv.Close)
	var got []string
	for page, err := range client.New(srv.URL, "").FollowStream(t.Context(), "acme", "/a", "") {
		require.NoError(t, err)
		got = append(got, string(page.Data))
	}
	require.Equal(t, []string{"x", "y"}, got)
	mu.Lock()
	defer mu.Unlock()
	const again = "cursor=7&live=long-poll&offset=0_1"
	require.Equal(t, []string{"live=long-poll&offset=-1", again, again, again}, asked)
}
