package natsstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// How much of a backlog one look goes through to find the next event that is wanted; the next
// look goes on from there.
const lookBatch, lookBatches = 64, 4

// lookout is the record of how far a subscription's events are accounted for, so that what
// leaves the log without having been handed out is noticed (decision 0003).
type lookout struct {
	Since time.Time `json:"since"` // when the subscription was made: another one of its id starts anew
	Marks []mark    `json:"marks"` // of its consumers
}

// mark is how far the events of one consumer are accounted for.
type mark struct {
	Floor  uint64 `json:"floor"`          // everything up to here is settled or parked
	Open   uint64 `json:"open,omitempty"` // the first event that was handed out and not settled; 0: none
	Next   uint64 `json:"next,omitempty"` // the first event that waited to be handed out; 0: none was found
	Seen   uint64 `json:"seen,omitempty"` // what waited up to here was looked at
	Handed uint64 `json:"handed"`         // how many deliveries there had been
}

func (l lookout) mark(i int) (m mark, known bool) {
	if i < len(l.Marks) {
		return l.Marks[i], true
	}
	return m, false
}

func (s *Store) lookouts() Bucket[lookout] { return OpenBucket[lookout](s, streams.Lanes) }

// lookout returns the subscription's record, an empty one if there is none.
func (s *Store) lookout(ctx context.Context, sub *sluice.Subscription) (lookout, uint64, error) {
	l, revision, err := s.lookouts().Get(ctx, streams.LookoutKey(sub.ID))
	if sluice.CodeOf(err) == sluice.NotFound {
		err = nil
	}
	if !l.Since.Equal(sub.CreatedAt) {
		l = lookout{}
	}
	return l, revision, err
}

// Look looks for events that left the log before a subscription that nobody serves got them:
// lost is called for each range. wanted says whether the subscription wants an event that its
// consumers would hand out. How far it looked is stored afterwards.
func (s *Store) Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	return look{store: s, sub: sub, wanted: wanted, lost: lost}.do(ctx)
}

// Look is Store.Look for a subscription that this source serves. It returns at once if nothing
// happened since the last look and nothing waits.
func (s *Source) Look(ctx context.Context, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	if !slices.ContainsFunc(s.handing, (*handing).moved) {
		return nil
	}
	err := look{store: s.store, sub: s.sub, handing: s.handing, wanted: wanted, lost: lost}.do(ctx)
	if err != nil {
		s.handing[0].again(nil)
	}
	return err
}

type look struct {
	store   *Store
	sub     *sluice.Subscription
	handing []*handing // of each consumer; nil: nobody serves the subscription
	wanted  func(*sluice.Event) bool
	lost    func(from, to uint64) error

	first, last uint64 // of the log
}

func (l look) do(ctx context.Context) (err error) {
	before, revision, err := l.store.lookout(ctx, l.sub)
	if err != nil {
		return err
	}
	if l.first, l.last, err = l.store.Bounds(ctx, l.sub.Namespace); err != nil {
		return err
	}
	after := lookout{Since: l.sub.CreatedAt}
	for i, want := range streams.PushConsumers(l.sub) {
		m, _ := before.mark(i)
		if m.Seen > l.last || m.Floor > l.last || m.Next > l.last {
			m = mark{} // it is another log under the same name
		}
		if m, err = l.consumer(ctx, i, want, m); err != nil {
			return fmt.Errorf("look at %s: %w", want.Name, err)
		}
		after.Marks = append(after.Marks, m)
	}
	if revision > 0 && reflect.DeepEqual(before.Marks, after.Marks) {
		return nil
	}
	if l.handing != nil && revision == 0 {
		return nil // the record was removed with the subscription
	}
	_, err = l.store.lookouts().Put(ctx, streams.LookoutKey(l.sub.ID), after, revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		return nil // the other one looked as well
	}
	return err
}

// consumer looks at what one consumer is to hand out.
func (l look) consumer(ctx context.Context, i int, want streams.Consumer, m mark) (mark, error) {
	c, err := l.store.js.Consumer(ctx, want.Stream, want.Name)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return m, err
	}
	if l.handing != nil {
		if err := l.served(l.handing[i], &m); err != nil {
			return m, err
		}
	}
	if c == nil {
		return m, nil // it is made again from here
	}
	info := c.CachedInfo()
	if l.handing == nil {
		if err := l.unsettled(ctx, want, info, &m); err != nil {
			return m, err
		}
		m.Floor = max(m.Floor, info.AckFloor.Stream)
		if info.Delivered.Consumer != m.Handed && m.Next <= info.Delivered.Stream {
			m.Next = 0 // it was handed out
		}
	}
	m.Handed = info.Delivered.Consumer
	if err := l.open(ctx, want, info, &m); err != nil {
		return m, err
	}
	if err := l.waiting(ctx, want, info, &m); err != nil {
		return m, err
	}
	if l.handing != nil {
		l.handing[i].expectNext(m.Next)
	}
	return m, nil
}

// served enters what the source knows, and tells what it was not handed.
func (l look) served(h *handing, m *mark) error {
	now, gone := h.look()
	m.Floor, m.Open, m.Next = now.Floor, now.Open, now.Next
	for n, g := range gone {
		if err := l.lost(g.from, g.to); err != nil {
			h.again(gone[n:])
			return err
		}
	}
	return nil
}

