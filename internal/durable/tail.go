package durable

import (
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"sync"
	"time"
	"weak"

	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of the messages that are kept for followers, in bytes unless stated otherwise.
const (
	tailSize   = 256             // messages of a stream
	tailBytes  = 1 << 20         // of a stream
	tailsBytes = 64 << 20        // of all streams
	messageUse = 1 << 10         // memory of a message besides its data
	tailLinger = 5 * time.Second // how long a tail without followers is kept
	tailsMost  = 4096            // with more tails, none is kept without followers
)

// errEnd ends a ring: the stream is closed, or the tail is over.
var errEnd = errors.New("the stream has ended")

// item is a message of a stream for all its followers.
type item struct {
	seq    uint64
	weight int
	event  func() (sluice.Event, error)

	loading sync.Once
	loaded  sluice.Event
	data    []byte // the data as the stream shows it
}

// newRing returns a ring for a stream's last messages, of at most share bytes.
func newRing(share int) *ringbuffer.Ring[*item] {
	ring := ringbuffer.New(ringbuffer.Of[*item]{
		Seq:    func(it *item) uint64 { return it.seq },
		Weight: func(it *item) int { return it.weight },
	}, tailSize, share, 0)
	ring.Strict()
	return ring
}

// load decodes a message once, and returns its event and its data as a stream of the content type
// shows it.
func (it *item) load(contentType string) (*sluice.Event, []byte) {
	it.loading.Do(func() {
		it.loaded, _ = it.event() // even with an error, the event has its data
		it.data = message(&it.loaded, contentType)
	})
	return &it.loaded, it.data
}

// tail is the end of a stream, shared by all its followers: the last messages and the record, as
// the store reports them in the order of the log. A follower at an older position reads the log by
// itself.
type tail struct {
	key    Key
	set    *tails
	ring   *ringbuffer.Ring[*item]
	ready  chan struct{} // closed when everything behind floor is reported, or failed is set
	failed error
	stop   func()

	// Under the set's lock.
	followers int
	idle      bool // a timer is set that removes the tail if it has no followers then

	mu    sync.Mutex
	s     *stream            // the stream as of the last record; nil before begun. It is replaced, never changed.
	floor uint64             // the tail has everything that is stored behind it
	early *News              // the last record that was reported before begun
	over  bool               // it cannot be used any more: the stream is another one, or something was missed
	asked time.Time          // when a follower was last made to read by itself because of the record
	form  weak.Pointer[form] // of the last page, while a follower uses it
}

// form is the text of a page, shared by all followers that get the same page.
type form struct {
	first, last uint64
	making      sync.Once
	text        []byte
}

// tails holds the tails in use.
type tails struct {
	mu    sync.Mutex
	all   map[Key]*tail
	share int // the maximum bytes of each
}

// enter returns a stream's tail; the caller calls leave at the end. Codes: NotFound; StreamGone;
// Unavailable.
func (e *Engine) enter(ctx context.Context, key Key) (*tail, error) {
	t, made := e.tails.get(key)
	if made {
		t.failed = e.begin(shutdown.Lasting(ctx), t)
		if t.failed != nil || t.isOver() {
			t.set.forget(t)
		}
		close(t.ready)
	}
	select {
	case <-t.ready:
	case <-ctx.Done():
		t.leave()
		return nil, context.Cause(ctx)
	}
	if t.failed != nil {
		t.leave()
		return nil, t.failed
	}
	return t, nil
}

// begin starts to listen for the news of a stream, and then reads the stream, so that everything
// behind the end that it reads is reported.
func (e *Engine) begin(ctx context.Context, t *tail) (err error) {
	if t.stop, err = e.store.Listen(ctx, t.key.Namespace, t.key.Path, t.take); err != nil {
		return err
	}
	s, err := e.present(ctx, t.key)
	if err != nil {
		return err
	}
	end, err := e.tail(ctx, s)
	if err == nil {
		t.begun(s, end)
	}
	return err
}

// get returns a stream's tail, and counts one more follower. made reports whether the tail is new.
func (ts *tails) get(key Key) (t *tail, made bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t = ts.all[key]
	if made = t == nil; made {
		t = &tail{key: key, set: ts, ready: make(chan struct{}), ring: newRing(ts.share)}
		ts.all[key] = t
		ts.divide()
	}
	t.followers++
	return t, made
}

// leave ends the use of the tail by a follower.
func (t *tail) leave() {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	t.followers--
	switch {
	case t.followers > 0 || t.idle:
	case t.set.all[t.key] == t && len(t.set.all) <= tailsMost:
		t.idle = true
		time.AfterFunc(tailLinger, t.retire)
	default:
		t.set.drop(t)
	}
}

// retire removes the tail if it has no followers.
func (t *tail) retire() {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	if t.idle = false; t.followers == 0 {
		t.set.drop(t)
	}
}

// forget makes later followers get another tail.
func (ts *tails) forget(t *tail) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.drop(t)
}

