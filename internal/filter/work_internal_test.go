package filter

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func repeat(s string, n int) string { return strings.Repeat(s, n) }

func eventWith(data string) *sluice.Event {
	return &sluice.Event{
		Namespace: "acme", Path: "/a", Seq: 7, ID: "1", Type: "order.placed", Source: "shop", Time: time.Unix(1, 0),
		Extensions: map[string]string{"region": "eu"}, Data: []byte(data),
	}
}

// cost returns what an evaluation of the expression costs, and what it ended with.
func cost(tb testing.TB, text, data string) (int, error) {
	tb.Helper()
	x, err := compile(text)
	require.NoError(tb, err, text)
	m := &meter{left: costLimit}
	_, err = x.evaluate(eventWith(data), nil, m)
	return costLimit - m.left, err
}

// sized returns data of n numbers, n objects, n keys and a string of n × stringUnit bytes, twice.
func sized(n int) string {
	var keys strings.Builder
	for i := range n {
		keys.WriteString(`"` + strconv.Itoa(i) + `": 1, `)
	}
	return `{"keys": {` + keys.String() + `"a": 1}, "list": [` + repeat("1,", n-1) + `1], "again": [` + repeat("1,", n-1) + `1], "deep": [` + repeat(`{"a":[1]},`, n-1) + `{}],
		"text": "` + repeat("a", n*stringUnit) + `", "twin": "` + repeat("a", n*stringUnit) + `", "map": {"` + repeat("a", n*stringUnit) + `": 1}}`
}

