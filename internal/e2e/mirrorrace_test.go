package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/streams"
)

// ofMirrors returns the subjects of everything that is stored about mirrors: of their stream, their records, their
// tokens and the keys that namespaces trust.
func (s *running) ofMirrors(t *testing.T) (subjects []string) {
	t.Helper()
	js := dial(t, s.at.NATS)
	stream, err := js.Stream(t.Context(), jsNames(t).Mirror())
	require.NoError(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	for subject := range info.State.Subjects {
		subjects = append(subjects, subject)
	}
	for _, name := range []string{streams.Mirrors, streams.Credentials, streams.TrustedKeys} {
		bucket, err := js.KeyValue(t.Context(), jsNames(t).Bucket(name))
		require.NoError(t, err)
		keys, err := bucket.ListKeys(t.Context())
		require.NoError(t, err)
		for key := range keys.Keys() {
			subjects = append(subjects, name+" "+key)
		}
	}
	return subjects
}

// fills publishes events of 500 ids, so many times.
func (s *running) fills(t *testing.T, ns string, times int) {
	t.Helper()
	batch := make([]map[string]any, 500)
	for n := range times {
		for i := range batch {
			batch[i] = map[string]any{"path": fmt.Sprint("/a/", i), "id": fmt.Sprint("e", n, "-", i), "type": "t", "specversion": "1.0", "source": "/s", "data": map[string]int{"n": n}}
		}
		body, err := json.Marshal(batch)
		require.NoError(t, err)
		s.must(t, http.StatusCreated, "POST /v1/namespaces/"+ns+"/events", string(body))
	}
}

// S3-98, S3-110: a mirror that is deleted while it is synced, leaves nothing behind, and another one
// of the same namespaces can be created.
func TestMirror_DeletionDuringASyncLeavesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.fills(t, "low", 6)
	for round := range 12 {
		id := fmt.Sprint("m", round)
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":%q,"mode":"mirror","namespace":"high","source":"low","depth":"full"}`, id))
		var syncing sync.WaitGroup
		for range 3 {
			syncing.Go(func() { s.call(t, "POST /v1/subscriptions/"+id+"/sync?wait=10s", "") })
		}
		for range round {
			s.call(t, "GET /v1/subscriptions/"+id, "")
		}
		s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/"+id, "")
		syncing.Wait()
		eventually(t, func() bool { return len(s.ofMirrors(t)) == 0 }, "nothing is left")
	}
}

// Issue 16: the copy of the former log goes, and that of the new one comes, once an admin has accepted it.
func TestMirror_BeginsAnewWithAnAcceptedOrigin(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	mirrorable(t, s)
	s.publishes(t, "low", "/a one", "/a two")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/low", "")
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/low", `{"label":{"level":"INTERNAL","compartments":["a"]}}`)
	s.publishes(t, "low", "/a three")
	st := s.syncs(t)
	require.Equal(t, []any{"suspended", "origin_replaced"}, []any{st.field(t, "state"), st.field(t, "reason")})
	require.Equal(t, []string{"one 1 one", "two 2 two"}, s.mirrorsOf(t, "high"))
	require.Contains(t, s.must(t, http.StatusConflict, "POST /v1/subscriptions/m/resume", "").text, "accept_origin")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/m/resume", `{"accept_origin":true}`)
	st = s.syncs(t)
	require.Equal(t, []any{"idle", 1.0}, []any{st.field(t, "state"), st.field(t, "watermark")})
	require.Equal(t, []string{"three 1 three"}, s.mirrorsOf(t, "high"))
}

// S3-110: a mirror that is created while its namespace is deleted goes with it, and so does a key that is trusted meanwhile.
func TestMirror_GoesWithItsNamespaceAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	kid, body := gapped{s, s}.key(t, s)
	for round := range 12 {
		s.must(t, http.StatusCreated, "PUT /v1/namespaces/short", `{"label":{"level":"SECRET","compartments":["a"]}}`)
		var creating sync.WaitGroup
		creating.Go(func() {
			for n := range 10 {
				s.call(t, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"m%d-%d","mode":"mirror","namespace":"short","source":"https://example.com/v1/namespaces/n%d"}`, round, n, n))
			}
		})
		creating.Go(func() {
			s.call(t, "PUT /v1/namespaces/short/trusted-keys/"+kid, body)
		})
		for range round {
			s.call(t, "GET /v1/subscriptions?mode=mirror", "")
		}
		s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/short", "")
		creating.Wait()
		eventually(t, func() bool { return len(s.ofMirrors(t)) == 0 }, "nothing is left")
	}
}
