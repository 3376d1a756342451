package app_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Whoever waits for what comes next of a stream and loses access learns nothing any more: neither what comes, nor that
// something does, nor that the stream ends.
func TestAReaderThatLosesAccessLearnsNothingMore(t *testing.T) {
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
