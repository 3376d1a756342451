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

	"github.com/stretchr/testify/require"
)

// The first line of a list locks all others out, so a terminal is asked to confirm, unless the line is an admin's.
func TestACL_FirstLineAsksForConfirmation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, answer, list, tier string
		args                     []string
		asked, done              bool
	}{
		{"yes", "y\n", `[]`, "read", nil, true, true},
		{"no", "n\n", `[]`, "read", nil, true, false},
		{"an admin's", "", `[]`, "admin", nil, false, true},
		{"an admin of a part", "n\n", `[]`, "admin", []string{"/a/**"}, true, false},
		{"with an admin's line", "", `[]`, "read", []string{"/a/**", "--also", "admin:/**"}, false, true},
		{"said before", "", `[]`, "read", []string{"--yes"}, false, true},
		{"not the first", "", `[{"namespace":"shop","principal":"user:bob","entries":[{"tier":"admin","pattern":"/**"}]}]`, "read", nil, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var changes atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					changes.Add(1)
					_, _ = io.WriteString(w, `{"namespace":"shop","principal":"user:ann","entries":[]}`)
					return
				}
				_, _ = io.WriteString(w, `{"acl":`+tt.list+`}`)
			}))
			defer srv.Close()
			var stderr bytes.Buffer
			s := &terminal.Session{Stdin: strings.NewReader(tt.answer), Stdout: &bytes.Buffer{}, Stderr: &stderr, Terminal: true, Exit: func(int) {}}
			args := append([]string{"acl", "set", "shop", "user:ann", tt.tier, "--server", srv.URL}, tt.args...)
			require.Equal(t, tt.done, run(t.Context(), args, s) == 0, stderr.String())
			require.Equal(t, tt.asked, strings.Contains(stderr.String(), "This is the first entry of the access list of shop"), stderr.String())
			require.Equal(t, tt.done, changes.Load() == 1)
		})
	}
}
