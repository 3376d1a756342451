package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func order() *sluice.Event {
	return &sluice.Event{
		Namespace: "acme", Path: "/orders/17", Seq: 7, ID: "order-17", Type: "order.placed", Source: "shop", Subject: "17",
		Time:       time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
		Extensions: map[string]string{"region": "eu", "tier": "gold"},
		Data: []byte(`{"total": 120, "rate": 1.50, "rush": true, "name": "O\"Hara", "tier": "silver", "big": 9007199254740993,
			"items": [{"sku": "a", "n": 2}], "address": {"city": "Köln"}, "note": null, "when": "2026-05-01T00:00:00Z"}`),
	}
}

func matches(t *testing.T, f sluice.Filter, e *sluice.Event) bool {
	t.Helper()
	m, err := filter.Compile(f)
	require.NoError(t, err)
	ok, err := m.Match(e)
	require.NoError(t, err)
	return ok
}

func label(name string, values ...string) sluice.Filter {
	return sluice.Filter{Labels: map[string][]string{name: values}}
}

// S2-140, C19.
func TestFilter_AndsDimensionsAndOrsValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		give sluice.Filter
		want bool
	}{
		{"no dimension", sluice.Filter{}, true},
		{"a type", sluice.Filter{Types: []string{"order.placed"}}, true},
		{"another type", sluice.Filter{Types: []string{"order.paid"}}, false},
		{"one of the types", sluice.Filter{Types: []string{"order.paid", "order.placed"}}, true},
		{"a prefix", sluice.Filter{Types: []string{"order.*"}}, true},
		{"a prefix is whole words", sluice.Filter{Types: []string{"ord.*"}}, false},
		{"a prefix is not the word itself", sluice.Filter{Types: []string{"order.placed.*"}}, false},
		{"every type", sluice.Filter{Types: []string{"*"}}, true},
		{"a source", sluice.Filter{Sources: []string{"shop"}}, true},
		{"another source", sluice.Filter{Sources: []string{"shop/1"}}, false},
		{"a subject", sluice.Filter{Subjects: []string{"17", "18"}}, true},
		{"another subject", sluice.Filter{Subjects: []string{"18"}}, false},
		{"type and source", sluice.Filter{Types: []string{"order.*"}, Sources: []string{"shop"}}, true},
		{"type and another source", sluice.Filter{Types: []string{"order.*"}, Sources: []string{"web"}}, false},
		{"labels are anded", sluice.Filter{Labels: map[string][]string{"region": {"eu"}, "total": {"120"}}}, true},
		{"one label of two", sluice.Filter{Labels: map[string][]string{"region": {"eu"}, "total": {"1"}}}, false},
		{"label and expression", sluice.Filter{Labels: map[string][]string{"region": {"eu"}}, CEL: "event.data.total > 100"}, true},
		{"label and no expression", sluice.Filter{Labels: map[string][]string{"region": {"us"}}, CEL: "event.data.total > 100"}, false},
		{"label and false expression", sluice.Filter{Labels: map[string][]string{"region": {"eu"}}, CEL: "event.data.total > 200"}, false},
	} {
		require.Equal(t, c.want, matches(t, c.give, order()), c.name)
	}
}

// S2-140.
func TestFilter_MissingFieldDoesNotMatch(t *testing.T) {
	t.Parallel()
	bare := &sluice.Event{Type: "message", Source: "x"}
	require.False(t, matches(t, sluice.Filter{Subjects: []string{"17", ""}}, bare))
	require.False(t, matches(t, label("region", "eu", ""), bare))
	require.False(t, matches(t, sluice.Filter{CEL: `event.region == "eu"`}, bare))
	require.False(t, matches(t, sluice.Filter{CEL: `event.region != "eu"`}, bare))
	require.False(t, matches(t, sluice.Filter{CEL: `event.data.total > 1`}, bare))
}

// S2-141: an event is about its subject, and about those that it says it is related to.
func TestSubjects_IncludeRelatedOnes(t *testing.T) {
	t.Parallel()
	e := order()
	wants := func(subjects ...string) bool { return matches(t, sluice.Filter{Subjects: subjects}, e) }
	require.False(t, wants("urn:c:1"))
	e.Extensions[sluice.RelatedSubjects] = " urn:c:1  urn:c,2 "
	for subject, want := range map[string]bool{
		"17": true, "urn:c:1": true, "urn:c,2": true, "urn:c": false, "": false, "urn:c:1 urn:c,2": false,
	} {
		require.Equal(t, want, wants(subject), subject)
	}
	require.True(t, wants("18", "urn:c:1"))
	e.Subject = ""
	require.True(t, wants("urn:c:1"), "with none of its own too")
	require.False(t, matches(t, sluice.Filter{Subjects: []string{"urn:c:1"}, Types: []string{"other"}}, e))
}

