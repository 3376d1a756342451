package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

// The habits and mistakes of newcomers on the command line, by their numbers in the report of the first hour: each is
// answered with the command, the setting or the reason. The inputs 1 to 32 are those of the API; 21 has its warning here.
func TestInputs_GetHelpfulAnswers(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.must("sub", "create", "--id", "dead", "--pattern", "/**", "--url", "http://127.0.0.1:1/")
	c.must("sub", "create", "--id", "other", "--pattern", "/x/**", "--url", "http://127.0.0.1:1/")
	c.must("pub", "/orders/1", `{"total":7}`, "--type", "order.paid", "--id", "order-1")
	c.must("ns", "put", "acme")
	c.must("pub", "/a", "1", "--ns", "acme", "--id", "pay-1")
	addresses, err := terminal.ReadAddresses(c.data)
	require.NoError(t, err)
	used := strings.TrimPrefix(addresses.HTTP, "http://")
	setting := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(setting, []byte("nope: 1\n"), 0o600))
	free := t.TempDir()
	for _, tt := range []struct {
		number int
		line   string
		status int
		says   []string // in its output or its complaint
	}{
		{
			21, `sub create --id totl --pattern /orders/** --url http://127.0.0.1:1/ --type order.paid --cel event.data.totl>5`, 0,
			[]string{"warning: filter.cel: none of the latest 1 events on these paths has event.data.totl; did you mean event.data.total?"},
		},
		{21, "sub test totl --event order-1", 1, []string{"totl would not get this event. The filter does not match: the expression event.data.totl>5"}},
		{21, `sub test totl --path /orders/2 --type order.paid {"totl":6}`, 0, []string{"The pattern and the filter match."}},
		{21, "sub test totl --event order-1 --path /a", 2, []string{"--event names a stored event"}},
		{33, "", 2, []string{"Usage: sluice <command>", "Start:", "  serve", "  pub"}},
		{34, "foo", 2, []string{"unexpected argument foo", "Run sluice --help"}},
		{34, "help", 0, []string{"Usage: sluice <command>"}},
		{34, "--version", 0, []string{"sluice "}},
		{34, "completion bash", 0, []string{"complete -o default -F _sluice sluice"}},
		{35, "subs ls", 0, []string{"other", "HEALTH"}},
		{36, "sub list", 0, []string{"other", "HEALTH"}},
		{36, "subscription ls", 0, []string{"other", "HEALTH"}},
		{37, "ns ls --data " + free, 1, []string{"no server is running on " + free, "start one with sluice serve", "set SLUICE_URL and SLUICE_TOKEN"}},
		{38, "ns ls --server 127.0.0.1:8080", 2, []string{"write a URL such as http://127.0.0.1:8080"}},
		{39, "ns ls --server " + addresses.HTTP, 1, []string{"requires a token: set SLUICE_TOKEN, or --token"}},
		{40, "serve --dev --nats-listen none --http " + used + " --data " + filepath.Join(free, "second"), 1, []string{used + " is used by another process", "--http", "port 0 picks a free one"}},
		{41, "serve --dev --nats-listen none --http 127.0.0.1:0", 1, []string{"is used by another process; stop it or choose another directory"}},
		{42, "serve --config " + setting, 2, []string{"setting nope is unknown; valid settings here are attempts"}},
		{43, "serve --nats-listen 0.0.0.0:0", 2, []string{"without users, only addresses of this machine are allowed; set nats.users"}},
		{48, "pub /orders/42 {bad", 2, []string{"looks like JSON but is invalid", "single quotes", "stdin with -"}},
		{49, "deliveries dead --since 10m", 0, []string{"SEQ"}},
		{49, "audit --since 1h", 0, []string{"subscription.create"}},
		{49, "dead ls dead --since 10m", 0, []string{"EVENT"}},
		{50, "sub pause dead other", 0, []string{"Paused subscription dead.", "Paused subscription other."}},
		{51, "sub test other", 1, []string{"outcome", "refused", "the endpoint of other did not accept the test event"}},
		{51, "sub test other -o json", 1, []string{`"code":"unavailable"`}},
		{52, "stream append /zz hi", 1, []string{`stream "/zz" not found`, "sluice stream create /zz"}},
		{54, "events get pay-1", 1, []string{`event "pay-1" not found in default`}},
	} {
		args := strings.Fields(tt.line)
		if !strings.Contains(tt.line, "--data") {
			args = append(args, "--data", c.data)
		}
		if tt.line == "" {
			args = nil
		}
		status, stdout, stderr := runUntil(t.Context(), "", args...)
		for _, text := range tt.says {
			require.Contains(t, stdout+stderr, text, "%d: %s", tt.number, tt.line)
		}
		require.Equal(t, tt.status, status, "%d: %s: %s", tt.number, tt.line, stderr)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"sub ls", "sub status dead", "deliveries dead", "dead ls dead"} { // 53
		status, stdout, stderr := runUntil(ended, "", append(strings.Fields(line), "--watch", "--data", c.data)...)
		require.NotEqual(t, terminal.ExitUsage, status, line)
		require.NotContains(t, stdout+stderr, "unknown flag", line)
	}
}

// A server that is reached from a network without TLS says so (44). Another key (45), NATS that is away (47) and an account
// without JetStream (46) are tested where they are found out.
func TestServe_WarnsOfPlainHTTP(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	log := &logUntil{text: "ready", end: cancel}
	s := &terminal.Session{Stdin: strings.NewReader(""), Stdout: log, Stderr: log, Exit: func(int) {}}
	require.Zero(t, run(ctx, []string{"serve", "--http", "0.0.0.0:0", "--nats-listen", "none", "--data", t.TempDir()}, s), log.all.String())
	require.Contains(t, log.all.String(), "the API uses plain HTTP on a network")
	require.Contains(t, log.all.String(), "set http.tls")
}

// logUntil ends something when a text was written.
type logUntil struct {
	text string
	end  func()
	all  strings.Builder
}

// Write looks for the text. Logs write one line at a time.
func (u *logUntil) Write(p []byte) (int, error) {
	if strings.Contains(string(p), u.text) {
		u.end()
	}
	return u.all.Write(p)
}
