package bundle_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestDocument_ReturnsTheEntriesOfItsWriter(t *testing.T) { // S3-61, S3-64
	t.Parallel()
	for _, depth := range []sluice.Depth{sluice.DepthCatalog, sluice.DepthSummary, sluice.DepthFull} {
		t.Run(string(depth), func(t *testing.T) {
			t.Parallel()
			want := sample(depth, 40)
			text, h := write(t, header(40, 50), depth, want, keyOf(1))
			d := read(t, text)
			require.Equal(t, h, d.Header)
			require.Equal(t, depth, d.Header.Depth())
			digest, err := h.Digest()
			require.NoError(t, err)
			require.Equal(t, digest, d.Digest())
			c, err := d.Verify(t.Context(), trusting(t, 1))
			require.NoError(t, err)
			require.Equal(t, h, c.Header)
			require.Equal(t, digest, c.Digest)
			require.Equal(t, want, entriesOf(t, c, 0))
			require.Equal(t, want[3:], entriesOf(t, c, 43))
			for e, err := range c.Entries(t.Context(), 0) { // a reader may stop
				require.NoError(t, err)
				require.Equal(t, want[0], e)
				break
			}
		})
	}
}

// S3-62, S3-63, S3-64, S3-65, S3-66: the members of the specification are there, in every entry.
func TestDocument_HasTheMembersOfTheSpecification(t *testing.T) {
	t.Parallel()
	for _, depth := range []sluice.Depth{sluice.DepthCatalog, sluice.DepthSummary, sluice.DepthFull} {
		text, _ := write(t, header(40, 50), depth, sample(depth, 40), keyOf(1))
		var doc map[string]any
		require.NoError(t, json.Unmarshal(text, &doc))
		require.Equal(t, source, doc["source_notebook_id"])
		require.Equal(t, "OSINT feed", doc["source_notebook_name"])
		require.Equal(t, depth.Scope(), doc["scope"])
		require.InDelta(t, 40, doc["since_sequence"], 0)
		require.InDelta(t, 50, doc["through_sequence"], 0)
		require.Equal(t, "2026-02-19T12:00:00Z", doc["exported_at"])
		require.IsType(t, "", doc["signature"])
		entries, ok := doc["entries"].([]any)
		require.True(t, ok)
		require.Len(t, entries, 5)
		for _, item := range entries {
			entry, ok := item.(map[string]any)
			require.True(t, ok)
			for _, name := range []string{"entry_id", "sequence", "claims", "topic", "content", "content_type"} {
				require.Contains(t, entry, name)
			}
			require.IsType(t, []any{}, entry["claims"])
			if depth != sluice.DepthFull {
				require.Nil(t, entry["content"])
			}
		}
		first := entries[0].(map[string]any)
		require.Equal(t, "e-1", first["entry_id"])
		require.Equal(t, "/geo/trade", first["topic"])
		switch depth {
		case sluice.DepthCatalog:
			require.Empty(t, first["claims"])
		case sluice.DepthSummary:
			require.Equal(t, []any{map[string]any{"total": 25.0}}, first["claims"])
		case sluice.DepthFull:
			require.Contains(t, string(text), `"content":"{\"total\": 12345678901234567890, \"a\":[1.0]}"`, "byte for byte")
			require.Equal(t, "base64", entries[2].(map[string]any)["content_encoding"])
		}
	}
}

// S3-67, S3-68: another program verifies the document with RFC 8785 and Ed25519 alone.
func TestDocument_SignsCanonicalJSON(t *testing.T) {
	t.Parallel()
	text, h := write(t, header(40, 50), sluice.DepthFull, sample(sluice.DepthFull, 40), keyOf(1))
	require.Equal(t, bundle.KeyID(publicOf(1)), h.KeyID)
	var doc map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &doc))
	var quoted string
	require.NoError(t, json.Unmarshal(doc["signature"], &quoted))
	signature, err := base64.StdEncoding.DecodeString(quoted)
	require.NoError(t, err)
	delete(doc, "signature")
	rest, err := json.Marshal(doc)
	require.NoError(t, err)
	message, err := jcs.Transform(rest)
	require.NoError(t, err)
	require.True(t, ed25519.Verify(publicOf(1), message, signature))
	whole, err := jcs.Transform(text)
	require.NoError(t, err)
	require.Equal(t, string(whole), string(text), "the document is canonical")
}

