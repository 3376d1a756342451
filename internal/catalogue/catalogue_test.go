package catalogue_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func strict(types ...sluice.EventType) *catalogue.Index {
	x := catalogue.New()
	x.SetNamespace(sluice.Namespace{Name: "acme", Catalogue: sluice.CatalogueStrict, Revision: 1})
	for _, t := range types {
		t.Namespace, t.Revision = "acme", 1
		x.SetType(t)
	}
	return x
}

func withSchema(schema string) sluice.EventType {
	return sluice.EventType{Type: "t", Schema: json.RawMessage(schema)}
}

func event(eventType, data string) *sluice.Event {
	return &sluice.Event{Namespace: "acme", Path: "/a", Type: eventType, Data: []byte(data)}
}

const order = `{"type":"object","required":["total"],"additionalProperties":false,"properties":{
	"total":{"type":"number","minimum":0},"items":{"type":"array","items":{"$ref":"#/$defs/item"}},"sku/~x":{"type":"string","pattern":"^[a-z]+$"}},
	"$defs":{"item":{"type":"object","properties":{"n":{"type":"integer"},"kind":{"enum":["a","b"]},"one":{"oneOf":[{"const":1},{"const":2}]}}}}}`

func TestCheck_HoldsDataAgainstItsSchema(t *testing.T) { // S4-64
	t.Parallel()
	x := strict(withSchema(order))
	long := strings.Repeat("x", 500)
	for _, c := range []struct{ name, data, pointer, reason string }{
		{"right", `{"total":1,"items":[{"n":1,"kind":"a","one":2}],"sku/~x":"abc"}`, "", ""},
		{"nothing", ``, "", "got null, want object"},
		{"no JSON", `{`, "", "not JSON"},
		{"two values", `{"total":1} {}`, "", "not JSON"},
		{"missing", `{}`, "", "missing property 'total'"},
		{"too small", `{"total":-1}`, "/total", "minimum: got -1, want 0"},
		{"another type", `{"total":"1"}`, "/total", "got string, want number"},
		{"inside an array", `{"total":1,"items":[{"n":1},{"n":1.5}]}`, "/items/1/n", "got number, want integer"},
		{"an enum", `{"total":1,"items":[{"kind":"secret"}]}`, "/items/0/kind", "value must be one of 'a', 'b'"},
		{"alternatives", `{"total":1,"items":[{"one":3}]}`, "/items/0/one", "matches none of the alternatives"},
		{"a pattern", `{"total":1,"sku/~x":"` + long + `"}`, "", ""},
		{"a pattern broken", `{"total":1,"sku/~x":"A` + long + `"}`, "/sku~1~0x", `does not match the pattern "^[a-z]+$"`},
		{"unknown members", `{"total":1,"` + long + `":1,"b":2}`, "", `2 members unknown to the schema, such as "b"`},
		{"a number that is long to count with", `{"total":1e999999}`, "", "it has a number of more than 400 digits"},
	} {
		err := x.Check(event("t", c.data))
		if c.reason == "" {
			require.NoError(t, err, c.name)
			continue
		}
		var e *sluice.Error
		require.ErrorAs(t, err, &e, c.name)
		require.Equal(t, sluice.InvalidEventData, e.Code, c.name)
		require.Equal(t, map[string]any{"type": "t", "pointer": c.pointer, "reason": c.reason}, e.Details, c.name)
		require.Contains(t, e.Message, c.reason, c.name)
	}
}

func TestCheck_RefusalRepeatsLittleOfTheData(t *testing.T) {
	t.Parallel()
	const most = 100
	secret := strings.Repeat("é", 300)
	for name, c := range map[string]struct{ schema, data string }{
		"a name":    {`{"additionalProperties":false}`, `{"` + secret + `":1}`},
		"a path":    {`{"additionalProperties":{"additionalProperties":{"type":"string"}}}`, `{"` + secret + `":{"` + secret + `":1}}`},
		"a pattern": {`{"pattern":"^a$"}`, `"` + secret + `"`},
		"a const":   {`{"const":1}`, `"` + secret + `"`},
		"an enum":   {`{"enum":[1]}`, `"` + secret + `"`},
		"a length":  {`{"maxLength":1}`, `"` + secret + `"`},
		"names":     {`{"propertyNames":{"maxLength":1}}`, `{"` + secret + `":1}`},
		"required":  {`{"dependentRequired":{"` + "a" + `":["b"]}}`, `{"a":"` + secret + `"}`},
		"unique":    {`{"uniqueItems":true}`, `["` + secret + `","` + secret + `"]`},
		"number":    {`{"maximum":1}`, strings.Repeat("7", 390)},
	} {
		err := strict(withSchema(c.schema)).Check(event("t", c.data))
		require.Equal(t, sluice.InvalidEventData, sluice.CodeOf(err), name)
		require.LessOrEqual(t, strings.Count(err.Error(), "é")*2, most, "%s: %v", name, err)
		require.LessOrEqual(t, strings.Count(err.Error(), "7"), most, "%s: %v", name, err)
		require.True(t, json.Valid([]byte(fmt.Sprintf("%q", err.Error()))), name)
	}
}