// S2-66…71.
func TestLabels_AreExtensionsAndTopLevelScalars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, label, value string
		want               bool
	}{
		{"an extension", "region", "eu", true},
		{"an extension goes before the data", "tier", "gold", true},
		{"and hides it", "tier", "silver", false},
		{"a string without quotes (S2-69)", "name", `O"Hara`, true},
		{"not with quotes", "name", `"O\"Hara"`, false},
		{"an integer", "total", "120", true},
		{"a number as JSON writes it", "rate", "1.50", true},
		{"not in another form", "rate", "1.5", false},
		{"a large integer keeps its digits", "big", "9007199254740993", true},
		{"a bool", "rush", "true", true},
		{"a time is a string", "when", "2026-05-01T00:00:00Z", true},
		{"an array never (S2-67)", "items", `[{"sku": "a", "n": 2}]`, false},
		{"an object never", "address", `{"city": "Köln"}`, false},
		{"null never", "note", "null", false},
		{"nothing below the top", "city", "Köln", false},
		{"names have case", "Region", "eu", false},
		{"an attribute is no label", "type", "order.placed", false},
	} {
		require.Equal(t, c.want, matches(t, label(c.label, c.value), order()), c.name)
	}
}

// S2-71.
func TestLabels_DataWithoutObjectHasNone(t *testing.T) {
	t.Parallel()
	for _, data := range []string{``, `7`, `"total"`, `[{"total": 120}]`, `null`, `{"total": 120`, `{"total": 120} x`, `plain text`} {
		e := order()
		e.Data = []byte(data)
		require.False(t, matches(t, label("total", "120"), e), data)
		require.True(t, matches(t, label("region", "eu"), e), data)
	}
	e := order()
	e.ContentType = "text/plain"
	require.False(t, matches(t, label("total", "120"), e))
}

func TestExpression_SeesTheEvent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`event.data.total > 100`:                             true,
		`event.data.total > 100.5`:                           true,
		`event.data.total % 2 == 0`:                          true,
		`event.data.big == 9007199254740993`:                 true,
		`event.data.rate < 2.0 && event.data.rush`:           true,
		`event.data.note == null`:                            true,
		`event.data.items.exists(i, i.sku == "a")`:           true,
		`event.data.items[0].n == 2`:                         true,
		`event.data.address.city == "Köln"`:                  true,
		`has(event.data.total) && !has(event.data.tax)`:      true,
		`event["data"]["total"] == 120`:                      true,
		`event.type.startsWith("order.")`:                    true,
		`event.id == "order-17" && event.source == "shop"`:   true,
		`event.path.matches("^/orders/[0-9]+$")`:             true,
		`event.namespace == "acme" && event.subject == "17"`: true,
		`event.seq == 7 && event.seq % 2 == 1`:               true,
		`event.time < timestamp("2027-01-01T00:00:00Z")`:     true,
		`event.region == "eu"`:                               true,
		`event.extensions.region in ["eu", "us"]`:            true,
		`event.extensions.exists(k, k == "tier")`:            true,
		`event.data.total > 200`:                             false,
		`false`:                                              false,
		`true`:                                               true,
	} {
		require.Equal(t, want, matches(t, sluice.Filter{CEL: text}, order()), text)
	}
}

// C19: what is not there, or is of another type, does not match and is no error.
func TestExpression_AbsentFieldDoesNotMatch(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`event.data.tax > 1`, `!event.data.tax`, `event.data.total.net > 1`, `event.data.note.x == 1`, `event.data.name > 1`,
		`event.data.name + 1 == 2`, `event.data.items[5].n == 1`, `event.data.items["a"] == 1`, `event.data.name.exists(c, true)`,
		`event.extensions.tax == "x"`, `event.tax.rate == 1`, `event.data.total`, `event.data.name`, `event.data.total ? true : false`,
		`event.data.total.startsWith("1")`, `event.data.total.matches("")`, `event.data.address[event.data.none] == 1`, `event.data.name in event.data.total`,
	} {
		require.False(t, matches(t, sluice.Filter{CEL: text}, order()), text)
	}
	e := order()
	e.ContentType = "application/octet-stream"
	require.False(t, matches(t, sluice.Filter{CEL: `event.data.total > 1`}, e))
	e = order()
	e.Subject = ""
	e.Extensions = map[string]string{"data": "x", "subject": "x"}
	require.False(t, matches(t, sluice.Filter{CEL: `event.subject == "x"`}, e))
	require.False(t, matches(t, sluice.Filter{CEL: `event.data == "x"`}, e))
	e.ContentType = "text/plain"
	require.False(t, matches(t, sluice.Filter{CEL: `event.data == "x"`}, e), "no extension takes the place of data that is not JSON")
}

