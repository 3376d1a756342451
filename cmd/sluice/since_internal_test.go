package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"
)

// How long ago is a time in every since=, until= and after= of the API, as on the command line.
func TestSince_SaysHowLongAgoOverHTTP(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.must("pub", "/a", "{}", "--id", "first")
	c.must("sub", "create", "--id", "s", "--pattern", "/**", "--url", "https://e.invalid/", "--start", "all")
	c.must("sub", "pause", "s")
	addresses, err := terminal.ReadAddresses(c.data)
	require.NoError(t, err)
	token, err := terminal.ReadToken(c.data)
	require.NoError(t, err)
	get := func(path string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, addresses.HTTP+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		if strings.Contains(path, "/feed") {
			return ""
		}
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	const found, audited = `"id":"first"`, `"action":"subscription.pause"`
	for _, tt := range []struct {
		path, text string
		has        bool
	}{
		{"/v1/namespaces/default/events?since=10m", found, true},
		{"/v1/namespaces/default/events?since=7d", found, true},
		{"/v1/namespaces/default/events?until=10m", found, false},
		{"/v1/namespaces/default/feed?since=10m", "", true},
		{"/v1/subscriptions/s/events?after=10m", found, true},
		{"/v1/subscriptions/s/deliveries?since=10m&until=1ns", "", true},
		{"/v1/subscriptions/s/dead-letters?since=10m", "", true},
		{"/v1/audit?since=10m", audited, true},
		{"/v1/audit?until=10m", audited, false},
	} {
		require.Equal(t, tt.has, strings.Contains(get(tt.path), tt.text), tt.path)
	}
	require.Contains(t, c.must("audit", "--since", "10m"), "subscription.pause")
	require.NotContains(t, c.must("audit", "--until", "10m"), "subscription.pause")
	http.DefaultClient.CloseIdleConnections()
}
