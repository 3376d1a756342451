package subscription_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const minimal = `{"pattern":"/orders/**","endpoint":{"url":"` + url + `"}}`

// S0-07, S0-67, C09, C36: the server gives the id and, once, the secret.
func TestCreate_GivesIDSecretAndConsumer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	id, err := uuid.Parse(sub.ID)
	require.NoError(t, err)
	require.Equal(t, uuid.Version(7), id.Version())
	require.True(t, strings.HasPrefix(sub.Endpoint.Secret, sluice.SecretPrefix))
	require.Equal(t, sub.Endpoint.Secret[len(sub.Endpoint.Secret)-4:], sub.SecretHint)
	require.Equal(t, sluice.Active, sub.State)
	require.Equal(t, sluice.DefaultNamespace, sub.Namespace)
	require.Equal(t, "root", sub.CreatedBy)
	require.Equal(t, int64(3600), sub.ReplayWindowS) // S0-53
	require.NotZero(t, sub.Revision)
	require.True(t, b.hasConsumer(t, sub.ID))

	got, err := b.Get(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Empty(t, got.Endpoint.Secret)
	require.Equal(t, []string{sub.Endpoint.Secret}, got.LiveSecrets(time.Now()))
	require.Equal(t, sub.Revision, got.Revision)
}

// C41.
func TestCreate_ResolvesTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		_, err := b.store.Log.Publish(t.Context(), "default", []sluice.Event{{ID: strconv.Itoa(i), Path: "/a", Type: "t"}})
		require.NoError(t, err)
	}
	tests := []struct {
		start string
		want  sluice.StartAt
	}{
		{``, sluice.StartAt{Kind: sluice.StartSeq, Seq: 4}},
		{`"new"`, sluice.StartAt{Kind: sluice.StartSeq, Seq: 4}},
		{`"all"`, sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}},
		{`2`, sluice.StartAt{Kind: sluice.StartSeq, Seq: 2}},
		{`"2"`, sluice.StartAt{Kind: sluice.StartSeq, Seq: 2}},
		{`"2026-01-02T03:04:05Z"`, sluice.StartAt{Kind: sluice.StartTime, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		{`"last_per_path"`, sluice.StartAt{Kind: sluice.StartLastPerPath, Seq: 4}},
	}
	for i, tt := range tests {
		body := fmt.Sprintf(`{"pattern":"/a","endpoint":{"url":"%s/%d"}}`, url, i)
		if tt.start != "" {
			body = strings.Replace(body, "{", `{"start":`+tt.start+`,`, 1)
		}
		sub := b.create(t, body)
		got, err := b.Get(t.Context(), sub.ID)
		require.NoError(t, err)
		require.Equal(t, tt.want, got.From, tt.start)
	}
}

