// Package eventlog reads and writes the logs of events: publishing, pages, states, live readers,
// and the paths of a log with their records.
//
// The subjects of a log shop, without a prefix, all in one stream, so that one batch can store
// both:
//
//	events.shop.orders.42      the events of the path /orders/42, in binary mode: attributes in
//	                           headers, the data as the message
//	durable.shop.orders.42     the record of that path, of package durable
//	durable.shop.=erased       records of erased events
//
// Reads that must not miss an event ask the leader of the stream, or compare with it: a replica may
// be behind, and answers as if its end were the end of the log (natsstore.ErrBehind).
package eventlog

import (
	"context"
	"sync"

	"github.com/sluice-io/sluice/internal/logtail/broadcast"
	"github.com/sluice-io/sluice/internal/natsstore"
)

// Log accesses the logs of events of all namespaces. Its methods may be called concurrently.
type Log struct {
	core    *natsstore.Store
	stamps  *stamps
	readers *broadcast.Broadcaster[entry] // the one reader of each log
	news    *pathNotifier

	pages     chan struct{} // contains one element for each page of a feed that is being read
	observers chan struct{} // contains one element for each page of changes that is being read
	searches  chan struct{} // contains one element for each search for an ID
	checks    chan struct{} // the same for StoredSince, which callers of searches cannot delay
	searched  uint64        // messages that a search for an ID reads at the end of a log, and as many around the time in the ID
	batches   sync.Map      // by namespace: a channel that contains one element for each open atomic batch
	commits   *committer    // of batches of events
}

// New returns the logs on a connection. Provision of core prepares them, and Close of core closes
// them. There must be only one Log for each connection, because it limits concurrent operations.
// The readers use the values of ctx. They end with Close of core, not with ctx.
func New(ctx context.Context, core *natsstore.Store) *Log {
	l := &Log{
		core: core, stamps: &stamps{names: core.Names()}, searched: defaultSearch,
		pages: make(chan struct{}, feedAtOnce), searches: make(chan struct{}, searchAtOnce), checks: make(chan struct{}, checksAtOnce),
		observers: make(chan struct{}, changesAtOnce),
	}
	l.commits = newCommitter(l.atomic)
	l.readers = newReaders(ctx, l)
	l.news = newPathNotifier(ctx, l)
	core.OnProvision(l.openStamps)
	core.OnClose(l.news.close)
	core.OnClose(l.readers.Close)
	return l
}
