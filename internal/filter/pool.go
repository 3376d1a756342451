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
	// quickCost is the limit of Pool.Match for an expression before it leaves it to Ask: about as
	// much time as handing the event to its subscription takes.
	quickCost = 100

	// dataUnit is the number of JSON bytes that cost as much to read as a step of an expression.
	dataUnit = 20

	// exhaustedCost is a payer's charge for each answer that a cost limit is exceeded, also if that
	// is known already: the following dead letter or suspension, with records, system events and
	// log lines, takes about as much time as this many steps. It spreads the work that 400 equal
	// filters cause with one event.
	exhaustedCost = 20_000

	// quickData is the maximum size of data that Pool.Match reads for an expression.
	quickData = quickCost * dataUnit
)

// Payer is the account that evaluations are charged to.
type Payer struct {
	Principal string // "": the operator, limited only by the namespace's rate
	Namespace string
}

// Rates limit the cost of evaluations per second, in the unit of LiveLimit; 0: no limit. About four
// million are a second of one processor.
type Rates struct{ Principal, Namespace int }

// Pool evaluates expensive expressions for many subscriptions: a few at a time, round-robin by
// payer, each payer within the rates. It is safe for concurrent use.
type Pool struct {
	seen *seen

	mu       sync.Mutex
	idle     int // evaluators that may be started
	accounts *accounts
	lines    map[Payer]*line
	turns    []*line // those with waiting asks, in turn
	timer    *time.Timer
}

// line is the waiting asks of one payer, in order.
type line struct {
	payer Payer
	asks  []*ask
}

// ask is one requested evaluation.
type ask struct {
	ctx   context.Context //nolint:containedctx // done if the answer is not needed any more
	match *Matcher
	event *sluice.Event
	done  func(ok bool, err error)
}

// NewPool returns a pool that evaluates on half of the processors, at least one.
func NewPool(rates Rates) *Pool {
	return &Pool{
		seen: newSeen(), idle: max(1, runtime.GOMAXPROCS(0)/2),
		accounts: newAccounts(rates), lines: map[Payer]*line{},
	}
}

// Match is Matcher.Match for a filter that is cheap to evaluate on the event, or was recently
// evaluated on it within its limit. Otherwise known is false; use Ask then. Its cost is not
// charged.
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
		if Exhausted(v.err) { // its consequences are charged
			return false, false, nil
		}
		return v.ok, true, v.err
	}
	return m.cel.quick(e, &s.parsed)
}

// Quick is Match without results of other filters, for a caller that has read the event's data. Use
// Pool.Wait if known is false.
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

// Try evaluates a filter for a caller that must not wait, and has read the event's data: in its turn,
// at the payer's cost unless it is cheap. If the payer's earlier costs are not paid yet, nothing
// expensive is evaluated, and wait is the time until they are.
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

// Ask evaluates a filter on an event when the payer's turn comes and its earlier costs are paid. It
// returns at once; done is called once, from another goroutine, unless ctx ends before. The event
// must not change until then.
func (p *Pool) Ask(ctx context.Context, payer Payer, m *Matcher, e *sluice.Event, done func(ok bool, err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[payer]
	if l == nil {
		l = &line{payer: payer}
		p.lines[payer] = l
		p.turns = append(p.turns, l)
	}
	l.asks = append(l.asks, &ask{ctx, m, e, done})
	p.employ()
}

// Wait is Ask for a caller that waits for the answer until ctx is done; known says whether it came.
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

// employ starts evaluators while evaluations may start now, and else sets the timer to the next
// one. The caller holds mu.
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

// work evaluates until no evaluation may start.
func (p *Pool) work(payer Payer, a *ask) {
	for a != nil {
		v, cost := p.seen.judge(a.match, a.event)
		p.mu.Lock()
		p.accounts.charge(payer, cost, time.Now()) // before the answer can cause another ask
		p.mu.Unlock()
		a.done(v.OK, v.Err)
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

// next takes the next evaluation that its payer can afford now, round-robin by payer. If there is
// none, wait is the time until the next. The caller holds mu.
func (p *Pool) next(now time.Time) (payer Payer, a *ask, wait time.Duration) {
	for range len(p.turns) {
		l := p.turns[0]
		p.turns = append(p.turns[1:], l)
		a, owes := p.first(l, now)
		if len(l.asks) == 0 {
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

// first takes the line's first evaluation with a waiting caller, or returns how long its payer has
// to wait for it. A known result costs nothing and waits for nothing, unless it is that a cost
// limit is exceeded.
func (p *Pool) first(l *line, now time.Time) (a *ask, owes time.Duration) {
	for len(l.asks) > 0 && l.asks[0].ctx.Err() != nil {
		l.drop()
	}
	if len(l.asks) == 0 {
		return nil, 0
	}
	if owes = p.accounts.owes(l.payer, now); owes > 0 && !p.seen.knows(l.asks[0]) {
		return nil, owes
	}
	a = l.asks[0]
	l.drop()
	return a, 0
}

func (l *line) drop() {
	l.asks[0] = nil
	l.asks = l.asks[1:]
}
