package sluice_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-40, S3-57, S3-59: the other side reads any data as it was stored.
func TestChange_SurvivesJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 1, 2, 3, 4, time.UTC)
	for name, c := range map[string]struct {
		change sluice.Change
		text   string
	}{
		"JSON": {
			sluice.ChangeOf(sluice.Event{Seq: 7, ID: "a", Path: "/p", Type: "t", Time: at, Source: "/s", ContentType: "application/json", Data: []byte(`{ "a":"<b>" }`)}),
			`{"op":"write","seq":7,"id":"a","path":"/p","type":"t","time":"2026-11-24T01:02:03.000000004Z","source":"/s","datacontenttype":"application/json","data":{ "a":"<b>" }}`,
		},
		"white space": {
			sluice.ChangeOf(sluice.Event{Seq: 7, ID: "a", Path: "/p", Type: "t", Time: at, Source: "/s", ContentType: "application/json", Data: []byte(" \t{}\r\n")}),
			`{"op":"write","seq":7,"id":"a","path":"/p","type":"t","time":"2026-11-24T01:02:03.000000004Z","source":"/s","datacontenttype":"application/json","data":{},"data_before":" \u0009","data_after":"\u000d\u000a"}`,
		},
		"JSON that is not in UTF-8": {
			sluice.ChangeOf(sluice.Event{Seq: 7, ID: "a", Path: "/p", Type: "t", Time: at, Source: "/s", ContentType: "application/json", Data: []byte("\"\xff\"")}),
			`{"op":"write","seq":7,"id":"a","path":"/p","type":"t","time":"2026-11-24T01:02:03.000000004Z","source":"/s","datacontenttype":"application/json","data_base64":"Iv8i"}`,
		},
		"many brackets in a string": {
			sluice.ChangeOf(sluice.Event{Seq: 7, ID: "a", Path: "/p", Type: "t", Time: at, Source: "/s", ContentType: "application/json", Data: []byte(`"\\\"` + strings.Repeat("[", 2000) + `"`)}),
			`{"op":"write","seq":7,"id":"a","path":"/p","type":"t","time":"2026-11-24T01:02:03.000000004Z","source":"/s","datacontenttype":"application/json","data":"\\\"` + strings.Repeat("[", 2000) + `"}`,
		},
		"text": {
			sluice.ChangeOf(sluice.Event{Seq: 8, ID: "b", Path: "/p", Type: "t", Time: at, Source: "/s", Subject: "x", DataSchema: "y", ContentType: "text/plain", Data: []byte("no <json>")}),
			`{"op":"write","seq":8,"id":"b","path":"/p","type":"t","time":"2026-11-24T01:02:03.000000004Z","source":"/s","subject":"x","dataschema":"y","datacontenttype":"text/plain","data":"no <json>"}`,
		},
		"bytes": {
			sluice.ChangeOf(sluice.Event{Seq: 9, ID: "c", Path: "/p", Type: "t", Time: at, Source: "/s", ContentType: "image/png", Data: []byte{0xff, 0}}),
			`{"op":"write","seq":9,"id":"c","path":"/p","type":"t","time":"2026-11-24T01:02:03.000000004Z","source":"/s","datacontenttype":"image/png","data_base64":"/wA="}`,
		},
		"revision": {
			sluice.ChangeOf(sluice.Event{Seq: 10, ID: "d", Path: "/p", Type: "t", Time: at, Source: "/s", Extensions: map[string]string{"revisionof": "a", "team": "x"}}),
			`{"op":"revise","seq":10,"id":"d","path":"/p","type":"t","time":"2026-11-24T01:02:03.000000004Z","source":"/s","revision_of":"a","extensions":{"team":"x"}}`,
		},
		"deletion": {
			sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: 11, ID: "a"}, ErasedSeq: 7},
			`{"op":"delete","seq":11,"id":"a","erased_seq":7}`,
		},
		"deletion of a revision": {
			sluice.Change{Op: sluice.OpDelete, Event: sluice.Event{Seq: 12, ID: "d", Extensions: map[string]string{"revisionof": "a"}}},
			`{"op":"delete","seq":12,"id":"d","revision_of":"a"}`,
		},
	} {
		text, err := c.change.MarshalJSON()
		require.NoError(t, err, name)
		require.Equal(t, c.text, string(text), name)
		var again sluice.Change
		require.NoError(t, json.Unmarshal(text, &again), name)
		require.Equal(t, c.change, again, name)
	}
}

// S3-59: a revision is kept under the id of the entry that it revises.
func TestChange_KeyIsTheOriginalsID(t *testing.T) {
	t.Parallel()
	revision := sluice.ChangeOf(sluice.Event{ID: "second", Extensions: map[string]string{"revisionof": "first"}})
	require.Equal(t, "first", revision.Key())
	write := sluice.ChangeOf(sluice.Event{ID: "first"})
	require.Equal(t, "first", write.Key())
}

func TestChange_RefusesDataOfAnotherForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"op":"write","data_base64":"?"}`, `{"op":"write","datacontenttype":"text/plain","data":{}}`, `[]`, `{"seq":-1}`} {
		require.Error(t, new(sluice.Change).UnmarshalJSON([]byte(text)), text)
	}
}

// S3-04: the specification's names are accepted beside ours.
func TestParseDepth_KnowsBothNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]sluice.Depth{
		"": sluice.DepthCatalog, "catalog": sluice.DepthCatalog, "summary": sluice.DepthSummary, "claims": sluice.DepthSummary,
		"full": sluice.DepthFull, "entries": sluice.DepthFull,
	} {
		depth, err := sluice.ParseDepth(name)
		require.NoError(t, err, name)
		require.Equal(t, want, depth, name)
		again, err := sluice.ParseDepth(depth.Scope())
		require.NoError(t, err)
		require.Equal(t, depth, again)
	}
	_, err := sluice.ParseDepth("all")
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}
