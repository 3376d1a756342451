package main

import (
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// --last is another name of --limit wherever this gives the newest ones, and nowhere else: a new command with --limit says
// here which it is.
func TestLast_IsLimitOfListsThatAreNewestFirst(t *testing.T) {
	t.Parallel()
	otherwise := map[string]string{
		"feed": "the newest are at the end: a flag of its own", "listen": "the newest are at the end: a flag of its own",
		"status": "worst first", "sub status": "worst first", "problems ls": "oldest first",
		"consumers": "by path", "state": "by path", "topics": "by their last event, oldest first",
		"schedule ls": "soonest first", "appointment ls": "soonest first",
		"ns observe": "oldest first", "mirror items": "oldest first", "mirror follow": "oldest first", "mirror ls": "by ID",
		"knowledge comparisons": "by ID", "knowledge jobs": "by priority", "receive": "ends after a number",
	}
	parser, err := kong.New(&cli{}, kong.Vars{})
	require.NoError(t, err)
	found := 0
	for _, leaf := range parser.Model.Leaves(false) {
		for _, flag := range leaf.Flags {
			if flag.Name != "limit" {
				continue
			}
			name := commandName(leaf)
			if otherwise[name] != "" {
				require.NotContains(t, flag.Aliases, "last", name)
				continue
			}
			found++
			require.Equal(t, []string{"last"}, flag.Aliases, name)
			require.Contains(t, flag.Help, "--last is another name.", name)
		}
	}
	require.GreaterOrEqual(t, found, 7)
}
