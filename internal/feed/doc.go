// Package feed knows how the events of a namespace are shown to somebody as they come: history, then live, with no
// gap and nothing twice (S2-124…129).
//
// A namespace has one reader of its log in a process, which fills a ring. Each feed has a place in the log. As long
// as that place is older than what the ring covers, the feed reads pages of the log itself, and from then on the ring:
// the place only ever moves forward, so that the order of the two does not matter and nothing comes twice.
//
//	log  ── pages ──┐
//	 │              ├─ place ─ gate, filter ─ (coalesce) ─ queue ─ gate ─ writer
//	 └─ ring ───────┘
//
// A feed has two halves. One looks at every event, whatever its reader does, and queues what is to be sent; the other
// sends. A queue has a bound. Where it is full, the first half waits as long as that costs nothing: while history is
// read, and while the ring still has what comes next. Then the oldest frame gives way, and is counted: what a reader
// is told that it missed are the frames that it would have been sent, neither more nor fewer. Nobody who publishes
// waits for any of this.
package feed
