package eventlog

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// batch contains events that are being published, and the progress. It is for one goroutine. The
// slices have an element for each event. seqs and duplicate keep their values after a failed try,
// so that the next one sends only the rest.
type batch struct {
	ns        string
	events    []sluice.Event
	stamps    *stamps
	exact     func(*sluice.Event) bool // see Exact; nil: every event with the same ID is a duplicate
	seqs      []uint64                 // 0: not stored yet
	duplicate []bool
	first     []int // index of the first event with the same ID, usually the event itself
}

func newBatch(ns string, events []sluice.Event, st *stamps) *batch {
	b := &batch{
		ns: ns, events: events, stamps: st,
		seqs: make([]uint64, len(events)), duplicate: make([]bool, len(events)), first: make([]int, len(events)),
	}
	if len(events) == 1 {
		return b
	}
	byID := make(map[string]int, len(events))
	for i := range events {
		e := &events[i]
		first, ok := byID[e.ID]
		if !ok {
			first = i
			byID[e.ID] = i
		}
		b.first[i], b.duplicate[i] = first, ok
	}
	return b
}

// check returns an error with code Conflict if two different events have the same ID. O(n), before
// anything is sent.
func (b *batch) check() error {
	for i := range b.events {
		switch e, first := &b.events[i], &b.events[b.first[i]]; {
		case first.Path != e.Path:
			return idTaken(e)
		case b.exact != nil && !e.Repeats(first):
			return e.OtherEvent()
		}
	}
	return nil
}

// fresh returns the indices of the events that are not stored yet.
func (b *batch) fresh() []int {
	var fresh []int
	for i, seq := range b.seqs {
		if seq == 0 && b.first[i] == i {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

func (b *batch) message(i int) (*nats.Msg, error) {
	msg := message(b.stamps.names, b.ns, &b.events[i])
	return msg, b.stamps.sealEvent(msg, &b.events[i])
}

func (b *batch) place(i int, seq uint64) { b.seqs[i] = seq }

func (b *batch) stored() []sluice.Stored {
	all := make([]sluice.Stored, len(b.events))
	for i, e := range b.events {
		all[i] = sluice.Stored{ID: e.ID, Seq: b.seqs[b.first[i]], Path: e.Path, Duplicate: b.duplicate[i]}
	}
	return all
}

// Limit of atomic batches. JetStream allows 50 open batches for each stream by default, and other
// publishers may use some of them.
const batchesAtOnce = 40 // open batches of this process for each namespace; further ones wait

// atomic publishes messages as one batch, which is stored completely and contiguously or not at
// all, and returns the sequence of the last message. It waits while this process has too many open
// batches. If other publishers on NATS have opened all batches that the stream allows, it returns
// an error immediately: a waiting batch would block others in this process.
func (l *Log) atomic(ctx context.Context, ns string, msgs []*nats.Msg) (uint64, error) {
	turns, _ := l.batches.LoadOrStore(ns, make(chan struct{}, batchesAtOnce))
	turn := turns.(chan struct{}) //nolint:forcetypeassert // the map has only such values
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	ctx, cancel := l.core.WhileWritable(ctx)
	defer cancel()
	return l.core.Atomic(ctx, msgs)
}
