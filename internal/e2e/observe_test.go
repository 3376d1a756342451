package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// observed returns what a token's holder sees of a namespace, as "op id".
func (s *running) observed(t *testing.T, token string) []string {
	t.Helper()
	all := []string{}
	items, ok := s.must(t, http.StatusOK, "GET /v1/namespaces/default/observe?limit=1000", "", as(token)...).field(t, "items").([]any)
	require.True(t, ok)
	for _, item := range items {
		fields, ok := item.(map[string]any)
		require.True(t, ok)
		all = append(all, fmt.Sprint(fields["op"], " ", fields["id"]))
	}
	return all
}

// S3-40, S3-57, S3-142, S3-145: a caller sees the changes of what it may read, and the deletions of what it could read; a token
// that is revoked sees nothing.
func TestObserve_ShowsReadableEventsAndDeletions(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET"}}`)
	whole, cleared := s.grant(t, "user:bob", "scope:default", "read"), s.grant(t, "user:ann", "scope:default", "read")
	part, other := s.grant(t, "user:bob", "path:default/a/**", "read"), s.grant(t, "user:bob", "path:default/b/**", "read")
	s.labelled(t, "/a/1", "a-open", "PUBLIC", `{"mark":1}`)
	s.labelled(t, "/a/1", "a-secret", "SECRET", `{"mark":1}`)
	s.labelled(t, "/b/1", "b-open", "PUBLIC", `{"mark":1}`)
	s.aboutOrders(t)
	orders := []string{"write other", "write related", "write bare", "write first", "write second"}

	require.Equal(t, append([]string{"write a-open", "write b-open"}, orders...), s.observed(t, whole.token))
	require.Equal(t, append([]string{"write a-open", "write a-secret", "write b-open"}, orders...), s.observed(t, cleared.token))
	require.Equal(t, []string{"write a-open"}, s.observed(t, part.token))
	require.Equal(t, []string{"write b-open"}, s.observed(t, other.token))

	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/a/1"}`)
	require.Equal(t, append(append([]string{"write b-open"}, orders...), "delete a-open"), s.observed(t, whole.token))
	require.Equal(t, append(append([]string{"write b-open"}, orders...), "delete a-open", "delete a-secret"), s.observed(t, cleared.token))
	require.Equal(t, append(append([]string{"write b-open"}, orders...), "delete a-open", "delete a-secret"), s.observed(t, s.token))
	require.Equal(t, []string{"delete a-open"}, s.observed(t, part.token))
	require.Equal(t, []string{"write b-open"}, s.observed(t, other.token))

	s.must(t, http.StatusOK, "POST /v1/grants/"+part.id+"/revoke", "")
	require.Equal(t, http.StatusUnauthorized, s.call(t, "GET /v1/namespaces/default/observe", "", as(part.token)...).status)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default", `{"label":{"level":"SECRET"}}`)
	require.Equal(t, http.StatusNotFound, s.call(t, "GET /v1/namespaces/default/observe", "", as(whole.token)...).status)
	label := s.must(t, http.StatusOK, "GET /v1/namespaces/default/observe", "", as(cleared.token)...).field(t, "label")
	require.Equal(t, map[string]any{"level": "SECRET", "compartments": []any{}}, label)
}

// S3-40: a feed names its log, and a place in another log of the same namespace is refused.
func TestFeed_PlaceInAnotherLogIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const short = "/v1/namespaces/short"
	made := func() string {
		s.must(t, http.StatusCreated, "PUT "+short, `{}`)
		s.must(t, http.StatusCreated, "POST "+short+"/events", `{"path":"/a","type":"t"}`)
		id, ok := s.must(t, http.StatusOK, "GET "+short+"/observe", "").field(t, "incarnation").(string)
		require.True(t, ok)
		return id
	}
	follow := func(q client.FeedQuery) (incarnation string, err error) {
		for item, err := range s.api.Feed(t.Context(), "short", q) {
			if err != nil || item.Event != nil {
				return incarnation, err
			}
			incarnation = item.Incarnation
		}
		return incarnation, nil
	}
	first := made()
	got, err := follow(client.FeedQuery{Since: "-1", Incarnation: first})
	require.NoError(t, err)
	require.Equal(t, first, got)
	s.must(t, http.StatusNoContent, "DELETE "+short, "")
	second := made()
	require.NotEqual(t, first, second)
	eventually(t, func() bool { // the reader of the first log ends in its own time
		got, err = follow(client.FeedQuery{Since: "-1", Incarnation: second})
		return err == nil
	}, "a reader of the new log")
	require.Equal(t, second, got)
	_, err = follow(client.FeedQuery{Since: "1", Incarnation: first})
	require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(err))
	var refused *sluice.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []any{"another_log", second}, []any{refused.Details["reason"], refused.Details["incarnation"]})
}

// S3-40: the head of a stream names the log that its offsets are of.
func TestStream_HeadNamesItsLog(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/talk", "")
	log := s.must(t, http.StatusOK, "GET /v1/namespaces/default/observe", "").field(t, "incarnation")
	require.Equal(t, log, s.must(t, http.StatusOK, "HEAD "+durableAt+"/talk", "").header.Get("Sluice-Incarnation"))
}
