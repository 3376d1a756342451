package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// counts is what every question of TestFinal is answered: how much there is.
const counts = `{"ok":true,"mode":"mirror","mirrored_count":12,"name":"n","label":{"level":"INTERNAL"},"clearance":{"level":"SECRET"},"acl":[{"principal":"user:a","entries":[{"tier":"write","pattern":"/**"}]}],"usage":{"events":1204},"retention":{"max_age":"48h"},"subscriptions":[{},{},{}],"dead_letters":16,"backlog":7,"ack_floor":40,"count":99,
	"events":[{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a"},{"specversion":"1.0","id":"2","source":"/s","type":"t","path":"/a"}],"id":"x","state":"done","next_offset":"1_1","up_to":1,"policy":{"signature":{"scheme":"t-sha256"}}}`

// final are the commands that cannot be undone, and what their questions say.
func final() map[string]string {
	return map[string]string{
		"ns rm n":                                   "Delete the namespace n with its 1204 events and its 3 subscriptions permanently?",
		"ns put n --max-age 24h":                    "Of its 1204 events, those beyond the new limits are deleted permanently.",
		"ns put n --max-bytes 10":                   "Of its 1204 events",
		"ns edit n --max-bytes 10":                  "Of its 1204 events",
		"ns edit n --max-age 0s":                    "Of its 1204 events",
		"ns edit n --label SECRET":                  "Change the label of n to SECRET? Principals without clearance lose access immediately",
		"acl set n user:a read":                     "Reduce the permissions of user:a in n?",
		"acl set n user:a write /x/**":              "Reduce the permissions of user:a in n?",
		"principal set user:a --clearance INTERNAL": "Lower the clearance of user:a below SECRET?",
		"erase n /a":                                "Erase everything on /a, 2 events, in n? This cannot be undone",
		"dead rm s --all":                           "Discard all dead letters, 16, of s permanently?",
		"dead rm s e1 e2":                           "Discard 2 dead letters of s permanently?",
		"sub rm a b":                                "Delete a (7 events wait, 16 dead letters), b (7 events wait, 16 dead letters) permanently",
		"sub seek s new":                            "Move s to new? The events in between are skipped or sent again. It is at 40, with 7 events waiting.",
		"sub replay s":                              "Replay all stored events to s, about 99 events?",
		"sub replay s --type a":                     "about 99 events?",
		"grant revoke g1 g2":                        "Revoke g1, g2 and all grants derived from them permanently?",
		"acl rm n user:a":                           "Remove all permissions of user:a in n?",
		"principal rm user:a":                       "Delete the clearance of user:a?",
		"stream rm /a /b":                           "Delete /a, /b permanently?",
		"mirror rm a b":                             "Delete permanently the copy of a (12 entries), the copy of b (12 entries)?",
		"mirror resume m --accept-origin":           "Begin anew, and remove the copy of m (12 entries)?",
		"keys rotate --overlap 0s":                  "Delete all keys except the new one? Receivers",
		"keys rotate --use bundle --overlap 0s":     "Delete all keys except the new one? Importers",
		"sub rotate s":                              "End the old secret at once?",
		"sub rotate s --overlap 0s":                 "End the old secret at once?",
	}
}

// What cannot be undone asks on a terminal and says what goes, and is refused without a terminal unless --yes is said.
func TestFinal_AsksOrRefuses(t *testing.T) {
	t.Parallel()
	for command, question := range final() {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			var changes atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method != http.MethodGet && !strings.Contains(string(body), "dry_run") {
					changes.Add(1)
				}
				_, _ = io.WriteString(w, counts)
			}))
			defer server.Close()
			for _, tt := range []struct {
				name, answer        string
				terminal, yes, asks bool
				status              int
			}{
				{"without a terminal", "y\n", false, false, false, terminal.ExitUsage},
				{"no", "n\n", true, false, true, terminal.ExitFailure},
				{"return", "\n", true, false, true, terminal.ExitFailure},
				{"the end", "", true, false, true, terminal.ExitFailure},
				{"yes", "Yes\n", true, false, true, 0},
				{"y", "y\n", true, false, true, 0},
				{"said before", "", true, true, false, 0},
				{"said before, no terminal", "", false, true, false, 0},
			} {
				changes.Store(0)
				var stderr bytes.Buffer
				s := &terminal.Session{Stdin: strings.NewReader(tt.answer), Stdout: io.Discard, Stderr: &stderr, Terminal: tt.terminal, Exit: func(int) {}}
				args := append(strings.Fields(command), "--server", server.URL)
				if tt.yes {
					args = append(args, "--yes")
				}
				require.Equal(t, tt.status, run(t.Context(), args, s), "%s: %s", tt.name, stderr.String())
				require.Equal(t, tt.status == 0, changes.Load() > 0, tt.name)
				require.Equal(t, tt.asks, strings.Contains(stderr.String(), question) && strings.Contains(stderr.String(), "[y/N]"), "%s: %s", tt.name, stderr.String())
				require.Equal(t, tt.status == terminal.ExitUsage, strings.Contains(stderr.String(), "pass --yes\n") && !tt.asks, "%s: %s", tt.name, stderr.String())
			}
		})
	}
}

// What does not get narrower, and what can be made again as it was, is not asked about; and no other command that removes is forgotten.
func TestFinal_OthersDoNotAsk(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, counts) }))
	defer server.Close()
	for _, command := range []string{
		"ns put n", "ns put n --max-age 48h", "ns put n --max-age 72h", "ns edit n --max-age=-1s", "ns edit n --description d", "ns edit n --label INTERNAL", "ns edit n --label PUBLIC", "ns edit n --max-bytes 0",
		"acl set n user:a admin", "acl set n user:a read /a/** --also write:/**", "acl set n user:b read", "principal set user:a --clearance TOP_SECRET", "sub replay s --from 1", "sub replay s --event e",
		"sub replay s --dry-run", "keys rotate", "keys rotate --use bundle", "mirror suspend m", "mirror resume m",
	} {
		status, _, stderr := runUntil(t.Context(), "", append(strings.Fields(command), "--server", server.URL)...)
		require.Zero(t, status, "%s: %s", command, stderr)
	}
	parser, err := kong.New(&cli{}, kong.Vars{})
	require.NoError(t, err)
	remade := map[string]bool{"types rm": true, "watch rm": true, "appointment rm": true, "schedule rm": true}
	for _, leaf := range parser.Model.Leaves(false) {
		name := commandName(leaf)
		if strings.HasSuffix(name, " rm") {
			asks := false
			for _, flag := range leaf.Flags {
				asks = asks || flag.Name == "yes"
			}
			require.Equal(t, !remade[name], asks, name)
		}
	}
}