// unsettled finds what was handed out, was not settled, and left the log before it could be
// handed out again. JetStream drops that in silence.
func (l look) unsettled(ctx context.Context, want streams.Consumer, info *jetstream.ConsumerInfo, m *mark) error {
	if m.Open == 0 {
		return nil
	}
	next, err := l.next(ctx, want, m.Open, 1)
	if err != nil {
		return err
	}
	if len(next) > 0 && next[0].Seq == m.Open {
		if info.NumAckPending == 0 {
			m.Open = 0
		}
		return nil
	}
	from, to := m.Open, max(m.Open, min(l.first-1, info.Delivered.Stream))
	if m.Next > m.Open {
		to = min(to, m.Next-1) // what waited is looked at by itself
	}
	m.Open = 0
	settled, err := l.store.settled(ctx, l.sub, from)
	if err != nil || settled {
		return err
	}
	return l.lost(from, to)
}

// open finds what the server has handed out and nobody has, or not yet: it was on its way when
// the one who asked for it ended.
func (l look) open(ctx context.Context, want streams.Consumer, info *jetstream.ConsumerInfo, m *mark) error {
	if m.Open != 0 || info.NumAckPending == 0 {
		return nil
	}
	next, err := l.next(ctx, want, max(m.Floor, info.AckFloor.Stream)+1, 1)
	if err == nil && len(next) > 0 && next[0].Seq <= info.Delivered.Stream {
		m.Open = next[0].Seq
	}
	return err
}

// waiting finds the first event that waits to be handed out, and whether the one that did so
// at the last look is gone.
func (l look) waiting(ctx context.Context, want streams.Consumer, info *jetstream.ConsumerInfo, m *mark) error {
	if m.Next != 0 {
		next, err := l.next(ctx, want, m.Next, 1)
		if err != nil || len(next) > 0 && next[0].Seq == m.Next {
			return err
		}
		to := l.last
		if len(next) > 0 {
			to = next[0].Seq - 1
		}
		if err := l.lost(m.Next, to); err != nil {
			return err
		}
		m.Next, m.Seen = 0, to
	}
	from := max(info.Delivered.Stream, m.Seen) + 1
	if l.handing == nil && info.Delivered.Consumer > 0 && from < l.first && wantsAll(l.sub) {
		if err := l.lost(from, l.first-1); err != nil {
			return err
		}
		m.Seen, from = l.first-1, l.first
	}
	if info.NumPending == 0 {
		return nil
	}
	return l.find(ctx, want, from, m)
}

// find looks for the next event that is wanted, from a sequence on.
func (l look) find(ctx context.Context, want streams.Consumer, from uint64, m *mark) error {
	for range lookBatches {
		events, err := l.next(ctx, want, from, lookBatch)
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			if seq := events[i].Seq; l.wanted(&events[i]) {
				m.Next = seq
				return nil
			}
			m.Seen, from = events[i].Seq, events[i].Seq+1
		}
	}
	return nil
}

func (l look) next(ctx context.Context, want streams.Consumer, from uint64, limit int) ([]sluice.Event, error) {
	events, err := l.store.NextEvent(ctx, l.sub.Namespace, want.Filter.Subject, from, limit)
	if err == nil && len(events) == 0 {
		return l.store.leadersNext(ctx, l.sub.Namespace, want.Filter.Subject, from)
	}
	return events, err
}

// wantsAll reports whether the subscription wants every event of its namespace from its first on.
func wantsAll(sub *sluice.Subscription) bool {
	return sub.Pattern == "/**" && sub.From.Kind != sluice.StartLastPerPath && reflect.ValueOf(sub.Filter).IsZero()
}

// span is a range of sequences.
type span struct{ from, to uint64 }

// handing is what a source handed out of one consumer.
type handing struct {
	mu      sync.Mutex
	last    uint64              // highest sequence
	open    map[uint64]struct{} // not acknowledged
	window  int
	pending uint64 // what waited behind the last one
	expect  uint64 // what the last look found waiting; 0: nothing
	gone    []span // what was passed over since the last look
	changed bool   // since the last look
}

func newHanding(info *jetstream.ConsumerInfo, window int) *handing {
	h := &handing{open: map[uint64]struct{}{}, window: window, last: info.Delivered.Stream, pending: info.NumPending, changed: true}
	if info.NumAckPending > 0 {
		h.last = info.AckFloor.Stream // what lies above comes again
	}
	return h
}

// handed enters a delivery. One that comes in the place of the expected one says that all
// before it are gone: a consumer hands out in the order of the log.
func (h *handing) handed(meta *jetstream.MsgMetadata) {
	seq := meta.Sequence.Stream
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[seq] = struct{}{}
	h.last, h.pending, h.changed = max(h.last, seq), meta.NumPending, true
	if h.expect == 0 || seq < h.expect {
		return
	}
	if seq > h.expect {
		h.gone = append(h.gone, span{h.expect, seq - 1})
	}
	h.expect = 0
}

func (h *handing) acknowledged(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, seq)
	h.changed = true
}

// moved reports whether there is something to look at.
func (h *handing) moved() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed || h.pending > 0 || h.expect > 0 || len(h.open) >= h.window
}

// look returns how it stands, and what was passed over since the last look.
func (h *handing) look() (m mark, gone []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m = mark{Floor: h.last, Next: h.expect}
	for seq := range h.open {
		if m.Open == 0 || seq < m.Open {
			m.Open, m.Floor = seq, min(h.last, seq-1)
		}
	}
	gone, h.gone, h.changed = h.gone, nil, false
	return m, gone
}

// again undoes a look that failed, and enters what it did not get to tell.
func (h *handing) again(gone []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone, h.changed = append(h.gone, gone...), true
}

// expectNext enters what waits, unless it was handed out meanwhile.
func (h *handing) expectNext(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seq > h.last || seq == 0 {
		h.expect = seq
	}
}
