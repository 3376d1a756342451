package wake

import (
	"cmp"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// observe enters a stored record, unless a newer one is known: records may be reported late or
// twice.
func (r *runner) observe(e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	en := r.all[e.Consumer.Path]
	if en == nil {
		en = &entry{place: -1}
		r.all[e.Consumer.Path] = en
	}
	if e.Revision <= en.Revision {
		return
	}
	e.Consumer.Path = cmp.Or(en.Consumer.Path, e.Consumer.Path)
	r.intern(&e.Consumer)
	en.other = en.other || e.Consumer.Of == r.of && r.joins(en, &e.Consumer)
	r.strike(en)
	en.Entry = e
	if e.Consumer.Of == r.of {
		r.enlist(en)
	}
	if r.ready {
		r.plan(en)
	}
}

// joins reports whether a consumer has begun to follow a stream. Messages that were stored there
// meanwhile were missed.
func (r *runner) joins(en *entry, now *Consumer) bool {
	return slices.ContainsFunc(now.Streams, func(p Position) bool {
		_, followed := r.others[p.Path][en]
		return p.Path != now.Path && !followed
	})
}

// intern makes records share equal strings, to save memory.
func (r *runner) intern(c *Consumer) {
	if c.Of == r.of {
		c.Of = r.of
	}
	for _, state := range []sluice.WakeState{sluice.WakeIdle, sluice.WakeWaking, sluice.WakeLive, sluice.WakeRemoved} {
		if c.State == state {
			c.State = state
		}
	}
	if at := c.position(c.Path); at >= 0 {
		c.Streams[at].Path = c.Path
	}
}

// enlist registers a consumer for the streams that it follows besides its own.
func (r *runner) enlist(en *entry) {
	for path := range en.Consumer.others() {
		if r.others[path] == nil {
			r.others[path] = map[*entry]struct{}{}
		}
		r.others[path][en] = struct{}{}
		ring(r.foreign)
	}
}

// strike undoes enlist.
func (r *runner) strike(en *entry) {
	for path := range en.Consumer.others() {
		if delete(r.others[path], en); len(r.others[path]) == 0 {
			delete(r.others, path)
		}
	}
}

// entry returns a consumer's record in memory.
func (r *runner) entry(path sluice.Path) Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if en := r.all[path]; en != nil && en.Revision > 0 {
		return Entry{en.Consumer.clone(), en.Revision}
	}
	return Entry{}
}
