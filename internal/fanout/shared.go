package fanout

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bounds of the queues of all attached members of a log: entries, and bytes.
const (
	maxQueued = 8192
	maxWeight = 64 << 20
	overhead  = 512 // bytes that an event takes besides its data
)

// While the queues are full, the reader checks every fullPause for members that have settled
// nothing for hangsAfter, and detaches them.
const (
	fullPause  = 250 * time.Millisecond
	hangsAfter = time.Second
)

// Backoff after a failed read of a log: the first and the longest pause.
const (
	again     = 100 * time.Millisecond
	againMost = 5 * time.Second
)

var errMoved = errors.New("the reader goes on elsewhere")

// shared is the one reader of a namespace's log, and the members that it serves.
type shared struct {
	namespace string
	router    *Router

	mu      sync.Mutex
	room    sync.Cond // signalled when there is room in the queues again
	members map[*member]struct{}
	match   Subjects             // of the members
	busy    map[*member]struct{} // members with unacknowledged entries
	holds   map[*member]uint64   // the cursors of their shards stay at or below these sequences while their stored positions change
	cursors map[int]*cursor      // by shard
	log     string               // ID of the log when its bounds were read last; "": unknown
	pos     uint64               // highest sequence that was routed
	queued  int                  // entries of attached members
	weight  int                  // bytes of their contents
	recent  [recall]trace        // the last messages, by sequence
	began   bool                 // a message was routed since the reader started
	reads   bool                 // the reader runs
	stop    context.CancelCauseFunc
	matched []*member // scratch memory of route
}

// recall is how many messages the reader remembers, so that a member that joins a little behind need not
// read the log.
const recall = 1024

// trace is a message that was routed.
type trace struct {
	before  uint64 // the sequence of the message before it
	seq     uint64
	subject string
}

// cursor is the cursor of a shard on this replica.
type cursor struct {
	Cursor
	doubts int  // how often the stored one came to claim too much, perhaps, since it was stored; it is to be replaced
	frozen bool // this replica does not advance it any more, because it has lost the shard, or is about to
}

func newShared(r *Router, namespace string) *shared {
	l := &shared{
		namespace: namespace, router: r, members: map[*member]struct{}{}, match: r.deps.Log.Subjects(), busy: map[*member]struct{}{},
		holds: map[*member]uint64{}, cursors: map[int]*cursor{},
	}
	l.room.L = &l.mu
	return l
}

// follow reads the log until ctx ends or no member shares it.
func (l *shared) follow(ctx context.Context) {
	pause := supervise.Pause{First: again, Most: againMost}
	for ctx.Err() == nil {
		inner, stop := context.WithCancelCause(ctx)
		l.mu.Lock()
		if l.match.Count() == 0 {
			l.reads, l.stop = false, nil
			l.mu.Unlock()
			stop(nil)
			return
		}
		l.stop = stop
		after := l.pos
		l.mu.Unlock()
		unblock := context.AfterFunc(inner, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.room.Broadcast()
		})
		err := l.router.deps.Log.Follow(inner, l.namespace, after, func(msg Message) error {
			pause.Reset()
			return l.route(inner, msg)
		})
		unblock()
		moved := errors.Is(context.Cause(inner), errMoved)
		stop(nil)
		if ctx.Err() != nil || moved {
			continue
		}
		l.router.log.LogAttrs(ctx, slog.LevelWarn, "read a log", slog.String("for", "deliveries"), slog.String("namespace", l.namespace), slog.Any("error", err))
		pause.Wait(ctx)
		l.shorten(ctx)
	}
}

// shorten moves all positions back to the end of a log that was recreated, or lost its end in a
// crash.
func (l *shared) shorten(ctx context.Context) {
	is, err := l.router.deps.Log.Bounds(ctx, l.namespace)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return
	}
	l.renew(is)
	l.endAt(is.Last)
}

// renew enters the bounds of the log. Cursors never claim more than the log has: neither of a log
// that was deleted and created again, nor of an end that was lost.
func (l *shared) renew(is Bounds) {
	for _, c := range l.cursors {
		c.limit(is)
	}
	if is.Log == l.log {
		return
	}
	if l.log != "" {
		l.endAt(is.Last)
	}
	l.log, l.recent = is.Log, [recall]trace{}
}

