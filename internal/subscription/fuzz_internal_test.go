package subscription

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A filter that is accepted has the five dimensions and no other, is compiled, and is the same
// after it was stored.
func FuzzDecodeFilter(f *testing.F) {
	for _, s := range []string{
		`{"types":["order.*","*"],"sources":["s"],"subjects":["17"],"labels":{"region":["eu","us"]},"cel":"event.data.total > 100"}`,
		`{}`, `null`, `[]`, ``, `{"type":["a"]}`, `{"CEL":"true"}`, `{"types":null,"cel":""}`, `{"labels":{"":[]}}`, `{"types":["a*"]}`, `{} {}`,
	} {
		f.Add([]byte(s), []byte(`{"region":"eu","total":120}`))
	}
	known := []string{"types", "sources", "subjects", "labels", "cel"}
	f.Fuzz(func(t *testing.T, data, event []byte) {
		decoded, err := strictjson.DecodeFilter(data)
		if err != nil {
			require.Contains(t, []sluice.Code{sluice.InvalidRequest, sluice.UnknownFilter}, sluice.CodeOf(err), err)
			return
		}
		var members map[string]json.RawMessage
		if len(data) > 0 {
			require.NoError(t, json.Unmarshal(data, &members))
		}
		for name := range members {
			require.Contains(t, known, name)
		}
		sub := whole()
		sub.Filter = decoded
		if err := check(sub); err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), err)
			return
		}
		matcher, err := filter.Compile(decoded)
		require.NoError(t, err)
		stored, err := json.Marshal(decoded)
		require.NoError(t, err)
		read, err := strictjson.DecodeFilter(stored)
		require.NoError(t, err)
		again, err := filter.Compile(read)
		require.NoError(t, err)
		e := &sluice.Event{ID: "1", Type: "order.placed", Source: "s", Subject: "17", Path: "/a", Namespace: "acme", Data: event}
		got, err1 := matcher.Match(e)
		want, err2 := again.Match(e)
		require.Equal(t, want, got)
		require.Equal(t, err2 == nil, err1 == nil)
	})
}

func whole() *sluice.Subscription {
	sub := &sluice.Subscription{
		ID: "orders", Namespace: "acme", Pattern: "/orders/**", Enabled: true, Lifecycle: sluice.Lifecycle{State: sluice.Active, Revision: 7, CreatedAt: time.Unix(1, 0).UTC()},
		Endpoint:    sluice.Endpoint{URL: "https://erp.example/hook", Headers: map[string]string{"X-A": "b"}},
		Filter:      sluice.Filter{Types: []string{"order.*"}, Labels: map[string][]string{"region": {"eu"}}},
		Description: "all orders", Metadata: map[string]string{"team": "erp"},
		Secrets: []sluice.Secret{{Value: "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="}},
	}
	complete(sub)
	return sub
}

// merge is RFC 7386, section 2.
func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	old, ok := target.(map[string]any)
	if !ok {
		old = map[string]any{}
	}
	merged := maps.Clone(old)
	for name, v := range changes {
		if v == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], v)
		}
	}
	return merged
}

func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(data, &members))
	return members
}

// A merge patch changes what it names into what RFC 7386 says, and nothing else; if it is
// refused it changes nothing; and to repeat it changes nothing more.
func FuzzPatch(f *testing.F) {
	for _, s := range []string{
		`{"description":"x"}`, `{"filter":{"types":null,"cel":"true"}}`, `{"filter":null}`, `{"endpoint":{"headers":{"X-A":null,"X-B":"c"}}}`,
		`{"endpoint":{"URL":"https://other.example"}}`, `{"pattern":"/**"}`, `{"Pattern":"/**"}`, `{"enabled":false}`, `{"enabled":null}`, `{"metadata":{"a":"b"}}`,
		`{"policy":null}`, `{"policy":{"window":9,"retry":{"preset":"custom","schedule":["1s"]}}}`, `{"revision":8}`, `{"endpoint":{"secret":"x"}}`,
		`null`, `[]`, `{"filter":{"nope":1}}`, `{"replay_window":"0s","state":"active"}`, `{"description":"a","description":"b"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		sub, before := whole(), whole()
		if err := applyPatch(sub, patch); err != nil {
			require.Contains(t, []sluice.Code{sluice.InvalidRequest, sluice.UnknownFilter}, sluice.CodeOf(err), err)
			require.Equal(t, before, sub)
			return
		}
		var wanted map[string]any
		require.NoError(t, json.Unmarshal(patch, &wanted))
		was, is := asJSON(t, before), asJSON(t, sub)
		is["enabled"] = sub.Enabled
		for name, old := range was {
			_, named := wanted[name]
			follows := name == "state" || name == "reason" || name == "replay_window_s"
			if !follows && (!named || !slices.Contains(mutable(), name)) {
				require.Equal(t, old, is[name], "%s is not the patch's to change", name)
			}
		}
		merged, ok := merge(was, wanted).(map[string]any)
		require.True(t, ok)
		requireMerged(t, merged, sub)
		require.Equal(t, before.Secrets, sub.Secrets)
		changed := *sub
		require.NoError(t, applyPatch(sub, patch))
		require.Equal(t, &changed, sub)
	})
}

// requireMerged compares the fields that have no defaults. The JSON that a person wrote may have
// nulls in lists, which are empty strings then.
func requireMerged(t *testing.T, merged map[string]any, sub *sluice.Subscription) {
	t.Helper()
	want, err := json.Marshal(map[string]any{
		"description": merged["description"], "metadata": merged["metadata"], "endpoint": merged["endpoint"], "filter": merged["filter"],
	})
	require.NoError(t, err)
	var is struct {
		Description string            `json:"description"`
		Metadata    map[string]string `json:"metadata"`
		Endpoint    sluice.Endpoint   `json:"endpoint"`
		Filter      sluice.Filter     `json:"filter"`
	}
	require.NoError(t, json.Unmarshal(want, &is))
	got := is
	got.Description, got.Metadata, got.Endpoint, got.Filter = sub.Description, sub.Metadata, sub.Endpoint, sub.Filter
	require.Equal(t, asJSON(t, is), asJSON(t, got))
}