func TestExpression_KnownCosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`event.data.total > 100`:                              2,
		`event.type == "order.placed" && event.region == "x"`: 4,
		`event.type.startsWith("order.")`:                     2,
		`event.type in ["a", "b", "order.placed"]`:            1,
		`event.type.matches("^order")`:                        4,
		`event.data.items.exists(i, i == 3)`:                  20,
		`[event.seq, 1] == [7, 1]`:                            9,
		`event.data.items == event.data.items`:                9,
		`event.data.items.map(i, i) == []`:                    18,
		`3 in event.data.items`:                               5,
		`event.time.getHours() >= 0`:                          3,
		`event.time.getHours("UTC") >= 0`:                     203,
		`dyn(event.data).exists(k, false)`:                    13,
	} {
		got, err := cost(t, text, `{"total": 120, "items": [1, 2, 3]}`)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

// What takes four times as long costs four times as much, or nearly. No clock is asked.
func TestExpression_CostGrowsWithItsWork(t *testing.T) {
	t.Parallel()
	const n = 100
	for _, text := range []string{
		`event.data.list == event.data.again`,
		`event.data.list != event.data.again`,
		`event.data == event.data`,
		`event.data.deep == event.data.deep`,
		`{"a": event.data.deep} == {"a": event.data.deep}`,
		`7 in event.data.list`,
		`event.data.deep in event.data.deep || event.data.list in [event.data.list, 1]`,
		`event.data.list.all(i, i == 1)`,
		`event.data.list.map(i, i + 1) == event.data.list`,
		`size(event.data.list + event.data.list) > 1`,
		`event.data.text == event.data.twin`,
		`event.data.text < event.data.twin`,
		`event.data.text + "x" == ""`,
		`size(event.data.text) == 1`,
		`size(bytes(event.data.text)) == 1`,
		`event.data.text.contains("b")`,
		`event.data.text.endsWith("b")`,
		`event.data.text.matches("b")`,
		`event.type.matches(event.data.text)`,
		`event.data.text in ["a", "b"]`,
		`event.data.map[event.data.text] == 1`,
		`event.data.map[event.data.list[0] == 1 ? event.data.text : "x"] == 1`,
		`has(event.data.map) && int(event.data.text) == 1`,
		`event.data.keys.exists(k, true)`,
		`(event.seq > 1 ? event.data.keys : event).exists(k, true)`,
		`(event.seq > 1 ? event.data : event)["keys"].exists(k, true)`,
		`dyn(event.data.keys).exists(k, true)`,
		`{"a": event.data.keys}.a.exists(k, true)`,
	} {
		small, _ := cost(t, text, sized(n))
		large, _ := cost(t, text, sized(4*n))
		require.Greater(t, small, n/2, text)
		require.Greater(t, float64(large), 3.5*float64(small), text)
	}
}

// bombs are expressions that are small, and would need gigabytes or minutes.
func bombs() map[string]string {
	all := `[1,2,3,4,5,6,7,8,9,10].all(`
	return map[string]string{
		"strings that double":        `size([event.data.text]` + repeat(".map(a, a + a)", 9) + `[0]) > 0`,
		"lists that double":          `[[1]` + repeat(",[1]", 9) + `]` + repeat(".map(a, a + a + a + a + a + a + a + a)", 8) + `.all(a, a == a)`,
		"lists of the same twice":    `[[1]]` + repeat(".map(a, [a, a, a, a, a, a, a, a])", 7) + `.all(a, a == a)`,
		"maps of the same twice":     `[[1]]` + repeat(`.map(a, {"a": a, "b": a, "c": a, "d": a, "e": a, "f": a, "g": a, "h": a})`, 7) + `.all(a, a == a)`,
		"data looked through":        all + `a, event.data == event.data)`,
		"members looked for":         `event.data.list.all(a, !("x" in event.data.list))`,
		"objects looked for":         `event.data.deep.all(a, !({"b": 1} in event.data.deep))`,
		"nested macros":              `event.data.list.all(a, event.data.list.all(b, event.data.list.all(c, true)))`,
		"keys listed":                `event.data.list.all(a, event.data.keys.exists(k, true))`,
		"time zones found":           `event.data.list.all(a, event.time.getHours("America/New_York") >= 0)`,
		"lists made in macros":       `event.data.list.all(a, event.data.list.map(b, event.data.list) != [])`,
		"text copied":                repeat(all+"a, ", 4) + `size(bytes(event.data.text)) > 0))))`,
		"text searched":              repeat(all+"a, ", 4) + `!event.data.text.contains("ab")))))`,
		"text as key":                repeat(all+"a, ", 4) + `event.data.map[event.data.text] == 1))))`,
		"text as key, for a choice":  repeat(all+"a, ", 4) + `event.data.map[a > 0 ? event.data.text : "b"] == 1))))`,
		"text in constants":          repeat(all+"a, ", 4) + `!(event.data.text in ["a","b","c","d","e","f","g","h","i"])))))`,
		"text that is refused":       repeat(all+"a, ", 4) + `int(event.data.text) == 1 || true))))`,
		"a dear regular expression":  `event.data.text.matches("(a?){90}b")`,
		"regular expressions made":   `event.data.list.all(a, !event.type.matches("(x?){90}[a-z]{90}" + string(a)))`,
		"a long regular expression":  `event.type.matches(event.data.text)`,
		"what cannot be paid is cut": all + `a, event.data == event.data) || true`,
	}
}

func TestExpression_BombsAreCutOff(t *testing.T) {
	t.Parallel()
	data := sized(1_000)
	for name, text := range bombs() {
		x, err := compile(text)
		require.NoError(t, err, name)
		_, err = x.evaluate(eventWith(data), nil, &meter{left: costLimit / 10})
		require.ErrorContains(t, err, "cost limit exceeded", name)
		require.Equal(t, sluice.Internal, sluice.CodeOf(err), name)
	}
}

// counting counts the values that an evaluation looks at.
type counting struct {
	types.Adapter

	looks int
}

func (c *counting) NativeToValue(v any) ref.Val {
	c.looks++
	switch v := v.(type) {
	case []any:
		return types.NewDynamicList(c, v)
	case map[string]any:
		return types.NewStringInterfaceMap(c, v)
	}
	return c.Adapter.NativeToValue(v)
}

// Nothing is looked at that was not paid for: neither what is cut off, nor what is told soon,
// though the other side is large.
func TestExpression_PaysBeforeItReads(t *testing.T) {
	t.Parallel()
	all := bombs()
	for _, text := range []string{
		`event.data.list.all(a, 1 != event.data)`, `event.data.list.all(a, event.data != 1)`,
		`event.data.list.all(a, !("x" in [event.data, event.data]))`, `event.data.list.all(a, !(event.data in ["x", 1, {}]))`,
		`event.data.list.all(a, {"a": 1} != event.data.keys)`, `event.data.list.all(a, size(event.data.keys) > 1)`,
		`event.data.list.all(a, "a" in event.data.keys && has(event.data.keys.a))`,
		`event.data.list.all(a, [event.data, event.data.deep] != [event.data.deep, event.data])`,
	} {
		all[text] = text
	}
	data := sized(500)
	for name, text := range all {
		looks, paid := counted(t, text, data)
		require.Less(t, looks, 10*paid+100, name)
	}
}

// counted returns how many values an evaluation of the expression looked at, and what it paid.
func counted(t *testing.T, text, data string) (int, int) {
	t.Helper()
	env, err := environment()
	require.NoError(t, err)
	counter := &counting{Adapter: env.CELTypeAdapter()}
	env, err = env.Extend(cel.CustomTypeAdapter(counter))
	require.NoError(t, err)
	checked, err := check(env, text)
	require.NoError(t, err, text)
	x, err := plan(env, checked)
	require.NoError(t, err, text)
	const limit = costLimit / 10
	m := &meter{left: limit}
	_, _ = x.evaluate(eventWith(data), nil, m) // how it ends is not asked
	return counter.looks, min(limit-m.left, limit)
}

func TestExpression_AlwaysExpensiveOnesAreRefused(t *testing.T) {
	t.Parallel()
	numbers := "[1" + repeat(",1", 60) + "]"
	for text, says := range map[string]string{
		numbers + `.map(a, ` + numbers + `.map(b, ` + numbers + `.map(c, a + b + c))) == []`: "costs at least",
		`[1]` + repeat(".map(a, {a: a})", 10) + `.size() > 0`:                                "keys of a map",
		`[1]` + repeat(".map(a, [a, a])", 240) + `.size() > 0`:                               "nested lists",
		repeat("[", 200) + repeat("]", 200) + ` == []`:                                       "nested lists",
		repeat("[1].all(a, ", 100) + "true" + repeat(")", 100):                               "nested lists",
		`event.type.matches("(a?){300}(b?){300}")`:                                           "the limit is 1000",
		`event.type.matches("` + repeat("[a-z]{500}", 300) + `")`:                            "the limit is 1000",
		`event.type.matches("(a{500}){500}")`:                                                "invalid repeat count",
		"size([1]" + repeat("+[1]", 900) + ") > 0":                                           "recursion",
		`event.` + repeat("a", 3000) + ` + {}`:                                               "no matching overload",
	} {
		_, err := compile(text)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "%.60s", text)
		require.ErrorContains(t, err, says, "%.60s", text)
		require.Less(t, len(err.Error()), 1000)
	}
}

