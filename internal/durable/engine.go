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
	// Record returns a path's record and its revision; revision 0: there is none. It sees
	// everything stored before the call. Code NotFound if there is no such namespace.
	Record(ctx context.Context, namespace string, path sluice.Path) (data []byte, revision uint64, err error)
	// Tail returns the sequence of the last event on a path, 0 if there is none. It sees everything
	// stored before the call.
	Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, error)
	// LastSeq returns the sequence of the last event that was ever stored in a namespace, even if
	// that event is deleted. It sees everything stored before the call.
	LastSeq(ctx context.Context, namespace string) (uint64, error)
	// SeqAt returns the sequence of the first event or record of a namespace that was stored at a
	// time or later; 0: there is none. It sees everything stored before the call.
	SeqAt(ctx context.Context, namespace string, at time.Time) (uint64, error)
	// Events returns the first events on a path in (after, upTo], ascending, possibly not all of
	// them. It returns none only if there are none.
	Events(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) ([]sluice.Event, error)
	// Notes returns the notes on events of a path in (after, upTo], ascending, possibly not all of
	// them, and the sequence up to which it looked; 0: there are no more events. It sees everything
	// stored before the call.
	Notes(ctx context.Context, namespace string, path sluice.Path, after, upTo uint64) (notes [][]byte, last uint64, err error)
	// Commit stores events and records atomically. It returns the sequence of the last event, or,
	// if there is only a record, that of the record. A single record is directly after the events.
	// Code Conflict if a revision is not the stored one; then nothing is stored.
	Commit(ctx context.Context, c Commit) (last uint64, err error)
	// Listen calls each for everything that is stored on the path after the call, in order, until
	// stop is called. It passes several news together if they were stored in one step, and none if
	// some may have been missed. It may also pass news that are older than the call. each must not
	// block. stop may be called more than once.
	Listen(ctx context.Context, namespace string, path sluice.Path, each func([]News)) (stop func(), err error)
	// Gaps returns the ranges of a namespace's log with events that are lost to damage.
	Gaps(namespace string) []sluice.Gap
	// MaxData returns the maximum size of an event's data that can be stored with attributes
	// of any size.
	MaxData() int
}

// News is an event or a record that was stored on a path.
type News struct {
	Seq    uint64
	Size   int                          // in bytes
	Event  func() (sluice.Event, error) // decodes the event; even with an error, the event has its data. nil: it is a record
	Record []byte                       // the record, if Event is nil
}

// Commit is an atomic write.
type Commit struct {
	Namespace string
	Events    []sluice.Event
	Fence     Fence // the condition of the write
	Changes   []Change
	Note      []byte // stored with the last event, for Notes; publishers cannot forge it
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
	For  time.Duration // the time of KeepFor
	Tidy bool          // remove earlier versions of the record
}

// Keep is a record's retention.
type Keep int

// Retention of records. KeepForever: until replaced. KeepFor: for a time, and then until no event
// of that time is stored any more. KeepAsEvents: as long as the events that were stored at the same
// time.
const (
	KeepForever Keep = iota
	KeepFor
	KeepAsEvents
)

// tidyEvery is the number of writes of a record after which its earlier versions are removed.
const tidyEvery = 16

// tries limits the retries after concurrent changes of the same stream.
const tries = 100

// Engine serves streams. It is safe for concurrent use.
type Engine struct {
	store  Store
	now    func() time.Time
	turns  keylock.Turns[Key]
	memory *memory
	tails  tails
}

// New returns an engine. There may be any number of engines over one log, because each checks its
// cache of records against the log.
func New(store Store, now func() time.Time) *Engine {
	return &Engine{store: store, now: now, memory: newMemory(), tails: tails{all: map[Key]*tail{}, share: shareOf(0)}}
}

// Forget clears the cache for a deleted namespace, because in the log of a later namespace of the
// same name another record may have the same revision.
func (e *Engine) Forget(namespace string) { e.memory.forget(namespace) }

// Key identifies a stream.
type Key struct {
	Namespace string
	Path      sluice.Path
}

// stream is a stream's record as it was read.
type stream struct {
	Record

	key      Key
	revision uint64
}

// NotThere returns the error for a missing stream. Code NotFound.
func NotThere() error { return sluice.Errorf(sluice.NotFound, "stream not found") }

// isLost reports whether an error says that there is no stream.
func isLost(err error) bool {
	code := sluice.CodeOf(err)
	return code == sluice.NotFound || code == sluice.StreamGone
}

func gone() error {
	return sluice.Errorf(sluice.StreamGone, "the stream was deleted; it is kept for its forks")
}

// load reads a stream's record in any state. For a path without a record it returns one with
// state Gone and revision 0.
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

// current is load, except that an expired stream is as if it had been deleted at its expiry: later
// events on its path belong to another stream.
func (e *Engine) current(ctx context.Context, key Key) (*stream, error) {
	s, err := e.load(ctx, key)
	if err != nil || s.State != Live || !s.expired(e.now()) {
		return s, err
	}
	last, err := e.store.Tail(ctx, key.Namespace, key.Path)
	if err != nil {
		return nil, err
	}
	later, err := e.store.SeqAt(ctx, key.Namespace, s.expiry())
	if err != nil {
		return nil, err
	}
	if later > 0 {
		last = later - 1
	}
	s.Record = Record{State: Gone, Start: max(last, s.revision, s.Start), Writes: s.Writes}
	return s, nil
}

// open reads a stream, and reports whether it exists. Code StreamGone if it was deleted and is kept
// only for its forks.
func (e *Engine) open(ctx context.Context, key Key) (s *stream, found bool, err error) {
	s, err = e.current(ctx, key)
	if err != nil {
		return nil, false, err
	}
	switch s.State {
	case Soft:
		alive, err := e.alive(ctx, s, "", 1)
		if err == nil && len(alive) > 0 {
			err = gone()
		}
		return s, false, err
	case Live:
		return s, true, nil
	case Gone:
	}
	return e.implicit(ctx, s)
}

// implicit returns the stream of the events on a path without a live record, if there are any. Its
// content type is that of the first event.
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

// alive returns up to most of a stream's existing forks, except the one with the id but.
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

// end returns the offset of a stream's end, given the sequence of the last event on its path.
func (s *stream) end(last uint64) uint64 {
	if last > s.Start {
		return last
	}
	return s.inheritedEnd()
}

// change returns the change that stores a record in place of the one that was read.
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

// again repeats act after concurrent changes. Code Unavailable if they do not end.
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

// events returns new events with the messages as their data.
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

// messages returns the messages of a body; an empty body has none. Codes: InvalidRequest; TooLarge.
func (e *Engine) messages(body []byte, contentType string) ([][]byte, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if !IsJSON(contentType) {
		return split(body, e.store.MaxData(), contentType), nil
	}
	return Flatten(body, maxMessages)
}

// maxMessages limits the messages of one append: an atomic batch has room for 1000, and some of
// these are records.
const maxMessages = 990
