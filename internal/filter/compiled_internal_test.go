package filter

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, attack 3: an expression is compiled once for all subscriptions that have it, and for their owner's account.
func TestCompile_OnceForEqualExpressions(t *testing.T) {
	t.Parallel()
	p, ann := NewPool(Rates{Principal: 1}), Payer{Principal: "ann"}
	f := sluice.Filter{CEL: "event.seq > 1", Types: []string{"a"}}
	first, err := p.Compile(t.Context(), ann, f, nil)
	require.NoError(t, err)
	require.Positive(t, p.accounts.owes(ann, time.Now()))
	again, err := p.Compile(t.Context(), ann, sluice.Filter{CEL: f.CEL}, nil)
	require.NoError(t, err)
	require.Same(t, first.cel, again.cel)
	require.NotEqual(t, first.filter, again.filter)
	now, err := p.CompileNow(f, nil)
	require.NoError(t, err)
	require.Same(t, first.cel, now.cel)
	_, err = p.Compile(t.Context(), Payer{}, sluice.Filter{CEL: "event."}, nil)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	_, err = p.CompileNow(sluice.Filter{CEL: "event."}, nil)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
}

// Issue 13, attack 3: a payer that is over its rate waits for a compilation, and holds up no other.
func TestCompile_OverdrawnPayerWaitsAlone(t *testing.T) {
	t.Parallel()
	p, eve := NewPool(Rates{Principal: 1}), Payer{Principal: "eve"}
	p.accounts.charge(eve, 100, time.Now())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := p.Compile(ctx, eve, sluice.Filter{CEL: "event.seq > 1"}, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = p.Compile(t.Context(), Payer{Principal: "ann"}, sluice.Filter{CEL: "event.seq > 2"}, nil)
	require.NoError(t, err)
}

// A payer's compilations go before its evaluations: subscriptions without an expensive filter wait for them.
func TestCompile_GoesBeforeEvaluations(t *testing.T) {
	t.Parallel()
	p := NewPool(Rates{})
	p.idle = 0 // nothing is done: what would be next is asked below
	m, e := dearOn(t, 1)
	p.Ask(t.Context(), Payer{}, m, e, func(bool, error) {})
	for range 2 {
		p.enter(Payer{}, &ask{ctx: t.Context(), compiles: true})
	}
	var order []bool
	for range 3 {
		_, a, _ := p.next(time.Now())
		require.NotNil(t, a)
		order = append(order, a.compiles)
	}
	require.Equal(t, []bool{true, true, false}, order)
	require.Empty(t, p.lines)
}

// The cache is bounded in expressions, and in bytes of their texts.
func TestCompiled_IsBounded(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]int{5: cachedExpressions, 4096: cachedText / 4096} {
		c := newCompiled()
		texts := make([]string, cachedExpressions+100)
		for i := range texts {
			n := strconv.Itoa(i)
			texts[i] = n + strings.Repeat(" ", length-len(n))
			c.put(&expression{text: texts[i]})
			c.put(&expression{text: texts[i]})
		}
		require.Equal(t, want, c.recent.Len())
		require.Equal(t, want*length, c.text)
		require.Nil(t, c.get(texts[0]))
		require.NotNil(t, c.get(texts[len(texts)-1]))
	}
}