// CEL's own limit of a regular expression's size panicked at these.
func TestRegex_MayCountRepetitions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`event.type.matches("^[a-z]{5}[.][a-z]{6}$")`: true,
		`event.type.matches("^(or){2}der")`:           false,
		`event.type.matches("^" + "[a-z]{5}")`:        true,
		`matches(event.type, "p{1,3}")`:               true,
		`event.type.matches("")`:                      true,
	} {
		x, err := compile(text)
		require.NoError(t, err, text)
		got, _, err := x.within(eventWith(""), nil, x.most)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	x, err := compile(`event.type.matches(event.data.r)`)
	require.NoError(t, err)
	_, _, err = x.within(eventWith(`{"r": "(("}`), nil, x.most)
	require.ErrorContains(t, err, "missing closing )")
	_, _, err = x.within(eventWith(`{"r": "(a{30}){30}b{200}"}`), nil, x.most)
	require.ErrorContains(t, err, "the limit is 1000")
	got, _, err := x.within(eventWith(`{"r": 7}`), nil, x.most)
	require.NoError(t, err)
	require.False(t, got)
}

// What a receiver's log shows of an error does not hold the event's data.
func TestExpression_ErrorsHoldNoData(t *testing.T) {
	t.Parallel()
	_, err := cost(t, `timestamp(event.data.text) < event.time`, sized(500))
	require.ErrorContains(t, err, "invalid RFC 3339 timestamp")
	require.Less(t, len(err.Error()), 4*maxMessage)
}

