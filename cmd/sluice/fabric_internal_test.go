package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// commands are command lines about one server.
type commands struct {
	t    *testing.T
	data string
}

// serving runs a server until the test ends, and returns command lines about it.
func serving(t *testing.T) commands {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Dev = t.TempDir(), true
	cfg.HTTP.Listen, cfg.NATS.Listen = "127.0.0.1:0", "127.0.0.1:0"
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan datadir.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, cfg, app.Options{
			Version: "test", Silent: true, Log: slog.New(slog.DiscardHandler), Ready: func(at datadir.Addresses) { ready <- at },
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		require.FailNow(t, "the server does not start", "%v", err)
	}
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended, "the server ends in order")
	})
	return commands{t, cfg.Data}
}

// run carries out a command, and returns its status and what it printed.
func (c commands) run(stdin string, args ...string) (status int, stdout, stderr string) {
	c.t.Helper()
	var out, complaints bytes.Buffer
	s := &terminal.Session{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &complaints, Exit: func(int) {}}
	status = run(c.t.Context(), append(args, "--data", c.data), s)
	return status, out.String(), complaints.String()
}

// must is run for a command that succeeds.
func (c commands) must(args ...string) string {
	c.t.Helper()
	status, stdout, stderr := c.run("", args...)
	require.Zero(c.t, status, "%v: %s", args, stderr)
	return stdout
}

// api returns the server's client, as commands have it.
func (c commands) api() *client.Client {
	c.t.Helper()
	s := &terminal.Session{Flags: terminal.Flags{Data: c.data}, Stdout: io.Discard, Stderr: io.Discard}
	api, err := s.Client()
	require.NoError(c.t, err)
	c.t.Cleanup(api.HTTP.CloseIdleConnections)
	return api
}

const fabricFile = "../../docs/examples/catalogue/fabric.json"

// variants are the types of events that the specification names, with everything that it has them carry; "?" is after what may be missing.
func variants() map[string]string {
	return map[string]string{
		"custody.taken":                              "plugin handle_id shelf custody_type",                                                         // S2-15
		"custody.released":                           "plugin handle_id",                                                                            // S2-16
		"custody.state_reported":                     "plugin handle_id health",                                                                     // S2-17
		"relation.cardinality_violated":              "plugin predicate source_id target_id side declared observed_count",                           // S2-18
		"relation.forgotten":                         "plugin source_id predicate target_id reason",                                                 // S2-19
		"relation.suppressed":                        "admin_plugin source_id predicate target_id reason?",                                          // S2-20
		"relation.suppression_reason_updated":        "admin_plugin source_id predicate target_id old_reason new_reason",                            // S2-21
		"relation.unsuppressed":                      "admin_plugin source_id predicate target_id",                                                  // S2-22
		"subject.forgotten":                          "plugin canonical_id subject_type",                                                            // S2-23
		"instance.announced":                         "plugin instance_id canonical_id shelf payload_bytes",                                         // S2-24
		"instance.retracted":                         "plugin instance_id canonical_id shelf",                                                       // S2-25
		"addressing.forced_retract":                  "admin_plugin target_plugin canonical_id scheme value reason?",                                // S2-26
		"relation.claim_forced_retract":              "admin_plugin target_plugin source_id predicate target_id reason?",                            // S2-27
		"subject.merged":                             "admin_plugin source_ids new_id reason?",                                                      // S2-28
		"subject.split":                              "admin_plugin source_id new_ids strategy reason?",                                             // S2-29
		"relation.split_ambiguous":                   "admin_plugin source_subject predicate other_endpoint_id candidate_new_ids",                   // S2-30
		"relation.rewritten":                         "admin_plugin predicate old_subject_id new_subject_id target_id",                              // S2-32
		"relation.cardinality_violated_post_rewrite": "admin_plugin subject_id predicate side declared observed_count",                              // S2-33
		"claim.reassigned":                           "admin_plugin plugin kind old_subject_id new_subject_id scheme? value? predicate? target_id?", // S2-34
		"relation.claim_suppression_collapsed":       "admin_plugin subject_id predicate target_id demoted_claimant surviving_suppression_record",   // S2-35
		"connectivity.changed":                       "rack_class on",                                                                               // S2-36
		"grammar.orphan":                             "subject_type count first_observed_at_ms",                                                     // S2-47
		"subject.migrated":                           "old_id new_id from_type to_type migration_id",                                                // S2-48
		"grammar.migration_progress":                 "migration_id from_type completed remaining batch_index",                                      // S2-49
		"grammar.orphans_accepted":                   "subject_type reason?",                                                                        // S2-50
		"plugin.event":                               "plugin event_type",                                                                           // S2-70
	}
}

