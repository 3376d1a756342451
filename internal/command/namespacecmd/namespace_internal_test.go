package namespacecmd

import (
	"bytes"
	"context"
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
func TestNamespace_EditChangesQuotas(t *testing.T) {
	t.Parallel()
	burst, bytesPerSecond, window, age := 0, int64(7), sluice.Duration(2*time.Hour), sluice.Duration(time.Hour)
	edit := nsEditCmd{Burst: &burst, BytesPerSecond: &bytesPerSecond, DedupWindow: &window, MaxAge: &age}
	require.False(t, edit.changesNothing())
	spec, err := edit.spec(sluice.Namespace{Quota: sluice.Quota{EventsPerSecond: 3, Burst: 4, BytesPerSecond: 5}, DedupWindow: sluice.Duration(3 * time.Hour)})
	require.NoError(t, err)
	require.Equal(t, sluice.Quota{EventsPerSecond: 3, BytesPerSecond: 7}, spec.Quota)
	require.Equal(t, sluice.Duration(2*time.Hour), spec.DedupWindow, "the server says why it is too long")

	double := 6.0
	ns := sluice.Namespace{Quota: sluice.Quota{EventsPerSecond: 2.5, Burst: 3, BytesPerSecond: 5}}
	spec, err = (&nsEditCmd{EventsPerSecond: &double}).spec(ns)
	require.NoError(t, err)
	require.Equal(t, sluice.Quota{EventsPerSecond: 6, Burst: 3, BytesPerSecond: 5}, spec.Quota)
	ns.Inherited = []string{"quota.burst"}
	spec, err = (&nsEditCmd{EventsPerSecond: &double}).spec(ns)
	require.NoError(t, err)
	require.Equal(t, sluice.Quota{EventsPerSecond: 6, BytesPerSecond: 5}, spec.Quota, "the burst was the number per second")
}

// Settings that a namespace has from the server stay the server's, and nothing is asked about them.
func TestNamespace_DefaultsStayInherited(t *testing.T) {
	t.Parallel()
	const inherits = `200 {"name":"n","retention":{"max_age":"168h","max_bytes":-1},"dedup_window":"1h","quota":{"events_per_second":5,"burst":5,"bytes_per_second":7},
		"catalogue":"open","usage":{"events":3},"inherited":["catalogue","dedup_window","quota.burst","quota.bytes_per_second","quota.events_per_second","retention.max_age","retention.max_bytes","x"]}`
	text, short := "x", sluice.Duration(time.Minute)
	for body, change := range map[string]interface {
		Run(ctx context.Context, s *terminal.Session) error
	}{
		`{"description":"x"}`:                            &nsEditCmd{Name: "n", Description: &text},
		`{"description":"y"}`:                            &nsPutCmd{Name: "n", Description: "y"},
		`{"retention":{"max_age":"1m0s","max_bytes":0}}`: &nsEditCmd{Name: "n", MaxAge: &short, Confirmation: terminal.Confirmation{Yes: true}},
	} {
		s, asked := answering(t, map[string]string{"GET": inherits, "PUT": `200 {"name":"n"}`})
		require.NoError(t, change.Run(t.Context(), s), body)
		sent, err := io.ReadAll((*asked)[1].Body)
		require.NoError(t, err)
		require.JSONEq(t, body, string(sent))
	}
	s, asked := answering(t, map[string]string{"GET": inherits})
	require.ErrorAs(t, (&nsEditCmd{Name: "n", MaxAge: &short}).Run(t.Context(), s), new(terminal.UsageError), "a shorter retention than the one in force")
	require.Len(t, *asked, 1)
}

// answering is a server that answers each request with the status and the body of its method.
func answering(t *testing.T, answers map[string]string) (s *terminal.Session, asked *[]*http.Request) {
	t.Helper()
	asked = new([]*http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
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
