package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/streams"
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
	require.Contains(t, r.text, "omit it")
	s.must(t, http.StatusOK, "PATCH "+at, `{"description":"x"}`, as(boss.token)...)
	require.Equal(t, whole, s.must(t, http.StatusOK, "GET "+at, "", as(ann.token)...).field(t, "endpoint.url"))
	require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/audit", "").text, "hunter")
}

// Issue 13, attack 13: the webhook of a stream subscription is shown as an endpoint is, and what is shown is no URL to send back.
func TestStreamSub_URLIsShownToItsOwnerOnly(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	ann, boss := s.grant(t, "user:ann", "scope:default", "subscribe"), s.grant(t, "user:boss", "scope:default", "admin")
	const base, whole, host = "/streams/default/__ds/subscriptions/", "http://127.0.0.1:9/services/T0/hunter?key=2", "http://127.0.0.1:9/***"
	wish := func(url string) string { return `{"type":"webhook","pattern":"a/**","webhook":{"url":"` + url + `"}}` }
	s.must(t, http.StatusCreated, "PUT "+base+"slack", wish(whole), as(ann.token)...)
	for token, want := range map[string]string{s.token: whole, ann.token: whole, boss.token: host} {
		require.Equal(t, want, s.must(t, http.StatusOK, "GET "+base+"slack", "", as(token)...).field(t, "webhook.url"))
		require.Equal(t, want, s.must(t, http.StatusOK, "PUT "+base+"slack", wish(whole), as(token)...).field(t, "webhook.url"))
	}
	s.must(t, http.StatusConflict, "PUT "+base+"slack", wish(host), as(boss.token)...)
	refused := s.must(t, http.StatusBadRequest, "PUT "+base+"mine", wish(host), as(boss.token)...)
	require.Equal(t, "WEBHOOK_URL_REJECTED", refused.field(t, "error.code"))
	require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/audit", "").text, "hunter")
}

// Issue 13, attack 13: the bucket holds the webhook of a stream subscription sealed; what an earlier build left plain is sealed
// at the start, and goes on being woken.
func TestStreamSub_URLIsSealedInTheBucket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, hook := start(t, dir, nil), hooktest.New(t, nil)
	const at = "/streams/default/__ds/subscriptions/hook"
	s.must(t, http.StatusCreated, "PUT "+at, `{"type":"webhook","pattern":"a/**","webhook":{"url":"`+hook.URL+`/hunter2"}}`)
	record := func() (key, text string) {
		t.Helper()
		kv, err := dial(t, s.at.NATS).KeyValue(t.Context(), jsNames(t).Bucket(streams.StreamWakes))
		require.NoError(t, err)
		keys, err := kv.Keys(t.Context())
		require.NoError(t, err)
		require.Len(t, keys, 1)
		entry, err := kv.Get(t.Context(), keys[0])
		require.NoError(t, err)
		return keys[0], string(entry.Value())
	}
	key, sealed := record()
	require.NotContains(t, sealed, "hunter2")
	require.NotContains(t, sealed, `"hash"`, "a hash of what is sealed lets guesses be tried")
	_, rest, found := strings.Cut(sealed, `"url":"`)
	require.True(t, found, sealed)
	text, _, _ := strings.Cut(rest, `"`)
	require.Regexp(t, "^enc1[.]", text)
	kv, err := dial(t, s.at.NATS).KeyValue(t.Context(), jsNames(t).Bucket(streams.StreamWakes))
	require.NoError(t, err)
	_, err = kv.PutString(t.Context(), key, strings.Replace(sealed, text, hook.URL+"/hunter2", 1))
	require.NoError(t, err)
	s.stop(t)

	s = start(t, dir, nil)
	_, again := record()
	require.NotContains(t, again, "hunter2")
	require.Equal(t, hook.URL+"/hunter2", s.must(t, http.StatusOK, "GET "+at, "").field(t, "webhook.url"))
	s.must(t, http.StatusCreated, "PUT /streams/default/a/1", `1`)
	require.Equal(t, "/hunter2", hook.Wait(1)[0].Path)
}
