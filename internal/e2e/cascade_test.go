package e2e_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// cascade is an example of a change and of what follows from it, and the order that it has to have.
type cascade struct {
	file  string
	types []string // each once or more, in this order
}

func cascades() []cascade {
	return []cascade{
		{"merge", []string{ // S2-57
			"subject.merged", "relation.rewritten", "relation.cardinality_violated_post_rewrite", "relation.claim_suppression_collapsed", "claim.reassigned",
		}},
		{"split", []string{ // S2-58: nothing collapses
			"subject.split", "relation.rewritten", "relation.split_ambiguous", "relation.cardinality_violated_post_rewrite", "claim.reassigned",
		}},
		{"forget", []string{"subject.forgotten", "relation.forgotten"}},                                          // S2-54
		{"retract-addressing", []string{"addressing.forced_retract", "subject.forgotten", "relation.forgotten"}}, // S2-55
		{"retract-claim", []string{"relation.claim_forced_retract", "relation.forgotten"}},                       // S2-56
	}
}

// consequence is what the order of a cascade depends on.
type consequence struct {
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	Path        sluice.Path     `json:"path"`
	Causation   string          `json:"causationid"`
	Correlation string          `json:"correlationid"`
	Data        json.RawMessage `json:"data"`
}

func (c *consequence) of(t *testing.T, names ...string) string {
	t.Helper()
	var data map[string]any
	require.NoError(t, json.Unmarshal(c.Data, &data))
	var all []string
	for _, name := range names {
		text, ok := data[name].(string)
		require.True(t, ok, "%s has no %s", c.ID, name)
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func (c cascade) read(t *testing.T) (text string, events []consequence) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/examples/cascades/" + c.file + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &events))
	return string(raw), events
}

// S2-53…60, S2-31: the examples have the order that they are examples of: the parent first, and every other names it.
func TestCascade_ExamplesAreInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range cascades() {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			_, events := c.read(t)
			var types []string
			byType := map[string][]consequence{}
			for i, ev := range events {
				types = append(types, ev.Type)
				byType[ev.Type] = append(byType[ev.Type], ev)
				require.Equal(t, events[0].Correlation, ev.Correlation)
				require.Equal(t, i == 0, ev.Causation == "")
				require.True(t, i == 0 || ev.Causation == events[0].ID)
			}
			require.Equal(t, c.types, slices.Compact(types))
			require.Len(t, byType[c.types[0]], 1)
			violated := byType["relation.cardinality_violated_post_rewrite"]
			require.True(t, slices.IsSortedFunc(violated, func(a, b consequence) int {
				return cmp.Compare(a.of(t, "subject_id", "predicate", "side"), b.of(t, "subject_id", "predicate", "side"))
			}), "by subject")
			kinds := []string{}
			for _, ev := range byType["claim.reassigned"] {
				kinds = append(kinds, ev.of(t, "kind"))
			}
			require.True(t, slices.IsSortedFunc(kinds, func(a, b string) int { return -cmp.Compare(a, b) }), "relations, then addressings")
			if c.file != "merge" {
				return
			}
			var merged struct {
				Sources []string `json:"source_ids"`
			}
			require.NoError(t, json.Unmarshal(events[0].Data, &merged))
			var sources []string
			for _, ev := range byType["relation.rewritten"] {
				sources = append(sources, ev.of(t, "old_subject_id"))
			}
			require.Equal(t, merged.Sources, slices.Compact(sources), "the edges of the first, then those of the second")
		})
	}
}

// S2-31, S2-53…60, C18: a cascade that is published as one batch is seen in its order, with its cause, by a feed, the Go client, a caller that
// reads the log, and an endpoint: on all paths with the ordering "all", on each path with "path".
func TestCascade_IsSeenInItsOrder(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"embedded", "another NATS"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir(), func(c *config.Config) {
				if where != "embedded" {
					c.NATS.URL = natstest.NewWith(t, natsd.Options{}).ClientURL()
				}
			})
			strict, byPath := hooktest.New(t, nil), hooktest.New(t, nil)
			subscribe(t, s.api, wish(strict.URL, `"id":"strict"`, `"policy":{"ordering":"all"}`))
			subscribe(t, s.api, wish(byPath.URL, `"id":"by-path"`, `"policy":{"ordering":"path"}`))
			live, _ := s.feed(t, "pattern=/**")
			var want []consequence
			for _, c := range cascades() {
				text, events := c.read(t)
				r := s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", text, "Content-Type", "application/cloudevents-batch+json")
				requireAdjacent(t, r.text, events)
				want = append(want, events...)
			}
			for _, ev := range want {
				requireSame(t, ev, live.frame().Event)
			}
			requireFed(t, s, want)
			requireLogged(t, s, want)
			requireDelivered(t, want, strict.Wait(len(want)), false)
			requireDelivered(t, want, byPath.Wait(len(want)), true)
			requireHeaders(t, s, want)
			requireLastOfEach(t, s, want)
		})
	}
}