// S0-17, S0-26, S0-27, S0-28.
func TestCreate_DuplicateReturnsTheExistingOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeAcme(t)
	tests := []struct {
		name          string
		first, second string
		by            string
		same          bool
	}{
		{"by structure", `{"pattern":"/1","endpoint":{"url":"` + url + `"}}`, `{"pattern":"/1","endpoint":{"url":"` + url + `"},"description":"other"}`, "root", true},
		{"defaults are the same as nothing", `{"pattern":"/2","endpoint":{"url":"` + url + `"}}`, `{"mode":"push","namespace":"default","pattern":"/2","endpoint":{"url":"` + url + `"},"start":"new"}`, "root", true},
		{"another pattern", `{"pattern":"/3","endpoint":{"url":"` + url + `"}}`, `{"pattern":"/3/*","endpoint":{"url":"` + url + `"}}`, "root", false},
		{"another URL", `{"pattern":"/4","endpoint":{"url":"` + url + `"}}`, `{"pattern":"/4","endpoint":{"url":"` + url + `2"}}`, "root", false},
		{"another namespace", `{"pattern":"/5","endpoint":{"url":"` + url + `"}}`, `{"namespace":"acme","pattern":"/5","endpoint":{"url":"` + url + `"}}`, "root", false},
		{"other events", `{"pattern":"/6","endpoint":{"url":"` + url + `"}}`, `{"pattern":"/6","endpoint":{"url":"` + url + `"},"filter":{"types":["x"]}}`, "root", false},
		{"another principal", `{"pattern":"/7","endpoint":{"url":"` + url + `"}}`, `{"pattern":"/7","endpoint":{"url":"` + url + `"}}`, "other", false},
		{"by key", `{"pattern":"/8","endpoint":{"url":"` + url + `"},"idempotency_key":"8"}`, `{"pattern":"/8","endpoint":{"url":"` + url + `"},"idempotency_key":"8"}`, "root", true},
		{"another key", `{"pattern":"/9","endpoint":{"url":"` + url + `"},"idempotency_key":"9"}`, `{"pattern":"/9","endpoint":{"url":"` + url + `"},"idempotency_key":"9a"}`, "root", false},
		{"the key of another principal", `{"pattern":"/10","endpoint":{"url":"` + url + `"},"idempotency_key":"10"}`, `{"pattern":"/10","endpoint":{"url":"` + url + `"},"idempotency_key":"10"}`, "other", false},
		{"made with a key, asked for without", `{"pattern":"/11","endpoint":{"url":"` + url + `"},"idempotency_key":"11"}`, `{"pattern":"/11","endpoint":{"url":"` + url + `"}}`, "root", true},
		{"in S0's shape", `{"target":"scope:acme","on_change":"webhook","webhook_url":"` + url + `"}`, `{"target":"scope:acme","on_change":"webhook","webhook_url":"` + url + `"}`, "root", true},
		{"another entity", `{"target":"entity:a","on_change":"webhook","webhook_url":"` + url + `"}`, `{"target":"entity:b","on_change":"webhook","webhook_url":"` + url + `"}`, "root", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first := b.create(t, tt.first)
			second, created, err := b.Create(t.Context(), parse(t, tt.second), tt.by)
			require.NoError(t, err)
			require.Equal(t, tt.same, !created)
			require.Equal(t, tt.same, first.ID == second.ID)
			require.Equal(t, tt.same, second.Endpoint.Secret == "", "C36")
		})
	}
}

// C09.
func TestCreate_KeyReusedDifferentlyIsAConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, `{"pattern":"/a","endpoint":{"url":"`+url+`"},"idempotency_key":"k"}`)
	_, _, err := b.Create(t.Context(), parse(t, `{"pattern":"/b","endpoint":{"url":"`+url+`"},"idempotency_key":"k"}`), "root")
	requireCode(t, sluice.Conflict, err)
	_, _, err = b.Create(t.Context(), parse(t, `{"pattern":"/a","endpoint":{"url":"`+url+`","headers":{"x-a":"1"}},"idempotency_key":"k"}`), "root")
	requireCode(t, sluice.Conflict, err)

	_, err = b.Patch(t.Context(), sub.ID, []byte(`{"description":"changed since"}`), 0, "root")
	require.NoError(t, err)
	again, created, err := b.Create(t.Context(), parse(t, `{"pattern":"/a","endpoint":{"url":"`+url+`"},"idempotency_key":"k"}`), "root")
	require.NoError(t, err, "a repeated creation is that of the request, also after changes")
	require.False(t, created)
	require.Equal(t, sub.ID, again.ID)
}

// S0-26…28: concurrent callers get the same subscription, and one of them made it.
func TestCreate_ConcurrentCallersMakeOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, body := range []string{minimal, `{"pattern":"/k","endpoint":{"url":"` + url + `"},"idempotency_key":"k"}`} {
		const many = 16
		subs, created := make([]*sluice.Subscription, many), make([]bool, many)
		errs := make([]error, many)
		var wg sync.WaitGroup
		for i := range many {
			req := parse(t, body)
			wg.Go(func() { subs[i], created[i], errs[i] = subscription.New(b.needs).Create(t.Context(), req, "root") })
		}
		wg.Wait()
		makers := 0
		for i := range many {
			require.NoError(t, errs[i])
			require.Equal(t, subs[0].ID, subs[i].ID)
			require.Equal(t, created[i], subs[i].Endpoint.Secret != "")
			if created[i] {
				makers++
			}
		}
		require.Equal(t, 1, makers)
	}
	page, err := b.List(t.Context(), subscription.Query{})
	require.NoError(t, err)
	require.Len(t, page.Subscriptions, 2)
}

func TestCreate_RepeatCompletesAnInterruptedOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.consumers.fail = []error{errors.New("power cut")}
	_, _, err := b.Create(t.Context(), parse(t, minimal), "root")
	requireCode(t, sluice.Internal, err)

	sub, created, err := b.Create(t.Context(), parse(t, minimal), "root")
	require.NoError(t, err)
	require.False(t, created)
	require.True(t, b.hasConsumer(t, sub.ID))
}

func TestCreate_TakesOverAnOrphanedReservation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.create(t, minimal)
	require.NoError(t, b.needs.Subscriptions.Delete(t.Context(), first.ID, first.Revision), "as if it had never been stored")
	second := b.create(t, minimal)
	require.Equal(t, first.ID, second.ID)
	require.NotEqual(t, first.Endpoint.Secret, second.Endpoint.Secret)
}

// C09, S1-116: the client's id.
func TestPut_IsIdempotentUntilItDiffers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := `{"pattern":"/**","endpoint":{"url":"` + url + `","secret":"` + strings.Repeat("s", 40) + `"},"policy":{"signature":{"scheme":"header"}}}`
	sub, created, err := b.Put(t.Context(), "mine", parse(t, body), "root")
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, "mine", sub.ID)
	require.Equal(t, strings.Repeat("s", 40), sub.Endpoint.Secret)

	again, created, err := b.Put(t.Context(), "mine", parse(t, body), "root")
	require.NoError(t, err)
	require.False(t, created)
	require.Empty(t, again.Endpoint.Secret)
	require.Equal(t, sub.Revision, again.Revision)

	posted, created, err := b.Create(t.Context(), parse(t, strings.Replace(body, "{", `{"id":"mine",`, 1)), "root")
	require.NoError(t, err, "a POST with an id is a PUT")
	require.False(t, created)
	require.Equal(t, "mine", posted.ID)

	for name, other := range map[string]string{
		"pattern": strings.Replace(body, "/**", "/a", 1),
		"secret":  strings.Replace(body, "ssss", "SSSS", 1),
		"policy":  strings.Replace(body, `"policy":{`, `"policy":{"window":3,`, 1),
		"enabled": strings.Replace(body, "{", `{"enabled":false,`, 1),
	} {
		_, _, err = b.Put(t.Context(), "mine", parse(t, other), "root")
		requireCode(t, sluice.SubscriptionDiffers, err)
		require.NotEmpty(t, name)
	}
	_, _, err = b.Put(t.Context(), "mine", parse(t, strings.Replace(body, "{", `{"id":"other",`, 1)), "root")
	requireCode(t, sluice.InvalidRequest, err)
	_, _, err = b.Put(t.Context(), "no/good", parse(t, body), "root")
	requireCode(t, sluice.InvalidRequest, err)

	require.NoError(t, b.Delete(t.Context(), "mine", "root"))
	_, created, err = b.Put(t.Context(), "mine", parse(t, strings.Replace(body, "/**", "/a", 1)), "root")
	require.NoError(t, err)
	require.True(t, created, "a deleted id is free")
}

func TestPut_ConcurrentCallersMakeOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const many = 16
	created, errs := make([]bool, many), make([]error, many)
	var wg sync.WaitGroup
	for i := range many {
		req := parse(t, minimal)
		wg.Go(func() { _, created[i], errs[i] = b.Put(t.Context(), "mine", req, "root") })
	}
	wg.Wait()
	makers := 0
	for i := range many {
		require.NoError(t, errs[i])
		if created[i] {
			makers++
		}
	}
	require.Equal(t, 1, makers)
}

