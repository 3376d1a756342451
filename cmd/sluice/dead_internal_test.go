package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoeverIsWatchingIsAskedBeforeDeadLettersAreDiscarded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, answer string
		args         []string
		terminal     bool
		asked, done  bool
	}{
		{"yes", "y\n", nil, true, true, true},
		{"a whole word", "Yes\n", nil, true, true, true},
		{"no", "n\n", nil, true, true, false},
		{"just return", "\n", nil, true, true, false},
		{"the end", "", nil, true, true, false},
		{"said before", "", []string{"--yes"}, true, false, true},
		{"nobody is there", "", nil, false, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			s := &session{stdin: strings.NewReader(tt.answer), stdout: &bytes.Buffer{}, stderr: &stderr, terminal: tt.terminal, exit: func(int) {}}
			args := append([]string{"dead", "rm", "s", "--all", "--server", "http://127.0.0.1:1"}, tt.args...)
			require.Equal(t, exitFailure, run(t.Context(), args, s), "there is no server")
			require.Equal(t, tt.asked, strings.Contains(stderr.String(), "Discard all dead letters of s for good? [y/N]"), stderr.String())
			require.Equal(t, tt.done, strings.Contains(stderr.String(), "no answer from"), stderr.String())
			require.Equal(t, !tt.done, strings.Contains(stderr.String(), "nothing was done"), stderr.String())
		})
	}
}