func TestPolicy_AllowedTypes(t *testing.T) {
	t.Parallel()
	x := strict(sluice.EventType{Type: "known"}, withSchema(`{"type":"object"}`))
	x.SetType(sluice.EventType{Namespace: "open", Type: "t", Schema: json.RawMessage(`false`), Revision: 1})
	for _, c := range []struct {
		name string
		ev   *sluice.Event
		want sluice.Code
	}{
		{"a type without schema takes anything", event("known", "\xff"), ""},
		{"an unknown type", event("other", `{}`), sluice.UnknownEventType},
		{"no type at all", event("", `{}`), sluice.UnknownEventType},
		{"data that says it is no JSON", &sluice.Event{Namespace: "acme", Path: "/a", Type: "t", ContentType: "text/plain", Data: []byte(`{}`)}, sluice.InvalidEventData},
		{"the server's own", &sluice.Event{Namespace: "acme", Path: "/_sys/subscriptions/s", Type: "subscription.created"}, ""},
		{"one that looks like it", event("sys.start", `{}`), sluice.UnknownEventType},
		{"an open namespace", &sluice.Event{Namespace: "open", Path: "/a", Type: "t", Data: []byte(`{}`)}, ""},
		{"a namespace without catalogue", &sluice.Event{Namespace: "none", Path: "/a", Type: "t"}, ""},
	} {
		require.Equal(t, c.want, sluice.CodeOf(x.Check(c.ev)), c.name)
	}
	require.Equal(t, sluice.InvalidEventData, sluice.CodeOf(x.CheckData(&sluice.Event{Namespace: "open", Path: "/a", Type: "t"})))
	require.Equal(t, sluice.NotFound, sluice.CodeOf(x.CheckData(event("other", `{}`))))
}

func TestFilter_NamesKnownTypes(t *testing.T) { // S4-64, S4-74
	t.Parallel()
	x := strict(sluice.EventType{Type: "order.placed"})
	for pattern, want := range map[string]sluice.Code{
		"order.placed": "", "order.*": "", "*": "", "subscription.*": "", "sys.start": "", "delivery.dead": "",
		"producer_unsafe": "", "subscription_cancelled_access_revoked": "",
		"order.plcaed": sluice.UnknownEventType, "orders.*": sluice.UnknownEventType, "order": sluice.UnknownEventType, "order.placed.*": sluice.UnknownEventType,
	} {
		require.Equal(t, want, sluice.CodeOf(x.CheckTypes("acme", []string{"order.placed", pattern})), pattern)
	}
	require.NoError(t, x.CheckTypes("acme", nil))
	require.NoError(t, x.CheckTypes("other", []string{"x"}))
}

func TestSummary_HasTheNamedMembers(t *testing.T) { // C10
	t.Parallel()
	x := strict(sluice.EventType{Type: "t", SummaryFields: []string{"total", "a\"b", "at", "none"}}, sluice.EventType{Type: "bare"})
	for _, c := range []struct{ name, kind, data, want string }{
		{"in the catalogue's order, byte for byte", "t", `{"at": {"x": [1.0,2]},"secret":"s","total":1.10}`, `{"total":1.10,"at":{"x": [1.0,2]}}`},
		{"an odd name", "t", `{"a\"b":null}`, `{"a\"b":null}`},
		{"none of them", "t", `{"x":1}`, `{}`},
		{"no object", "t", `[1]`, ""},
		{"no JSON", "t", `{`, ""},
		{"no fields", "bare", `{"total":1}`, ""},
		{"unknown", "u", `{"total":1}`, ""},
	} {
		require.Equal(t, c.want, string(x.Summary(event(c.kind, c.data))), c.name)
	}
	text := event("t", `{"total":1}`)
	text.ContentType = "text/plain"
	require.Nil(t, x.Summary(text))
}

