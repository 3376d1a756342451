// Package feed streams the events of a namespace to readers: history first, then live, without gaps
// or duplicates (S2-124…129).
//
// A namespace has one log reader per process, which fills a ring. Each feed has a position in the
// log. While that position is older than the ring, the feed reads pages of the log itself; after
// that it reads the ring. The position only moves forward, so no event is sent twice, and the feed
// may change between the two sources at any time.
//
//	log  ── pages ──┐
//	 │              ├─ place ─ gate, filter ─ (coalesce) ─┬──────────────── writer
//	 └─ ring ───────┘                                     └─ queue ─ gate ──┘
//
// A feed runs in its reader's goroutine: it looks at events, sends frames, and repeats. Events that
// arrive during a send stay in the ring. When the ring fills, the hub looks at events for the feeds
// that are behind, and queues their frames. A queue is bounded: when it is full, the oldest frame
// is dropped and counted. The reported count is exactly the number of frames that the reader
// missed. Publishers wait for none of this.
package feed
