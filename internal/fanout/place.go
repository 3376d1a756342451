package fanout

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// place reads the positions of members, and lets them get events from there on. It retries until
// ctx ends.
func (r *Router) place(ctx context.Context, members []*member, stored func(*sluice.Subscription) (Stored, error)) {
	byLog := map[*shared][]*member{}
	for _, m := range members {
		byLog[m.log] = append(byLog[m.log], m)
	}
	known, ok := r.decideAll(ctx, members, stored)
	if !ok {
		return
	}
	for l, of := range byLog {
		err := r.until(ctx, "place the subscriptions of "+l.namespace, func() error {
			err := r.placeIn(ctx, l, of, known)
			if sluice.CodeOf(err) == sluice.NotFound {
				return nil // the namespace is being deleted
			}
			return err
		})
		if err != nil {
			return
		}
	}
}

// decideAll calls decide for members, several at a time. It returns false if ctx ended.
func (r *Router) decideAll(ctx context.Context, members []*member, stored func(*sluice.Subscription) (Stored, error)) (map[*member]Stored, bool) {
	var (
		mu       sync.Mutex
		deciding sync.WaitGroup
	)
	known, slots := make(map[*member]Stored, len(members)), make(chan struct{}, requestsAtOnce)
	for _, m := range members {
		slots <- struct{}{}
		deciding.Go(func() {
			defer func() { <-slots }()
			sub := m.settings()
			_ = r.until(ctx, "read the position of "+sub.ID, func() error { // ctx ends it
				s, err := r.decide(ctx, m, sub, stored)
				mu.Lock()
				defer mu.Unlock()
				known[m] = s
				return err
			})
		})
	}
	deciding.Wait()
	return known, ctx.Err() == nil
}

// decide returns the stored state of a member. It first moves the member to the shared reader, or
// off it, as Deps.Shares says.
func (r *Router) decide(ctx context.Context, m *member, sub *sluice.Subscription, stored func(*sluice.Subscription) (Stored, error)) (Stored, error) {
	if s, ok := r.deps.Records.New(sub); ok {
		return s, nil
	}
	s, err := stored(sub)
	if err != nil {
		return s, fmt.Errorf("position: %w", err)
	}
	if !r.deps.Shares(sub, s) {
		return r.release(ctx, m, sub, s)
	}
	if s.Shared {
		return s, nil
	}
	p, err := r.deps.Records.Adopt(ctx, sub)
	if sluice.CodeOf(err) == sluice.QuotaExceeded {
		return s, nil // it keeps its own consumers while the store is full
	}
	if s.Position = p; err != nil {
		return s, fmt.Errorf("adopt: %w", err)
	}
	return s, nil
}

// release stores that a member has consumers of its own, which begin at its present position.
func (r *Router) release(ctx context.Context, m *member, sub *sluice.Subscription, s Stored) (Stored, error) {
	if !s.Shared {
		return s, nil
	}
	var err error
	if s.Attached {
		if s.Floors, err = r.floorsOf(ctx, m, s); err != nil {
			return s, err
		}
	}
	s.Shared = false
	return s, r.deps.Records.PutPosition(ctx, sub, Position{Floors: s.Floors})
}

// placeIn places the members of one log.
func (r *Router) placeIn(ctx context.Context, l *shared, members []*member, known map[*member]Stored) error {
	var err error
	cursors := map[int]Cursor{}
	for _, m := range members {
		if _, ok := cursors[m.shard]; ok || !known[m].Shared || l.accounts(m.shard) {
			continue
		}
		if cursors[m.shard], err = r.deps.Records.Cursor(ctx, l.namespace, m.shard); err != nil {
			return err
		}
	}
	is, err := l.bounds(ctx, members, known) // after the cursors, which are behind the end therefore, unless the log lost it
	if err != nil {
		return err
	}
	for _, wake := range l.place(members, known, cursors, is) {
		wake()
	}
	l.begin()
	return nil
}

// bounds returns the bounds of the log. It returns none without asking if nothing depends on them:
// the reader runs for others, and all members are new and of shards whose cursors are known.
func (l *shared) bounds(ctx context.Context, members []*member, known map[*member]Stored) (is Bounds, err error) {
	l.mu.Lock()
	matters := l.rests()
	l.mu.Unlock()
	for _, m := range members {
		matters = matters || !known[m].New || !l.accounts(m.shard)
	}
	if matters {
		is, err = l.router.deps.Log.Bounds(ctx, l.namespace)
	}
	return is, err
}

// rests reports whether the reader does not run, or is about to end, because it has no members. Then
// the log may be another one than before.
func (l *shared) rests() bool { return !l.reads || l.match.Count() == 0 }

// accounts reports whether this replica advances the cursor of a shard.
func (l *shared) accounts(shard int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cursors[shard]
	return c != nil && !c.frozen
}

// place enters members with their stored states, and returns the wakes of those that need a runner.
// If the reader has passed events that a member needs, place moves it back.
func (l *shared) place(members []*member, known map[*member]Stored, cursors map[int]Cursor, is Bounds) (woken []func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := is.Last
	if is != (Bounds{}) {
		l.renew(is)
		if l.rests() {
			l.pos, l.began = last, false
		}
	}
	l.adopt(cursors, is)
	start := l.pos
	for _, m := range members {
		if m.gone {
			continue
		}
		start = min(start, l.seat(m, known[m], last))
		m.recall(known[m].Past)
		if m.works() {
			woken = append(woken, m.wake)
		}
	}
	if start < l.pos {
		l.goBack(start, members)
	}
	for _, m := range members {
		l.begins(m)
	}
	return woken
}

