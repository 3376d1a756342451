package eventlog

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/natsstore"
)

// commitBytes limits the size of the messages that are stored together. A single request may be
// larger.
const commitBytes = 4 << 20

// errAlone means that a group of requests was refused: each of them has to be stored by itself.
var errAlone = errors.New("refused together with others")

// request contains the messages of a caller, which are stored contiguously or not at all.
type request struct {
	ctx    context.Context //nolint:containedctx // of its caller
	msgs   []*nats.Msg
	size   int
	stored chan commitment // has a buffer for one
}

// commitment is the sequence of the last message of a request, or the error why it is not stored.
type commitment struct {
	last uint64
	err  error
}

// committer stores the requests of a namespace in groups, each as one atomic batch, because the
// cost of a batch hardly depends on its size. The first request is stored immediately, and those
// that arrive before it is stored form the next group. It is safe for concurrent use. Three
// callers, a single log:
//
//	A ─► group 1 in flight ─────────► stored
//	B ──────► waits ┐                 └► group 2 = B + C, one atomic batch
//	C ────────► waits ┘                    refused: B and C each by itself, so that C does not
//	                                       fail because of an ID of B
type committer struct {
	store func(ctx context.Context, ns string, msgs []*nats.Msg) (last uint64, err error)

	mu      sync.Mutex
	waiting map[string][]*request // by namespace; without an entry the namespace has no group in flight
}

func newCommitter(store func(ctx context.Context, ns string, msgs []*nats.Msg) (uint64, error)) *committer {
	return &committer{store: store, waiting: map[string][]*request{}}
}

// commit stores messages contiguously, after the waiting ones, and returns the sequence of the last
// message. An error concerns only this request: if a group is refused, each of its requests is
// stored by itself. If ctx ends while the group is in flight, the messages may be stored all the
// same.
func (c *committer) commit(ctx context.Context, ns string, msgs []*nats.Msg) (uint64, error) {
	r := &request{ctx: ctx, msgs: msgs, stored: make(chan commitment, 1)}
	for _, m := range msgs {
		r.size += sizeOf(m)
	}
	if c.enter(ns, r) {
		go c.run(context.WithoutCancel(ctx), ns) // ends when no request waits
	}
	select {
	case done := <-r.stored:
		if errors.Is(done.err, errAlone) {
			return c.store(ctx, ns, msgs)
		}
		return done.last, done.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// sizeOf returns the size of a message in bytes that counts for the limit of the server, without
// the headers of a batch.
func sizeOf(m *nats.Msg) int {
	size := len(m.Data) + len("NATS/1.0\r\n\r\n")
	for name, values := range m.Header {
		for _, value := range values {
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	return size
}

// enter adds a request to the waiting ones, and reports whether the namespace has no group in
// flight.
func (c *committer) enter(ns string, r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, busy := c.waiting[ns]
	c.waiting[ns] = append(line, r)
	return !busy
}

// run stores the waiting requests until there are none.
func (c *committer) run(ctx context.Context, ns string) {
	for group := c.next(ns); len(group) > 0; group = c.next(ns) {
		var msgs []*nats.Msg
		for _, r := range group {
			msgs = append(msgs, r.msgs...)
		}
		last, err := c.store(ctx, ns, msgs)
		switch {
		case err == nil:
		case natsstore.IsTransient(err) && natsstore.APICode(err) == 0: // no answer: the waiting requests should not time out one after the other
			c.release(ns)
		case len(group) > 1:
			err = errAlone
		}
		for _, r := range slices.Backward(group) {
			r.stored <- commitment{last, err}
			last -= uint64(len(r.msgs))
		}
	}
}

// release lets the waiting requests be stored by themselves.
func (c *committer) release(ns string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.waiting[ns] {
		r.stored <- commitment{err: errAlone}
	}
	c.waiting[ns] = nil
}

// next takes the next group: as many requests as fit into a batch, and at least one. It drops
// requests whose context has ended.
func (c *committer) next(ns string) []*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	var group []*request
	count, size := 0, 0
	line := c.waiting[ns]
	for len(line) > 0 {
		r := line[0]
		if r.ctx.Err() == nil {
			if count += len(r.msgs); len(group) > 0 && (count > MaxBatch || size+r.size > commitBytes) {
				break
			}
			size += r.size
			group = append(group, r)
		}
		line[0] = nil
		line = line[1:]
	}
	if len(group) == 0 {
		delete(c.waiting, ns)
	} else {
		c.waiting[ns] = line
	}
	return group
}
