package durable

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Create is a request for a new stream.
type Create struct {
	ContentType string // "" is none
	Lifetime    Lifetime
	Closed      bool
	Body        []byte
	Fork        *ForkWish // nil: no fork
	Admit       Admit
}

// ForkWish is the initial content of a fork.
type ForkWish struct {
	From   sluice.Path
	Offset *uint64 // nil: all
	Sub    int64   // bytes, or JSON messages, behind the offset
}

// Info is what the headers of a response say about a stream.
type Info struct {
	ID          string
	ContentType string
	Next        uint64
	Closed      bool
	Lifetime    Lifetime
}

func (s *stream) info(next uint64) Info {
	return Info{ID: s.ID, ContentType: s.ContentType, Next: next, Closed: s.Closed, Lifetime: s.Lifetime}
}

// Create creates a stream. If an equal stream exists, it returns that, and created is false. Codes:
// Conflict if a different stream exists, or if the source of a fork is deleted or has another
// content type; NotFound if there is no such source; InvalidRequest; TooLarge; and those of Admit.
func (e *Engine) Create(ctx context.Context, key Key, c Create) (info Info, created bool, err error) {
	if MediaType(c.ContentType) == wholeEvent {
		return info, false, sluice.Errorf(sluice.InvalidRequest, "%s is reserved for messages that are complete events; use another content type", wholeEvent)
	}
	err = again(ctx, func() error {
		info, created, err = e.tryCreate(ctx, key, &c)
		return err
	})
	return info, created, err
}

func (e *Engine) tryCreate(ctx context.Context, key Key, c *Create) (Info, bool, error) {
	s, found, err := e.open(ctx, key)
	if sluice.CodeOf(err) == sluice.StreamGone {
		return Info{}, false, sluice.Errorf(sluice.Conflict, "the path is in use by a deleted stream that still has forks")
	}
	if err != nil {
		return Info{}, false, err
	}
	source, err := e.source(ctx, key, c)
	if err != nil {
		return Info{}, false, err
	}
	if found {
		return e.same(ctx, s, source, c)
	}
	return e.make(ctx, s, source, c)
}

// same returns an existing stream if it equals the requested one.
func (e *Engine) same(ctx context.Context, s, source *stream, c *Create) (Info, bool, error) {
	wanted := c.ContentType
	if MediaType(wanted) == "" && source == nil {
		wanted = DefaultType
	}
	differs := ""
	switch {
	case wanted != "" && MediaType(wanted) != MediaType(s.ContentType):
		differs = "content type"
	case !c.Lifetime.equal(s.Lifetime) && (source == nil || !c.Lifetime.isZero()):
		differs = "lifetime"
	case c.Closed != s.Closed:
		differs = "being closed"
	case !s.forks(c.Fork):
		differs = "source"
	}
	if differs != "" {
		return Info{}, false, sluice.Errorf(sluice.Conflict, "a stream with a different %s exists", differs)
	}
	next, err := e.tail(ctx, s)
	return s.info(next), false, err
}

// forks reports whether a stream is the requested fork, or no fork if none is requested.
func (s *stream) forks(w *ForkWish) bool {
	if w == nil || s.Fork == nil {
		return w == nil && s.Fork == nil
	}
	return w.From == s.Fork.From && w.Sub == s.Fork.Sub && (w.Offset == nil || *w.Offset == s.Fork.Offset)
}

func (e *Engine) make(ctx context.Context, s, source *stream, c *Create) (Info, bool, error) {
	start, err := e.store.Tail(ctx, s.key.Namespace, s.key.Path)
	if err != nil {
		return Info{}, false, err
	}
	now := e.now()
	made := &stream{key: s.key, revision: s.revision, Record: Record{
		ID: newID(), ContentType: c.ContentType, CreatedAt: now.UTC(), Start: max(start, s.Start), Closed: c.Closed, Lifetime: c.Lifetime, Writes: s.Writes,
	}}
	if MediaType(made.ContentType) == "" {
		made.ContentType = DefaultType
	}
	commit := Commit{Namespace: s.key.Namespace, Fence: Fence{s.key.Path, s.revision}}
	if source != nil {
		change, err := e.branch(ctx, made, source, c)
		if err != nil {
			return Info{}, false, err
		}
		commit.Changes = append(commit.Changes, change)
		made.Start = max(made.Start, made.inheritedEnd()) // the fork's own part begins behind the inherited one
	}
	if made.Lifetime.TTL != nil {
		made.Renewed = now.UTC()
	}
	if commit.Events, err = e.initial(ctx, made, c); err != nil {
		return Info{}, false, err
	}
	own, err := made.change(made.Record, e.now())
	if err != nil {
		return Info{}, false, err
	}
	commit.Changes = append(commit.Changes, own)
	next, err := e.store.Commit(ctx, commit)
	if len(commit.Events) == 0 {
		next = made.inheritedEnd()
	}
	return made.info(next), err == nil, err
}

// initial returns the first events of a new stream, checked by Admit.
func (e *Engine) initial(ctx context.Context, s *stream, c *Create) ([]sluice.Event, error) {
	messages, err := e.messages(c.Body, s.ContentType)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	events, err := e.events(s.key, s.ContentType, messages)
	if err == nil && c.Admit != nil {
		err = c.Admit(ctx, events)
	}
	return events, err
}

// Head returns a stream's information. It does not count as use of the stream, so it does not renew
// its lifetime. Codes: NotFound; StreamGone.
func (e *Engine) Head(ctx context.Context, key Key) (Info, error) {
	s, found, err := e.open(ctx, key)
	if err != nil {
		return Info{}, err
	}
	if !found {
		return Info{}, NotThere()
	}
	next, err := e.tail(ctx, s)
	return s.info(next), err
}

// renew stores that a stream is used, if its lifetime needs a renewal. Code Conflict after a
// concurrent renewal, which has stored the same.
func (e *Engine) renew(ctx context.Context, s *stream, now time.Time) error {
	next := s.renewed(now)
	if next == nil {
		return nil
	}
	change, err := s.change(*next, e.now())
	if err != nil {
		return err
	}
	_, err = e.store.Commit(ctx, Commit{Namespace: s.key.Namespace, Fence: change.Fence, Changes: []Change{change}})
	return err
}
