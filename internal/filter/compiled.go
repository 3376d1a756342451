package filter

import (
	"context"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	// compileCost is the cost of compiling a byte of an expression, about 10 µs.
	compileCost = 40

	// Bounds of the cache of compiled expressions. One takes about 6 KiB, and 30 bytes for each byte
	// of its text.
	cachedExpressions = 4096
	cachedText        = 256 << 10
)

// compiled caches the compiled expressions of subscriptions. Without it, the expression of an idle
// subscription would be compiled again for its next event. It is safe for concurrent use. Errors
// are not cached.
type compiled struct {
	mu     sync.Mutex
	recent *lru.LRU[string, *expression]
	text   int // bytes
}

func newCompiled() *compiled {
	c := &compiled{}
	recent, err := lru.NewLRU(cachedExpressions, func(text string, _ *expression) { c.text -= len(text) })
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	c.recent = recent
	return c
}

// get returns the compiled expression, or nil.
func (c *compiled) get(text string) *expression {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, _ := c.recent.Get(text)
	return x
}

// It removes the longest unused ones beyond either bound.
func (c *compiled) put(x *expression) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent.Contains(x.text) {
		return
	}
	c.recent.Add(x.text, x)
	c.text += len(x.text)
	for c.text > cachedText {
		c.recent.RemoveOldest()
	}
}

// Compile is CompileWith in the payer's turn and at its cost, unless the expression is in the
// cache. A payer's compilations go before its evaluations, because even events on which its filter
// is cheap wait for them. If ctx is done first, it returns the cause. Code InvalidRequest, like the
// function Compile. The matcher is not cached, only its expression, which all filters of the same
// text share.
func (p *Pool) Compile(ctx context.Context, payer Payer, f sluice.Filter, labels Labels) (*Matcher, error) {
	if p.Compiled(f) {
		return p.CompileNow(f, labels)
	}
	done := make(chan error, 1)
	var x *expression
	p.enter(payer, &ask{
		ctx: ctx, compiles: true,
		known: func() bool { return p.compiled.get(f.CEL) != nil },
		do: func() (int, func()) {
			var cost int
			var err error
			x, cost, err = p.compile(f.CEL)
			return cost, func() { done <- err }
		},
	})
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return &Matcher{filter: f, cel: x, static: labels}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Compiled reports whether Compile need not wait for its turn.
func (p *Pool) Compiled(f sluice.Filter) bool { return f.CEL == "" || p.compiled.get(f.CEL) != nil }

// CompileNow is Compile without waiting and without a charge, for a caller that must not wait.
func (p *Pool) CompileNow(f sluice.Filter, labels Labels) (*Matcher, error) {
	m := &Matcher{filter: f, static: labels}
	if f.CEL == "" {
		return m, nil
	}
	var err error
	if m.cel, _, err = p.compile(f.CEL); err != nil {
		return nil, err
	}
	return m, nil
}

// compile returns the compiled expression, and the cost of compiling it: 0 if it was in the cache.
func (p *Pool) compile(text string) (x *expression, cost int, err error) {
	if x = p.compiled.get(text); x != nil {
		return x, 0, nil
	}
	if x, err = compile(text); err == nil {
		p.compiled.put(x)
	}
	return x, compileCost * len(text), err
}