// fabricType is an event type of the catalogue as the command line shows it.
type fabricType struct {
	sluice.EventType

	fields, required []string
	example          map[string]any
}

// stored puts the catalogue into a strict namespace and returns it as it is then.
func (c commands) stored() (types []fabricType) {
	c.t.Helper()
	c.must("ns", "put", "fabric", "--catalogue", "strict")
	c.must("types", "put", "--ns", "fabric", filepath.FromSlash(fabricFile))
	var all []sluice.EventType
	require.NoError(c.t, json.Unmarshal([]byte(c.must("types", "ls", "--ns", "fabric", "-o", "json")), &all))
	for _, one := range all {
		var schema struct {
			Required   []string         `json:"required"`
			Properties map[string]any   `json:"properties"`
			Examples   []map[string]any `json:"examples"`
		}
		require.NoError(c.t, json.Unmarshal(one.Schema, &schema))
		require.Len(c.t, schema.Examples, 1, one.Type)
		types = append(types, fabricType{one, slices.Sorted(maps.Keys(schema.Properties)), schema.Required, schema.Examples[0]})
	}
	return types
}

// S2-12, S2-14…36, S2-47…50, S2-62, S2-75: every type of event that the specification names is an entry of the example
// catalogue, with everything that it carries, and is advertised with its labels; the server has no word of it.
func TestFabric_CatalogueHasEverySpecifiedType(t *testing.T) {
	t.Parallel()
	c := serving(t)
	types := c.stored()
	want := variants()
	advertised, err := c.api().Capabilities(t.Context())
	require.NoError(t, err)
	for _, one := range types {
		require.Regexp(t, `^[a-z]+\.[a-z_]+$`, one.Type)
		text, known := want[one.Type]
		require.True(t, known, one.Type)
		delete(want, one.Type)
		var required, fields []string
		for field := range strings.FieldsSeq(text) {
			name, optional := strings.CutSuffix(field, "?")
			fields = append(fields, name)
			if !optional {
				required = append(required, name)
			}
		}
		require.ElementsMatch(t, fields, one.fields, one.Type)
		require.ElementsMatch(t, required, one.required, one.Type)
		require.Subset(t, fields, one.SummaryFields, one.Type)
		require.NotEmpty(t, one.SummaryFields, one.Type)
		require.Equal(t, []any{"by", "family"}, advertised["coalesce_labels"].(map[string]any)[one.Type], one.Type)
		require.Contains(t, map[string]string{"plugin": "", "admin": "", "host": ""}, one.StaticLabels["by"])
		_, byAdmin := one.example["admin_plugin"]
		require.True(t, !byAdmin || one.StaticLabels["by"] == "admin", "%s: who is privileged can be told", one.Type) // S2-52
	}
	require.Empty(t, want, "not in the catalogue")
}