// drop makes later followers get another tail, and ends the tail if it has no followers. The caller
// holds the lock.
func (ts *tails) drop(t *tail) {
	if ts.all[t.key] == t {
		delete(ts.all, t.key)
		ts.divide()
	}
	if t.followers == 0 && t.stop != nil {
		t.stop()
	}
}

// divide divides the memory among the tails. The share changes in powers of two. The caller holds
// the lock.
func (ts *tails) divide() {
	share := shareOf(len(ts.all))
	if share == ts.share {
		return
	}
	ts.share = share
	for _, t := range ts.all {
		t.ring.Limit(share)
	}
}

// shareOf returns the maximum bytes of each tail if there are this many.
func shareOf(tails int) int {
	return min(tailBytes, tailsBytes>>bits.Len(uint(max(tails, 1)-1)))
}

// begun enters the stream as it was read, while news may have come already.
func (t *tail) begun(s *stream, end uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s, t.floor = s.light(), end
	if t.early != nil && !t.turn(*t.early) {
		t.over = true
	}
	t.early = nil
}

// take enters news. Followers see all of them or none.
func (t *tail) take(news []News) {
	t.mu.Lock()
	over := len(news) == 0
	for _, n := range news {
		switch {
		case over:
		case n.Event == nil:
			over = !t.turn(n)
		default:
			over = !t.ring.Add(&item{seq: n.Seq, weight: n.Size + messageUse, event: n.Event})
		}
	}
	if over {
		t.over = true
		t.ring.End(errEnd)
	}
	t.mu.Unlock()
	if over {
		t.set.forget(t)
	}
}

// turn enters a record. It returns false if the record is that of another stream, or the stream is
// deleted.
func (t *tail) turn(n News) bool {
	switch {
	case t.s == nil:
		t.early = &n
		return true
	case n.Seq <= t.s.revision:
		return true
	}
	next := &stream{key: t.key, revision: n.Seq}
	if json.Unmarshal(n.Record, &next.Record) != nil || next.State != Live || next.ID != t.s.ID {
		return false
	}
	if t.s = next.light(); next.Closed {
		t.ring.End(errEnd)
	}
	return true
}

// light returns the stream without the lists that followers do not need.
func (s *stream) light() *stream {
	l := *s
	l.Producers, l.Children = nil, nil
	return &l
}

// part holds the next messages of a tail.
type part struct {
	*stream

	items    []*item
	upToDate bool
	changed  <-chan struct{} // closed when there are more messages; nil if items is not empty, or the stream is closed
	form     *form
}

// part returns the messages behind a place, as many as fit into the slice. It returns false if the
// follower, which last read the log at the time read, has to read it again.
func (t *tail) part(after uint64, into []*item, read, now time.Time) (p part, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = t.over || t.s.expired(now) // what is stored later belongs to another stream
	if t.over || after < t.floor || t.toRead(read, now) {
		return part{}, false
	}
	taken, err := t.ring.Take(max(after, t.s.Start), into)
	if !taken.Covered {
		return part{}, false
	}
	p = part{stream: t.s, items: taken.Items, upToDate: true}
	if n := len(p.items); n > 0 {
		last := p.items[n-1].seq
		p.upToDate = last == t.ring.Last()
		p.form = t.formOf(p.items[0].seq, last)
	} else if err == nil {
		p.changed = taken.Changed
	}
	return p, true
}

// toRead reports whether a follower has to read the log because of the record: to renew the
// lifetime, or to complete an abandoned record. It asks only one follower in a while to do so, and
// none that has just read.
func (t *tail) toRead(read, now time.Time) bool {
	if now.Sub(read) < believed || !t.s.stale(now) && !t.s.abandoned(now) || now.Sub(t.asked) < believed {
		return false
	}
	t.asked = now
	return true
}

// formOf returns the form of the messages from one sequence to another.
func (t *tail) formOf(first, last uint64) *form {
	if f := t.form.Value(); f != nil && f.first == first && f.last == last {
		return f
	}
	f := &form{first: first, last: last}
	t.form = weak.Make(f)
	return f
}

// told returns the sequence up to which a follower that now reads the stream to its end needs
// nothing from the tail.
func (t *tail) told() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.floor, t.ring.Last())
}

// isOver reports whether followers have to get another tail.
func (t *tail) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}