// FuzzMeter holds metered evaluations to what CEL itself says, and to what they pay.
func FuzzMeter(f *testing.F) {
	for text, data := range map[string]string{
		`event.data.l.map(a, a + 1).filter(a, a > 2) == [3]`:                              `{"l": [1, 2]}`,
		`event.data[event.data.k] in event.data.l`:                                        `{"k": "a", "a": 1, "l": [1]}`,
		`(event.seq > 1 ? event.data.a : event.data).b == 1`:                              `{"a": {"b": 1}}`,
		`event.data.l + event.data.l != [] && has(event.data.l)`:                          `{"l": [{"a": null}]}`,
		`event.data.s.matches(event.data.r)`:                                              `{"s": "abc", "r": "b{1,2}"}`,
		`{"a": event.data}["a"].x.exists_one(i, i in {"a": 1})`:                           `{"x": {"a": 1, "b": 2}}`,
		`event.data.l[event.data.l[0]] == dyn(1.0)`:                                       `{"l": [1, 1]}`,
		`event.region in ["eu", "us"] || event.nothing`:                                   ``,
		`size(event.data.s + "é") == 2 && event.time > timestamp("2020-01-01T00:00:00Z")`: `{"s": "x"}`,
	} {
		f.Add(text, data)
	}
	f.Add(`event.data.s.matches(event.data.r)`, `{"s": "", "r": "`+repeat("x", regexLimit+1)+`"}`)
	env, err := environment()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text, data string) {
		x, err := compile(text)
		if err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), err)
			require.Less(t, len(err.Error()), 4*maxMessage)
			return
		}
		e, m := eventWith(data), &meter{left: costLimit}
		got, err := x.evaluate(e, nil, m)
		looks, paid := counted(t, text, data)
		require.Less(t, looks, 10*paid+len(text)+100)
		if err != nil && (strings.Contains(err.Error(), "cost limit exceeded") || strings.Contains(err.Error(), "the limit is")) {
			require.False(t, got)
			return
		}
		checked, issues := env.Compile(text)
		require.NoError(t, issues.Err())
		plain, err2 := env.Program(checked, cel.CostLimit(100*costLimit))
		require.NoError(t, err2)
		out, _, err2 := plain.Eval(map[string]any{root: x.attributes(e, nil)})
		switch {
		case err2 == nil:
			require.NoError(t, err)
			require.Equal(t, out == types.True, got)
		case missing(err2):
			require.NoError(t, err)
			require.False(t, got)
		default:
			require.Error(t, err)
			require.NotContains(t, err.Error(), "internal error")
		}
	})
}

// BenchmarkBombs shows what an evaluation may take at worst; reading the data is not counted.
func BenchmarkBombs(b *testing.B) {
	e := eventWith(sized(5_000))
	for name, text := range bombs() {
		x, err := compile(text)
		require.NoError(b, err)
		vars := x.attributes(e, nil)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := x.program.Eval(map[string]any{root: vars, allowance: &meter{left: costLimit}})
				require.Error(b, err)
			}
		})
	}
}