// requireFed checks what the Go client's feed shows from the beginning on.
func requireFed(t *testing.T, s *running, want []consequence) {
	t.Helper()
	for item, err := range s.api.Feed(t.Context(), sluice.DefaultNamespace, client.FeedQuery{Pattern: "/**", Since: "-1"}) {
		require.NoError(t, err)
		if item.Event == nil {
			continue
		}
		requireSame(t, want[0], item.Event)
		if want = want[1:]; len(want) == 0 {
			return
		}
	}
}

func requireLogged(t *testing.T, s *running, want []consequence) {
	t.Helper()
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{})
	require.NoError(t, err)
	require.Len(t, page.Items, len(want))
	for i := range want {
		requireSame(t, want[i], &page.Items[i])
	}
}

func requireSame(t *testing.T, want consequence, ev *sluice.Event) {
	t.Helper()
	require.Equal(t, []any{want.ID, want.Type, want.Path, want.Causation, want.Correlation},
		[]any{ev.ID, ev.Type, ev.Path, ev.Extensions[sluice.CausationID], ev.Extensions[sluice.CorrelationID]})
}

// requireAdjacent checks that a batch lies in one piece.
func requireAdjacent(t *testing.T, answer string, events []consequence) {
	t.Helper()
	var stored struct {
		Events []sluice.Stored `json:"events"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &stored))
	require.Len(t, stored.Events, len(events))
	for i, s := range stored.Events {
		require.Equal(t, sluice.Stored{ID: events[i].ID, Path: events[i].Path, Seq: stored.Events[0].Seq + uint64(i)}, s)
	}
}

// requireDelivered checks what an endpoint was sent: everything in order, or what lies on each path.
func requireDelivered(t *testing.T, want []consequence, requests []hooktest.Request, eachPath bool) { //nolint:revive // two promises
	t.Helper()
	key := func(sluice.Path) string { return "" }
	if eachPath {
		key = func(p sluice.Path) string { return string(p) }
	}
	ids, sent := map[string][]string{}, map[string][]string{}
	for _, ev := range want {
		ids[key(ev.Path)] = append(ids[key(ev.Path)], ev.ID+" of "+ev.Causation+" in "+ev.Correlation)
	}
	for _, r := range requests {
		d := parse(t, r)
		at := key(sluice.Path(d.Path))
		sent[at] = append(sent[at], d.ID+" of "+d.Extensions[sluice.CausationID]+" in "+d.Extensions[sluice.CorrelationID])
	}
	require.Equal(t, ids, sent)
}

// requireHeaders checks what a NATS client sees.
func requireHeaders(t *testing.T, s *running, want []consequence) {
	t.Helper()
	stream, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	seq := uint64(3) // behind the two that tell of the subscriptions
	for _, ev := range want {
		msg, err := stream.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		require.Equal(t, []string{ev.ID, ev.Causation, ev.Correlation},
			[]string{msg.Header.Get("Nats-Msg-Id"), strings.Join(msg.Header["ce-causationid"], ""), strings.Join(msg.Header["ce-correlationid"], "")})
		seq++
	}
}

// requireLastOfEach checks that the state of every path is what the cascade said of it last.
func requireLastOfEach(t *testing.T, s *running, want []consequence) {
	t.Helper()
	last := map[sluice.Path]string{}
	for _, ev := range want {
		last[ev.Path] = ev.ID
	}
	page, err := s.api.State(t.Context(), sluice.DefaultNamespace, client.StateQuery{Pattern: "/**", Limit: 1000})
	require.NoError(t, err)
	got := map[sluice.Path]string{}
	for _, ev := range page.Events {
		got[ev.Path] = ev.ID
	}
	require.Equal(t, last, got)
}
