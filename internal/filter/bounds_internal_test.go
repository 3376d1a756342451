package filter

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// exhaustedOn returns a filter for live use and an event on which it costs more than that.
func exhaustedOn(t *testing.T, seq uint64) (*Matcher, *sluice.Event) {
	t.Helper()
	m, err := CompileLive(sluice.Filter{CEL: "event.data.all(a, event.data.all(b, a == b))"}, nil)
	require.NoError(t, err)
	e := eventWith("[1" + repeat(",1", 150) + "]")
	e.Seq = seq
	return m, e
}

// valueOf returns a value of JSON, with a counter of the looks at its elements.
func valueOf(t *testing.T, data string) (ref.Val, *counting) {
	t.Helper()
	v, ok := decode(eventWith(data))
	require.True(t, ok)
	counter := &counting{Adapter: types.DefaultTypeAdapter}
	val := counter.NativeToValue(v)
	counter.looks = 0
	return val, counter
}

// How much there is to look at is found out up to a limit: exactly where it is no more, and otherwise only that it is more,
// without a look at the rest.
func TestExtent_IsExactUpToTheLimit(t *testing.T) {
	t.Parallel()
	eight := "[1,1,1,1,1,1,1,1]"
	for data, full := range map[string]int{
		"7": 1, `"` + repeat("x", 3*stringUnit) + `"`: 4, "[]": 1, "[1,1,1]": 7, "[" + eight + "," + eight + "," + eight + "]": 55,
		`{}`: 1, `{"a":1,"b":1}`: 5, `{"a":{"b":[1,1]},"c":{}}`: 11,
		`{"a":[1,1,1,1,1,1,1],"b":[1,1,1,1,1,1,1],"c":[1,1,1,1,1,1,1],"d":[1,1,1,1,1,1,1]}`: 65,
		`{"` + repeat("x", 2*stringUnit) + `":1}`:                                           5,
	} {
		for limit := range full + 3 {
			v, counter := valueOf(t, data)
			got := extent(v, limit)
			if full <= limit {
				require.Equal(t, full, got, "%s, up to %d", data, limit)
			} else {
				require.Greater(t, got, limit, "%s, up to %d", data, limit)
			}
			require.LessOrEqual(t, counter.looks, limit/2+1, "%s, up to %d: each look costs 2", data, limit)
		}
	}
}

// A comparison costs as much as a look at the smaller value, and the larger one is not looked at beyond that, nor beyond the limit.
func TestComparing_CostsTheSmallerValue(t *testing.T) {
	t.Parallel()
	nested := "[" + strings.TrimSuffix(repeat("[1,1,1],", 200), ",") + "]"
	for _, tt := range []struct {
		a, b         string
		limit, looks int
		want         func(n int) bool
	}{
		{"1", nested, 1000, 8, func(n int) bool { return n == 1 }},
		{"[1,1,1,1,1,1,1,1]", nested, 1000, 40, func(n int) bool { return n == 17 }},
		{"[" + repeat("[1,1,1,1,1,1,1],", 9) + "1]", "[" + repeat("[1,1,1,1,1,1,1],", 9) + "1]", 64, 90, func(n int) bool { return n > 64 }},
	} {
		a, first := valueOf(t, tt.a)
		b, second := valueOf(t, tt.b)
		require.True(t, tt.want(comparing(a, b, tt.limit)), tt.a)
		require.LessOrEqual(t, first.looks+second.looks, tt.looks, tt.a)
	}
}