// A document that a program formatted anew is the same document.
func TestDocument_FormatOfTheJSONDoesNotMatter(t *testing.T) {
	t.Parallel()
	text, h := write(t, header(40, 50), sluice.DepthFull, sample(sluice.DepthFull, 40), keyOf(1))
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, text, " ", "\t"))
	escaped := strings.ReplaceAll(pretty.String(), "/", `\/`)
	d := read(t, []byte(strings.Replace(escaped, `"through_sequence": 50`, `"through_sequence": 5e1`, 1)))
	c, err := d.Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Equal(t, h, c.Header)
	require.Equal(t, sample(sluice.DepthFull, 40), entriesOf(t, c, 0))
}

// Without an entry, a bundle is a heartbeat: there is nothing new through a sequence at a time.
func TestDocument_WithoutEntriesIsAHeartbeat(t *testing.T) {
	t.Parallel()
	for _, through := range []uint64{40, 50} {
		text, h := write(t, header(40, through), sluice.DepthCatalog, nil, keyOf(1))
		require.True(t, h.Heartbeat)
		c, err := read(t, text).Verify(t.Context(), trusting(t, 1))
		require.NoError(t, err)
		require.Empty(t, entriesOf(t, c, 0))
	}
}

// A number that RFC 8785 would change is in a string with the text of the whole summary, so that
// the mirror has the summary of the source to the last digit.
func TestSummary_SurvivesCanonicalJSON(t *testing.T) {
	t.Parallel()
	for in, claims := range map[string]string{
		`{"b":1.50,"a":"x"}`:            `[{"a":"x","b":1.5}]`,
		`{"n":9007199254740993}`:        `["{\"n\":9007199254740993}"]`,
		`{"n":1e400}`:                   `["{\"n\":1e400}"]`,
		`{"n":1e-400}`:                  `["{\"n\":1e-400}"]`,
		`{"n":0.1000000000000000055}`:   `["{\"n\":0.1000000000000000055}"]`,
		`{"n":[-0,0.1,1E+2,-12.5e-7]}`:  `[{"n":[0,0.1,100,-0.00000125]}]`,
		`{"a":1,"a":2}`:                 `["{\"a\":1,\"a\":2}"]`,
		`{"a":"\ud800"}`:                `["{\"a\":\"\\ud800\"}"]`,
		`{"a":"\u0000"}`:                `[{"a":"\u0000"}]`,
		`"text"`:                        `["\"text\""]`,
		`{"n":12345678901234567000}`:    `[{"n":12345678901234567000}]`,
		`{"n":1e99999999999999999999}`:  `["{\"n\":1e99999999999999999999}"]`,
		`{"n":0e99999999999999999999}`:  `[{"n":0}]`,
		`{"n":0.000000000000000000012}`: `[{"n":1.2e-20}]`,
	} {
		e := sample(sluice.DepthSummary, 0)[:1]
		e[0].Event.Data = []byte(in)
		text, _ := write(t, header(0, 9), sluice.DepthSummary, e, keyOf(1))
		require.Contains(t, string(text), `"claims":`+claims+`,`, in)
		c, err := read(t, text).Verify(t.Context(), trusting(t, 1))
		require.NoError(t, err)
		got := string(entriesOf(t, c, 0)[0].Event.Data)
		if strings.HasPrefix(claims, `["`) {
			require.Equal(t, in, got)
		} else {
			require.JSONEq(t, in, got)
		}
	}
}

// A summary of many levels or values is a string: no reader pays for its form.
func TestSummary_ExpensiveOneIsText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		strings.Repeat("[", 64) + strings.Repeat("]", 64):           `"claims":[[`,
		strings.Repeat("[", 65) + strings.Repeat("]", 65):           `"claims":["`,
		`["` + strings.Repeat("x", 1<<20-4) + `"]`:                  `"claims":[[`,
		`["` + strings.Repeat("x", 1<<20-3) + `"]`:                  `"claims":["`,
		"[" + strings.Repeat("[],", 70) + "0]":                      `"claims":[[`,
		"[" + strings.Repeat("{},", 70) + "0]":                      `"claims":[[`,
		strings.Repeat(`{"a":`, 65) + "0" + strings.Repeat("}", 65): `"claims":["`,
		"[0" + strings.Repeat(",0", 9_999) + "]":                    `"claims":[[`,
		"[0" + strings.Repeat(",0", 10_000) + "]":                   `"claims":["`,
	} {
		e := sample(sluice.DepthSummary, 0)[:1]
		e[0].Event.Data = []byte(in)
		text, _ := write(t, header(0, 9), sluice.DepthSummary, e, keyOf(1))
		require.Contains(t, string(text), want)
		c, err := read(t, text).Verify(t.Context(), trusting(t, 1))
		require.NoError(t, err)
		require.Equal(t, in, string(entriesOf(t, c, 0)[0].Event.Data))
	}
}

