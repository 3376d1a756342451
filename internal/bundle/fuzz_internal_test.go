package bundle

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func fuzzKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
}

func fuzzHeader() Header {
	return Header{
		SourceID: "source", Incarnation: "log", Through: 9, First: 1, Lost: []sluice.Gap{{From: 7, To: 8}},
		Passed: []sluice.Hop{{Incarnation: "x", Hops: 1}}, ExportedAt: time.Date(2026, 2, 19, 12, 0, 0, 0, time.UTC),
	}
}

func fuzzEntries() []Entry {
	ev := func(seq uint64, kind, data string, extensions map[string]string) Entry {
		return Entry{Change: sluice.ChangeOf(sluice.Event{
			Seq: seq, ID: "e", Path: "/a", Type: "t", ContentType: kind, Data: []byte(data), Extensions: extensions, Source: "/s", Subject: "s",
			Time: time.Date(2026, 2, 19, 12, 0, 0, 1, time.UTC),
		})}
	}
	first := ev(1, "application/json", `{"n":1.50,"s":"\u0000\n\t\\"}`, nil)
	first.Summary = json.RawMessage(`{"n":1.5,"s":"\u0000"}`)
	return []Entry{
		first, ev(2, "x", "\x00\xff", map[string]string{"a": "1", "b": "\u20ac"}), ev(3, "text/plain", "\u001f\u007f", map[string]string{sluice.RevisionOf: "e"}),
		{Change: sluice.Change{Op: sluice.OpDelete, ErasedSeq: 1, Event: sluice.Event{Seq: 4, ID: "e", Extensions: map[string]string{sluice.RevisionOf: "d"}}}},
	}
}

// An entry is accepted in one form only, which is canonical.
func FuzzEntry(f *testing.F) {
	for _, e := range fuzzEntries() {
		w, err := toWire(&e, sluice.DepthFull)
		require.NoError(f, err)
		f.Add(string(w.append(nil)))
	}
	f.Add(`{"claims":["{\"n\":1e400}"],"content":null,"content_file":"data/x","content_type":null,"entry_id":"e","op":"write","sequence":1,"topic":"/a","type":"t"}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, depth := range []sluice.Depth{sluice.DepthCatalog, sluice.DepthSummary, sluice.DepthFull} {
			w, err := parseEntry([]byte(text), depth)
			consumed, same := consumeEntry([]byte(text), depth)
			require.Equal(t, err == nil, same == nil, "%v, %v", err, same)
			if err == nil {
				require.Equal(t, w, consumed)
				requireOneForm(t, w, text, depth)
			}
		}
	})
}

// requireOneForm checks that an entry is written as it was read, and is canonical.
func requireOneForm(t *testing.T, w *wire, text string, depth sluice.Depth) {
	t.Helper()
	require.Equal(t, text, string(w.append(nil)))
	if claims, err := jcs.Transform(w.claims); err == nil && bytes.Equal(claims, w.claims) {
		same, err := jcs.Transform([]byte(text))
		require.NoError(t, err)
		require.Equal(t, string(same), text)
	}
	e, err := w.entry(depth, w.content)
	if err != nil || w.file != "" {
		return
	}
	again, err := toWire(&e, depth)
	if err == nil && bytes.Equal(again.claims, w.claims) {
		again.contentType = w.contentType // of an entry without data it is not known
		require.Equal(t, text, string(again.append(nil)))
	}
}

// A document that is accepted is the same in its canonical form.
func FuzzDocument(f *testing.F) {
	for _, scope := range []string{"catalog", "claims", "entries"} {
		w, err := NewDocumentWriter(scope, 0)
		require.NoError(f, err)
		for _, e := range fuzzEntries() {
			if scope == "claims" && e.Op != sluice.OpDelete {
				e.Event.Data = e.Summary
			}
			require.NoError(f, w.Append(e))
		}
		text, _, err := w.Seal(fuzzHeader(), fuzzKey())
		require.NoError(f, err)
		f.Add(text)
		var pretty bytes.Buffer
		require.NoError(f, json.Indent(&pretty, text, "", " "))
		f.Add(pretty.Bytes())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ReadDocument(bytes.NewReader(text))
		if err != nil {
			require.NotEqual(t, sluice.Internal, sluice.CodeOf(err))
			return
		}
		whole, err := jcs.Transform(text)
		require.NoError(t, err)
		members, err := split(whole)
		require.NoError(t, err)
		delete(members, "signature")
		message, _ := assemble(members, "")
		require.Equal(t, string(message), string(d.message), "all members but the signature are signed")
		again, err := ReadDocument(bytes.NewReader(whole))
		require.NoError(t, err)
		require.Equal(t, d.digest, again.digest)
	})
}

// A manifest that is accepted names plain files within its directory, each once, and is the same when it
// is written again.
func FuzzManifest(f *testing.F) {
	m := &Manifest{Signed: Signed{Header: fuzzHeader()}}
	t := newTally(0)
	for _, e := range fuzzEntries() {
		w, err := toWire(&e, sluice.DepthFull)
		require.NoError(f, err)
		require.NoError(f, t.addInline(w))
	}
	var err error
	m.Header, err = seal(m.Header, sluice.DepthFull, t, fuzzKey())
	require.NoError(f, err)
	data := fileOf("", []byte("x"))
	data.Name = dataName(data.SHA256, "text/plain")
	m.files = []file{data, fileOf(entriesName(1), []byte("x")), fileOf(entriesName(2), []byte("y"))}
	require.NoError(f, m.seal())
	m.signature = ed25519.Sign(fuzzKey(), m.message)
	text, err := m.format()
	require.NoError(f, err)
	f.Add(text)
	f.Add(bytes.ReplaceAll(text, []byte("entries-00002"), []byte("../entries-2")))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			require.NotEqual(t, sluice.Internal, sluice.CodeOf(err))
			return
		}
		seen := map[string]bool{}
		for _, file := range m.files {
			lower := strings.ToLower(file.Name)
			require.False(t, seen[lower])
			seen[lower] = true
			require.Equal(t, file.Name, path.Clean(file.Name))
			dir := path.Dir(file.Name)
			require.True(t, dir == "." || dir == "data")
		}
		written, err := m.format()
		require.NoError(t, err)
		again, err := ParseManifest(written)
		require.NoError(t, err)
		again.text = m.text
		require.Equal(t, m, again)
	})
}
