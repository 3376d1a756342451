package app_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Issue 13, attack 13: secrets of Slack, Teams and Discord lie in the path. The owner and root see the URL; an admin of the
// namespace, who may see the subscription, sees the host, and cannot put back what it was shown.
func TestURL_IsShownToItsOwnerOnly(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	ann, boss := s.grant(t, "user:ann", "scope:default", "subscribe"), s.grant(t, "user:boss", "scope:default", "admin")
	const at, whole, host = "/v1/subscriptions/slack", "http://127.0.0.1:9/services/T0/hunter?key=2", "http://127.0.0.1:9/***"
	made := s.must(t, http.StatusCreated, "PUT "+at, `{"pattern":"/a/**","endpoint":{"url":"`+whole+`"}}`, as(ann.token)...)
	require.Equal(t, whole, made.field(t, "endpoint.url"))
	for token, want := range map[string]string{s.token: whole, ann.token: whole, boss.token: host} {
		require.Equal(t, want, s.must(t, http.StatusOK, "GET "+at, "", as(token)...).field(t, "endpoint.url"))
		list, _ := s.must(t, http.StatusOK, "GET /v1/subscriptions", "", as(token)...).field(t, "subscriptions").([]any)
		require.Len(t, list, 1)
		require.Equal(t, want, list[0].(map[string]any)["endpoint"].(map[string]any)["url"])
		require.Equal(t, want, s.must(t, http.StatusOK, "POST "+at+"/pause", "", as(token)...).field(t, "endpoint.url"))
	}
	r := s.must(t, http.StatusBadRequest, "PATCH "+at, `{"endpoint":{"url":"`+host+`"}}`, as(boss.token)...)
	require.Contains(t, r.text, "leave it out")
	s.must(t, http.StatusOK, "PATCH "+at, `{"description":"x"}`, as(boss.token)...)
	require.Equal(t, whole, s.must(t, http.StatusOK, "GET "+at, "", as(ann.token)...).field(t, "endpoint.url"))
	require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/audit", "").text, "hunter")
}