func TestIndex_KeepsTheLaterRevision(t *testing.T) {
	t.Parallel()
	x := strict(sluice.EventType{Type: "t", StaticLabels: map[string]string{"a": "1"}})
	set := func(revision uint64, label string) {
		x.SetType(sluice.EventType{Namespace: "acme", Type: "t", Revision: revision, StaticLabels: map[string]string{"a": label}})
	}
	label := func() string { return x.Labels(event("t", ""))["a"] }
	set(3, "3")
	set(2, "2")
	require.Equal(t, "3", label())
	x.RemoveType("acme", "t", 2)
	require.Equal(t, "3", label())
	x.SetNamespace(sluice.Namespace{Name: "acme", Revision: 0})
	require.Equal(t, sluice.UnknownEventType, sluice.CodeOf(x.Check(event("other", ""))))
	x.RemoveType("acme", "t", 3)
	require.Empty(t, label())
	x.RemoveType("none", "t", 3)
	require.Empty(t, x.Types("acme"))
	set(9, "9")
	got, ok := x.Type("acme", "t")
	require.True(t, ok)
	require.Len(t, x.Types("acme"), 1)
	require.EqualValues(t, 9, got.Revision)
	x.RemoveNamespace("acme", 0)
	require.Len(t, x.All(), 1)
	x.RemoveNamespace("acme", 1)
	_, ok = x.Type("acme", "t")
	require.False(t, ok)
}

// A schema refers to nothing outside, and is no more than can be looked at.
func TestSchema_RefusesOutsideReferencesAndExcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, says string }{
		"no JSON":              {`{`, "not JSON"},
		"no schema":            {`[]`, "use an object"},
		"not as the standard":  {`{"type":"objekt"}`, "/type"},
		"another draft":        {`{"$schema":"http://json-schema.org/draft-07/schema#"}`, "2020-12"},
		"a draft of one's own": {`{"$schema":"https://example.com/meta"}`, "2020-12"},
		"inside another draft": {`{"$defs":{"a":{"$id":"https://a.example/b","$schema":"https://example.com/meta"}},"$ref":"#/$defs/a"}`, "external references are not allowed"},
		"http":                 {`{"$ref":"http://127.0.0.1:1/x.json"}`, "external references are not allowed"},
		"https":                {`{"properties":{"a":{"$ref":"https://example.com/x.json"}}}`, "external references are not allowed"},
		"file":                 {`{"$ref":"file:///etc/passwd"}`, "external references are not allowed"},
		"a relative file":      {`{"$ref":"other.json"}`, "external references are not allowed"},
		"nowhere":              {`{"$ref":"#/$defs/none"}`, "/$defs/none"},
		"$dynamicRef":          {`{"$dynamicRef":"#x","$defs":{"a":{"$dynamicAnchor":"x"}}}`, "$dynamicRef"},
		"the meta schema":      {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "$dynamicRef"},
		"no RE2":               {`{"pattern":"(?=a)b"}`, "pattern"},
		"a long pattern":       {`{"pattern":"` + strings.Repeat("a", 1025) + `"}`, "regex"},
		"a pattern that grows": {`{"pattern":"` + strings.Repeat(`.{900}`, 50) + `"}`, "regex"},
		"nested":               {strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70), "deep"},
		"a long number":        {`{"multipleOf":1e-999999}`, "digits"},
	} {
		typ := withSchema(c.schema)
		err := catalogue.CheckSchema(&typ)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
		require.Contains(t, err.Error(), c.says, name)
	}
	for _, schema := range []string{
		``, `true`, `false`, `{}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, order,
		`{"$id":"https://example.com/x","$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`,
	} {
		typ := withSchema(schema)
		require.NoError(t, catalogue.CheckSchema(&typ), schema)
	}
}

// doubled returns a schema that visits one value 2^60 times, each time by two ways.
func doubled(two, last string) string {
	const n = 60
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d":`+two+`,`, i, fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1), fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1))
	}
	fmt.Fprintf(&b, `"a%d":%s}}`, n, last)
	return b.String()
}