// endAt moves all positions behind a sequence back to it. The reader goes on from there.
func (l *shared) endAt(last uint64) {
	if last >= l.pos {
		return
	}
	l.pos = last
	for _, c := range l.cursors { // a write without an answer may have stored a place beyond the end
		c.doubts++
	}
	for m := range l.members {
		m.after = min(m.after, last)
		for i := range m.floors {
			m.floors[i] = min(m.floors[i], last)
		}
	}
	if l.stop != nil {
		l.stop(errMoved)
	}
}

// limit lowers a cursor to the end of a log, and one of another log to the messages that this log
// does not have any more. A cursor without a log is of an earlier build: it may be of any. Up to
// the end of a backup, a restored log has the sequences of the former one.
func (c *cursor) limit(is Bounds) {
	most := is.Last
	if c.Log != "" && c.Log != is.Log && c.Log != is.Former {
		most = max(is.First, 1) - 1
	}
	if c.Seq > most || c.Log != is.Log {
		c.Seq, c.Log = min(c.Seq, most), is.Log
		if c.Revision > 0 {
			c.doubts++
		}
	}
}

// route queues a message for the members that want it, and wakes those without a runner.
func (l *shared) route(ctx context.Context, msg Message) error {
	woken, err := l.enter(ctx, msg)
	for _, wake := range woken {
		wake()
	}
	return err
}

func (l *shared) enter(ctx context.Context, msg Message) (woken []func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full() {
		l.stall(ctx)
	}
	if msg.Seq <= l.pos {
		return nil, nil
	}
	if woken = l.passGap(ctx, msg.Seq); ctx.Err() != nil {
		return woken, context.Cause(ctx)
	}
	l.recent[msg.Seq%recall] = trace{l.pos, msg.Seq, msg.Subject}
	l.pos, l.began = msg.Seq, true
	l.matched = l.matched[:0]
	l.match.Match(msg.Subject, func(v any) {
		if m, ok := v.(*member); ok {
			l.matched = append(l.matched, m)
		}
	})
	if len(l.matched) == 0 {
		return woken, nil
	}
	ev, failed := msg.Event()
	ev.Seq = msg.Seq
	c, now := &content{weight: overhead + len(ev.Data)}, time.Now()
	for _, m := range l.matched {
		if wake := l.offer(m, &ev, failed, c, now); wake != nil {
			woken = append(woken, wake)
		}
	}
	return woken, nil
}

// passGap records a range of messages that left the log before they were routed as lost for the
// live members. Right after a start it does so only for members that want all events, because it is
// unknown which members the messages were for.
func (l *shared) passGap(ctx context.Context, seq uint64) (woken []func()) {
	if seq == l.pos+1 {
		return nil
	}
	from := l.pos + 1
	l.mu.Unlock()
	is, err := l.router.deps.Log.Bounds(ctx, l.namespace)
	first := is.First
	l.mu.Lock()
	if err != nil || first <= from || ctx.Err() != nil {
		return nil // messages were only removed from the middle, or the reader stops
	}
	for m := range l.members {
		if m.live && m.after < first-1 && (l.began || m.wantsAll()) {
			m.lost = append(m.lost, span{max(from, m.after+1), first - 1})
			if m.source == nil {
				woken = append(woken, m.wake)
			}
		}
	}
	return woken
}

// offer queues an event for a member if the member wants it. It returns the member's wake if the
// member now needs a runner.
func (l *shared) offer(m *member, ev *sluice.Event, failed error, c *content, now time.Time) (wake func()) {
	if !m.wants(ev, failed) {
		return nil
	}
	if m.live && len(m.queue.entries) >= m.most() {
		l.fallBehind(m)
	}
	if !m.live {
		m.unread.miss(m.waitsFor(ev))
		return nil
	}
	l.add(m, ev, failed, c, now)
	if m.source == nil && len(m.queue.entries) == 1 {
		return m.wake
	}
	return nil
}

// add queues an event for a member.
func (l *shared) add(m *member, ev *sluice.Event, failed error, c *content, now time.Time) {
	e := m.add(ev, failed, c, now)
	l.busy[m] = struct{}{}
	if m.attached {
		l.charge(e)
	}
	m.hand()
}

