package filter

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Accounts that are full are forgotten once there are many; one that is overdrawn is not, and what costs nothing makes none.
func TestAccounts_ForgetTheFull(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newAccounts(Rates{Principal: 100})
	s.charge(Payer{"free", "n"}, 0, now)
	require.Empty(t, s.principals)
	s.charge(Payer{"overdrawn", "n"}, 100_000, now)
	for i := range fullAccounts - 1 {
		s.charge(Payer{strconv.Itoa(i), "n"}, 1, now.Add(time.Duration(i)*time.Second))
	}
	require.Len(t, s.principals, fullAccounts, "none is looked for before there are many")
	require.Empty(t, s.namespaces, "they have no rate")
	later := now.Add(fullAccounts * time.Second / 2 * 4)
	s.charge(Payer{"overdrawn", "n"}, 1_000_000, later)
	s.charge(Payer{"new", "n"}, 1, later)
	require.Len(t, s.principals, 2)
	require.Positive(t, s.owes(Payer{"overdrawn", "n"}, later))
}

// The pool looks again when the first of those that owe has paid, regardless of others that wait or have gone.
func TestPool_LooksWhenTheFirstHasPaid(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	spent := map[string]int{"a": 300, "b": 200, "c": 500}
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "gone"}, {"gone", "b"}} {
		p, now := NewPool(Rates{Principal: 100}), time.Now()
		p.idle = 0
		for _, who := range order {
			payer, ctx := Payer{Principal: who}, t.Context()
			if who == "gone" {
				ctx = gone
			}
			p.accounts.charge(payer, spent[who], now)
			p.Ask(ctx, payer, &Matcher{cel: &expression{}}, &sluice.Event{}, func(bool, error) {})
		}
		_, a, wait := p.next(now)
		require.Nil(t, a)
		require.Equal(t, p.accounts.owes(Payer{Principal: "b"}, now), wait, order)
	}
}

// dearOn returns a filter whose evaluation costs some thousands on an event with the sequence.
func dearOn(t *testing.T, seq uint64) (*Matcher, *sluice.Event) {
	t.Helper()
	m, err := Compile(sluice.Filter{CEL: "event.data.all(a, event.data.all(b, a == b))"})
	require.NoError(t, err)
	e := eventWith("[1" + repeat(",1", 50) + "]")
	e.Seq = seq
	return m, e
}

// Issue 13, attack 3: no more is evaluated at once than there are evaluators, and who has paid is served, without another asking.
func TestPool_ServesPaidRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Rates{Principal: 1000})
		p.idle = 1
		began, release := time.Now(), make(chan struct{})
		var at []time.Duration
		ask := func(seq uint64) {
			m, e := dearOn(t, seq)
			p.Ask(t.Context(), Payer{Principal: "a"}, m, e, func(ok bool, err error) {
				require.True(t, ok)
				require.NoError(t, err)
				at = append(at, time.Since(began))
				<-release
			})
		}
		for seq := range uint64(3) {
			ask(seq + 1)
		}
		synctest.Wait()
		require.Len(t, at, 1, "there is one evaluator")
		close(release)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Len(t, at, 3)
		require.Equal(t, 1, p.idle)
		require.Less(t, at[1], at[2])
		require.Positive(t, at[1])
		ask(4)
		synctest.Wait()
		ask(5) // which waits, and there is an evaluator
		synctest.Wait()
		require.Len(t, at, 4)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Len(t, at, 5)
	})
}

// What a filter says at once: all that needs no dear expression, and what was read or evaluated already.
func TestMatch_AnswersCheapFiltersAtOnce(t *testing.T) {
	t.Parallel()
	p, large := NewPool(Rates{}), eventWith(`"`+repeat("x", quickData-1)+`"`)
	large.Seq, large.Type = 1, "t"
	small := eventWith(`{"a":"x"}`)
	small.Seq, small.Type = 2, "t"
	exact := eventWith(`"` + repeat("x", quickData-2) + `"`)
	exact.Seq = 3
	for _, c := range []struct {
		name      string
		filter    sluice.Filter
		event     *sluice.Event
		ok, known bool
	}{
		{"a type", sluice.Filter{Types: []string{"t"}}, small, true, true},
		{"another type", sluice.Filter{Types: []string{"u"}}, small, false, true},
		{"a label", sluice.Filter{Labels: map[string][]string{"a": {"x"}}}, small, true, true},
		{"another label", sluice.Filter{Labels: map[string][]string{"a": {"y"}}}, small, false, true},
		{"another type, before the expression", sluice.Filter{Types: []string{"u"}, CEL: "event.data != null"}, large, false, true},
		{"an expression that does not read large data", sluice.Filter{CEL: `event.type == "t"`}, large, true, true},
		{"one that reads it", sluice.Filter{CEL: "event.data != null"}, large, false, false},
		{"one that reads as much as may be", sluice.Filter{CEL: "event.data != null"}, exact, true, true},
	} {
		m, err := Compile(c.filter)
		require.NoError(t, err, c.name)
		ok, known, err := p.Match(m, c.event)
		require.NoError(t, err, c.name)
		require.Equal(t, []bool{c.ok, c.known}, []bool{ok, known}, c.name)
		if c.filter.CEL == "" {
			require.Zero(t, m.Spent())
		}
	}
	other, err := Compile(sluice.Filter{CEL: "event.data == null"})
	require.NoError(t, err)
	ok, known := false, false
	for n := 0; !known && n < 100; n++ { // the garbage collector may forget what was read
		m, err := Compile(sluice.Filter{CEL: "event.data != null" + repeat(" ", n)}) // another one: what an equal one yields is known
		require.NoError(t, err)
		_, known, _ = p.Wait(t.Context(), Payer{}, m, large)
		require.True(t, known)
		ok, known, _ = p.Match(other, large)
	}
	require.True(t, known && !ok, "it was read for the first")
	live, huge := exhaustedOn(t, 5)
	_, known, err = p.Wait(t.Context(), Payer{}, live, huge)
	require.True(t, known && Exhausted(err))
	ok, known, err = p.Match(live, huge)
	require.NoError(t, err)
	require.False(t, ok || known, "what follows from it is paid for")
	dear, e := dearOn(t, 4)
	ok, known, _ = p.Match(dear, e)
	require.False(t, ok || known)
	require.Less(t, dear.Spent(), uint64(3*quickCost), "it is cut off")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	busy := NewPool(Rates{})
	busy.idle = 0
	ok, known, err = busy.Wait(gone, Payer{}, dear, e)
	require.NoError(t, err)
	require.False(t, ok || known)
}