// S0-11…36: what S0's shape means.
func TestRequest_UnderstandsTheShapeOfS0(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeAcme(t)
	tests := []struct {
		name, body string
		namespace  string
		subjects   []string
	}{
		{"a scope", `{"target":"scope:acme","on_change":"webhook","webhook_url":"` + url + `/1","event_filter":["fact_assert"]}`, "acme", nil},
		{"a scope twice", `{"target":"scope:acme","scope":"acme","on_change":"webhook","webhook_url":"` + url + `/2","event_filter":["fact_assert"]}`, "acme", nil},
		{"the global scope", `{"target":"scope:global","on_change":"webhook","webhook_url":"` + url + `/3","event_filter":["fact_assert"]}`, "default", nil},
		{"the global scope by field", `{"target":"scope:global","scope":"global","on_change":"webhook","webhook_url":"` + url + `/4","event_filter":["fact_assert"]}`, "default", nil},
		{"a scope over a global target", `{"target":"scope:global","scope":"acme","on_change":"webhook","webhook_url":"` + url + `/5","event_filter":["fact_assert"]}`, "acme", nil},
		{"an entity", `{"target":"entity:urn:x:1","scope":"acme","on_change":"webhook","webhook_url":"` + url + `/6","event_filter":["fact_assert"]}`, "acme", []string{"urn:x:1"}},
		{"an entity anywhere", `{"target":"entity:urn:x:1","on_change":"webhook","webhook_url":"` + url + `/7","event_filter":["fact_assert"]}`, "default", []string{"urn:x:1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sub := b.create(t, tt.body)
			require.Equal(t, tt.namespace, sub.Namespace)
			require.Equal(t, tt.subjects, sub.Filter.Subjects)
			require.Equal(t, []string{"fact_assert"}, sub.Filter.Types)
			require.Equal(t, sluice.Pattern("/**"), sub.Pattern)
			require.Equal(t, sluice.Push, sub.Mode)
			require.Equal(t, sluice.PresetShort, sub.Policy.Retry.Preset)
			require.Equal(t, sluice.EnvelopeFact, sub.Policy.Envelope)
			require.Equal(t, sluice.Duration(10*time.Second), sub.Policy.Timeout)
			require.NotEmpty(t, sub.Target)
		})
	}
}

