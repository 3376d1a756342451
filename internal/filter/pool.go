package filter

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	// quickCost is the cost up to which Pool.Match evaluates an expression itself; it leaves more
	// expensive ones to Ask. It is about the time that handing the event to its subscription takes.
	quickCost = 100

	// dataUnit is the number of JSON bytes that cost as much to read as a step of an expression.
	dataUnit = 20

	// exhaustedCost is what a payer is charged for each answer that an expression exceeded its cost
	// limit, even if the answer was cached. The dead letter or suspension that follows, with its
	// records, system events and log lines, takes about as much time as this many steps. The charge
	// spreads the work that, say, 400 equal filters cause with one event.
	exhaustedCost = 20_000

	// quickData is the maximum size of data that Pool.Match reads for an expression.
	quickData = quickCost * dataUnit
)

// Payer identifies the account that evaluations are charged to.
type Payer struct {
	Principal string // "": the operator, limited only by the namespace's rate
	Namespace string
}

// Rates limit the cost of evaluations per second, in the unit of LiveLimit; 0: no limit. A cost of
// four million is about one second of one processor. Both are checked for each evaluation, and both
// accounts are charged.
type Rates struct{ Principal, Namespace int }

// Pool compiles expressions and evaluates expensive ones for many subscriptions. It runs a few at a
// time, round-robin by payer, and keeps each payer within the rates. It is safe for concurrent use.
// It has no Close: evaluators end when no ask may start, and a timer starts the next. The number of
// waiting asks has no limit.
//
// A payer's line goes through these states. An ask whose ctx is done is dropped when its turn
// comes:
//
//	no line ── enter ──► waiting for its turn ── first ──► evaluated ──► no line, or waiting again
//	                          │        ▲
//	                          ▼        │ timer: the credit is above zero
//	                       in debt, passed over
type Pool struct {
	seen     *seen
	compiled *compiled

	mu       sync.Mutex
	idle     int // how many more evaluators may be started
	accounts *accounts
	lines    map[Payer]*line
	turns    []*line // the lines with waiting asks, in the order of their turns
	timer    *time.Timer
}

// line holds the waiting asks of one payer. Compilations come first; each kind is in order. It
// exists while it has asks.
type line struct {
	payer        Payer
	compilations []*ask
	evaluations  []*ask
}

// ask is one requested evaluation, or compilation.
type ask struct {
	ctx      context.Context //nolint:containedctx // done if the answer is not needed any more
	compiles bool
	known    func() bool                    // reports whether the result is cached, so that do costs nothing
	do       func() (cost int, tell func()) // tell hands the result to the caller
}

// NewPool returns a pool that uses half of the processors, at least one. A rate of 0 means that
// there is no account.
func NewPool(rates Rates) *Pool {
	return &Pool{
		seen: newSeen(), compiled: newCompiled(), idle: max(1, runtime.GOMAXPROCS(0)/2),
		accounts: newAccounts(rates), lines: map[Payer]*line{},
	}
}

// Match is Matcher.Match for a filter that is cheap to evaluate on the event, or was recently
// evaluated on it within its limit. Otherwise known is false; use Ask then. Its cost is not
// charged. It waits for nothing but short locks and the decoding of the event's data by another
// caller.
func (p *Pool) Match(m *Matcher, e *sluice.Event) (ok, known bool, err error) {
	if m.cel == nil && len(m.filter.Labels) == 0 {
		return m.rest(e, nil), true, nil
	}
	s := p.seen.of(e)
	if !m.rest(e, &s.parsed) {
		return false, true, nil
	}
	if m.cel == nil {
		return true, true, nil
	}
	if v := s.lookUp(m.cel); v != nil {
		if Exhausted(v.err) { // Ask charges its consequences
			return false, false, nil
		}
		return v.ok, true, v.err
	}
	return m.cel.quick(e, &s.parsed)
}

// Quick is Pool.Match without the cached results of other filters, for a caller that has already
// decoded the event's data into p. If known is false, use Pool.Wait.
func (m *Matcher) Quick(e *sluice.Event, p *Parsed) (ok, known bool, err error) {
	if ok = m.rest(e, p); !ok || m.cel == nil {
		return ok, true, nil
	}
	return m.cel.quick(e, p)
}

// quick evaluates the expression if that is cheap.
func (x *expression) quick(e *sluice.Event, p *Parsed) (ok, known bool, err error) {
	if x.data && len(e.Data) > quickData && !p.decoded() {
		return false, false, nil
	}
	ok, cost, err := x.within(e, p, min(quickCost, x.most))
	if cost > quickCost && quickCost < x.most {
		return false, false, nil
	}
	return ok, true, err
}

// Try evaluates a filter for a caller that must not wait and has already decoded the event's data
// into read. It evaluates in the caller's goroutine, and charges the payer unless the filter is
// cheap. If the payer's earlier costs are not paid yet, it evaluates nothing expensive, and wait is
// the time until they are paid. The evaluation can take as long as the filter's limit allows, and
// its result is not cached for others.
func (p *Pool) Try(payer Payer, m *Matcher, e *sluice.Event, read *Parsed) (ok bool, wait time.Duration, err error) {
	ok, known, err := m.Quick(e, read)
	if known {
		return ok, 0, err
	}
	p.mu.Lock()
	wait = p.accounts.owes(payer, time.Now())
	p.mu.Unlock()
	if wait > 0 {
		return false, wait, nil
	}
	cost := m.cel.reading(e, read)
	ok, spent, err := m.cel.within(e, read, m.cel.most)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts.charge(payer, cost+spent, time.Now())
	return ok, 0, err
}

