package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// S2-123: over TLS events come, the end is said, and who leaves is noticed, by either version of HTTP: over HTTP/1.1 a feed has a
// connection to itself, over HTTP/2 it is one of several requests.
func TestFeed_SSEWorksOverBothHTTPVersions(t *testing.T) {
	t.Parallel()
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP %d", major), func(t *testing.T) {
			t.Parallel()
			s := startTLS(t, nil)
			transport, ok := s.api.HTTP.Transport.(*http.Transport)
			require.True(t, ok)
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetHTTP1(major == 1)
			transport.Protocols.SetHTTP2(major == 2)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.at.HTTP+"/healthz", http.NoBody)
			require.NoError(t, err)
			resp, err := s.api.HTTP.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, major, resp.ProtoMajor)

			leaves, _ := s.feed(t, "")
			stays, _ := s.feed(t, "since=-1")
			large := strings.Repeat("x", 100_000) // is not copied
			put(t, s.api, "/a", 1, 40)
			s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a","type":"t","data":"`+large+`"}`)
			for n := 1; n <= 40; n++ {
				require.Equal(t, []string{fmt.Sprintf(`{"n":%d}`, n)}, stays.events(1))
			}
			require.Equal(t, []string{`"` + large + `"`}, stays.events(1))
			leaves.stop()
			require.Eventually(t, func() bool {
				return strings.Contains(s.must(t, http.StatusOK, "GET /metrics", "").text, "\nsluice_feeds 1\n")
			}, patience, 20*time.Millisecond)
			s.cancel()
			f, err := stays.next()
			require.NoError(t, err)
			require.NotNil(t, f.Error)
			require.Equal(t, "unavailable", f.Error.Code)
			_, err = stays.next()
			require.Error(t, err, "nothing follows")
		})
	}
}
