package filter_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// dear is an expression that costs some thousands on an event of listOf, and does not let it through; more makes another
// one of it.
const dear = `event.data.l.map(x, event.data.l.map(y, x + y)).size() > 100000`

func listOf(seq uint64, length int) *sluice.Event {
	numbers := strings.TrimSuffix(strings.Repeat("1,", length), ",")
	return &sluice.Event{Namespace: "default", Seq: seq, ID: strconv.FormatUint(seq, 10), ContentType: "application/json", Data: []byte(`{"l":[` + numbers + `]}`)}
}

func compiled(t *testing.T, cel string) *filter.Matcher {
	t.Helper()
	m, err := filter.Compile(sluice.Filter{CEL: cel})
	require.NoError(t, err)
	return m
}

// answers collects who was answered, in order.
type answers struct {
	mu  sync.Mutex
	who []string
	got sync.WaitGroup
}

func (a *answers) of(who string) func(bool, error) {
	a.got.Add(1)
	return func(bool, error) {
		a.mu.Lock()
		a.who = append(a.who, who)
		a.mu.Unlock()
		a.got.Done()
	}
}

// Issue 13, attack 3: what is cheap is told at once; what is dear is not evaluated by the caller.
func TestPool_LeavesDearExpressionsToAsk(t *testing.T) {
	t.Parallel()
	p := filter.NewPool(filter.Rates{})
	ok, known, err := p.Match(compiled(t, `event.data.l.size() == 3`), listOf(1, 3))
	require.NoError(t, err)
	require.True(t, known && ok)
	m := compiled(t, dear)
	_, known, err = p.Match(m, listOf(2, 50))
	require.NoError(t, err)
	require.False(t, known)
	ok, known, err = p.Wait(t.Context(), filter.Payer{}, m, listOf(2, 50))
	require.NoError(t, err)
	require.True(t, known && !ok)
	_, known, _ = p.Match(m, listOf(2, 50))
	require.True(t, known, "it was evaluated")
	_, known, _ = p.Match(compiled(t, `event.data.l.size() == 0`), listOf(3, 5000))
	require.False(t, known, "the data takes long to read")
}

// Issue 13, attack 3: equal expressions are evaluated once for an event.
func TestPool_EvaluatesEqualExpressionsOnce(t *testing.T) {
	t.Parallel()
	p := filter.NewPool(filter.Rates{})
	var a answers
	all := make([]*filter.Matcher, 20)
	for i := range all {
		all[i] = compiled(t, dear)
		p.Ask(t.Context(), filter.Payer{Principal: strconv.Itoa(i % 3)}, all[i], listOf(1, 50), a.of("x"))
	}
	a.got.Wait()
	evaluated := 0
	for _, m := range all {
		if m.Spent() > 0 {
			evaluated++
		}
	}
	require.Equal(t, 1, evaluated)
}

// Issue 13, attack 3: a payer that is over its rate waits, and holds up no other.
func TestPool_OverdrawnPayerHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	p := filter.NewPool(filter.Rates{Principal: 1})
	ctx, cancel := context.WithCancel(t.Context())
	greedy := filter.Payer{Principal: "greedy", Namespace: "default"}
	_, known, _ := p.Wait(ctx, greedy, compiled(t, dear), listOf(1, 50))
	require.True(t, known, "the first one is within the rate")
	for seq := range uint64(20) {
		p.Ask(ctx, greedy, compiled(t, dear), listOf(2+seq, 50), func(bool, error) {
			if ctx.Err() == nil {
				t.Error("evaluated beyond the rate")
			}
		})
	}
	_, known, _ = p.Wait(t.Context(), filter.Payer{Principal: "other", Namespace: "default"}, compiled(t, dear), listOf(30, 50))
	require.True(t, known)
	cancel()
}

// Issue 13, attack 3: a namespace has a rate as well, which binds the operator's subscriptions too.
func TestPool_NamespaceHasARate(t *testing.T) {
	t.Parallel()
	p := filter.NewPool(filter.Rates{Namespace: 1})
	_, known, _ := p.Wait(t.Context(), filter.Payer{Namespace: "default"}, compiled(t, dear), listOf(1, 50))
	require.True(t, known)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, known, _ = p.Wait(ctx, filter.Payer{Namespace: "default"}, compiled(t, dear), listOf(2, 50))
	require.False(t, known)
	_, known, _ = p.Wait(t.Context(), filter.Payer{Namespace: "other"}, compiled(t, dear), listOf(3, 50))
	require.True(t, known)
}