func TestExpression_FailedEvaluationIsAnError(t *testing.T) {
	t.Parallel()
	e := order()
	e.Data = []byte(`{"name": "x", "list": [` + strings.Repeat("1,", 999) + `1]}`)
	for text, says := range map[string]string{
		`int(event.data.name) > 1`:            "conversion",
		`1 / (event.seq - 7) == 1`:            "division by zero",
		`9223372036854775807 + event.seq > 0`: "overflow",
		`1 == int(event.data.name)`:           "conversion",
		`1 in [int(event.data.name)]`:         "conversion",
		`event.data.list.all(a, event.data.list.all(b, event.data.list.all(c, c == b)))`: "cost limit exceeded",
	} {
		m, err := filter.Compile(sluice.Filter{CEL: text})
		require.NoError(t, err, text)
		ok, err := m.Match(e)
		require.ErrorContains(t, err, says, text)
		require.False(t, ok, text)
		require.Equal(t, sluice.Internal, sluice.CodeOf(err), "it is not a caller who meets it")
	}
}

func TestExpression_SyntaxErrorsGiveThePlace(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		`event.data.total >`:                  "line 1, column 19",
		"event.id == \"x\" &&\n  evnt.id":     "line 2, column 3: undeclared reference to 'evnt'",
		`1`:                                   "yields int",
		`event`:                               "yields map",
		`"a" + 1`:                             "no matching overload",
		`event.id.matches("(")`:               "missing closing )",
		`event.id.matches("(a{0,99}){0,99}")`: "",
		strings.Repeat("(", 1000):             "",
		strings.Repeat("a", 5000):             "",
	} {
		_, err := filter.Compile(sluice.Filter{CEL: text})
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "%.50s", text)
		require.ErrorContains(t, err, "filter.cel: "+"", text)
		require.ErrorContains(t, err, says, text)
		require.Less(t, len(err.Error()), 1000)
	}
}

func TestFilter_OfTypesAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	m, err := filter.Compile(sluice.Filter{Types: []string{"invoice.*", "order.paid", "order.placed"}, Sources: []string{"shop"}})
	require.NoError(t, err)
	e := order()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if ok, err := m.Match(e); !ok || err != nil {
			t.Error("no match")
		}
	}))
}

func FuzzExpression(f *testing.F) {
	f.Add(`event.data.total > 100`, `{"total": 120}`)
	f.Add(`event.data.l.exists(i, i.a[0] == "x")`, `{"l": [{"a": ["x"]}]}`)
	f.Add(`has(event.region) || event.seq % 2 == 0`, `[]`)
	f.Add(`event.type.matches(event.id)`, ``)
	f.Fuzz(func(t *testing.T, text, data string) {
		m, err := filter.Compile(sluice.Filter{CEL: text})
		if err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), err)
			return
		}
		e := order()
		e.Data = []byte(data)
		ok, err := m.Match(e)
		if err != nil {
			require.False(t, ok)
			require.NotContains(t, err.Error(), "internal error")
		}
		again, _ := m.Match(e)
		require.Equal(t, ok, again)
	})
}