// S2-15…36, S2-47…50: of every type, what its schema accepts is taken, and what it lacks or has otherwise is refused.
func TestFabric_EventsAreHeldToTheCatalogue(t *testing.T) {
	t.Parallel()
	c := serving(t)
	api := c.api()
	refused := func(one fabricType, data map[string]any, what string) {
		text, err := json.Marshal(data)
		require.NoError(t, err)
		_, err = api.Publish(t.Context(), "fabric", sluice.Event{Path: "/fabric/x", Type: one.Type, Data: text})
		require.Equal(t, sluice.InvalidEventData, sluice.CodeOf(err), "%s: %s", one.Type, what)
	}
	var lines bytes.Buffer
	types := c.stored()
	for _, one := range types {
		require.NoError(t, json.NewEncoder(&lines).Encode(map[string]any{"type": one.Type, "path": "/fabric/x", "data": one.example}))
		for _, field := range one.required {
			without := maps.Clone(one.example)
			delete(without, field)
			refused(one, without, "without "+field)
		}
		for _, field := range one.fields {
			other := maps.Clone(one.example)
			other[field] = map[string]any{"other": true}
			refused(one, other, "with a different "+field)
		}
	}
	status, stdout, stderr := c.run(lines.String(), "pub", "--from", "-", "--ns", "fabric")
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, fmt.Sprintf("Published %d events", len(types)))
	for kind, data := range map[string]string{
		"claim.reassigned":       `{"admin_plugin":"a","plugin":"p","kind":"addressing","old_subject_id":"o","new_subject_id":"n","predicate":"x","target_id":"t"}`, // S2-34
		"relation.forgotten":     `{"plugin":"p","source_id":"s","predicate":"x","target_id":"t","reason":{"kind":"claims_retracted"}}`,                             // S2-56
		"subject.split":          `{"admin_plugin":"a","source_id":"s","new_ids":["one"],"strategy":"explicit"}`,                                                    // S2-29
		"custody.state_reported": `{"plugin":"p","handle_id":"h","health":"so so"}`,                                                                                 // S2-116
		"plugin.admitted":        `{"plugin":"p"}`,                                                                                                                  // S2-61
	} {
		status, _, stderr := c.run("", "pub", "/fabric/x", data, "--ns", "fabric", "--type", kind)
		require.Equal(t, terminal.ExitFailure, status, kind)
		require.Regexp(t, "invalid_event_data|unknown_event_type", stderr, kind)
	}
}

// frames returns what a feed of everything in the namespace shows, one event a line.
func (c commands) frames(limit int, args ...string) (shown []feedView) {
	c.t.Helper()
	args = append([]string{"feed", "--ns", "fabric", "--since", "-1", "-o", "json", "--limit", strconv.Itoa(limit)}, args...)
	for line := range strings.Lines(c.must(args...)) {
		var v feedView
		require.NoError(c.t, json.Unmarshal([]byte(line), &v))
		if v.ID != "" {
			shown = append(shown, v)
		}
	}
	require.Len(c.t, shown, limit)
	return shown
}

// S2-63, S2-65…67, S2-75: events of every type are taken together by what of them is a label, and by nothing else.
func TestFabric_EventsCoalesceByTheirLabels(t *testing.T) {
	t.Parallel()
	c := serving(t)
	api, all := c.api(), c.stored()
	for _, one := range all { // before any is read, so that a feed has both at once
		data, err := json.Marshal(one.example)
		require.NoError(t, err)
		ev := sluice.Event{Path: "/fabric/x", Type: one.Type, Data: data}
		_, err = api.Publish(t.Context(), "fabric", ev, ev)
		require.NoError(t, err, one.Type)
	}
	for _, one := range all {
		labels := []string{"variant", "family", "by"}
		never := ""
		for _, field := range slices.Sorted(maps.Keys(one.example)) {
			switch one.example[field].(type) {
			case string, float64, bool:
				labels = append(labels, field)
			default:
				never = field
			}
		}
		feed := []string{"--type", one.Type, "--window", "100ms", "--coalesce"}
		require.Equal(t, 2, c.frames(1, append(feed, strings.Join(labels, ","))...)[0].Coalesced, one.Type)
		if never != "" { // a collection, or nothing
			require.Zero(t, c.frames(2, append(feed, "variant,"+never)...)[0].Coalesced, "%s: %s is no label", one.Type, never)
		}
	}
}