// Issue 13, attack 3: an expression that costs more than it may is told apart from other errors.
func TestPool_TellsExhaustedExpressions(t *testing.T) {
	t.Parallel()
	p := filter.NewPool(filter.Rates{})
	_, known, err := p.Wait(t.Context(), filter.Payer{}, compiled(t, dear), listOf(1, 1000))
	require.True(t, known)
	require.True(t, filter.Exhausted(err))
	_, known, err = p.Wait(t.Context(), filter.Payer{}, compiled(t, `1 / event.data.l.size() > 0`), listOf(2, 0))
	require.True(t, known)
	require.Error(t, err)
	require.False(t, filter.Exhausted(err))
}

// Issue 13, attack 3: an evaluation that waits for its payer is told what an equal one for another asker has yielded.
func TestPool_KnownAnswersWaitForNoPayment(t *testing.T) {
	t.Parallel()
	p := filter.NewPool(filter.Rates{Principal: 1})
	payer := filter.Payer{Principal: "ann", Namespace: "default"}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	first, second := make(chan struct{}), make(chan struct{})
	p.Ask(ctx, payer, compiled(t, dear), listOf(1, 50), func(bool, error) { close(first) })
	p.Ask(ctx, payer, compiled(t, dear), listOf(1, 50), func(bool, error) { close(second) })
	for _, answered := range []chan struct{}{first, second} {
		select {
		case <-answered:
		case <-ctx.Done():
			require.Fail(t, "it waits until the payer has paid for the first")
		}
	}
}

// Issue 13, attack 3: an exhausted allowance has a dead letter or a suspension as its consequence, so each subscription
// that learns of it is paid for, though the expression is evaluated once.
func TestPool_ChargesForEachExhaustion(t *testing.T) {
	t.Parallel()
	p := filter.NewPool(filter.Rates{Principal: 1})
	greedy, other := filter.Payer{Principal: "greedy", Namespace: "default"}, filter.Payer{Principal: "other", Namespace: "default"}
	_, known, err := p.Wait(t.Context(), greedy, compiled(t, dear), listOf(1, 400))
	require.True(t, known && filter.Exhausted(err))
	_, known, _ = p.Match(compiled(t, dear), listOf(1, 400))
	require.False(t, known, "an equal one has to be paid for")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, known, _ = p.Wait(ctx, greedy, compiled(t, dear), listOf(1, 400))
	require.False(t, known, "the payer owes for the first")
	for want, event := range []*sluice.Event{listOf(1, 400), listOf(2, 50)} {
		ctx, cancel := context.WithTimeout(t.Context(), []time.Duration{time.Minute, 50 * time.Millisecond}[want])
		defer cancel()
		_, known, _ = p.Wait(ctx, other, compiled(t, dear), event)
		require.Equal(t, want == 0, known, "the other payer pays for its own consequence")
	}
}

// Issue 13, attack 3: who cannot wait pays as others do, and is told how long its payer's costs keep it from an evaluation.
func TestPool_TryIsPaidFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, e := compiled(t, dear), listOf(1, 50)
		_, err := m.Match(e)
		require.NoError(t, err)
		cost := int(m.Spent())
		p := filter.NewPool(filter.Rates{Principal: cost})
		eve, read := filter.Payer{Principal: "eve"}, &filter.Parsed{}
		ok, wait, err := p.Try(eve, m, e, read)
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, wait)
		_, wait, err = p.Try(eve, m, e, read)
		require.NoError(t, err)
		require.InDelta(t, 0.9, wait.Seconds(), 0.1, "a tenth of a second was saved")
		_, others, err := p.Try(filter.Payer{Principal: "ann"}, m, e, read)
		require.NoError(t, err)
		require.Zero(t, others)
		ok, free, err := p.Try(eve, compiled(t, `event.seq == 1`), e, read)
		require.NoError(t, err)
		require.True(t, ok)
		require.Zero(t, free)
		<-time.After(wait)
		_, wait, err = p.Try(eve, m, e, read)
		require.NoError(t, err)
		require.Zero(t, wait)
	})
}
