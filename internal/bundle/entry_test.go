package bundle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A header with empty lists and a time in another zone is written in the one form.
func TestDocument_WriterNormalizesTheHeader(t *testing.T) {
	t.Parallel()
	h := header(0, 0)
	h.Lost, h.Passed, h.Label = nil, nil, sluice.Label{}
	h.ExportedAt = h.ExportedAt.In(time.FixedZone("x", 3600))
	text, _ := write(t, h, sluice.DepthCatalog, nil, keyOf(1))
	got := read(t, text).Header
	require.Equal(t, []sluice.Gap{}, got.Lost)
	require.Equal(t, []sluice.Hop{}, got.Passed)
	require.Equal(t, []string{}, got.Label.Compartments)
	require.Equal(t, exported, got.ExportedAt)
}

// An event that was stored without some attributes has those of a page, and nothing that no bundle can hold.
func TestDocument_AttributesAreThoseOfAPage(t *testing.T) {
	t.Parallel()
	e := bundle.Entry{Change: sluice.ChangeOf(sluice.Event{
		Namespace: "osint", Seq: 1, ID: "a\x00b", Path: "/a", Stored: exported, Subject: "x\xffy", Data: []byte(`{}`),
		Extensions: map[string]string{sluice.RevisionOf: "o", "": "x", "Bad-Name": "y"},
	})}
	text, _ := write(t, header(0, 9), sluice.DepthFull, []bundle.Entry{e}, keyOf(1))
	require.Contains(t, string(text), `"entries":[{"claims":[],"content":"{}","content_type":"application/json","entry_id":"a�b","op":"revise","revision_of":"o",`+
		`"sequence":1,"source":"/osint","subject":"x�y","time":"2026-02-19T12:00:00Z","topic":"/a","type":"message"}]`)
	c, err := read(t, text).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Equal(t, map[string]string{sluice.RevisionOf: "o"}, entriesOf(t, c, 0)[0].Event.Extensions)

	bare := bundle.Entry{Change: sluice.ChangeOf(sluice.Event{Seq: 1, ID: "\x00", Path: "/a", Extensions: map[string]string{"a": "b"}})}
	text, _ = write(t, header(0, 9), sluice.DepthFull, []bundle.Entry{bare}, keyOf(1))
	require.Contains(t, string(text), `"entry_id":"�","extensions":{"a":"b"},"op":"write","sequence":1,"topic":"/a"`)
	c, err = read(t, text).Verify(t.Context(), trusting(t, 1))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b"}, entriesOf(t, c, 0)[0].Event.Extensions)

	for depth, want := range map[sluice.Depth]string{
		sluice.DepthCatalog: `"claims":[],"content":null,"content_type":"application/json"`,
		sluice.DepthSummary: `"claims":[{"n":1}],"content":null,"content_type":"application/json"`,
		sluice.DepthFull:    `"claims":[{"s":2}],"content":"{\"n\":1}","content_type":"application/json"`,
	} {
		e.Event.Data, e.Summary, e.Event.Source = []byte(`{"n":1}`), []byte(`{"s":2}`), "/given"
		text, _ := write(t, header(0, 9), depth, []bundle.Entry{e}, keyOf(1))
		require.Contains(t, string(text), want)
		require.Contains(t, string(text), `"source":"/given"`)
	}
	e.Event.Data, e.Summary = nil, nil
	text, _ = write(t, header(0, 9), sluice.DepthFull, []bundle.Entry{e}, keyOf(1))
	require.Contains(t, string(text), `"content":null,"content_type":null`)
	e.Summary = []byte(`{"s":2}`)
	text, _ = write(t, header(0, 9), sluice.DepthFull, []bundle.Entry{e}, keyOf(1))
	require.Contains(t, string(text), `"claims":[{"s":2}],"content":null,"content_type":"application/json"`)
}

