package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Store stores the messages and the records of streams, both in the log of their namespace.
type Store interface {
	// Record returns a path's record and its revision; 0: nothing. It sees everything stored before
	// the call. Code NotFound for the namespace.
	Record(ctx context.Context, namespace string, path sluice.Path) (data []byte, revision uint64, err error)
	// Tail returns the sequence of the last event on a path, 0 if there is none. It sees everything
	// stored before the call.
	Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, error)
	// LastSeq returns the sequence of the last event ever stored in a namespace, even if it is
	// deleted. It sees everything stored before the call.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
	// Events returns the first events on a path in (after, upTo], ascending, possibly not all; none
	// only if there are none.
	Events(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) ([]sluice.Event, error)
	// Notes returns the notes on events of a path in (after, upTo], ascending, possibly not all,
	// and the sequence up to which it looked; 0: there are no more events. It sees everything
	// stored before the call.
	Notes(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) (notes [][]byte, last uint64, err error)
	// Commit stores events and records in one step and returns the sequence of the last event, or
	// of the record if it is one record alone; a single record lies right behind the events. Code
	// Conflict if a revision is not the stored one; nothing is stored then.
	Commit(ctx context.Context, c Commit) (last uint64, err error)
	// Listen calls each for what is stored on the path from the call on, in order, until stop is called:
	// with several news if they were stored in one step, and with none if some may have been missed.
	// News may come that are older than the call. Each does not block. Stop may be called again.
	Listen(ctx context.Context, namespace string, path sluice.Path, each func([]News)) (stop func(), err error)
	// Gaps returns the ranges of a namespace's log with events that are lost to damage.
	Gaps(namespace string) []sluice.Gap
	// MaxData returns the size of an event's data that is stored with any attributes.
	MaxData() int
}

// News is an event or a record that was stored on a path.
type News struct {
	Seq    uint64
	Size   int                          // in bytes
	Event  func() (sluice.Event, error) // decodes it; with an error too, it has its data
	Record []byte                       // if Event is nil
}

// Commit is an atomic write.
type Commit struct {
	Namespace string
	Events    []sluice.Event
	Fence     Fence // the condition of the write
	Changes   []Change
	Note      []byte // stored with the last event, for Notes; it cannot be forged
}

// Fence requires that the record of a path has a revision.
type Fence struct {
	Path     sluice.Path
	Revision uint64
}

// Change is a new record with the required revision of the previous one.
type Change struct {
	Fence

	Data []byte
	Keep Keep
	For  time.Duration // of KeepFor
	Tidy bool          // remove earlier ones, which is mostly postponed
}

// Keep is a record's retention.
type Keep int

// Retention of records: until replaced, for a time and then until no event of that time is stored,
// or as long as the events of their time.
const (
	KeepForever Keep = iota
	KeepFor
	KeepAsEvents
)

// tidyEvery is after how many writes of a record its earlier versions are removed.
const tidyEvery = 16

// tries limits repeated decisions after concurrent changes of the same stream.
const tries = 100

// Engine serves streams.
type Engine struct {
	store  Store
	now    func() time.Time
	turns  keylock.Turns[Key]
	memory *memory
	tails  tails
}

// New returns an engine. It checks its memory of streams against the log, so there may be any
// number of engines over one log.
func New(store Store, now func() time.Time) *Engine {
	return &Engine{store: store, now: now, memory: newMemory(), tails: tails{all: map[Key]*tail{}, share: shareOf(0)}}
}

// Forget clears the memory of a deleted namespace: in the log of a new one of the same name,
// another record may have the same revision.
func (e *Engine) Forget(namespace string) { e.memory.forget(namespace) }

// Key identifies a stream.
type Key struct {
	Namespace string
	Path      sluice.Path
}

// stream is a record as read.
type stream struct {
	Record

	key      Key
	revision uint64
}

// NotThere returns the error of a missing stream. Code NotFound.
func NotThere() error { return sluice.Errorf(sluice.NotFound, "stream not found") }

// isLost reports whether an error says that there is no stream.
func isLost(err error) bool {
	code := sluice.CodeOf(err)
	return code == sluice.NotFound || code == sluice.StreamGone
}

func gone() error {
	return sluice.Errorf(sluice.StreamGone, "the stream was deleted; it is kept for its forks")
}

// load reads a stream's record. A path without a record has a live one without an id.
func (e *Engine) load(ctx context.Context, key Key) (*stream, error) {
	data, revision, err := e.store.Record(ctx, key.Namespace, key.Path)
	if err != nil {
		return nil, err
	}
	s := &stream{key: key, revision: revision}
	if revision == 0 {
		s.State = Gone
		return s, nil
	}
	if err := json.Unmarshal(data, &s.Record); err != nil {
		return nil, fmt.Errorf("stream %s%s: record: %w", key.Namespace, key.Path, err)
	}
	return s, nil
}

