// Package feed streams the events of a namespace to readers: history first, then live, without gaps
// or duplicates (S2-124…129).
//
// A namespace has one log reader per process, which fills a ring. Each feed has a position in the
// log. While that position is older than the ring, the feed reads pages of the log itself, and
// after that the ring: the position only moves forward, so the order of the two sources does not
// matter and no event is sent twice.
//
//	log  ── pages ──┐
//	 │              ├─ place ─ gate, filter ─ (coalesce) ─┬──────────────── writer
//	 └─ ring ───────┘                                     └─ queue ─ gate ──┘
//
// A feed is its reader's own goroutine: it looks, sends, and looks again. What comes while it sends stays in the ring.
// When that fills, the hub looks for those who have not come so far, and queues what they are to be sent. A queue has a
// bound: the oldest frame gives way, and is counted. What a reader is told that it missed are the frames that it would
// have been sent, neither more nor fewer. Nobody who publishes waits for any of this.
package feed
