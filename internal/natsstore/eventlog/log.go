// Package eventlog reads and writes the logs of events: publish, pages, states, live readers, and the paths in a log with
// their records.
package eventlog

import (
	"context"
	"sync"

	"github.com/sluice-io/sluice/internal/logtail/broadcast"
	"github.com/sluice-io/sluice/internal/natsstore"
)

// Log is the logs of events of all namespaces. Its methods may be called at once.
type Log struct {
	core    *natsstore.Store
	stamps  *stamps
	readers *broadcast.Broadcaster[entry] // the one reader of each log
	news    *pathNotifier

	pages     chan struct{} // has one element for each page of a feed that is being read
	observers chan struct{} // has one element for each page of changes that is being read
	searches  chan struct{} // has one element for each event that is being looked up by its id
	searched  uint64        // messages that a lookup by id reads, at the end of a log and around the time in the id
	batches   sync.Map      // by namespace: has one element for each open atomic batch
	commits   *committer    // of batches of events
}

// New returns the logs on a connection, which Provision makes ready and Close ends. There is one for each connection: it
// limits the operations in flight at once.
func New(ctx context.Context, core *natsstore.Store) *Log {
	l := &Log{
		core: core, stamps: &stamps{names: core.Names()}, searched: defaultSearch,
		pages: make(chan struct{}, feedAtOnce), searches: make(chan struct{}, searchAtOnce),
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
