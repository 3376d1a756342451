package fanout

// unread is what is known about the events that a member has not read yet. The lock of the log guards
// it.
type unread struct {
	missed missed // events that were routed while the member was not live
	waits  Waits  // an event behind those in the queue that the member is known to want
	sought uint64 // seek has searched up to here
}

// missed describes the events of a member that were routed while it was not live: the first and the
// last one.
type missed struct {
	first Waits
	last  uint64
}

// miss records an event that was routed while the member was not live.
func (u *unread) miss(w Waits) {
	if u.missed.first.Seq == 0 {
		u.missed.first = w
	}
	u.missed.last = w.Seq
}

// next returns the first known event behind a sequence; the zero value if there is none. The events
// that were missed count for a plain member only, which wants them all.
func (u *unread) next(after uint64, plain bool) Waits {
	switch {
	case u.waits.Seq > after:
		return u.waits
	case plain && u.missed.first.Seq > after:
		return u.missed.first
	}
	return Waits{}
}

// caughtUp forgets the events, which the member has read.
func (u *unread) caughtUp() { u.missed, u.waits = missed{}, Waits{} }