// A search in a list is paid for before it is made: one comparison for each element, and none that cannot be paid.
func TestWithin_PaysForEachElement(t *testing.T) {
	t.Parallel()
	ten := "[1,1,1,1,1,1,1,1,1,1]"
	search := func(a, list string, left int) (rest, looks int, ended bool) {
		needle, _ := valueOf(t, a)
		hay, counter := valueOf(t, list)
		m := &meter{left: left}
		vars, err := interpreter.NewActivation(map[string]any{allowance: m})
		require.NoError(t, err)
		func() {
			defer func() { ended = recover() != nil }()
			within(vars, needle, hay)
		}()
		return m.left, counter.looks, ended
	}
	for left := range 14 {
		rest, looks, ended := search("2", ten, left)
		require.Equal(t, left < 11, ended, "%d left", left)
		if ended {
			require.LessOrEqual(t, looks, left+1, "%d left", left)
		} else {
			require.Equal(t, left-11, rest)
		}
	}
	big := "[" + repeat("[1,1,1,1,1,1,1],", 20) + "1]"
	_, looks, ended := search(big, "["+repeat("1,", 60)+big+"]", 64)
	require.True(t, ended)
	require.LessOrEqual(t, looks, 80, "what is left bounds the last comparison")
}

// The bounds of an expression are what it may cost at most: it may cost exactly that.
func TestExpression_MayCostItsBound(t *testing.T) {
	t.Parallel()
	for text, fails := range map[string]bool{`event.data.list.all(i, i == 1)`: false, `1 / event.data.zero > event.seq`: true} {
		data := `{"list":[1,1,1],"zero":0}`
		x, err := compile(text)
		require.NoError(t, err)
		_, full, _ := x.within(eventWith(data), nil, costLimit)
		ok, spent, err := x.within(eventWith(data), nil, full)
		require.Equal(t, full, spent, text)
		require.Equal(t, fails, err != nil, text)
		require.Equal(t, !fails, ok, text)
		require.False(t, Exhausted(err), text)
		_, _, err = x.within(eventWith(data), nil, full-1)
		require.True(t, Exhausted(err), text)
	}
	const dear = `[1,2,3].all(i, [1,2,3].all(j, i + j > 1))`
	_, err := compileWithin(dear, 1)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	least := 0
	_, scanned := fmt.Sscanf(err.Error()[strings.Index(err.Error(), "at least"):], "at least %d", &least)
	require.NoError(t, scanned)
	_, err = compileWithin(dear, least)
	require.NoError(t, err, "it costs at least as much as it may")
	_, err = compileWithin(dear, least-1)
	require.Error(t, err)
}

// A regular expression has up to a thousand instructions, regardless of its parts.
func TestRegex_SizeIsBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pattern string
		fits    bool
	}{
		"as long as it may be": {repeat("x", regexLimit), true},
		"one longer":           {repeat("x", regexLimit+1), false},
		"of as many parts":     {repeat("[ab]", regexLimit/2), true},
		"of more parts":        {repeat("[ab]", regexLimit/2+100), false}, // the first of them reach the limit exactly
	} {
		_, err := compileRegex(tt.pattern)
		require.Equal(t, tt.fits, err == nil, "%s: %v", name, err)
	}
}

// Lists, maps and macros may be nested twelve deep, in the values of maps too.
func TestSimple_NestingIsBounded(t *testing.T) {
	t.Parallel()
	for _, around := range [][2]string{{"[", "]"}, {`{"a": `, "}"}} {
		for depth, fits := range map[int]bool{maxNesting: true, maxNesting + 1: false} {
			_, err := compile(repeat(around[0], depth) + "1" + repeat(around[1], depth) + " == event.id")
			if fits {
				err2 := fmt.Sprint(err)
				require.NotContains(t, err2, "nested", "%d of %s", depth, around[0])
			} else {
				require.ErrorContains(t, err, "nested", "%d of %s", depth, around[0])
			}
		}
	}
}

// The data is read for an expression that could look at it only.
func TestReadsData_UsesOfTheEvent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`event.data.n == 1`:                            true,
		`event["data"].n == 1`:                         true,
		`event == event`:                               true,
		`event.exists(k, k == "data")`:                 true,
		`event.type == "t"`:                            false,
		`event.extensions.exists(k, k == "data")`:      false,
		`[1, 2].exists(i, i == event.seq)`:             false,
		`[{"data": 1}].exists(i, i.data == event.seq)`: false,
		`true`: false,
	} {
		x, err := compile(text)
		require.NoError(t, err, text)
		require.Equal(t, want, x.data, text)
	}
}

