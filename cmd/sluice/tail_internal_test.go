package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

func TestTail_PrintsAttempts(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.must("sub", "create", "--id", "down", "--pattern", "/**", "--url", "http://127.0.0.1:1/", "--retry", strings.TrimSuffix(strings.Repeat("1s,", 60), ","))
	c.must("pub", "/orders/1", "1", "--id", "pay-1") // and it is retried each second
	for _, tt := range [][]string{{"tail"}, {"tail", "down", "--failed"}} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &logUntil{text: "again at", end: cancel}
		s := &terminal.Session{Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Exit: func(int) {}}
		require.Zero(t, run(ctx, append(tt, "--data", c.data), s), out.all.String())
		require.Regexp(t, `\d\d:\d\d:\d\d  down  pay-1  /orders/1  #\d+  connection refused  \S+  again at \d\d:\d\d:\d\d`, out.all.String())
	}
	status, _, stderr := runUntil(t.Context(), "", "tail", "none", "--data", c.data)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, `subscription "none" not found`)
}