func TestDocument_WriterRefusesInvalidEntries(t *testing.T) {
	t.Parallel()
	valid := sample(sluice.DepthFull, 0)
	for name, change := range map[string]func(*bundle.Entry){
		"no sequence":               func(e *bundle.Entry) { e.Event.Seq = 0 },
		"a sequence above 2^53-1":   func(e *bundle.Entry) { e.Event.Seq = 1 << 53 },
		"no id":                     func(e *bundle.Entry) { e.Event.ID = "" },
		"no path":                   func(e *bundle.Entry) { e.Event.Path = "" },
		"an unknown op":             func(e *bundle.Entry) { e.Op = "move" },
		"a revision of nothing":     func(e *bundle.Entry) { e.Op = sluice.OpRevise },
		"a write that revises":      func(e *bundle.Entry) { e.Event.Extensions = map[string]string{sluice.RevisionOf: "x"} },
		"content that is too large": func(e *bundle.Entry) { e.Event.Data = make([]byte, bundle.MaxContent+1) },
	} {
		w, err := bundle.NewDocumentWriter("entries", 0)
		require.NoError(t, err)
		e := valid[0]
		change(&e)
		require.Error(t, w.Append(e), name)
	}
	w, err := bundle.NewDocumentWriter("entries", 0)
	require.NoError(t, err)
	require.NoError(t, w.Append(valid[1]))
	require.ErrorContains(t, w.Append(valid[0]), "out of order")
	require.ErrorContains(t, w.Append(valid[1]), "out of order")
	_, err = bundle.NewDocumentWriter("everything", 0)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}

func TestDocument_AboveItsLimitIsForADirectory(t *testing.T) {
	t.Parallel()
	w, err := bundle.NewDocumentWriter("entries", 0)
	require.NoError(t, err)
	one := sample(sluice.DepthFull, 0)[1]
	one.Event.Seq = 1
	require.NoError(t, w.Append(one))
	one.Event.Seq, one.Event.Data = 2, bytes.Repeat([]byte("x"), bundle.MaxDocument)
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(w.Append(one)))
	one.Event.Data = []byte("small")
	require.NoError(t, w.Append(one), "the refused entry left nothing behind")
	text, h, err := w.Seal(header(0, 2), keyOf(1))
	require.NoError(t, err)
	require.EqualValues(t, 2, h.Count)
	c, err := read(t, text).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Len(t, entriesOf(t, c, 0), 2)

	_, err = bundle.ReadDocument(bytes.NewReader(make([]byte, bundle.MaxDocument+1)))
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(err))
}