// Ask evaluates a filter on an event when it is the payer's turn and the payer's earlier costs are
// paid. It returns at once. It calls done once, from another goroutine, unless ctx ends before. The
// caller must not change the event until then. done runs in the goroutine of an evaluator and must
// be quick. It can be called after ctx has ended, if the evaluation had begun.
func (p *Pool) Ask(ctx context.Context, payer Payer, m *Matcher, e *sluice.Event, done func(ok bool, err error)) {
	p.enter(payer, &ask{
		ctx:   ctx,
		known: func() bool { return p.seen.knows(m, e) },
		do: func() (int, func()) {
			v, cost := p.seen.judge(m, e)
			return cost, func() { done(v.OK, v.Err) }
		},
	})
}

// enter puts an ask in the payer's line. The caller does not hold mu.
func (p *Pool) enter(payer Payer, a *ask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[payer]
	if l == nil {
		l = &line{payer: payer}
		p.lines[payer] = l
		p.turns = append(p.turns, l)
	}
	if a.compiles {
		l.compilations = append(l.compilations, a)
	} else {
		l.evaluations = append(l.evaluations, a)
	}
	p.employ()
}

// Wait is Match and, if that does not know the result, Ask for a caller that waits. known is false
// if ctx was done before the answer came. The evaluation that has begun is finished nevertheless,
// and charged.
func (p *Pool) Wait(ctx context.Context, payer Payer, m *Matcher, e *sluice.Event) (ok, known bool, err error) {
	if ok, known, err = p.Match(m, e); known {
		return ok, known, err
	}
	answer := make(chan Verdict, 1)
	p.Ask(ctx, payer, m, e, func(ok bool, err error) { answer <- Verdict{ok, err} })
	select {
	case v := <-answer:
		return v.OK, true, v.Err
	case <-ctx.Done():
		return false, false, nil
	}
}

// Verdict is a result of Matcher.Match.
type Verdict struct {
	OK  bool
	Err error
}

// employ starts evaluators as long as asks may start now, then sets the timer for the next one. The
// caller holds mu.
func (p *Pool) employ() {
	for p.idle > 0 {
		payer, a, wait := p.next(time.Now())
		if a == nil {
			p.lookAfter(wait)
			return
		}
		p.idle--
		go p.work(payer, a)
	}
}

func (p *Pool) lookAfter(wait time.Duration) {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if len(p.turns) > 0 {
		p.timer = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.employ()
		})
	}
}

// work executes asks until none may start now. It releases its place when it ends. The caller has
// taken the place.
func (p *Pool) work(payer Payer, a *ask) {
	for a != nil {
		cost, tell := a.do()
		p.mu.Lock()
		p.accounts.charge(payer, cost, time.Now()) // before the answer can cause another ask
		p.mu.Unlock()
		tell()
		p.mu.Lock()
		now := time.Now()
		var wait time.Duration
		if payer, a, wait = p.next(now); a == nil {
			p.idle++
			p.lookAfter(wait)
		}
		p.mu.Unlock()
	}
}

// next takes the next ask that its payer can afford now, round-robin by payer. If there is none,
// wait is the time until the next. The caller holds mu.
func (p *Pool) next(now time.Time) (payer Payer, a *ask, wait time.Duration) {
	for range len(p.turns) {
		l := p.turns[0]
		p.turns = append(p.turns[1:], l)
		a, owes := p.first(l, now)
		if l.first() == nil {
			p.turns = p.turns[:len(p.turns)-1]
			delete(p.lines, l.payer)
		}
		if a != nil {
			return l.payer, a, 0
		}
		if owes > 0 {
			wait = min(cmp.Or(wait, owes), owes)
		}
	}
	return Payer{}, nil, wait
}

// first takes the line's first ask whose caller still waits, or returns how long its payer has to
// wait for it. A cached result is free and does not wait, unless it says that a cost limit was
// exceeded.
func (p *Pool) first(l *line, now time.Time) (a *ask, owes time.Duration) {
	for a = l.first(); a != nil && a.ctx.Err() != nil; a = l.first() {
		l.drop()
	}
	if a == nil {
		return nil, 0
	}
	if owes = p.accounts.owes(l.payer, now); owes > 0 && !a.known() {
		return nil, owes
	}
	l.drop()
	return a, 0
}

// first returns the line's next ask, or nil.
func (l *line) first() *ask {
	if queue := l.queue(); len(*queue) > 0 {
		return (*queue)[0]
	}
	return nil
}

// drop removes the line's next ask.
func (l *line) drop() {
	queue := l.queue()
	(*queue)[0] = nil
	*queue = (*queue)[1:]
}

func (l *line) queue() *[]*ask {
	if len(l.compilations) > 0 {
		return &l.compilations
	}
	return &l.evaluations
}