// An event that is not stored is like no other; of those that are, many are remembered.
func TestSeen_TellsEventsApart(t *testing.T) {
	t.Parallel()
	s := newSeen()
	unstored, again := s.of(&sluice.Event{ID: "a"}), s.of(&sluice.Event{ID: "a"})
	require.NotSame(t, unstored.enter(&expression{}), again.enter(&expression{}))
	first, second := s.of(&sluice.Event{Seq: 1}), s.of(&sluice.Event{Seq: 2})
	require.Same(t, first, s.of(&sluice.Event{Seq: 1}))
	require.Same(t, second, s.of(&sluice.Event{Seq: 2}))
}

// What waits is known if an equal expression was evaluated within its allowance: then it is free. A filter without an expression is not.
func TestSeen_AnswersEvaluatedExpressionsFree(t *testing.T) {
	t.Parallel()
	s := newSeen()
	dear, e := dearOn(t, 1)
	require.False(t, s.knows(&Matcher{}, e))
	require.False(t, s.knows(dear, e))
	v, _ := s.judge(dear, e)
	require.True(t, v.OK)
	require.True(t, s.knows(dear, e))
	live, err := CompileLive(sluice.Filter{CEL: "event.data.all(a, event.data.all(b, event.data.all(c, a == c)))"}, nil)
	require.NoError(t, err)
	v, _ = s.judge(live, e)
	require.True(t, Exhausted(v.Err))
	require.False(t, s.knows(live, e), "an exhausted allowance is paid for again")
}

// Reading the data costs as much as it is large, once, and only the expressions that look at it.
func TestJudge_ChargesReading(t *testing.T) {
	t.Parallel()
	s := newSeen()
	e := eventWith(`"` + repeat("x", 100*dataUnit) + `"`)
	e.Seq = 1
	judge := func(f sluice.Filter) (Verdict, int) {
		m, err := Compile(f)
		require.NoError(t, err)
		return s.judge(m, e)
	}
	v, cost := judge(sluice.Filter{Types: []string{"other"}, CEL: "true"})
	require.Equal(t, Verdict{}, v)
	require.Zero(t, cost)
	_, cost = judge(sluice.Filter{CEL: `event.id != "x"`})
	require.Less(t, cost, 100)
	v, first := judge(sluice.Filter{CEL: "event.data != null"})
	require.True(t, v.OK)
	require.GreaterOrEqual(t, first, 100)
	_, second := judge(sluice.Filter{CEL: "null != event.data"})
	require.Less(t, second, first-90, "it is read already")
}

// Numbers keep their digits; data that is no single JSON value has none.
func TestDecode_KeepsDigits(t *testing.T) {
	t.Parallel()
	v, ok := decode(eventWith(`{"a":[1,18446744073709551615,1.5,1e999],"b":-9223372036854775808}`))
	require.True(t, ok)
	require.Equal(t, map[string]any{"a": []any{int64(1), uint64(1<<64 - 1), 1.5, "1e999"}, "b": int64(-1 << 63)}, v)
	for _, data := range []string{``, `{`, `1 2`, `{} x`} {
		v, ok = decode(eventWith(data))
		require.False(t, ok, data)
		require.Nil(t, v)
	}
	text := eventWith(`1`)
	text.ContentType = "text/plain"
	_, ok = decode(text)
	require.False(t, ok)
	for raw, want := range map[string]string{`"a"`: "a", `1.50`: "1.50", `true`: "true"} {
		got, ok := scalar([]byte(raw))
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, raw := range []string{``, `{}`, `[]`, `null`, `"`} {
		_, ok := scalar([]byte(raw))
		require.False(t, ok, raw)
	}
}

// An event's own labels go before those of its type.
func TestLabelsOf_OwnFirst(t *testing.T) {
	t.Parallel()
	static := func(*sluice.Event) map[string]string { return map[string]string{"a": "type's", "b": "type's"} }
	label := LabelsOf(eventWith(`{"a":"own","region":"data's"}`), static)
	for name, want := range map[string]string{"a": "own", "b": "type's", "c": "", "region": "eu"} {
		got, ok := label(name)
		require.Equal(t, want, got)
		require.Equal(t, want != "", ok)
	}
}
