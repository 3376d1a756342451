package fanout

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// saveLimit is the timeout of a write. It is no longer than other replicas wait after this one has
// stopped using a lease, so that a write ends before they take over the shard. A leader of a cluster
// that is paused never answers, and a retry reaches another one. A write that was made without an
// answer leads to a conflict at the retry.
const saveLimit = 2 * time.Second

// write is a position to store.
type write struct {
	member   *member
	sub      *sluice.Subscription
	kind     moving
	position Position
}

// save stores the positions and cursors that moved. Positions come first, because some hold back
// the cursor of their shard.
func (r *Router) save(ctx context.Context) {
	r.store(ctx, (*shared).moves)
	r.saveCursors(ctx)
}

// store stores the positions that of returns for each log, several at a time.
func (r *Router) store(ctx context.Context, of func(*shared) []write) {
	var writes []write
	for _, l := range r.all() {
		writes = append(writes, of(l)...)
	}
	slots := make(chan struct{}, requestsAtOnce)
	var writing sync.WaitGroup
	for _, w := range writes {
		slots <- struct{}{}
		writing.Go(func() {
			limit, cancel := context.WithTimeout(ctx, saveLimit)
			defer cancel()
			err := r.deps.Records.PutPosition(limit, w.sub, w.position)
			w.member.log.moved(w, err)
			if err != nil && ctx.Err() == nil {
				r.log.LogAttrs(ctx, slog.LevelWarn, "shared deliveries", slog.String("failed", "store the position of "+w.sub.ID), slog.Any("error", err))
			}
			<-slots
		})
	}
	writing.Wait()
}

func (r *Router) all() []*shared {
	r.mu.Lock()
	defer r.mu.Unlock()
	logs := make([]*shared, 0, len(r.logs))
	for _, l := range r.logs {
		logs = append(logs, l)
	}
	return logs
}

// moves returns the positions to store: those of members that are being detached or joined, and
// those of members with a position of their own that moved. It first detaches slow members.
func (l *shared) moves() (writes []write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for m := range l.busy {
		if m.attached && m.queue.slow(now, slowAfter) {
			l.detach(m)
		}
	}
	for m := range l.members {
		if m.own || m.attached && m.moving != detaching && m.stored.Shared || !l.router.deps.Owns(m.shard) {
			continue
		}
		if w := l.move(m); w.kind != staying || !m.stored.equals(w.position) {
			writes = append(writes, w)
		}
	}
	return writes
}

// move returns the position to store for a member. It makes a member join its shard's cursor if it
// is live and has no deliveries in progress.
func (l *shared) move(m *member) write {
	w := write{member: m, sub: m.sub, kind: m.moving, position: m.position(l.pos)}
	w.position.Attached = m.attached && m.moving != detaching // true if the store has lost the record of an attached member
	if !m.attached && m.moving == staying && m.live && m.queue.unacked == 0 {
		m.moving, w.kind = joining, joining
		w.position.Attached = true
		l.holds[m] = m.floor(l.pos)
	}
	return w
}

// equals reports whether two positions of members with a position of their own are equal.
func (p Position) equals(other Position) bool {
	return p.Open == other.Open && p.Next == other.Next && slices.Equal(p.Floors, other.Floors)
}

// ends returns the positions to store at the end: those of members with events in progress, which
// may leave the log before another process reads them, and those of members with a position of
// their own.
func (l *shared) ends() (writes []write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := range l.members {
		if !m.own && (len(m.queue.entries) > 0 || !m.attached) && l.router.deps.Owns(m.shard) {
			writes = append(writes, write{member: m, sub: m.sub, kind: detaching, position: m.position(l.pos)})
		}
	}
	return writes
}

// moved enters the result of storing a position.
func (l *shared) moved(w write, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := w.member
	switch {
	case m.gone:
		return
	case err != nil:
		m.stored = Position{} // it may have been stored nevertheless
	case w.kind == detaching:
		m.moving = staying
		l.unattach(m)
	case w.kind == joining:
		l.attach(m)
	}
	if m.moving == joining {
		m.moving = staying
	}
	if err == nil {
		m.stored = w.position
		if m.moving == staying {
			delete(l.holds, m)
		}
	}
}

// attach makes the cursor of its shard account for a member.
func (l *shared) attach(m *member) {
	if m.attached {
		return
	}
	m.attached = true
	for _, e := range m.queue.entries {
		if !e.acked {
			l.charge(e)
		}
	}
}

// unattach undoes attach: the member has a position of its own now.
func (l *shared) unattach(m *member) {
	if !m.attached {
		return
	}
	for _, e := range m.queue.entries {
		if !e.acked {
			l.refund(e)
		}
	}
	m.attached = false
}

// saveCursors stores the cursors that moved. After a timeout it gives up, because the other writes
// would time out, too, while members that join wait.
func (r *Router) saveCursors(ctx context.Context) {
	for _, l := range r.all() {
		for shard, c := range l.moving() {
			err := r.saveCursor(ctx, l, shard, c)
			if err == nil {
				continue
			}
			if ctx.Err() == nil {
				r.log.LogAttrs(ctx, slog.LevelWarn, "shared deliveries", slog.String("failed", "store a cursor"),
					slog.String("namespace", l.namespace), slog.Int("shard", shard), slog.Any("error", err))
			}
			if errors.Is(err, context.DeadlineExceeded) {
				return
			}
		}
	}
}

// step is a cursor to store.
type step struct {
	Cursor

	of     *cursor
	doubts int // of the cursor when Seq was read
}

func (r *Router) saveCursor(ctx context.Context, l *shared, shard int, s step) error {
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	next, err := r.deps.Records.PutCursor(ctx, l.namespace, shard, s.Cursor)
	if sluice.CodeOf(err) == sluice.Conflict {
		next, err = r.overtaken(ctx, l, shard, s)
	}
	if err == nil {
		l.saved(s, next)
	}
	return err
}

// overtaken handles a conflict: another process has stored the cursor, or this one has without
// getting the answer. A later place in the log counts, unless the log may have lost it meanwhile.
func (r *Router) overtaken(ctx context.Context, l *shared, shard int, s step) (Cursor, error) {
	now, err := r.deps.Records.Cursor(ctx, l.namespace, shard)
	if err != nil || s.doubts == 0 && now.Seq > s.Seq && now.Log == s.Log {
		return now, err
	}
	return r.deps.Records.PutCursor(ctx, l.namespace, shard, Cursor{s.Seq, s.Log, now.Revision})
}

// moving returns the cursors to store, of those that moved since they were stored, or are doubted.
func (l *shared) moving() map[int]step {
	l.mu.Lock()
	defer l.mu.Unlock()
	moved, floors := map[int]step{}, l.floors()
	for shard, c := range l.cursors {
		if floor := floors[shard]; !c.frozen && (floor > c.Seq || c.doubts > 0) && l.router.deps.Owns(shard) {
			moved[shard] = step{Cursor{max(floor, c.Seq), l.log, c.Revision}, c, c.doubts}
		}
	}
	return moved
}

// saved enters a stored cursor. One that was doubted meanwhile keeps its place, and is stored again.
func (l *shared) saved(s step, stored Cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.of.doubts == s.doubts {
		s.of.Cursor, s.of.doubts = stored, 0
	} else {
		s.of.Revision = stored.Revision
	}
}