// member returns the scalar of the name in a JSON object, as JSON writes it.
func member(data, name string) (string, bool) {
	var members map[string]any
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	if !json.Valid([]byte(data)) || d.Decode(&members) != nil {
		return "", false
	}
	switch v := members[name].(type) {
	case string:
		return v, true
	case json.Number, bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// FuzzDimensions holds the dimensions to what they mean: some value of each is the event's.
func FuzzDimensions(f *testing.F) {
	f.Add("order.*", "shop", "17", "region", "eu", `{"total": 120}`)
	f.Add("*", "", "", "total", "120", `{"total": 120}`)
	f.Add("order.placed", "x", "17", "rush", "true", `{"rush": true, "rush": "x"}`)
	f.Add(".*", "shop", "", "a", "b", `{"\u0061": "\u0062"}`)
	f.Add("", "shop", "17", "total", "1.20", `{"total": 1.20} `)
	f.Fuzz(func(t *testing.T, kind, source, subject, name, value, data string) {
		e := order()
		e.Data = []byte(data)
		have, there := e.Extensions[name]
		if !there {
			have, there = member(data, name)
		}
		prefix, wild := strings.CutSuffix(kind, "*")
		wild = wild && (prefix == "" || strings.HasSuffix(prefix, ".")) && len(e.Type) > len(prefix) && strings.HasPrefix(e.Type, prefix)
		for _, c := range []struct {
			filter sluice.Filter
			want   bool
		}{
			{sluice.Filter{Types: []string{kind}}, kind == e.Type || wild},
			{sluice.Filter{Sources: []string{source}}, source == "shop"},
			{sluice.Filter{Subjects: []string{subject, "x"}}, subject == "17"},
			{label(name, value), there && have == value},
			{label(name, "\x00", value), there && (have == value || have == "\x00")},
		} {
			require.Equal(t, c.want, matches(t, c.filter, e), "%+v", c.filter)
			both := c.filter
			both.CEL = `event.type == "order.placed"`
			require.Equal(t, c.want, matches(t, both, e), "%+v", both)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for name, f := range map[string]sluice.Filter{
		"types":             {Types: []string{"order.paid", "order.*"}},
		"extension":         label("region", "eu"),
		"data":              label("total", "120"),
		"cel on attributes": {CEL: `event.type == "order.placed" && event.region == "eu"`},
		"cel on data":       {CEL: `event.data.total > 100`},
	} {
		m, err := filter.Compile(f)
		require.NoError(b, err)
		e := order()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := m.Match(e); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := filter.Compile(sluice.Filter{CEL: `event.data.total > 100`}); err != nil {
			b.Fatal(err)
		}
	}
}

// Labels of a type count where the event has none of the name, and are asked for only then.
func TestLabels_OfTheTypeYieldToTheEvents(t *testing.T) {
	t.Parallel()
	asked := 0
	labels := func(*sluice.Event) map[string]string {
		asked++
		return map[string]string{"area": "maps"}
	}
	m, err := filter.CompileWith(sluice.Filter{Labels: map[string][]string{"area": {"maps"}}}, labels)
	require.NoError(t, err)
	for _, tt := range []struct {
		name  string
		event sluice.Event
		want  bool
		asked int
	}{
		{"the type's", sluice.Event{}, true, 1},
		{"an extension's goes first", sluice.Event{Extensions: map[string]string{"area": "files"}}, false, 0},
		{"an extension that fits", sluice.Event{Extensions: map[string]string{"area": "maps"}}, true, 0},
		{"the data's goes first", sluice.Event{Data: []byte(`{"area":"files"}`)}, false, 1},
		{"even if it cannot be compared", sluice.Event{Data: []byte(`{"area":{}}`)}, false, 1},
		{"other data", sluice.Event{Data: []byte(`{"other":1}`)}, true, 1},
	} {
		asked = 0
		got, err := m.Match(&tt.event)
		require.NoError(t, err)
		require.Equal(t, tt.want, got, tt.name)
		require.Equal(t, tt.asked, asked, tt.name)
	}
	none, err := filter.CompileWith(sluice.Filter{Types: []string{"*"}}, labels)
	require.NoError(t, err)
	asked = 0
	_, err = none.Match(&sluice.Event{Type: "t"})
	require.NoError(t, err)
	require.Zero(t, asked, "a filter without labels costs nothing")
}

// Who looks at every event as it comes may have less of a processor than a subscription, of which there are fewer.
func TestFilter_LiveUseMayCostLess(t *testing.T) {
	t.Parallel()
	const text = "event.data.all(a, event.data.all(b, a == b))"
	e := &sluice.Event{Seq: 7, Path: "/a", ContentType: "application/json", Data: []byte("[1" + strings.Repeat(",1", 99) + "]")}
	patient, err := filter.CompileWith(sluice.Filter{CEL: text}, nil)
	require.NoError(t, err)
	ok, err := patient.Match(e)
	require.NoError(t, err)
	require.True(t, ok)
	require.Greater(t, patient.Spent(), uint64(filter.LiveLimit))
	live, err := filter.CompileLive(sluice.Filter{CEL: text}, nil)
	require.NoError(t, err)
	ok, err = live.Match(e)
	require.False(t, ok)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "event 7")
	require.Equal(t, uint64(filter.LiveLimit), live.Spent())
	e.Data = []byte("[1,2]")
	ok, err = live.Match(e)
	require.NoError(t, err)
	require.False(t, ok)
	e.Data = []byte("{}")
	_, err = live.Match(e)
	require.NoError(t, err, "a field of another type is no match")
}
