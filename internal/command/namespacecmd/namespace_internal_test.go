package namespacecmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// An edit replaces the settings, so it has to say all of them again.
func TestNamespace_EditKeepsOtherSettings(t *testing.T) {
	t.Parallel()
	ns := sluice.Namespace{
		Description: "d", Retention: sluice.Retention{MaxAge: 1, MaxBytes: 2}, DedupWindow: 3,
		Quota: sluice.Quota{Burst: 4}, Catalogue: sluice.CatalogueStrict, Revision: 5,
	}
	label := "SECRET/legal"
	spec, err := (&nsEditCmd{Label: &label}).spec(ns)
	require.NoError(t, err)
	value := reflect.ValueOf(spec)
	for i := range value.NumField() {
		require.False(t, value.Field(i).IsZero(), "%s is lost", value.Type().Field(i).Name)
	}
	require.Equal(t, ns.Retention, spec.Retention)
	require.Equal(t, &sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"legal"}}, spec.Label)
}

// A quota changes alone, and the dedup window that is given is not the one that a new maximum age would shorten.
func TestNamespace_EditChangesQuotaAndDedupWindow(t *testing.T) {
	t.Parallel()
	var cli struct {
		Edit nsEditCmd `cmd:""`
	}
	parser, err := kong.New(&cli)
	require.NoError(t, err)
	_, err = parser.Parse([]string{"edit", "n", "--burst=0", "--bytes-per-second=7", "--dedup-window=2h", "--max-age=1h"})
	require.NoError(t, err)
	require.False(t, cli.Edit.changesNothing())
	spec, err := cli.Edit.spec(sluice.Namespace{Quota: sluice.Quota{EventsPerSecond: 3, Burst: 4, BytesPerSecond: 5}, DedupWindow: sluice.Duration(3 * time.Hour)})
	require.NoError(t, err)
	require.Equal(t, sluice.Quota{EventsPerSecond: 3, BytesPerSecond: 7}, spec.Quota)
	require.Equal(t, sluice.Duration(2*time.Hour), spec.DedupWindow, "the server says why it is too long")

	double := 6.0
	is := (&nsEditCmd{EventsPerSecond: &double}).quota(sluice.Quota{EventsPerSecond: 2.5, Burst: 3, BytesPerSecond: 5})
	require.Equal(t, sluice.Quota{EventsPerSecond: 6, BytesPerSecond: 5}, is, "the burst was the number per second")
	is = (&nsEditCmd{EventsPerSecond: &double}).quota(sluice.Quota{EventsPerSecond: 2.5, Burst: 30})
	require.Equal(t, sluice.Quota{EventsPerSecond: 6, Burst: 30}, is)
}

// answering is a server that answers each request with the status and the body of its method.
func answering(t *testing.T, answers map[string]string) (s *terminal.Session, asked *[]*http.Request) {
	t.Helper()
	asked = new([]*http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r)
		status, body, _ := strings.Cut(answers[r.Method], " ")
		code, err := strconv.Atoi(status)
		if err != nil {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return &terminal.Session{Flags: terminal.Flags{Server: server.URL, Token: "t"}, Stdout: io.Discard, Stderr: io.Discard}, asked
}

// Only a missing namespace is a new one: after any other error, the retention that a put keeps is unknown.
func TestNamespacePut_NeedsTheRetentionItKeeps(t *testing.T) {
	t.Parallel()
	put := nsPutCmd{Name: "n", Description: "d"}
	s, asked := answering(t, map[string]string{"GET": `403 {"error":{"code":"forbidden","message":"no"}}`, "PUT": `200 {"name":"n"}`})
	require.Equal(t, sluice.Forbidden, sluice.CodeOf(put.Run(t.Context(), s)))
	require.Len(t, *asked, 1)

	s, asked = answering(t, map[string]string{"GET": `404 {"error":{"code":"not_found","message":"no"}}`, "PUT": `201 {"name":"n"}`})
	require.NoError(t, put.Run(t.Context(), s))
	require.Len(t, *asked, 2)
	require.Empty(t, (*asked)[1].Header.Get("If-Match"))

	s, asked = answering(t, map[string]string{"GET": `200 {"name":"n","revision":7,"retention":{"max_age":"48h"}}`, "PUT": `200 {"name":"n"}`})
	require.NoError(t, put.Run(t.Context(), s))
	require.Equal(t, `"7"`, (*asked)[1].Header.Get("If-Match"))
}

// A file that is no export keeps its content, also without a line break.
func TestExport_RefusesForeignFile(t *testing.T) {
	t.Parallel()
	const event = `{"specversion":"1.0","id":"a","source":"/s","type":"t","path":"/a","namespace":"other","sequence":"3"}`
	for text, refused := range map[string]bool{
		"my notes": true, `{"specversion":"0.3"`: true, event: true, event + "\n": true, `{"key":1}`: true,
		"": false, `{"spec`: false, event[:40]: false,
	} {
		s, _ := answering(t, map[string]string{"GET": `200 {}`})
		file := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		err := (&nsExportCmd{Name: "n", File: file}).Run(t.Context(), s)
		kept, unread := os.ReadFile(file)
		require.NoError(t, unread)
		if refused {
			require.ErrorContains(t, err, "name another file", text)
			require.Equal(t, text, string(kept))
		} else {
			require.NoError(t, err, text)
			require.Empty(t, kept)
		}
	}
}
