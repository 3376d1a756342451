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
	requestsAtOnce = 16                    // concurrent requests for positions
	saveEvery      = time.Second           // interval of storing positions and cursors
	saveSoon       = 20 * time.Millisecond // the same for positions that hold a cursor back
	slowAfter      = 5 * time.Second       // a member with an older delivery in progress is detached
	closeLimit     = 5 * time.Second       // timeout for storing positions and cursors at the end
	many           = 50                    // number of changes from which one read of all records is cheaper than a request each
)

// Deps are the dependencies of a router. All are required except Slog.
type Deps struct {
	Log     Log
	Records Records

	// Owns reports whether this replica owns a shard at this moment. The router stores positions and
	// cursors of no other: another replica may have stored later ones.
	Owns func(shard int) bool
	// Shares decides whether a subscription gets its events from the shared reader, given its
	// stored state.
	Shares func(sub *sluice.Subscription, stored Stored) bool
	// Filters returns the filter subjects of a subscription's pattern. If there are two, the second
	// is that of the path before "/**".
	Filters func(sub *sluice.Subscription) []string

	Slog *slog.Logger // nil: no log
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
	seats   int // number of the last seat; each seat has another number
	logs    map[string]*shared
	running sync.WaitGroup // readers of logs
	readers sync.WaitGroup // members that read by themselves
	reading chan struct{}
	changed bool // only for Run: members or settings changed since the last recheck
}

// change is a change of the members. Run makes them in the order of the calls.
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
	replaced // joined in place of a member that was placed
	committed
)

// New returns a router that serves subscriptions while Run runs.
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

// Commit tells the router that all subscriptions of the shards that this replica has taken over
// have joined. It serves a new subscription only after that.
func (r *Router) Commit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(change{kind: committed})
}

// Restore makes the router store all positions and cursors again, because the store has lost them.
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

// hurry makes Run store positions soon.
func (r *Router) hurry() {
	select {
	case r.soon <- struct{}{}:
	default:
	}
}

// Run serves subscriptions until ctx ends, and then stores their positions. The runners must have
// ended by then.
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

// catchUp makes the changes that came during a save. So if the store does not answer, a change
// waits for one save at most, however many saves are due.
func (r *Router) catchUp(ctx context.Context) {
	select {
	case <-r.news:
		r.apply(ctx)
	default:
	}
}

// prune removes the logs that have no members any more.
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

// apply makes the pending changes, in their order. It places new members last and all together,
// because placing each alone takes several requests.
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
			r.changed = true // settings may have changed, too
		}
	}
	if placing = slices.DeleteFunc(placing, (*member).hasLeft); len(placing) > 0 {
		r.place(ctx, placing, stored)
		r.changed = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range joining { // their commit has not come yet
		r.pending = slices.Insert(r.pending, i, change{joined, m})
	}
}

// asking returns a function that returns the stored state of a subscription. If the changes concern
// many of all subscriptions, that reads all records at its first call; otherwise it makes one
// request per call.
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
			of, err = r.deps.Records.All(ctx) // on an error, one request for each would only make it worse
		}
		reading.Unlock()
		if err == nil {
			s = of(sub)
		}
		return s, err
	}
}

// until repeats an action with backoff until it succeeds or ctx ends.
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

// remove removes a member and ends its source.
func (l *shared) remove(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.gone = true
	for _, e := range slices.Clone(m.queue.entries) {
		if !e.acked {
			m.queue.settle(e)
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
		_ = l.match.Remove(f, m) // it fails only if the filter is not in the set
	}
	if l.match.Count() == 0 && l.stop != nil {
		l.stop(errMoved)
	}
}