// open reads an existing stream: nil if there is none, and code Gone if it is kept only for its
// forks.
func (e *Engine) open(ctx context.Context, key Key) (s *stream, found bool, err error) {
	s, err = e.load(ctx, key)
	if err != nil {
		return nil, false, err
	}
	switch {
	case s.State == Soft:
		alive, err := e.alive(ctx, s, "", 1)
		if err == nil && len(alive) > 0 {
			err = gone()
		}
		return s, false, err
	case s.State == Live && s.expired(e.now()):
		return s, false, nil
	case s.State == Live:
		return s, true, nil
	}
	return e.implicit(ctx, s)
}

// implicit makes a stream of events on a path without a record: a JSON stream if the first of them
// is JSON.
func (e *Engine) implicit(ctx context.Context, s *stream) (*stream, bool, error) {
	first, err := e.store.Events(ctx, s.key.Namespace, s.key.Path, s.Start, endless)
	if err != nil || len(first) == 0 {
		return s, false, err
	}
	s.Record = Record{Start: s.Start, Writes: s.Writes, ContentType: typeOf(&first[0]), CreatedAt: first[0].Stored}
	return s, true, nil
}

func typeOf(ev *sluice.Event) string {
	switch {
	case ev.JSONData() != nil:
		return JSONType
	case MediaType(ev.ContentType) == "" || ev.IsJSON():
		return DefaultType
	}
	return ev.ContentType
}

// alive returns up to most of a stream's existing forks, except one.
func (e *Engine) alive(ctx context.Context, s *stream, but string, most int) ([]Child, error) {
	var kept []Child
	for _, child := range s.without(but) {
		if len(kept) == most {
			break
		}
		c, err := e.load(ctx, Key{s.key.Namespace, child.Path})
		if err != nil {
			return nil, err
		}
		if c.ID == child.ID && (c.State == Soft || c.State == Live && !c.expired(e.now())) {
			kept = append(kept, child)
		}
	}
	return kept, nil
}

// tail returns the offset at which a stream ends.
func (e *Engine) tail(ctx context.Context, s *stream) (uint64, error) {
	last, err := e.store.Tail(ctx, s.key.Namespace, s.key.Path)
	if err != nil {
		return 0, err
	}
	return s.end(last), nil
}

// end is the offset of a stream's end, given the last event of its path.
func (s *stream) end(last uint64) uint64 {
	if last > s.Start {
		return last
	}
	return s.inheritedEnd()
}

// change returns the write of a record.
func (s *stream) change(r Record, now time.Time) (Change, error) {
	r.Writes++
	data, err := json.Marshal(r)
	if err != nil {
		return Change{}, fmt.Errorf("stream %s%s: record: %w", s.key.Namespace, s.key.Path, err)
	}
	c := Change{Fence: Fence{s.key.Path, s.revision}, Data: data, Tidy: r.Writes%tidyEvery == 0}
	switch {
	case r.State == Gone:
		c.Keep = KeepAsEvents
	case r.State == Live && !r.Lifetime.isZero():
		c.Keep, c.For = KeepFor, r.left(now)
	}
	return c, nil
}

// again repeats act after concurrent changes.
func again(ctx context.Context, act func() error) error {
	for i := range tries {
		err := act()
		if !isRace(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stream: %w", ctx.Err())
		case <-time.After(time.Duration(rand.Int64N(int64(min(i+1, 20)) * int64(time.Millisecond)))): //nolint:gosec // not a secret
		}
	}
	return sluice.Errorf(sluice.Unavailable, "too many concurrent writes to the stream; retry")
}

// events returns the events of messages.
func (e *Engine) events(key Key, contentType string, messages [][]byte) ([]sluice.Event, error) {
	all := make([]sluice.Event, len(messages))
	for i, data := range messages {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("stream: id: %w", err)
		}
		all[i] = sluice.Event{
			Namespace: key.Namespace, Path: key.Path, ID: id.String(), Type: sluice.DefaultType,
			Source: "/namespaces/" + key.Namespace, Time: e.now().UTC(), ContentType: contentType, Data: data,
		}
	}
	return all, nil
}

// messages returns the messages of a body, none of an empty one. Codes InvalidRequest; TooLarge.
func (e *Engine) messages(body []byte, contentType string) ([][]byte, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if !IsJSON(contentType) {
		return split(body, e.store.MaxData(), contentType), nil
	}
	return Flatten(body, maxMessages)
}

// maxMessages limits the messages of one append: an atomic batch has room for 1000, and some are
// records.
const maxMessages = 990
