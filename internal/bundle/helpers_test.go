package bundle_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// keyOf returns a key by its number.
func keyOf(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func publicOf(n byte) ed25519.PublicKey { return keyOf(n).Public().(ed25519.PublicKey) }

var exported = time.Date(2026, 2, 19, 12, 0, 0, 0, time.UTC)

const source = "https://low.example/v1/namespaces/osint"

// trusting returns the trust in keys of the source.
func trusting(tb testing.TB, keys ...byte) bundle.Trust {
	tb.Helper()
	var trust bundle.Trust
	for _, n := range keys {
		var err error
		trust, err = trust.Add(bundle.NewJWK(publicOf(n)), source, exported)
		require.NoError(tb, err)
	}
	return trust
}

func header(since, through uint64) bundle.Header {
	return bundle.Header{
		SourceID: source, SourceName: "OSINT feed", Incarnation: "log-1", Since: since, Through: through, First: 1,
		Label:      sluice.Label{Level: sluice.LevelInternal, Compartments: []string{"desk"}},
		Passed:     []sluice.Hop{{Incarnation: "log-0", Hops: 1}},
		ExportedAt: exported,
	}
}

// sample returns entries of every kind at a depth, with sequences behind since.
func sample(depth sluice.Depth, since uint64) []bundle.Entry {
	event := func(n uint64, contentType, data string) sluice.Event {
		return sluice.Event{
			Seq: since + n, ID: fmt.Sprintf("e-%d", n), Path: "/geo/trade", Type: "report.filed", Source: "/osint",
			Time: exported.Add(-time.Minute * time.Duration(n)), ContentType: contentType, Data: []byte(data),
		}
	}
	revision := event(4, "application/json", `{"total":2.50,"by":"<b>\"x\" & \u0000</b>"}`)
	revision.Extensions = map[string]string{sluice.RevisionOf: "e-1", "traceid": "t-1", "author": "ann"}
	revision.Subject, revision.DataSchema = "case/7", "https://low.example/schema"
	all := []bundle.Entry{
		{Change: sluice.ChangeOf(event(1, "application/json", `{"total": 12345678901234567890, "a":[1.0]}`))},
		{Change: sluice.ChangeOf(event(2, "text/plain; charset=utf-8", "line\nwith \u20ac and \"quotes\" \\ \x07"))},
		{Change: sluice.ChangeOf(event(3, "application/octet-stream", "\x00\xff\x00"))},
		{Change: sluice.ChangeOf(revision), Summary: json.RawMessage(`{"total":2.5}`)},
		{Change: sluice.Change{Op: sluice.OpDelete, ErasedSeq: since + 2, Event: sluice.Event{Seq: since + 6, ID: "e-2", Extensions: map[string]string{sluice.RevisionOf: "e-1"}}}},
	}
	for i := range all {
		if depth == sluice.DepthFull {
			break
		}
		e := &all[i]
		e.Summary, e.Event.Data, e.Event.ContentType = nil, nil, ""
		if depth == sluice.DepthSummary && (i == 0 || i == 3) {
			e.Event.Data, e.Event.ContentType = []byte(`{"total":25}`), "application/json"
		}
	}
	return all
}

// write returns a bundle in JSON.
func write(tb testing.TB, h bundle.Header, depth sluice.Depth, entries []bundle.Entry, key ed25519.PrivateKey) ([]byte, bundle.Header) {
	tb.Helper()
	w, err := bundle.NewDocumentWriter(depth.Scope(), h.Since)
	require.NoError(tb, err)
	for _, e := range entries {
		require.NoError(tb, w.Append(e))
	}
	text, h, err := w.Seal(h, key)
	require.NoError(tb, err)
	return text, h
}

func read(tb testing.TB, text []byte) *bundle.Document {
	tb.Helper()
	d, err := bundle.ReadDocument(bytes.NewReader(text))
	require.NoError(tb, err)
	return d
}

// entriesOf returns the entries of verified content.
func entriesOf(tb testing.TB, c *bundle.Content, after uint64) (all []bundle.Entry) {
	tb.Helper()
	for e, err := range c.Entries(tb.Context(), after) {
		require.NoError(tb, err)
		all = append(all, e)
	}
	return all
}

// changed returns the text with one part replaced, which is in it once.
func changed(tb testing.TB, text []byte, from, to string) []byte {
	tb.Helper()
	require.Equal(tb, 1, strings.Count(string(text), from), "%s in %s", from, text)
	return []byte(strings.Replace(string(text), from, to, 1))
}

// signed returns a document with a signature of its own, also of wrong content.
func signed(tb testing.TB, text []byte, key ed25519.PrivateKey) []byte {
	tb.Helper()
	var doc map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal(text, &doc))
	delete(doc, "signature")
	rest, err := json.Marshal(doc)
	require.NoError(tb, err)
	message, err := jcs.Transform(rest)
	require.NoError(tb, err)
	signature, err := json.Marshal(ed25519.Sign(key, message))
	require.NoError(tb, err)
	doc["signature"] = signature
	text, err = json.Marshal(doc)
	require.NoError(tb, err)
	return text
}
