package fanout

import "github.com/sluice-io/sluice/pkg/sluice"

// movesAtOnce is how many subscriptions move between the shared reader and consumers of their own at
// the same time.
const movesAtOnce = 64

func (l *shared) newMember(sub *sluice.Subscription, wake func()) *member {
	return &member{
		log: l, sub: sub, wake: wake, shard: l.router.deps.Records.Shard(sub.ID), filters: l.router.deps.Filters(sub), moved: make(chan struct{}),
	}
}

// recheck moves members to the shared reader, or off it, as Deps.Shares says. A member leaves and
// joins again. recheck moves at most movesAtOnce members; the next call moves more.
func (r *Router) recheck() {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for id, m := range r.members {
		kind, moves := m.log.misplaced(m)
		if !moves {
			continue
		}
		if n == movesAtOnce {
			break
		}
		n++
		again := m.log.newMember(m.sub, m.wake)
		again.seat, again.busy = m.seat, true // its runner may still store records
		r.members[id] = again
		r.tell(change{kind, m})
		r.tell(change{replaced, again})
	}
}

// misplaced reports whether a member has to move, and how it leaves.
func (l *shared) misplaced(m *member) (how changeKind, moves bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !m.placed {
		return 0, false
	}
	shares := l.router.deps.Shares(m.sub, Stored{Position: Position{Shared: !m.own}})
	if m.own {
		return forgotten, shares
	}
	return left, !shares
}

// Above returns a function for Deps.Shares. It is true for push subscriptions in namespaces with
// more than most subscriptions, and in all namespaces if the log is replicated; never if most is
// negative. A subscription that shares goes back when its namespace has at most half of most. Some
// subscriptions always have a consumer of their own: those with Policy.Dedicated, those of a
// module, because not every replica can run it, and those that start with the last event of each
// path, unless they share already.
func Above(most int, replicated bool, count func(namespace string) int) func(*sluice.Subscription, Stored) bool {
	return func(sub *sluice.Subscription, stored Stored) bool {
		if most < 0 || sub.Mode != sluice.Push || sub.Policy.Dedicated || sub.Module != "" || sub.From.Kind == sluice.StartLastPerPath && !stored.Shared {
			return false
		}
		n := count(sub.Namespace)
		return replicated || n > most || stored.Shared && 2*n > most
	}
}
