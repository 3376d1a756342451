package app_test

import (
	"bufio"
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

			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.at.HTTP+durableAt+"/talk?offset="+end+"&live=sse", nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+g.token)
			answer, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer answer.Body.Close()
			require.Equal(t, http.StatusOK, answer.StatusCode)
			lines := bufio.NewScanner(answer.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), end) { //nolint:revive // up to where it ends now
			}
			polled := make(chan reply, 1)
			go func() { polled <- s.call(t, "GET "+durableAt+"/talk?offset="+end+"&live=long-poll", "", as(g.token)...) }()

			revoke(t, s, g)
			s.must(t, http.StatusNoContent, "POST "+durableAt+"/talk", "second", text()...)
			r := <-polled
			require.NotEqual(t, http.StatusOK, r.status)
			require.Contains(t, []string{"", end}, r.header.Get("Stream-Next-Offset"))
			s.must(t, http.StatusNoContent, "POST "+durableAt+"/talk", "", append(text(), "Stream-Closed", "true")...)
			for lines.Scan() {
				require.Empty(t, lines.Text())
			}
		})
	}
}