// hostile returns schemas and data that would keep a check busy for ever, or nearly.
func hostile() map[string][2]string {
	deep := strings.Repeat(`{"ab":`, 120) + `1` + strings.Repeat(`}`, 120)
	many := `[` + strings.TrimSuffix(strings.Repeat(`1,`, 90_000), ",") + `]`
	var enum []string
	for i := range 8000 {
		enum = append(enum, strconv.Itoa(i+2))
	}
	var chain strings.Builder // of references, again at every level of the data
	for i := range 1500 {
		fmt.Fprintf(&chain, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
	}
	return map[string][2]string{
		"a long way":                   {`{"$ref":"#/$defs/a0","$defs":{` + chain.String() + `"a1500":{"additionalProperties":{"$ref":"#/$defs/a0"}}}}`, deep},
		"allOf":                        {doubled(`{"allOf":[%s,%s]}`, `true`), `1`},
		"allOf that fails":             {doubled(`{"allOf":[%s,%s]}`, `false`), `1`},
		"anyOf that fails":             {doubled(`{"anyOf":[%s,%s]}`, `{"type":"string"}`), `1`},
		"not":                          {`{"not":` + doubled(`{"anyOf":[%s,%s]}`, `{"type":"string"}`) + `,"$defs":` + defsOf(doubled(`{"anyOf":[%s,%s]}`, `{"type":"string"}`)) + `}`, `1`},
		"oneOf":                        {doubled(`{"oneOf":[%s,%s]}`, `{"type":"string"}`), `1`},
		"if":                           {doubled(`{"if":%s,"then":%s}`, `true`), `1`},
		"down the data":                {`{"allOf":[{"additionalProperties":{"$ref":"#"}},{"additionalProperties":{"$ref":"#"}}]}`, deep},
		"patternProperties":            {`{"not":{"patternProperties":{"a":{"$ref":"#/not"},"b":{"$ref":"#/not"},"x":false},"type":"object"}}`, deep},
		"a regular expression on much": {`{"items":{"pattern":"(a?){200}b"}}`, `["` + strings.Repeat("a", 1<<20) + `"]`},
		"an enum for each":             {`{"items":{"enum":[` + strings.Join(enum, ",") + `]}}`, many},
		"much to compare":              {`{"uniqueItems":true,"items":{"$ref":"#"}}`, `[` + many + `,` + strings.Replace(many, "1", "2", 1)[:100_000] + `1]]`},
		"unevaluated":                  {doubled(`{"anyOf":[%s,%s],"unevaluatedItems":false}`, `true`), many},
		"a loop":                       {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `1`},
	}
}

func defsOf(schema string) string {
	var s struct {
		Defs json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		panic(err)
	}
	return string(s.Defs)
}

// For any schema and data a check comes to an end. The patience is for a machine that does
// a lot else; without the budget most of these would take longer than the universe will.
func TestCheck_Ends(t *testing.T) {
	t.Parallel()
	for name, c := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ := withSchema(c[0])
			require.NoError(t, catalogue.CheckSchema(&typ))
			ended := make(chan error, 1)
			began := time.Now()
			go func() { ended <- strict(typ).Check(event("t", c[1])) }()
			select {
			case err := <-ended:
				t.Logf("%v: %v", time.Since(began), err)
				require.Equal(t, sluice.InvalidEventData, sluice.CodeOf(err))
			case <-time.After(time.Minute):
				t.Fatal("it does not end")
			}
		})
	}
}

func TestCheck_ConcurrentOnesHaveTheirOwnBudgets(t *testing.T) {
	t.Parallel()
	x := strict(withSchema(order))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				if x.Check(event("t", `{"total":1,"items":[{"n":1}]}`)) != nil || x.Check(event("t", `{"total":1,"items":[{"n":"x"}]}`)) == nil {
					panic("a check was wrong")
				}
			}
		})
	}
	all.Wait()
}

// FuzzCheck looks for a schema and data with which a check panics, or says otherwise the second time.
func FuzzCheck(f *testing.F) {
	f.Add(order, `{"total":1,"items":[{"n":1,"kind":"a"}]}`)
	for _, c := range hostile() {
		f.Add(c[0], c[1])
	}
	f.Add(`{"multipleOf":0.1,"minimum":-1e3}`, `3.3e2`)
	f.Add(`{"prefixItems":[{"const":{"a":[1,2]}}],"contains":{"type":"integer"},"minContains":2}`, `[{"a":[1,2.0]},1,2]`)
	f.Fuzz(func(t *testing.T, schema, data string) {
		typ := withSchema(schema)
		if typ.Validate() == nil || len(schema) > sluice.MaxSchema || catalogue.CheckSchema(&typ) != nil {
			return
		}
		x := strict(typ)
		first := x.Check(event("t", data))
		if first != nil {
			require.Equal(t, sluice.InvalidEventData, sluice.CodeOf(first))
			require.Less(t, len(first.Error()), 1000)
		}
		require.Equal(t, first == nil, x.Check(event("t", data)) == nil)
	})
}

func BenchmarkCheck(b *testing.B) {
	x := strict(withSchema(order), sluice.EventType{Type: "bare", StaticLabels: map[string]string{"a": "b"}})
	data := `{"total":1,"items":[{"n":1,"kind":"a"},{"n":2}]}`
	for name, ev := range map[string]*sluice.Event{
		"no catalogue": {Namespace: "none", Path: "/a", Type: "t"},
		"no schema":    event("bare", data),
		"schema":       event("t", data),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := x.Check(ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
