package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

// parserOf returns the parser of the command line.
func parserOf(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := newParser(t.Context(), new(cli), &terminal.Session{Exit: func(int) {}}, func(int) {})
	require.NoError(t, err)
	return parser
}

// wordsOf splits a command line as a shell does, as far as examples need it.
func wordsOf(line string) (words []string) {
	word, quoted, begun := strings.Builder{}, false, false
	for _, c := range line + " " {
		switch {
		case c == '\'':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	return words
}

// Every example in the help is a command line that the parser takes, of the command or one below it.
func TestExamples_Parse(t *testing.T) {
	t.Parallel()
	for command, lines := range examples() {
		require.NotEmpty(t, lines, command)
		for _, line := range lines {
			words := wordsOf(line)
			require.Equal(t, "sluice", words[0], line)
			ctx, err := parserOf(t).Parse(words[1:])
			require.NoError(t, err, line)
			require.True(t, strings.HasPrefix(commandName(ctx.Selected())+" ", command+" "), line)
		}
	}
	for _, main := range []string{"serve", "pub", "sub create", "deliveries", "listen", "events", "feed", "sub replay", "dead redrive", "ns", "grant create"} {
		require.Contains(t, examples(), main)
		status, stdout, _ := runUntil(t.Context(), "", append(strings.Fields(main), "--help")...)
		require.Zero(t, status, main)
		require.Contains(t, stdout, "\nExamples:\n  sluice "+main, main)
		require.True(t, strings.HasSuffix(stdout, "\nsluice --help lists the global flags.\n"), main)
		require.NotContains(t, stdout, "--token=", main)
	}
}

// Every command has a group, and no name means two commands.
func TestCommands_GroupsAndAliases(t *testing.T) {
	t.Parallel()
	parser := parserOf(t)
	known := map[string]bool{}
	for _, g := range groups() {
		known[g.Key] = true
	}
	for _, command := range parser.Model.Children {
		require.NotNil(t, command.Group, command.Name)
		require.True(t, known[command.Group.Key], "%s: %s", command.Name, command.Group.Key)
	}
	var check func(node *kong.Node)
	check = func(node *kong.Node) {
		names := map[string]bool{}
		for _, child := range node.Children {
			for _, name := range append([]string{child.Name}, child.Aliases...) {
				require.False(t, names[name], "%s %s", commandName(node), name)
				names[name] = true
			}
			check(child)
		}
	}
	check(parser.Model.Node)
	for line, command := range map[string]string{
		"subs ls": "sub ls", "sub list": "sub ls", "subscription list": "sub ls", "sub delete a": "sub rm", "sub get a": "sub show", "ns add": "",
		"dead-letters ls a": "dead ls", "events show e": "events get", "sub add": "sub create", "namespace list": "ns ls", "schedule list": "schedule ls",
	} {
		ctx, err := parserOf(t).Parse(strings.Fields(line))
		if command == "" {
			require.Error(t, err, line)
			continue
		}
		require.NoError(t, err, line)
		require.Equal(t, command, commandName(ctx.Selected()), line)
	}
}

// The habits of other command lines show the help and the version.
func TestRun_HelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line, stdout, stderr string
		status               int
	}{
		{"", "Usage: sluice <command> [flags]", "", terminal.ExitUsage},
		{"help", "Usage: sluice <command> [flags]", "", 0},
		{"help help", "Usage: sluice <command> [flags]", "", 0},
		{"help sub create", "Usage: sluice sub create", "", 0},
		{"sub", "  sub create ", "", terminal.ExitUsage},
		{"sub --help", "  sub create ", "", 0},
		{"--version", "sluice ", "", 0},
		{"-V", "sluice ", "", 0},
		{"sub --version", "sluice ", "", 0},
		{"foo", "", "unexpected argument foo", terminal.ExitUsage},
		{"help foo", "", "unexpected argument foo", terminal.ExitUsage},
		{"sub show", "", `expected "<id>"`, terminal.ExitUsage},
	} {
		status, stdout, stderr := runUntil(t.Context(), "", strings.Fields(tt.line)...)
		require.Equal(t, tt.status, status, tt.line)
		require.Contains(t, stdout, tt.stdout, tt.line)
		require.Contains(t, stderr, tt.stderr, tt.line)
		require.Equal(t, tt.stdout == "", stdout == "", tt.line)
		require.Equal(t, tt.stderr == "", stderr == "", tt.line)
	}
}
