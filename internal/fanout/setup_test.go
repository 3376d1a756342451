package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server/gsl"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// memory is a log of one namespace and the records of its subscriptions.
type memory struct {
	mu        sync.Mutex
	events    []sluice.Event
	last      uint64
	id        string // of the log
	former    string // ID of the log in the backup that it was restored from
	first     uint64 // messages below it have left the log
	changed   chan struct{}
	cursors   map[int]fanout.Cursor
	positions map[string]fanout.Position
	past      map[string]fanout.Past
	busy      map[string]bool
	created   map[string]fanout.Stored // that this process has just created
	consumers map[string][]uint64      // floors of subscriptions with consumers of their own
	reads     int                      // calls of Next
	asked     int                      // calls of Stored and Bounds
	full      bool                     // nothing can be stored
	silent    bool                     // cursors are not stored, and no answer comes
	data      []byte                   // of each event
	failed    error                    // what following ends with, once
	hooks     map[string]func() error  // by method: called first, and its error is the method's
	calls     map[string]int           // by method
}

func newMemory() *memory {
	return &memory{
		first: 1, changed: make(chan struct{}), cursors: map[int]fanout.Cursor{}, positions: map[string]fanout.Position{}, consumers: map[string][]uint64{},
		created: map[string]fanout.Stored{}, hooks: map[string]func() error{}, calls: map[string]int{},
	}
}

// on lets a method call a hook first from now on; nil: none.
func (m *memory) on(method string, hook func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks[method] = hook
}

// failing returns a hook that fails a number of times with a code.
func failing(times int, code sluice.Code) func() error {
	var n atomic.Int64
	return func() error {
		if n.Add(1) <= int64(times) {
			return sluice.Errorf(code, "once more")
		}
		return nil
	}
}

// called counts a call and runs its hook.
func (m *memory) called(method string) error {
	m.mu.Lock()
	m.calls[method]++
	hook := m.hooks[method]
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook()
}

// count returns how often a method was called.
func (m *memory) count(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[method]
}