// The digest of the entries depends on each of their fields, and on where one ends.
func TestDocument_DigestCoversEachFieldOfAnEntry(t *testing.T) {
	t.Parallel()
	digests := map[string]string{}
	for name, change := range map[string]func(e *bundle.Entry){
		"nothing":  func(*bundle.Entry) {},
		"sequence": func(e *bundle.Entry) { e.Event.Seq++ },
		"revision": func(e *bundle.Entry) {
			*e = bundle.Entry{Change: sluice.ChangeOf(with(e.Event, sluice.RevisionOf, "x"))}
		},
		"revision of": func(e *bundle.Entry) {
			*e = bundle.Entry{Change: sluice.ChangeOf(with(e.Event, sluice.RevisionOf, "y"))}
		},
		"id":                     func(e *bundle.Entry) { e.Event.ID += "/" },
		"source, and no subject": func(e *bundle.Entry) { e.Event.Source, e.Event.Subject = "su", "" },
		"path":                   func(e *bundle.Entry) { e.Event.Path = "/a/b" },
		"type":                   func(e *bundle.Entry) { e.Event.Type += "t" },
		"time":                   func(e *bundle.Entry) { e.Event.Time = e.Event.Time.Add(1) },
		"source":                 func(e *bundle.Entry) { e.Event.Source += "t" },
		"subject":                func(e *bundle.Entry) { e.Event.Subject += "t" },
		"schema":                 func(e *bundle.Entry) { e.Event.DataSchema += "t" },
		"media type":             func(e *bundle.Entry) { e.Event.ContentType = "text/plain" },
		"data":                   func(e *bundle.Entry) { e.Event.Data = []byte("2") },
		"no data":                func(e *bundle.Entry) { e.Event.Data = nil },
		"binary data":            func(e *bundle.Entry) { e.Event.Data = []byte{0} },
		"summary":                func(e *bundle.Entry) { e.Summary = []byte("{}") },
		"extension":              func(e *bundle.Entry) { e.Event = with(e.Event, "a", "bc") },
		"its name":               func(e *bundle.Entry) { e.Event = with(e.Event, "ab", "c") },
		"its value":              func(e *bundle.Entry) { e.Event = with(e.Event, "a", "bd") },
		"an empty one":           func(e *bundle.Entry) { e.Event = with(e.Event, "a", "") },
	} {
		e := bundle.Entry{Change: sluice.ChangeOf(sluice.Event{
			Seq: 1, ID: "id", Path: "/a", Type: "t", Time: exported, Source: "s", Subject: "u", DataSchema: "d", ContentType: "application/json", Data: []byte("1"),
		})}
		change(&e)
		_, h := write(t, header(0, 9), sluice.DepthFull, []bundle.Entry{e}, keyOf(1))
		digests[h.Entries] = name
		if name == "nothing" {
			require.Equal(t, "c5a6a64c7ed95eed2097d45e4e7e923f002f9f74527685b4d33cbb01f8dc079f", h.Entries, "another program computes it")
		}
	}
	require.Len(t, digests, 21)
	erased := bundle.Entry{Change: sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: 1, ID: "id"}}}
	_, h := write(t, header(0, 9), sluice.DepthFull, []bundle.Entry{erased}, keyOf(1))
	require.Equal(t, "4927b2dd9f90dd9828f7722e80608bb2039b8f8c62a575aae7fe6a4aea916f1b", h.Entries)
	erased.Event, erased.ErasedSeq = with(erased.Event, sluice.RevisionOf, "x"), 1
	erased.Event.Seq = 3
	_, h = write(t, header(0, 9), sluice.DepthFull, []bundle.Entry{erased}, keyOf(1))
	require.Equal(t, "b5de06782362342444e0bb4ce536383c6d66aa19d6d2e1830affd5b38ec2a000", h.Entries)
}

func with(ev sluice.Event, name, value string) sluice.Event {
	ev.Extensions = map[string]string{name: value}
	return ev
}
