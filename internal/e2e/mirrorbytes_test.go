package e2e_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// oddEvents returns messages below a subject whose data encoders like to change, and those that a random choice makes of them.
func oddEvents(events string) []*nats.Msg {
	random := rand.New(rand.NewPCG(16, 1))
	bodies := []string{
		``, ` `, "\n", `null`, `""`, `0`, ` 1 `, "\t\r\n[ 1 ,2 ]\n", `{"a":1}`, "{\"a\":1}\n", "  { \"a\" : { } }  \n\n", `{"a":1,"a":2}`, `{"b":1,"a":2}`,
		`{"n":12345678901234567890.10,"m":1.0,"e":1E+2,"z":-0}`, `{"t":"<b>&\u003c\u00e9\u2028\/ \ud83d\ude00 é 😀"}`, `{"t":"\ud800"}`, "{\"t\":\"\u2028\ufffd\"}",
		"{\"t\":\"\xff\"}", "\xef\xbb\xbf{}", `{"t":"` + "\x00" + `"}`, `{"t":"\u0000"}`, "{", "text", "a\x00b", "\xff\xfe", "line\r\nline\n", `"quoted"`,
		strings.Repeat("[", 998) + strings.Repeat("]", 998), strings.Repeat("[", 9990) + strings.Repeat("]", 9990), strings.Repeat(`{"a":`, 950) + "1" + strings.Repeat("}", 950),
	}
	for _, n := range []int{1020, 1024, 1025, 70 << 10} { // within an entry's JSON, behind it, and a file of its own
		bodies = append(bodies, ` {"t":"`+strings.Repeat("x", n-11)+"\"}\n ", strings.Repeat(" ", n), strings.Repeat("\x01", n))
	}
	var msgs []*nats.Msg
	for i, body := range bodies {
		for _, media := range []string{"", "application/json", "application/vnd.x+json; charset=utf-8", "text/plain", "application/octet-stream"} {
			h := nats.Header{"ce-id": {fmt.Sprint("e", len(msgs))}, "ce-type": {"odd"}}
			if media != "" {
				h["content-type"] = []string{media}
			}
			for _, name := range []string{"ce-subject", "ce-dataschema", "ce-source", "ce-other"} {
				if random.IntN(3) == 0 {
					h[name] = []string{[]string{"plain", "%00nul%00", "%FF%FEbroken", "%EF%BF%BD", "a%20b%E2%82%AC", "%e2%82"}[random.IntN(6)]}
				}
			}
			msgs = append(msgs, &nats.Msg{Subject: events + fmt.Sprint("low.a", i), Header: h, Data: []byte(body)})
		}
	}
	return msgs
}

// wholeOf returns what a mirror has of each entry, with its fingerprint, and its data last, in the order of sequences.
func wholeOf(t *testing.T, s *running, mirror string) (all []string) {
	t.Helper()
	for q := (client.ItemsQuery{Mirror: mirror, Limit: 20}); ; {
		page, err := s.api.Items(t.Context(), mirror, q)
		require.NoError(t, err)
		for _, item := range page.Items {
			ev := item.Change.Event
			require.EqualValues(t, len(all)+1, ev.Seq)
			data := ev.Data
			ev.Data = nil
			all = append(all, fmt.Sprintf("%s %s %+q %+q", item.Change.Op, knowledge.Fingerprint(&item.Change.Event), fmt.Sprint(ev), data))
		}
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

// ways are four mirrors of one namespace at one depth: one on its own server, and three on another one.
type ways struct {
	low, high *running
	depth     sluice.Depth
	token     string
}

func (w ways) source() string { return w.low.at.HTTP + "/v1/namespaces/low" }

func (w ways) name(way string) string { return string(w.depth) + "-" + way }

// on returns the servers of the mirrors.
func (w ways) on() map[string]*running {
	return map[string]*running{"local": w.low, "remote": w.high, "document": w.high, "directory": w.high}
}

func (w ways) create(t *testing.T) {
	t.Helper()
	for way, s := range w.on() {
		s.must(t, http.StatusCreated, "PUT /v1/namespaces/"+w.name(way), `{}`)
		spec := client.MirrorSpec{ID: w.name(way), Namespace: w.name(way), Source: w.source(), Depth: w.depth}
		switch way {
		case "local":
			spec.Source = "low"
		case "remote":
			spec.Credential = w.token
		}
		_, err := s.api.CreateMirror(t.Context(), spec)
		require.NoError(t, err)
	}
}

func (w ways) carry(t *testing.T) {
	t.Helper()
	keys, err := w.low.api.BundleKeys(t.Context(), "low")
	require.NoError(t, err)
	for _, way := range []string{"document", "directory"} {
		_, err := w.high.api.TrustKey(t.Context(), w.name(way), keys[0], w.source())
		require.NoError(t, err)
	}
	text, _, err := w.low.api.ExportBundle(t.Context(), "low", client.ExportQuery{Depth: w.depth})
	require.NoError(t, err)
	_, err = w.high.api.ImportBundle(t.Context(), w.name("document"), text, false)
	require.NoError(t, err)

	stream, err := w.low.api.ExportDirectory(t.Context(), "low", client.ExportQuery{Depth: w.depth}, 0)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), string(w.depth))
	_, err = bundle.Receive(t.Context(), stream, dir)
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	d, err := bundle.OpenDirectory(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	var missing []string
	for range 2 {
		var out bytes.Buffer
		require.NoError(t, d.Send(t.Context(), &out, missing, func(int) {}))
		done, err := w.high.api.ImportDirectory(t.Context(), w.name("directory"), &out, false)
		require.NoError(t, err)
		missing = done.Missing
	}
}

// S3-46, S3-64, S3-69: an entry is the same, byte for byte, whether a mirror is of this server, of another one, or gets bundles in
// either form.
func TestMirror_HasTheSameBytesByAnyPath(t *testing.T) {
	t.Parallel()
	low, high := start(t, t.TempDir(), nil), start(t, t.TempDir(), nil)
	low.must(t, http.StatusCreated, "PUT /v1/namespaces/low", `{}`)
	low.must(t, http.StatusCreated, "PUT /v1/namespaces/low/event-types/odd", `{"summary_fields":["t","n","b","a","e"]}`)
	js, sent := dial(t, low.at.NATS), oddEvents(namesAt(low.at.NATS).EventsPrefix())
	for _, msg := range sent {
		_, err := js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	token := low.grant(t, "service:mirror", "scope:low", "read").token
	for _, depth := range []sluice.Depth{sluice.DepthFull, sluice.DepthSummary, sluice.DepthCatalog} {
		w := ways{low, high, depth, token}
		w.create(t)
		w.carry(t)
		var want []string
		for _, way := range []string{"local", "remote", "document", "directory"} {
			s := w.on()[way]
			if way == "local" || way == "remote" {
				s.must(t, http.StatusOK, "POST /v1/subscriptions/"+w.name(way)+"/sync?wait=60s", "")
			}
			got := wholeOf(t, s, w.name(way))
			require.Len(t, got, len(sent), w.name(way))
			if want == nil {
				want = got
			}
			for i, is := range got {
				require.Equal(t, want[i], is, "%s: %.200q as %s", w.name(way), sent[i].Data, sent[i].Header.Get("content-type"))
				require.True(t, depth != sluice.DepthFull || strings.HasSuffix(is, fmt.Sprintf(" %+q", sent[i].Data)), "%.200q became %.500s", sent[i].Data, is)
			}
		}
	}
}
