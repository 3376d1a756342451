package e2e_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A reader that waits for a stream's next event and loses access learns nothing any more: neither what comes, nor that
// something does, nor that the stream ends.
func TestStream_WaitingReaderLearnsNothingAfterAccessLoss(t *testing.T) {
	t.Parallel()
	for how, revoke := range revocations() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir(), func(c *config.Config) { c.Durable.LongPoll = sluice.Duration(2 * time.Second) })
			s.listed(t)
			g := s.grant(t, "user:ann", "scope:default", "read")
			s.must(t, http.StatusCreated, "PUT "+durableAt+"/talk", "first", text()...)
			end := s.must(t, http.StatusOK, "HEAD "+durableAt+"/talk", "").header.Get("Stream-Next-Offset")

			answer, err := s.waits(t.Context(), "/talk?offset="+end+"&live=sse", g.token)
			require.NoError(t, err)
			defer func() { require.NoError(t, answer.Body.Close()) }()
			require.Equal(t, http.StatusOK, answer.StatusCode)
			lines := bufio.NewScanner(answer.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), end) {
			}
			polled := make(chan string, 1)
			go func() { polled <- s.polls(t, "/talk?offset="+end+"&live=long-poll", g.token) }()

			revoke(t, s, g)
			s.must(t, http.StatusNoContent, "POST "+durableAt+"/talk", "second", text()...)
			require.Contains(t, []string{"", end}, <-polled)
			s.must(t, http.StatusNoContent, "POST "+durableAt+"/talk", "", append(text(), "Stream-Closed", "true")...)
			for lines.Scan() {
				require.Empty(t, lines.Text())
			}
		})
	}
}

// waits asks for a stream with a token.
func (s *running) waits(ctx context.Context, at, token string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at.HTTP+durableAt+at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return s.api.HTTP.Do(req)
}

// polls returns the offset in the answer to who waits for a stream.
func (s *running) polls(t *testing.T, at, token string) string {
	t.Helper()
	r, err := s.waits(t.Context(), at, token)
	if err != nil {
		t.Error(err)
		return "no answer"
	}
	defer func() { _ = r.Body.Close() }()
	return r.Header.Get("Stream-Next-Offset")
}

// Of a stream whose events are all above the clearance of a caller that only reads, the caller learns nothing: every
// answer is that of a path on which there is nothing. An event that it may see, or the right to write, shows the stream.
func TestStream_HiddenOneLooksAbsent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	eve, writer := s.grant(t, "user:eve", "path:default/orders/**", "read"), s.grant(t, "user:eve", "path:default/orders/**", "read publish")
	publish := func(path, id, label string) {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events",
			`{"specversion":"1.0","type":"t","source":"/s","id":"`+id+`","path":"`+path+`","dataclassification":"`+label+`","data":1}`)
	}
	publish("/orders/secret", "a", "SECRET/fin")
	publish("/orders/secret", "b", "SECRET/fin")
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/orders/empty", "")
	end := s.must(t, http.StatusOK, "HEAD "+durableAt+"/orders/secret", "").header.Get("Stream-Next-Offset")
	for _, query := range []string{"", "?offset=-1", "?offset=now", "?offset=" + end, "?offset=-1&live=long-poll", "?offset=-1&live=sse", "?offset=now&live=long-poll"} {
		none := s.must(t, http.StatusNotFound, "GET "+durableAt+"/orders/none"+query, "", as(eve.token)...)
		hidden := s.must(t, http.StatusNotFound, "GET "+durableAt+"/orders/secret"+query, "", as(eve.token)...)
		require.Equal(t, none.field(t, "error"), hidden.field(t, "error"), query)
		require.Empty(t, hidden.header.Get("Stream-Next-Offset"), query)
	}
	require.Empty(t, s.must(t, http.StatusNotFound, "HEAD "+durableAt+"/orders/secret", "", as(eve.token)...).header.Get("Stream-Next-Offset"))
	s.must(t, http.StatusOK, "HEAD "+durableAt+"/orders/empty", "", as(eve.token)...)
	s.must(t, http.StatusOK, "HEAD "+durableAt+"/orders/secret", "", as(writer.token)...)

	publish("/orders/secret", "c", "PUBLIC")
	publish("/orders/secret", "d", "SECRET/fin")
	s.must(t, http.StatusOK, "HEAD "+durableAt+"/orders/secret", "", as(eve.token)...)
	require.Equal(t, "[1]", s.must(t, http.StatusOK, "GET "+durableAt+"/orders/secret", "", as(eve.token)...).text)
	last := s.must(t, http.StatusOK, "GET "+durableAt+"/orders/secret?offset=now", "", as(eve.token)...)
	require.Equal(t, "[]", last.text)
}

// Readers that wait for the same stream share what is stored on it, as far as each may see it.
func TestStream_WaitingReadersSeeTheirEventsOnly(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	eve := s.grant(t, "user:eve", "path:default/orders/**", "read")
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/orders/mixed", "[]", "Content-Type", "application/json")
	bodies := make([]string, 4)
	var waiting, reading sync.WaitGroup
	for i, token := range []string{s.token, eve.token, s.token, eve.token} {
		waiting.Add(1)
		reading.Go(func() {
			r, err := s.waits(t.Context(), "/orders/mixed?offset=now&live=sse", token)
			waiting.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = r.Body.Close() }()
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			bodies[i] = string(body)
		})
	}
	waiting.Wait()
	for _, label := range []string{"PUBLIC", "SECRET/fin", "PUBLIC", "SECRET/fin"} {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events",
			`{"specversion":"1.0","type":"t","source":"/s","id":"`+rand.Text()+`","path":"/orders/mixed","dataclassification":"`+label+`","data":"`+label+`"}`)
	}
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/orders/mixed", "", "Stream-Closed", "true")
	reading.Wait()
	for i, body := range bodies {
		require.Contains(t, body, `"streamClosed":true`)
		require.Equal(t, 2, strings.Count(body, `"PUBLIC"`))
		require.Equal(t, []int{2, 0}[i%2], strings.Count(body, `"SECRET/fin"`))
	}
}

// A hidden stream cannot be told from none by forking it either.
func TestStream_HiddenSourceLooksAbsent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:boss", `{"tier":"admin"}`)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:eve",
		`{"entries":[{"tier":"read","pattern":"/orders/*"},{"tier":"write","pattern":"/forks/*"}]}`)
	eve := s.grant(t, "user:eve", "scope:default", "read publish")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events",
		`{"specversion":"1.0","type":"t","source":"/s","id":"a","path":"/orders/1","dataclassification":"SECRET","data":1}`)
	fork := func(status int, source string) string {
		return s.must(t, status, "PUT "+durableAt+"/forks/f", "", append(as(eve.token), "Stream-Forked-From", source)...).text
	}
	said := func(source string) string {
		text := fork(http.StatusNotFound, source)
		_, message, _ := strings.Cut(text, `"message"`)
		message, _, _ = strings.Cut(message, "request_id")
		return strings.ReplaceAll(message, source, "")
	}
	require.Equal(t, said("/orders/none"), said("/orders/1"))
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/orders/1","type":"t","data":2}`)
	fork(http.StatusCreated, "/orders/1")
}