// Half of the processors evaluate, and one if there is only one.
func TestNewPool_TakesHalfOfTheProcessors(t *testing.T) { //nolint:paralleltest // it sets the number of processors
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 1, 6: 3} {
		runtime.GOMAXPROCS(processors)
		require.Equal(t, want, NewPool(Rates{}).idle, "%d processors", processors)
	}
}

// A filter that asks for nothing in the data leaves no trace of the event in memory; one that has labels shares what it reads.
func TestMatch_RemembersOnlyReadFields(t *testing.T) {
	t.Parallel()
	p := NewPool(Rates{})
	for want, f := range []sluice.Filter{{Types: []string{"*"}}, {Labels: map[string][]string{"a": {"x"}}}} {
		m, err := Compile(f)
		require.NoError(t, err)
		_, known, err := p.Match(m, eventWith(`{"a":"x"}`))
		require.NoError(t, err)
		require.True(t, known)
		require.Len(t, p.seen.events, want)
	}
}

// Who has no time to wait is told what is known at once.
func TestWait_CheapAnswersNeedNoTime(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	m, err := Compile(sluice.Filter{CEL: `event.type == "order.placed"`})
	require.NoError(t, err)
	ok, known, err := NewPool(Rates{}).Wait(gone, Payer{}, m, eventWith(""))
	require.NoError(t, err)
	require.True(t, ok && known)
}

// What an expression yields is told at once if it costs little, and if its own bound is no more than that.
func TestQuick_AnswersCheapExpressions(t *testing.T) {
	t.Parallel()
	dear, all := dearOn(t, 0)
	ofTypes := func(kinds ...string) *Matcher {
		m, err := Compile(sluice.Filter{Types: kinds})
		require.NoError(t, err)
		return m
	}
	both, err := Compile(sluice.Filter{Types: []string{"other"}, CEL: "event.data.all(a, event.data.all(b, a == b))"})
	require.NoError(t, err)
	for _, tt := range []struct {
		name      string
		m         *Matcher
		ok, known bool
	}{
		{"no expression", ofTypes("order.*"), true, true},
		{"no expression, and no match", ofTypes("other"), false, true},
		{"no match, for any expression", both, false, true},
		{"a dear expression", dear, false, false},
	} {
		ok, known, err := tt.m.Quick(all, new(Parsed))
		require.NoError(t, err, tt.name)
		require.Equal(t, []bool{tt.ok, tt.known}, []bool{ok, known}, tt.name)
	}

	exact, err := compile(`event.region != ""`)
	require.NoError(t, err)
	for longer, want := range []bool{true, false} {
		e := eventWith("")
		e.Extensions = map[string]string{"region": repeat("x", (quickCost-2+longer)*stringUnit)}
		ok, cost, err := exact.within(e, nil, costLimit)
		require.NoError(t, err)
		require.Equal(t, quickCost+longer, cost)
		require.True(t, ok)
		_, known, err := exact.quick(e, new(Parsed))
		require.NoError(t, err)
		require.Equal(t, want, known, "it costs %d", cost)
	}

	bound, err := compileWithin(`event.region != ""`, quickCost)
	require.NoError(t, err)
	e := eventWith("")
	e.Extensions = map[string]string{"region": repeat("x", 2*quickCost*stringUnit)}
	ok, known, err := bound.quick(e, new(Parsed))
	require.True(t, known && Exhausted(err) && !ok, "it may not cost more")
}

// The members of an event's data are read once by all filters with labels.
func TestParsed_MembersAreReadOnce(t *testing.T) { //nolint:paralleltest // it counts allocations
	e := eventWith(`{"a":1` + memberList(500) + `}`)
	m, err := Compile(sluice.Filter{Labels: map[string][]string{"m7": {"7"}}})
	require.NoError(t, err)
	alone := testing.AllocsPerRun(20, func() { _, _ = m.Match(e) })
	require.Greater(t, alone, 500.0)
	var p Parsed
	shared := testing.AllocsPerRun(200, func() { _, _ = m.MatchParsed(e, &p) })
	require.Less(t, shared, alone/10)
}

func memberList(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":%d`, i, i)
	}
	return b.String()
}
