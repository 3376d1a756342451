package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// sample returns events as a real producer sends them, from a file of lines
// {"id","type","path","data"}: the one that SLUICE_SAMPLE names, or one beside the checkout,
// or else the small one in it.
func sample(t *testing.T) []sluice.Event {
	t.Helper()
	named := os.Getenv("SLUICE_SAMPLE")
	data, err := os.ReadFile(cmp.Or(named, "../../../shared/data/github-webhooks.jsonl"))
	if os.IsNotExist(err) && named == "" {
		data, err = os.ReadFile("../../scripts/interop/testdata/sample.jsonl")
	}
	require.NoError(t, err)
	var events []sluice.Event
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e struct {
			ID, Type string
			Path     sluice.Path
			Data     json.RawMessage
		}
		require.NoError(t, json.Unmarshal(line, &e))
		events = append(events, sluice.Event{ID: e.ID, Type: e.Type, Path: e.Path, Source: "/sample", Data: e.Data})
	}
	return events
}

// S4-02…05, S4-14, S4-17, S4-73: events of a real producer go in in batches; each comes out once,
// in the order of its path, its data byte for byte, and others' code believes its signature.
func TestPublish_SampleEventsArriveUnchanged(t *testing.T) {
	t.Parallel()
	events := sample(t)
	require.NotEmpty(t, events)
	api, _ := serve(t, nil)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, api, wish(hook.URL))
	theirs, err := standardwebhooks.NewWebhook(sub.Endpoint.Secret)
	require.NoError(t, err)
	sent := map[string]sluice.Event{}
	order := map[sluice.Path][]string{}
	for _, e := range events {
		sent[e.ID] = e
		order[e.Path] = append(order[e.Path], e.ID)
	}
	const batch = 100
	for len(events) > 0 {
		n := min(batch, len(events))
		_, err := api.Publish(t.Context(), sluice.DefaultNamespace, events[:n]...)
		require.NoError(t, err)
		events = events[n:]
	}
	hook.Wait(len(sent))
	statusOf(t, api, sub.ID, idle)
	requests := hook.Requests()
	require.Len(t, requests, len(sent), "each arrives once")
	for _, r := range requests {
		require.NoError(t, theirs.Verify(r.Body, r.Header))
		d := parse(t, r)
		want := sent[d.ID]
		require.Equal(t, []string{want.Type, string(want.Path)}, []string{d.Type, d.Path}, d.ID)
		require.True(t, bytes.Equal(want.Data, d.Data), "the data of %s", d.ID)
		require.Equal(t, order[want.Path][0], d.ID, "the next of %s", want.Path)
		order[want.Path] = order[want.Path][1:]
	}
	t.Logf("%d events", len(requests))
}
