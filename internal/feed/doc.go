// Package feed knows how the events of a namespace are shown to somebody as they come: history, then live, with no
// gap and nothing twice (S2-124…129).
//
// A namespace has one reader of its log in a process, which fills a ring. Each feed has a place in the log. As long
// as that place is older than what the ring covers, the feed reads pages of the log itself, and from then on the ring:
// the place only ever moves forward, so that the order of the two does not matter and nothing comes twice.
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
