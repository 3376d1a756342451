package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

// syncing is a server whose mirror is in the middle of a long source for the first waits.
func syncing(t *testing.T, waits int32, end string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost && strings.HasSuffix(r.URL.Path, "/status"):
			_, _ = io.WriteString(w, `{"state":"syncing","watermark":500,"source_seq":1000}`)
		case r.Method != http.MethodPost:
			_, _ = io.WriteString(w, `{"id":"m","mode":"mirror"}`)
		case asked.Add(1) <= waits:
			w.WriteHeader(http.StatusAccepted)
		default:
			_, _ = io.WriteString(w, end)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// A sync that takes longer than the server waits is waited for all the same.
func TestMirrorSync_WaitsToTheEnd(t *testing.T) {
	t.Parallel()
	url, asked := syncing(t, 3, `{"state":"idle","watermark":1000,"source_seq":1000,"explanation":"e"}`)
	var out bytes.Buffer
	s := &terminal.Session{Stdout: &out, Stderr: io.Discard, Terminal: true, Exit: func(int) {}}
	require.Zero(t, run(t.Context(), []string{"mirror", "sync", "m", "--wait", "--server", url}, s))
	require.Contains(t, out.String(), "1000 of 1000")
	require.Equal(t, int32(4), asked.Load())
}

// What a mirror lacks, and why, is in its status.
func TestMirrorSync_ShowsGapsAndFailures(t *testing.T) {
	t.Parallel()
	url, _ := syncing(t, 0, `{"state":"suspended","reason":"label_raised","explanation":"suspended: why","watermark":8,"source_seq":9,"mirrored_count":5,"deleted_count":4,"gap_count":2,"lag_items":1,"lag_seconds":90.4,"failures":2,"stale":true,"error":"the error",`+
		`"gaps":[{"from":1,"to":3,"cause":"retention","at":"2026-11-24T01:02:03Z"},{"from":7,"to":7,"cause":"label","at":"2026-11-24T01:02:04Z"}]}`)
	status, stdout, stderr := runUntil(t.Context(), "", "mirror", "sync", "m", "--wait", "--server", url)
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, "the mirror is suspended: label_raised")
	require.Equal(t, `suspended: why

state      suspended: label_raised
watermark  8 of 9
lag        1 sequences, 1m30s
entries    5
deleted    4
gaps       2
last sync  -
next sync  -
stale      yes
failures   2
error      the error

MISSING FROM  TO  CAUSE      FOUND
1             3   retention  2026-11-24T01:02:03Z
7             7   label      2026-11-24T01:02:04Z
`, stdout)
}
