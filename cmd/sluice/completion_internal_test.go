package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Commands, flags and their values are completed, after aliases and flags with values, too.
func TestCompletion_CompletesWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"=su":                      "sub",
		"sub =l":                   "ls",
		"subs =sh":                 "show",
		"sub ls =--mo":             "--mode",
		"sub ls --mode =":          "push wake",
		"sub ls --mode =w":         "wake",
		"sub ls --mode = =w":       "wake",
		"sub ls =--mode=w":         "--mode=wake",
		"--data /x -o json sub =c": "create",
		"sub ls -o =t":             "table",
		"sub ls =--tok":            "--token",
		"completion =f":            "fish",
		"sub show orders =":        "",
		"sub nope =x":              "",
		"=__":                      "",
		"sub ls =--nope=x":         "",
	} {
		words := strings.Split(line, " ")
		status, stdout, stderr := runUntil(t.Context(), "", append([]string{completeWord}, words...)...)
		require.Zero(t, status, stderr)
		var got []string
		for candidate := range strings.Lines(stdout) {
			value, _, _ := strings.Cut(candidate, "\t")
			got = append(got, strings.TrimSpace(value))
		}
		require.Equal(t, want, strings.Join(got, " "), line)
	}
	status, stdout, _ := runUntil(t.Context(), "", completeWord, "=")
	require.Zero(t, status)
	require.Contains(t, stdout, "sub\tManage subscriptions.\n")
}

// The manual page has every command and flag, and no line that would be taken for a request.
func TestMan_HasEveryCommand(t *testing.T) {
	t.Parallel()
	status, page, stderr := runUntil(t.Context(), "", "man")
	require.Zero(t, status, stderr)
	for _, leaf := range parserOf(t).Model.Leaves(true) {
		require.Contains(t, page, "\n.SS "+roff("sluice "+commandName(leaf))+"\n")
		for _, flag := range leaf.Flags {
			if !flag.Hidden {
				require.Contains(t, page, roff("--"+flag.Name))
			}
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, ".") {
			require.Regexp(t, `^\.(TH|SH|SS|TP|PP|B|I|nf|fi)( |\n)`, line)
		}
		require.NotRegexp(t, `^'`, line)
	}
}