// S2-19, S2-48, S2-49, S2-52, S2-70, S2-71, S2-145: what the specification says that a subscriber does, it does with a feed.
func TestFabric_FeedFollowsTheSpecification(t *testing.T) {
	t.Parallel()
	c := serving(t)
	api := c.api()
	c.stored()
	publish := func(kind string, data ...string) {
		var events []sluice.Event
		for _, text := range data {
			events = append(events, sluice.Event{Path: "/fabric/x", Type: kind, Data: []byte(text)})
		}
		_, err := api.Publish(t.Context(), "fabric", events...)
		require.NoError(t, err, kind)
	}
	var reports, migrated, progress, sensors []string
	for i := range 10 {
		reports = append(reports, fmt.Sprintf(`{"plugin":"p","handle_id":"h%d","health":"%s"}`, i%2, []string{"healthy", "degraded"}[i/8]))
		migrated = append(migrated, fmt.Sprintf(`{"old_id":"o%d","new_id":"n%d","from_type":"track","to_type":"recording","migration_id":"m%d"}`, i, i, i/6))
		progress = append(progress, fmt.Sprintf(`{"migration_id":"m1","from_type":"track","completed":%d,"remaining":%d,"batch_index":%d}`, i*10, 90-i*10, i))
		sensors = append(sensors, fmt.Sprintf(`{"plugin":"p","event_type":"read","sensor_id":"t%d","at":{"n":%d}}`, i%3, i))
	}
	publish("custody.state_reported", reports...)
	publish("subject.migrated", migrated...)
	publish("grammar.migration_progress", progress...)
	publish("plugin.event", sensors...)
	publish("relation.forgotten",
		`{"plugin":"p","source_id":"s","predicate":"x","target_id":"t","reason":{"kind":"claims_retracted","retracting_plugin":"p"}}`,
		`{"plugin":"p","source_id":"s","predicate":"y","target_id":"t","reason":{"kind":"subject_cascade","forgotten_subject":"s"}}`)
	publish("subject.merged", `{"admin_plugin":"a","source_ids":["s","t"],"new_id":"n"}`)

	for _, tt := range []struct {
		name, kind, labels string
		counts             []int
	}{
		{"a source at 10 Hz", "custody.state_reported", "variant,handle_id", []int{5, 5}},
		{"each migration once", "subject.migrated", "variant,from_type,to_type,migration_id", []int{6, 4}},
		{"the last of a migration", "grammar.migration_progress", "variant,migration_id", []int{10}},
		{"by what only the data knows", "plugin.event", "variant,sensor_id", []int{3, 3, 4}},
	} {
		var counts []int
		var last feedView
		for _, v := range c.frames(len(tt.counts), "--type", tt.kind, "--coalesce", tt.labels, "--window", "500ms") {
			counts = append(counts, v.Coalesced)
			last = v
		}
		require.Equal(t, tt.counts, counts, tt.name)
		switch tt.kind {
		case "custody.state_reported":
			require.JSONEq(t, `{"plugin":"p","handle_id":"h1","health":"degraded"}`, string(last.Data), "the most recent")
		case "grammar.migration_progress":
			require.JSONEq(t, progress[9], string(last.Data), "the most recent")
		}
	}
	cascade := c.frames(1, "--cel", `event.data.reason.kind == "subject_cascade"`)[0]
	require.Contains(t, string(cascade.Data), `"predicate":"y"`)
	require.Equal(t, "subject.merged", c.frames(11, "--label", "by=admin", "--type", "subject.*,custody.*")[10].Type)
}

// S2-31, S2-53…58: the examples of cascades are of types of the catalogue, with what these carry.
func TestFabric_CascadeExamplesAreInTheCatalogue(t *testing.T) {
	t.Parallel()
	c := serving(t)
	c.stored()
	files, err := filepath.Glob("../../docs/examples/cascades/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		var events []json.RawMessage
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &events), file)
		status, _, stderr := c.run(strings.Join(compacted(t, events), "\n"), "pub", "--from", "-", "--ns", "fabric")
		require.Zero(t, status, "%s: %s", file, stderr)
	}
}

// compacted returns what sluice pub takes of events, one a line.
func compacted(t *testing.T, events []json.RawMessage) (lines []string) {
	t.Helper()
	for _, ev := range events {
		var known struct {
			Type string          `json:"type"`
			Path string          `json:"path"`
			Data json.RawMessage `json:"data"`
		}
		require.NoError(t, json.Unmarshal(ev, &known))
		line, err := json.Marshal(known)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	return lines
}