func (m *memory) publish(paths ...sluice.Path) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, path := range paths {
		m.last++
		m.events = append(m.events, sluice.Event{ID: fmt.Sprint("e", m.last), Seq: m.last, Path: path, Data: m.data})
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// remove lets the next message be stored behind a gap.
func (m *memory) remove(seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = seq
}

// expire lets the messages below a sequence leave the log.
func (m *memory) expire(first uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.first = first
	m.events = slices.DeleteFunc(m.events, func(e sluice.Event) bool { return e.Seq < first })
}

var errNoEvent = errors.New("no event")

var errRecreated = errors.New("the log was recreated")

// recreate makes the log end at a sequence, and ends following it.
func (m *memory) recreate(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.failed = last, errRecreated
	m.events = slices.DeleteFunc(m.events, func(e sluice.Event) bool { return e.Seq > last })
	close(m.changed)
	m.changed = make(chan struct{})
}

// renew makes the log an empty one with another ID, without its subscriptions.
func (m *memory) renew(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.first, m.last, m.events = id, 1, 0, nil
	clear(m.positions)
}

func message(e sluice.Event) fanout.Message {
	if e.Path == "" { // a message that is no event
		return fanout.Message{Subject: "events.n.x.=61", Seq: e.Seq, Event: func() (sluice.Event, error) { return e, errNoEvent }}
	}
	return fanout.Message{Subject: streams.Names{}.Subject("n", e.Path), Seq: e.Seq, Event: func() (sluice.Event, error) {
		event := e
		event.Seq = 0 // the message knows
		return event, nil
	}}
}

// after returns the stored events behind a sequence, and a channel that is closed when there are more.
func (m *memory) after(seq uint64) ([]sluice.Event, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []sluice.Event
	for _, e := range m.events {
		if e.Seq > seq {
			found = append(found, e)
		}
	}
	return found, m.changed
}

func (m *memory) Follow(ctx context.Context, _ string, after uint64, each func(fanout.Message) error) error {
	if err := m.called("Follow"); err != nil {
		return err
	}
	for {
		found, changed := m.after(after)
		for _, e := range found {
			if err := each(message(e)); err != nil {
				return err
			}
			after = e.Seq
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m.mu.Lock()
		failed := m.failed
		m.failed = nil
		m.mu.Unlock()
		if failed != nil {
			return failed
		}
	}
}

func (m *memory) Subjects() fanout.Subjects { return gsl.NewSublist[any]() }

func (m *memory) Bounds(_ context.Context, ns string) (fanout.Bounds, error) {
	if ns == "gone" {
		return fanout.Bounds{}, sluice.Errorf(sluice.NotFound, "namespace %q not found", ns)
	}
	if err := m.called("Bounds"); err != nil {
		return fanout.Bounds{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	return fanout.Bounds{First: m.first, Last: m.last, Log: m.id, Former: m.former}, nil
}

func (m *memory) Next(_ context.Context, _, subject string, from uint64, limit int) (all []fanout.Message, err error) {
	if err = m.called("Next"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.reads++
	m.mu.Unlock()
	filter := gsl.NewSublist[int]()
	if err := filter.Insert(subject, 1); err != nil {
		return nil, err
	}
	found, _ := m.after(from - 1)
	for _, e := range found {
		if msg := message(e); filter.HasInterest(msg.Subject) && len(all) < limit {
			all = append(all, msg)
		}
	}
	return all, nil
}

func (m *memory) Shard(id string) int { return int(id[0]) % 2 }

func (m *memory) Stored(_ context.Context, sub *sluice.Subscription) (fanout.Stored, error) {
	if err := m.called("Stored"); err != nil {
		return fanout.Stored{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	p, ok := m.positions[sub.ID]
	p.Floors = slices.Clone(p.Floors)
	return fanout.Stored{Position: p, Known: ok, Busy: m.busy[sub.ID], Past: m.past[sub.ID]}, nil
}

func (m *memory) New(sub *sluice.Subscription) (fanout.Stored, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.created[sub.ID]
	delete(m.created, sub.ID)
	return s, ok
}

func (m *memory) All(ctx context.Context) (func(*sluice.Subscription) fanout.Stored, error) {
	if err := m.called("All"); err != nil {
		return nil, err
	}
	return func(sub *sluice.Subscription) fanout.Stored {
		s, _ := m.Stored(ctx, sub)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls["Stored"]-- // it is one reading
		return s
	}, nil
}

func (m *memory) PutPosition(_ context.Context, sub *sluice.Subscription, p fanout.Position) error {
	if err := m.called("PutPosition"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return sluice.Errorf(sluice.QuotaExceeded, "full")
	}
	m.positions[sub.ID] = p
	return nil
}

func (m *memory) Adopt(_ context.Context, sub *sluice.Subscription) (fanout.Position, error) {
	if err := m.called("Adopt"); err != nil {
		return fanout.Position{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := fanout.Position{Shared: true, Floors: slices.Repeat([]uint64{max(sub.From.Seq, 1) - 1}, len(streams.Names{}.PushFilters(sub)))}
	if own, ok := m.consumers[sub.ID]; ok {
		p.Floors = own
		delete(m.consumers, sub.ID)
	}
	return p, nil
}

func (m *memory) Cursor(_ context.Context, _ string, shard int) (fanout.Cursor, error) {
	if err := m.called("Cursor"); err != nil {
		return fanout.Cursor{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cursors[shard], nil
}

func (m *memory) PutCursor(ctx context.Context, _ string, shard int, c fanout.Cursor) (fanout.Cursor, error) {
	if err := m.called("PutCursor"); err != nil {
		return c, err
	}
	m.mu.Lock()
	if m.silent {
		m.mu.Unlock()
		<-ctx.Done()
		return c, ctx.Err()
	}
	defer m.mu.Unlock()
	if m.full {
		return c, sluice.Errorf(sluice.QuotaExceeded, "full")
	}
	if m.cursors[shard].Revision != c.Revision {
		return c, sluice.Errorf(sluice.Conflict, "revision %d", m.cursors[shard].Revision)
	}
	c.Revision++
	m.cursors[shard] = c
	return c, nil
}

func (m *memory) cursor(shard int) uint64 { return m.whole(shard).Seq }

// whole returns a stored cursor with its revision.
func (m *memory) whole(shard int) fanout.Cursor {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cursors[shard]
}

// sized sets the size of the data of later events.
func (m *memory) sized(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = make([]byte, n)
}

// position returns the stored position of the subscription a.
func (m *memory) position() fanout.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.positions["a"]
}

// world is a router over a memory.
type world struct {
	*memory

	t      *testing.T
	router *fanout.Router
	shares func(*sluice.Subscription, fanout.Stored) bool
	lost   atomic.Bool // its shards may belong to another router
	stop   func()
	seats  map[string]*fanout.Seat
	woken  map[string]int
	wakes  sync.Mutex
}

// over returns a router over a memory, in a bubble of synctest.
func over(t *testing.T, m *memory) *world {
	t.Helper()
	w := &world{memory: m, t: t, seats: map[string]*fanout.Seat{}, woken: map[string]int{}}
	w.shares = func(*sluice.Subscription, fanout.Stored) bool { return true }
	w.router = fanout.New(fanout.Deps{
		Log: m, Records: m, Filters: streams.Names{}.PushFilters,
		Shares: func(sub *sluice.Subscription, s fanout.Stored) bool { return w.shares(sub, s) },
		Owns:   func(int) bool { return !w.lost.Load() },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.router.Run(ctx)
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(w.stop)
	return w
}

// sub returns a subscription from a sequence on.
func sub(id string, pattern sluice.Pattern, from uint64) *sluice.Subscription {
	s := &sluice.Subscription{
		ID: id, Namespace: "n", Mode: sluice.Push, Pattern: pattern, Lifecycle: sluice.Lifecycle{State: sluice.Active},
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: from}, Policy: sluice.Policy{Window: 4},
	}
	s.SetDefaults()
	return s
}

// join lets subscriptions join, and waits until they are placed.
func (w *world) join(subs ...*sluice.Subscription) {
	w.t.Helper()
	for _, s := range subs {
		w.seats[s.ID] = w.router.Join(s, func() {
			w.wakes.Lock()
			defer w.wakes.Unlock()
			w.woken[s.ID]++
		})
	}
	w.router.Commit()
	synctest.Wait()
}

func (w *world) wokenUp() map[string]int {
	w.wakes.Lock()
	defer w.wakes.Unlock()
	return maps.Clone(w.woken)
}

func (w *world) open(s *sluice.Subscription) *fanout.Source {
	w.t.Helper()
	src, moved, err := w.router.Open(s)
	require.NoError(w.t, err)
	require.Nil(w.t, moved)
	return src
}

// got returns what a source has handed over.
func got(src *fanout.Source) (all []*model.Delivery) {
	for {
		synctest.Wait()
		select {
		case d := <-src.Deliveries():
			all = append(all, d)
		default:
			return all
		}
	}
}

func seqs(all []*model.Delivery) string {
	found := make([]uint64, len(all))
	for i, d := range all {
		found[i] = d.Event.Seq
	}
	return text(found)
}

// text returns sequences as a text, such as "1 2 ".
func text(seqs []uint64) string {
	var b strings.Builder
	for _, seq := range seqs {
		b.WriteString(strconv.FormatUint(seq, 10) + " ")
	}
	return b.String()
}

// settle acknowledges deliveries.
func settle(t *testing.T, all ...*model.Delivery) {
	t.Helper()
	for _, d := range all {
		require.NoError(t, d.Receipt.Ack())
	}
	synctest.Wait()
}

// settleAll takes and acknowledges all that comes, and returns the sequences.
func settleAll(t *testing.T, src *fanout.Source) string {
	t.Helper()
	var heard strings.Builder
	for {
		all := got(src)
		if len(all) == 0 {
			return heard.String()
		}
		heard.WriteString(seqs(all))
		settle(t, all...)
	}
}
