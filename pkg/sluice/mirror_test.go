package sluice_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-35, S3-116: an item is read as it was written, and its source is not that of its event.
func TestMirroredItem_SurvivesJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
	event := sluice.Event{Seq: 7, ID: "a", Path: "/p", Type: "t", Time: at, Source: "/s", ContentType: "application/json", Data: []byte(`{"a":1}`)}
	for name, c := range map[string]struct {
		item sluice.MirroredItem
		text string
	}{
		"own": {
			sluice.MirroredItem{Source: "local", Change: sluice.ChangeOf(event)},
			`{"source":"local","tombstoned":false,"op":"write","seq":7,"id":"a","path":"/p","type":"t","time":"2026-11-24T01:02:03Z","event_source":"/s","datacontenttype":"application/json","data":{"a":1}}`,
		},
		"mirrored": {
			sluice.MirroredItem{
				Source: "mirrored", Subscription: "m", Origin: "low", Weight: 0.3, Label: &sluice.Label{Level: sluice.LevelSecret, Compartments: []string{}}, MirroredAt: &at, Cursor: 9,
				Change: sluice.ChangeOf(event),
			},
			`{"source":"mirrored","subscription_id":"m","origin":"low","weight":0.3,"label":{"level":"SECRET","compartments":[]},"tombstoned":false,"mirrored_at":"2026-11-24T01:02:03Z","cursor":9,` +
				`"op":"write","seq":7,"id":"a","path":"/p","type":"t","time":"2026-11-24T01:02:03Z","event_source":"/s","datacontenttype":"application/json","data":{"a":1}}`,
		},
		"tombstone": {
			sluice.MirroredItem{Source: "mirrored", Subscription: "m", Tombstoned: true, Change: sluice.ChangeOf(sluice.Event{Seq: 8, ID: "a", Path: "/p", Type: "t", Time: at, Source: "/s"})},
			`{"source":"mirrored","subscription_id":"m","tombstoned":true,"op":"write","seq":8,"id":"a","path":"/p","type":"t","time":"2026-11-24T01:02:03Z","event_source":"/s"}`,
		},
	} {
		text, err := json.Marshal(c.item)
		require.NoError(t, err, name)
		require.Equal(t, c.text, string(text), name)
		var again sluice.MirroredItem
		require.NoError(t, json.Unmarshal(text, &again), name)
		require.Equal(t, c.item, again, name)
	}
	require.Error(t, json.Unmarshal([]byte(`{"source":1}`), new(sluice.MirroredItem)))
	require.Error(t, json.Unmarshal([]byte(`{"seq":"x"}`), new(sluice.MirroredItem)))
}