// goBack makes the reader start again at an earlier sequence for the members that join. The others
// ignore the repeated events.
func (l *shared) goBack(start uint64, joining []*member) {
	joins := make(map[*member]bool, len(joining))
	for _, m := range joining {
		joins[m] = true
	}
	for m := range l.members {
		if m.live && !joins[m] {
			m.after = max(m.after, l.pos)
		}
	}
	l.pos = start
	if l.stop != nil {
		l.stop(errMoved)
	}
}

// adopt enters the cursors of shards that this replica has taken over.
func (l *shared) adopt(cursors map[int]Cursor, is Bounds) {
	for shard, c := range cursors {
		if now := l.cursors[shard]; now == nil || now.frozen {
			l.cursors[shard] = &cursor{Cursor: c}
			l.cursors[shard].limit(is)
		}
	}
}

// begins makes a member with a position of its own live, or starts to read the log for it first.
func (l *shared) begins(m *member) {
	if m.placed && !m.own && !m.attached {
		m.live = l.unwanted(m, m.after)
		l.catchUp(m)
	}
}

// seat enters one member, and returns the sequence behind which the reader has to start for it.
func (l *shared) seat(m *member, s Stored, last uint64) (start uint64) {
	l.members[m] = struct{}{}
	m.placed, m.own, m.busy = true, !s.Shared, m.busy || s.Busy
	if !s.New {
		m.doubt = last
	}
	if m.own {
		return l.pos
	}
	for _, f := range m.filters {
		_ = l.match.Insert(f, m) // cannot fail: filters of patterns are valid subjects
	}
	m.floors = m.floorsFrom(0)
	for i := range min(len(m.floors), len(s.Floors)) {
		m.floors[i] = s.Floors[i]
		if !s.New { // the log may have lost its end in a crash
			m.floors[i] = min(m.floors[i], last)
		}
	}
	m.after = m.floors[0]
	for _, f := range m.floors {
		m.after = min(m.after, f)
	}
	m.attached, m.unread.waits = s.Attached, s.Next
	if s.Known {
		m.stored = s.Position
	}
	if s.Open.Seq > 0 {
		m.unread.waits = s.Open
	}
	if !m.attached {
		return l.pos
	}
	m.live = true
	m.after = max(m.after, l.cursors[m.shard].Seq)
	return m.after
}

// recall keeps the past deliveries of a member that are after its position, unless the member is
// busy.
func (m *member) recall(past Past) {
	if m.busy || past == nil {
		return
	}
	m.past = Past{}
	for seq, p := range past {
		if seq > m.after {
			m.past[seq] = p
		}
	}
}

// begin starts the reader of a log if members share it and it does not run.
func (l *shared) begin() {
	r := l.router
	r.mu.Lock()
	defer r.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads || l.match.Count() == 0 {
		return
	}
	l.reads = true
	r.running.Go(func() { l.follow(r.ctx) })
}

// leave stores the position of a member that this replica does not serve any more, and removes the
// member. It stores nothing if another replica may own the shard, which then lets the subscription
// leave in turn.
func (r *Router) leave(ctx context.Context, m *member, stored func(*sluice.Subscription) (Stored, error)) {
	defer m.log.remove(m)
	position, write := m.log.leaving(m)
	owned := true
	err := r.until(ctx, "store the position of "+m.sub.ID, func() error { // ctx ends it
		if owned = r.deps.Owns(m.shard); !owned {
			return nil
		}
		if !write {
			var err error
			if position, write, err = r.unattached(ctx, m, stored); err != nil || !write {
				return err
			}
		}
		return r.deps.Records.PutPosition(ctx, m.sub, position)
	})
	if err != nil || !owned {
		m.log.mu.Lock()
		m.log.freeze(m.shard) // the stored record still says that the cursor accounts for it
		m.log.mu.Unlock()
	}
}

// leaving returns the position of a member that is about to leave, and whether to store it.
func (l *shared) leaving(m *member) (p Position, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !m.placed || m.own {
		return p, false
	}
	m.live, m.moving = false, leaving
	return m.position(l.pos), true
}

// unattached returns the position to store for a member that left before it was placed, if the
// stored state says that it is attached, because an earlier process could not store that it left.
func (r *Router) unattached(ctx context.Context, m *member, stored func(*sluice.Subscription) (Stored, error)) (p Position, write bool, err error) {
	s, err := stored(m.sub)
	if err != nil || !s.Attached {
		return p, false, err
	}
	floors, err := r.floorsOf(ctx, m, s)
	return Position{Shared: true, Floors: floors}, true, err
}

// floorsOf returns the floors of an attached member, raised to the cursor of its shard.
func (r *Router) floorsOf(ctx context.Context, m *member, s Stored) ([]uint64, error) {
	c, err := r.deps.Records.Cursor(ctx, m.log.namespace, m.shard)
	floors := slices.Clone(s.Floors)
	for i := range floors {
		floors[i] = max(floors[i], c.Seq)
	}
	return floors, err
}
