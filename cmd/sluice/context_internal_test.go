package main

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

// user runs commands with a home directory and an environment.
type user struct {
	t    *testing.T
	home string
}

func (u user) run(stdin, line string, environ ...string) (status int, stdout, stderr string) {
	u.t.Helper()
	var out, complaints bytes.Buffer
	s := &terminal.Session{
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &complaints, Exit: func(int) {},
		Environ: append([]string{"HOME=" + u.home}, environ...),
	}
	status = run(u.t.Context(), wordsOf(line), s)
	return status, out.String(), complaints.String()
}

func (u user) must(line string) string {
	u.t.Helper()
	status, stdout, stderr := u.run("", line)
	require.Zero(u.t, status, "%s: %s", line, stderr)
	return stdout
}

// seer is a server that tells the token and the path of each request.
func seer(t *testing.T) (url string, seen func() string) {
	t.Helper()
	last := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last <- r.Header.Get("Authorization") + " " + r.URL.Path
		_, _ = w.Write([]byte(`{"topics":[],"event":{}}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string { return <-last }
}

// Flags come before the environment, that before the context, and that before the data directory.
func TestContext_Precedence(t *testing.T) {
	t.Parallel()
	u := user{t, t.TempDir()}
	mine, seenMine := seer(t)
	other, seenOther := seer(t)
	file := filepath.Join(u.home, "token")
	require.NoError(t, os.WriteFile(file, []byte("filed\n"), 0o600))
	u.must("context add mine --server " + mine + " --token kept --ns acme --use")
	u.must("context add other --server " + other + " --token-file " + file)
	for _, tt := range []struct {
		line    string
		environ []string
		seen    func() string
		want    string
	}{
		{"events get e", nil, seenMine, "Bearer kept /v1/namespaces/acme/events/e"},
		{"events get e --ns n", nil, seenMine, "Bearer kept /v1/namespaces/n/events/e"},
		{"events get e --token t", nil, seenMine, "Bearer t /v1/namespaces/acme/events/e"},
		{"events get e --context other", nil, seenOther, "Bearer filed /v1/namespaces/default/events/e"},
		{"events get e", []string{"SLUICE_CONTEXT=other"}, seenOther, "Bearer filed /v1/namespaces/default/events/e"},
		{"events get e --context mine", []string{"SLUICE_CONTEXT=other"}, seenMine, "Bearer kept /v1/namespaces/acme/events/e"},
		{"events get e", []string{"SLUICE_NS=n"}, seenMine, "Bearer kept /v1/namespaces/default/events/e"}, // the parser reads the process's own
		{"events get e --server " + other, nil, seenOther, " /v1/namespaces/default/events/e"},
	} {
		u.run("", tt.line, tt.environ...)
		require.Equal(t, tt.want, tt.seen(), tt.line)
	}
	status, _, stderr := u.run("", "ns ls --data "+u.home)
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, "no server is running on "+u.home)
	status, _, stderr = u.run("", "ns ls --context mine --server "+other)
	require.Equal(t, terminal.ExitUsage, status)
	require.Contains(t, stderr, "sluice: --context excludes --server and --data")
	status, _, stderr = u.run("", "ns ls --context nope")
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, `sluice: context "nope" not found`)
	require.NoError(t, os.Remove(file))
	status, _, stderr = u.run("", "ns ls --context other")
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, "read the token of the context")
	u.must("--context other version")
	u.must("context use --none")
	_, _, stderr = u.run("", "ns ls")
	require.Contains(t, stderr, "no server is running on ")
}

// Contexts are kept for the user only; a token is never printed, and asks before it is lost.
func TestContext_KeepsTokens(t *testing.T) {
	t.Parallel()
	u := user{t, t.TempDir()}
	require.Contains(t, u.must("context ls"), "CONTEXT")
	status, _, stderr := u.run("s3cret\n", "context add a --server https://a.example --token-file - --ns n")
	require.Zero(t, status, stderr)
	require.NoError(t, filepath.WalkDir(filepath.Join(u.home, ".config", "sluice"), func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode()&0o077, path)
		return nil
	}))
	for _, line := range []string{"context ls", "context show a", "context ls -o json", "context show a -o json"} {
		require.NotContains(t, u.must(line), "s3cret", line)
		require.Contains(t, u.must(line), "https://a.example", line)
	}
	u.must("context use a")
	require.Contains(t, u.must("context ls"), "a *")
	for _, tt := range []struct {
		line, stderr string
		status       int
	}{
		{"context add a --server https://b.example", "already exists", terminal.ExitFailure},
		{"context add b", "set the server of the context", terminal.ExitUsage},
		{"context add b --server b.example", "write a URL", terminal.ExitUsage},
		{"context add ../b --server https://b.example", "use A-Z", terminal.ExitUsage},
		{"context add b --server https://b.example --ca nowhere.pem", "nowhere.pem does not exist", terminal.ExitFailure},
		{"context use", "name a context", terminal.ExitUsage},
		{"context use b", "not found", terminal.ExitFailure},
		{"context show ../b", "use A-Z", terminal.ExitUsage},
		{"context rm a", "pass --yes", terminal.ExitUsage},
	} {
		status, _, stderr := u.run("", tt.line)
		require.Equal(t, tt.status, status, tt.line)
		require.Contains(t, stderr, tt.stderr, tt.line)
	}
	u.must("context rm a --yes")
	status, _, stderr = u.run("", "context show")
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, "no context is in use")
}

// The namespace of the environment is the default of a new subscription, unless its file names one.
func TestSubCreate_TakesDefaultNamespace(t *testing.T) {
	t.Setenv("SLUICE_NS", "acme")
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		got <- body.String()
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	create := func(args ...string) string {
		runUntil(context.Background(), "namespace: filed\n", append([]string{"sub", "create", "--url", "https://e.example", "--pattern", "/**", "--server", server.URL}, args...)...)
		return <-got
	}
	require.Contains(t, create(), `"namespace":"acme"`)
	require.Contains(t, create("--ns", "n"), `"namespace":"n"`)
	require.Contains(t, create("--file", "-"), `"namespace":"filed"`)
}