// charge counts an entry of an attached member, and the content that entries share once.
func (l *shared) charge(e *entry) {
	l.queued++
	if e.content.charged++; e.content.charged == 1 {
		l.weight += e.content.weight
	}
}

// refund undoes charge.
func (l *shared) refund(e *entry) {
	l.queued--
	if e.content.charged--; e.content.charged == 0 {
		l.weight -= e.content.weight
	}
	if l.low() {
		l.room.Signal()
	}
}

// unwanted reports whether l.recent shows that no message behind a sequence matches a member.
func (l *shared) unwanted(m *member, after uint64) bool {
	if after >= l.pos {
		return true
	}
	filters, matches := l.router.deps.Log.Subjects(), false
	for _, f := range m.filters {
		_ = filters.Insert(f, true) // filters of patterns are subjects
	}
	for seq := l.pos; seq > after; {
		one := &l.recent[seq%recall]
		filters.Match(one.subject, func(any) { matches = true })
		if one.seq != seq || matches {
			return false
		}
		seq = one.before
	}
	return true
}

// full reports whether the queues have reached their bounds.
func (l *shared) full() bool { return l.queued >= maxQueued || l.weight >= maxWeight }

// low reports whether a quarter of the room is free. The reader waits for that much, because it
// visits all busy members each time that there is no room.
func (l *shared) low() bool { return l.queued < maxQueued/4*3 && l.weight < maxWeight/4*3 }

// relieve makes members fall behind that have far more entries queued than others.
func (l *shared) relieve() {
	fair := 2 * l.queued / max(1, len(l.busy))
	for m := range l.busy {
		if m.live && m.attached && m.moving != detaching && m.queue.unacked > max(16, fair) {
			l.fallBehind(m)
		}
	}
}

// stall waits until there is room. Meanwhile it detaches the members that have settled nothing for
// hangsAfter, because their receivers hang.
func (l *shared) stall(ctx context.Context) {
	l.relieve()
	for !l.low() && ctx.Err() == nil {
		again := time.AfterFunc(fullPause, l.room.Broadcast)
		l.room.Wait()
		again.Stop()
		l.detachHanging(time.Now())
	}
}

func (l *shared) detachHanging(now time.Time) {
	for m := range l.busy {
		if m.attached && m.queue.hangs(now, hangsAfter) {
			l.detach(m)
		}
	}
}

// fallBehind removes the entries that a member was not handed, and makes it read them by itself
// later.
func (l *shared) fallBehind(m *member) {
	m.live = false
	m.unread.missed = missed{}
	for _, e := range m.cut() {
		m.unread.miss(m.waitsFor(&e.Event))
		if !e.acked {
			e.acked = true // a late acknowledgement must not count for the entry that is read again
			l.release(e)
		}
	}
	l.detach(m)
	l.catchUp(m)
}

// detach starts to give a member a position of its own. Until that is stored, its shard's cursor
// does not pass the member's floor.
func (l *shared) detach(m *member) {
	if !m.attached && m.moving != joining || m.moving == detaching || m.moving == leaving {
		return
	}
	if _, ok := l.holds[m]; !ok {
		l.holds[m] = m.floor(l.pos)
	}
	m.moving = detaching
	l.router.hurry()
}

// ack records an acknowledgement, and hands out further entries for which there is room.
func (l *shared) ack(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := e.member
	if !m.queue.settle(e) {
		return
	}
	m.queue.acked = time.Now()
	l.release(e)
	m.hand()
	l.catchUp(m)
}

// release gives back the room of an entry that was settled or removed.
func (l *shared) release(e *entry) {
	if e.member.attached {
		l.refund(e)
	}
	if e.member.queue.unacked == 0 {
		delete(l.busy, e.member)
	}
}

// floors returns for each shard the sequence up to which all events are settled or parked.
func (l *shared) floors() map[int]uint64 {
	floors := make(map[int]uint64, len(l.cursors))
	for shard := range l.cursors {
		floors[shard] = l.pos
	}
	for m := range l.busy {
		if m.attached {
			floors[m.shard] = min(floors[m.shard], m.floor(l.pos))
		}
	}
	for m, hold := range l.holds {
		floors[m.shard] = min(floors[m.shard], hold)
	}
	return floors
}