func TestHeader_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	gaps := func(list ...sluice.Gap) func(*bundle.Header) { return func(h *bundle.Header) { h.Lost = list } }
	hops := func(list ...sluice.Hop) func(*bundle.Header) { return func(h *bundle.Header) { h.Passed = list } }
	for name, change := range map[string]func(*bundle.Header){
		"no source":                 func(h *bundle.Header) { h.SourceID = "" },
		"a long source":             func(h *bundle.Header) { h.SourceID = strings.Repeat("x", 513) },
		"NUL in the source":         func(h *bundle.Header) { h.SourceID = "a\x00b" },
		"DEL in the name":           func(h *bundle.Header) { h.SourceName = "a\x7f" },
		"a name that is no UTF-8":   func(h *bundle.Header) { h.SourceName = "a\xff" },
		"no incarnation":            func(h *bundle.Header) { h.Incarnation = "" },
		"a range that ends early":   func(h *bundle.Header) { h.Through = 45 },
		"a range of another export": func(h *bundle.Header) { h.Since = 39 },
		"a sequence above 2^53-1":   func(h *bundle.Header) { h.Through = math.MaxUint64 },
		"a first above 2^53-1":      func(h *bundle.Header) { h.First = 1 << 53 },
		"a predecessor by name":     func(h *bundle.Header) { h.Previous = "the first" },
		"a digest in upper case":    func(h *bundle.Header) { h.Previous = strings.Repeat("A", 64) },
		"no time":                   func(h *bundle.Header) { h.ExportedAt = bundle.Header{}.ExportedAt },
		"a gap before the range":    gaps(sluice.Gap{From: 40, To: 41}),
		"a gap behind the range":    gaps(sluice.Gap{From: 50, To: 51}),
		"a reversed gap":            gaps(sluice.Gap{From: 45, To: 44}),
		"overlapping gaps":          gaps(sluice.Gap{From: 41, To: 44}, sluice.Gap{From: 44, To: 45}),
		"very many gaps":            gaps(make([]sluice.Gap, 10_001)...),
		"a log without a name":      hops(sluice.Hop{Hops: 1}),
		"a log at no distance":      hops(sluice.Hop{Incarnation: "x"}),
		"nine hops":                 hops(sluice.Hop{Incarnation: "x", Hops: 9}),
		"a log twice":               hops(sluice.Hop{Incarnation: "x", Hops: 1}, sluice.Hop{Incarnation: "x", Hops: 2}),
		"very many logs":            hops(make([]sluice.Hop, 10_001)...),
		"a strange compartment":     func(h *bundle.Header) { h.Label.Compartments = []string{"a b"} },
		"compartments out of order": func(h *bundle.Header) { h.Label.Compartments = []string{"b", "a"} },
	} {
		w, err := bundle.NewDocumentWriter("catalog", 40)
		require.NoError(t, err)
		for _, e := range sample(sluice.DepthCatalog, 40) {
			require.NoError(t, w.Append(e))
		}
		h := header(40, 50)
		change(&h)
		_, _, err = w.Seal(h, keyOf(1))
		require.Error(t, err, name)
		require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), name)
	}
	w, err := bundle.NewDocumentWriter("catalog", 40)
	require.NoError(t, err)
	h := header(40, 1<<53-1) // the bounds are allowed
	h.First, h.SourceID, h.Lost, h.Passed = h.Through, strings.Repeat("x", 512), nil, nil
	for n := range 10_000 {
		h.Lost = append(h.Lost, sluice.Gap{From: 41 + uint64(n), To: 41 + uint64(n)})
		h.Passed = append(h.Passed, sluice.Hop{Incarnation: strconv.Itoa(n), Hops: 1 + n%8})
	}
	h.Lost[9_999].To = h.Through
	text, _, err := w.Seal(h, keyOf(1))
	require.NoError(t, err)
	require.Equal(t, h.Lost, read(t, text).Header.Lost)
	h.Passed = append(h.Passed, sluice.Hop{Incarnation: "more", Hops: 1})
	_, _, err = w.Seal(h, keyOf(1))
	require.ErrorContains(t, err, "logs were passed")
	_, err = (&bundle.Header{ExportedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}).Digest()
	require.Error(t, err, "a year that JSON does not have")
}

// Any entry comes back as it was, and its form is that of RFC 8785.
func TestDocument_AnyEntryComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[ -~\x{1}-\x{1f}\x{7f}-\x{ff}\x{2028}\x{1F600}]{0,12}`)
		name := rapid.StringMatching(`[a-z0-9]{1,5}`)
		var all []bundle.Entry
		for i := range rapid.IntRange(0, 4).Draw(rt, "entries") {
			ev := sluice.Event{
				Seq: uint64(i + 1), ID: fmt.Sprint("id", text.Draw(rt, "id")), Path: "/a", Type: "t" + text.Draw(rt, "type"),
				Subject: text.Draw(rt, "subject"), Source: text.Draw(rt, "source"), DataSchema: text.Draw(rt, "schema"),
				ContentType: "text/plain", Data: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(rt, "data"),
			}
			if ext := rapid.MapOfN(name, text, 0, 3).Draw(rt, "extensions"); len(ext) > 0 {
				ev.Extensions = ext
			}
			delete(ev.Extensions, sluice.RevisionOf)
			if len(ev.Extensions) == 0 {
				ev.Extensions = nil
			}
			all = append(all, bundle.Entry{Change: sluice.ChangeOf(ev)})
		}
		w, err := bundle.NewDocumentWriter("entries", 0)
		require.NoError(rt, err)
		for _, e := range all {
			require.NoError(rt, w.Append(e))
		}
		doc, _, err := w.Seal(header(0, 9), keyOf(1))
		require.NoError(rt, err)
		same, err := jcs.Transform(doc)
		require.NoError(rt, err)
		require.Equal(rt, string(same), string(doc))
		c, err := read(t, doc).Verify(t.Context(), trusting(t, 1))
		require.NoError(rt, err)
		require.Equal(rt, all, entriesOf(t, c, 0))
	})
}
