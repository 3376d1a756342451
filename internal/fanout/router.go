package fanout

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	readersAtOnce  = 8                     // members that read by themselves at the same time
	requestsAtOnce = 16                    // for positions
	saveEvery      = time.Second           // positions and cursors are stored so often
	saveSoon       = 20 * time.Millisecond // those that hold a cursor up
	slowAfter      = 5 * time.Second       // a member with an older delivery in progress is detached
	closeLimit     = 5 * time.Second       // for storing the last cursors
	many           = 50                    // subscriptions about which one reading asks
)

// Deps are what a router needs.
type Deps struct {
	Log     Log
	Records Records

	// Shares decides whether a subscription gets its events from the shared reader, given what is
	// stored about it.
	Shares func(sub *sluice.Subscription, stored Stored) bool
	// Filters returns the subjects that the pattern of a subscription matches, the one of the path
	// itself second if there are two.
	Filters func(sub *sluice.Subscription) []string

	Slog *slog.Logger // nil: none
}

// Router serves the subscriptions of this replica from one reader for each namespace. It is safe for
// concurrent use.
type Router struct {
	deps Deps
	log  *slog.Logger

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // of all reading; nil before Run
	pending []change
	news    chan struct{}
	soon    chan struct{}
	members map[string]*member
	seats   int // that were taken: no two have the same number
	logs    map[string]*shared
	running sync.WaitGroup // readers of logs
	readers sync.WaitGroup // members that read by themselves
	reading chan struct{}
	changed bool // of Run: members were placed since the last recheck
}

// change is a change of the members, in the order of their calls.
type change struct {
	kind   changeKind
	member *member
}

type changeKind int

const (
	joined changeKind = iota
	left
	dropped
	forgotten
	waking
	replaced // joined in the place of a member that was placed
	committed
)

// New returns a router that serves from Run on.
func New(deps Deps) *Router {
	log := deps.Slog
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Router{
		deps: deps, log: log, members: map[string]*member{}, logs: map[string]*shared{},
		news: make(chan struct{}, 1), soon: make(chan struct{}, 1), reading: make(chan struct{}, readersAtOnce),
	}
}

// Commit says that the subscriptions of all shards of this replica have joined.
func (r *Router) Commit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(change{kind: committed})
}

// Restore lets all positions and cursors be stored again: the store has lost them.
func (r *Router) Restore() {
	for _, l := range r.all() {
		l.mu.Lock()
		for m := range l.members {
			m.stored = Position{}
		}
		for _, c := range l.cursors {
			c.Cursor = Cursor{}
		}
		l.mu.Unlock()
	}
	r.hurry()
}

// tell hands a change to Run. The caller holds the lock.
func (r *Router) tell(c change) {
	r.pending = append(r.pending, c)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// hurry lets positions be stored soon.
func (r *Router) hurry() {
	select {
	case r.soon <- struct{}{}:
	default:
	}
}

// Run serves until ctx ends, and then stores how far it came. The runners have ended by then.
func (r *Router) Run(ctx context.Context) {
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.running.Wait()
			r.readers.Wait()
			last, end := context.WithTimeout(shutdown.Lasting(ctx), closeLimit)
			defer end()
			r.store(last, (*shared).ends)
			r.saveCursors(last)
			return
		case <-r.news:
			r.apply(ctx)
		case <-r.soon:
			r.save(ctx)
			r.catchUp(ctx)
			pauseFor(ctx, saveSoon)
		case <-tick.C:
			r.save(ctx)
			r.catchUp(ctx)
			if r.changed {
				r.changed = false
				r.recheck()
				r.prune()
			}
		}
	}
}

// catchUp makes the changes that came during a save. A store that does not answer holds one up for as long as one save, however
// many are due.
func (r *Router) catchUp(ctx context.Context) {
	select {
	case <-r.news:
		r.apply(ctx)
	default:
	}
}

// prune forgets the logs that have no members any more.
func (r *Router) prune() {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := map[*shared]bool{}
	for _, m := range r.members {
		used[m.log] = true
	}
	for name, l := range r.logs {
		if !used[l] && l.idle() {
			delete(r.logs, name)
		}
	}
}

// idle reports whether a log has neither members nor a reader.
func (l *shared) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.members) == 0 && !l.reads
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// apply makes the changes that are pending, in their order. Members are placed last, all at once: each alone has several requests.
func (r *Router) apply(ctx context.Context) {
	r.mu.Lock()
	changes := r.pending
	r.pending = nil
	r.mu.Unlock()
	stored := r.asking(ctx, changes)
	var joining, placing []*member
	for _, c := range changes {
		switch c.kind {
		case joined:
			joining = append(joining, c.member)
		case left:
			r.leave(ctx, c.member, stored)
		case dropped, forgotten:
			c.member.log.remove(c.member)
		case waking:
			c.member.rouse()
		case replaced:
			placing = append(placing, c.member)
		case committed:
			placing, joining = append(placing, joining...), nil
			r.changed = true // settings may be others, too
		}
	}
	if placing = slices.DeleteFunc(placing, (*member).hasLeft); len(placing) > 0 {
		r.place(ctx, placing, stored)
		r.changed = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range joining { // the commit is to come
		r.pending = slices.Insert(r.pending, i, change{joined, m})
	}
}

// asking returns how to ask what is stored about subscriptions: if they are many of all, by one reading of
// everything when the first one is asked about.
func (r *Router) asking(ctx context.Context, changes []change) func(*sluice.Subscription) (Stored, error) {
	one := func(sub *sluice.Subscription) (Stored, error) { return r.deps.Records.Stored(ctx, sub) }
	r.mu.Lock()
	all := len(r.members)
	r.mu.Unlock()
	if len(changes) < many || 4*len(changes) < all {
		return one
	}
	var (
		reading sync.Mutex
		of      func(*sluice.Subscription) Stored
	)
	return func(sub *sluice.Subscription) (s Stored, err error) {
		reading.Lock()
		if of == nil {
			of, err = r.deps.Records.All(ctx) // asking about each would only make it worse
		}
		reading.Unlock()
		if err == nil {
			s = of(sub)
		}
		return s, err
	}
}

// until repeats an action that fails, with a pause, until ctx ends.
func (r *Router) until(ctx context.Context, what string, f func() error) error {
	pause := supervise.Pause{First: again, Most: againMost}
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		r.log.LogAttrs(ctx, slog.LevelWarn, "shared deliveries", slog.String("failed", what), slog.Any("error", err))
		pause.Wait(ctx)
	}
}

// remove forgets a member.
func (l *shared) remove(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.gone = true
	for _, e := range slices.Clone(m.queue) {
		if !e.acked {
			m.settle(e)
			l.release(e)
		}
	}
	if m.source != nil {
		m.source.end()
	}
	close(m.moved)
	delete(l.holds, m)
	delete(l.members, m)
	for _, f := range m.filters {
		_ = l.match.Remove(f, m) // an error if it is not there
	}
	if l.match.Count() == 0 && l.stop != nil {
		l.stop(errMoved)
	}
}
