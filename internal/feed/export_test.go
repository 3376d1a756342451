package feed

import "runtime"

// QueueAhead queues the events up to a sequence, as the hub does for a blocked reader, as soon as the ring has them. The
// caller is Options.Lost, which is called last when a feed looks for frames and finds none.
func (f *Feed) QueueAhead(upTo uint64) error {
	for f.hub.ring().Last() < upTo {
		runtime.Gosched()
	}
	return f.lookAhead(upTo)
}