func TestRequest_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tests := []struct {
		name, body string
		want       sluice.Code
	}{
		{"neither pattern nor target (S4-75)", `{}`, sluice.Ambiguous},
		{"an endpoint only (S4-75)", `{"endpoint":{"url":"` + url + `"}}`, sluice.Ambiguous},
		{"pattern and target (S4-75)", `{"pattern":"/a","target":"scope:default"}`, sluice.Ambiguous},
		{"both shapes (S4-75)", `{"target":"scope:default","on_change":"webhook","webhook_url":"` + url + `","policy":{}}`, sluice.Ambiguous},
		{"two namespaces (S4-75)", `{"target":"scope:a","scope":"b","on_change":"webhook","webhook_url":"` + url + `"}`, sluice.Ambiguous},
		{"no on_change (S4-75)", `{"target":"scope:default","webhook_url":"` + url + `"}`, sluice.Ambiguous},
		{"no target (S0-19)", `{"on_change":"webhook","webhook_url":"` + url + `"}`, sluice.InvalidRequest},
		{"a target of another kind (S0-20)", `{"target":"garden:x","on_change":"webhook","webhook_url":"` + url + `"}`, sluice.InvalidRequest},
		{"an empty scope (S0-20)", `{"target":"scope:","on_change":"webhook","webhook_url":"` + url + `"}`, sluice.InvalidRequest},
		{"no webhook_url", `{"target":"scope:default","on_change":"webhook"}`, sluice.InvalidRequest},
		{"another on_change (S0-12)", `{"target":"scope:default","on_change":"poll"}`, sluice.InvalidRequest},
		{"a wake of S0 (S0-24)", `{"target":"scope:default","on_change":"wake","wake_agent_id":"x"}`, sluice.WakeNotSupported},
		{"a mode that is not there yet", `{"mode":"mirror","pattern":"/**","endpoint":{"url":"` + url + `"}}`, sluice.Unprocessable},
		{"an agent to wake beside a webhook (S0-14)", `{"target":"scope:default","on_change":"webhook","webhook_url":"` + url + `","wake_agent_id":"x"}`, sluice.InvalidRequest},
		{"http in S0's shape (S0-22)", `{"target":"scope:default","on_change":"webhook","webhook_url":"http://192.0.2.1/"}`, sluice.InsecureURL},
		{"http (S4-59)", `{"pattern":"/**","endpoint":{"url":"http://192.0.2.1/"}}`, sluice.InsecureURL},
		{"a private address", `{"pattern":"/**","endpoint":{"url":"https://10.0.0.1/"}}`, sluice.BlockedAddress},
		{"a short secret (S4-58)", `{"pattern":"/**","endpoint":{"url":"` + url + `","secret":"short"}}`, sluice.SecretTooShort},
		{"an unknown filter (S4-78)", `{"pattern":"/**","endpoint":{"url":"` + url + `"},"filter":{"colour":["red"]}}`, sluice.UnknownFilter},
		{"a filter that is none", `{"pattern":"/**","endpoint":{"url":"` + url + `"},"filter":{"cel":"1 +"}}`, sluice.InvalidRequest},
		{"a timetable that is none", `{"pattern":"/**","endpoint":{"url":"` + url + `"},"policy":{"retry":{"preset":"custom"}}}`, sluice.InvalidRequest},
		{"a pattern that is none", `{"pattern":"a","endpoint":{"url":"` + url + `"}}`, sluice.InvalidRequest},
		{"a start that is none", `{"pattern":"/**","start":"yesterday","endpoint":{"url":"` + url + `"}}`, sluice.InvalidRequest},
		{"a namespace that is not there", `{"namespace":"nowhere","pattern":"/**","endpoint":{"url":"` + url + `"}}`, sluice.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := b.Create(t.Context(), parse(t, tt.body), "root")
			requireCode(t, tt.want, err)
		})
	}
}

func TestRequest_ErrorNamesTheField(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"patern":"/a"}`:                `"patern" is unknown; did you mean "pattern"?`,
		`{"endpoint":{"uri":"x"}}`:       `"endpoint.uri" is unknown; use endpoint.url`,
		`{"policy":{"windows":1}}`:       `"policy.windows" is unknown; did you mean "policy.window"?`,
		`{"policy":{"window":"many"}}`:   "policy.window",
		`{"policy":{"timeout":10}}`:      "policy.timeout: 10 is not a duration",
		`{"enabled":"yes"}`:              "enabled",
		`{"start":{}}`:                   "start",
		`[]`:                             "array",
		`{`:                              "not valid JSON: line 1, column 2",
		``:                               "the body is empty",
		`{"pattern":"/a"} {"again":"!"}`: "after the JSON value",
	} {
		_, err := subscription.ParseRequest([]byte(body))
		requireCode(t, sluice.InvalidRequest, err)
		require.ErrorContains(t, err, want, body)
	}
}

// A change that was interrupted before it moved the reservation is repeated by its client.
func TestPatch_RepetitionMakesTheReservation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	patch := func() {
		_, err := b.Patch(t.Context(), sub.ID, []byte(`{"endpoint":{"url":"`+url+`2"}}`), 0, "root")
		require.NoError(t, err)
	}
	patch()
	kv, err := b.js.KeyValue(t.Context(), streams.Reservations)
	require.NoError(t, err)
	keys, err := kv.Keys(t.Context())
	require.NoError(t, err)
	for _, key := range keys {
		require.NoError(t, kv.Delete(t.Context(), key))
	}
	patch()
	same, created, err := b.Create(t.Context(), parse(t, strings.Replace(minimal, url, url+"2", 1)), "root")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, sub.ID, same.ID)
}
