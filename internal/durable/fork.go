package durable

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxForks limits the forks of one stream, because its record lists them.
const maxForks = 1000

// maxDepth limits chains of forks. Reading the last fork reads all of them, and deleting it may end
// all of them in one atomic step, which has room for 1000 records.
const maxDepth = 200

// source returns the source of a new stream; nil if that is no fork.
func (e *Engine) source(ctx context.Context, key Key, c *Create) (*stream, error) {
	if c.Fork == nil {
		return nil, nil //nolint:nilnil // nil: no fork
	}
	source, found, err := e.open(ctx, Key{key.Namespace, c.Fork.From})
	switch {
	case sluice.CodeOf(err) == sluice.StreamGone:
		return nil, sluice.Errorf(sluice.Conflict, "the source was deleted")
	case err != nil:
		return nil, err
	case !found:
		return nil, NoSource(c.Fork.From)
	case c.Fork.From == key.Path:
		return nil, sluice.Errorf(sluice.Conflict, "a stream cannot be a fork of itself")
	case c.ContentType != "" && MediaType(c.ContentType) != MediaType(source.ContentType):
		return nil, sluice.Errorf(sluice.Conflict, "the source has another content type: %s", source.ContentType)
	case source.depth() >= maxDepth:
		return nil, sluice.Errorf(sluice.Conflict, "fork depth is limited to %d; fork an ancestor of the source", maxDepth)
	}
	return source, nil
}

func (r *Record) depth() int {
	if r.Fork == nil {
		return 0
	}
	return r.Fork.Depth
}

// branch turns a new stream into a fork of its source, and returns the change of the source's
// record.
func (e *Engine) branch(ctx context.Context, made, source *stream, c *Create) (Change, error) {
	tail, err := e.tail(ctx, source)
	if err != nil {
		return Change{}, err
	}
	offset := tail
	if c.Fork.Offset != nil {
		offset = *c.Fork.Offset
	}
	if offset > tail {
		return Change{}, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Offset is beyond the end of the source")
	}
	if made.Inherited, err = e.inherit(ctx, source, offset, c.Fork.Sub); err != nil {
		return Change{}, err
	}
	made.ContentType = source.ContentType
	if made.Lifetime.isZero() {
		made.Lifetime = source.Lifetime
	}
	next := source.Record
	if next.ID == "" {
		next.ID = newID()
	}
	made.Fork = &Fork{From: source.key.Path, ID: next.ID, Offset: offset, Sub: c.Fork.Sub, Depth: source.depth() + 1}
	kept := source.without("")
	if len(kept) >= maxForks {
		if kept, err = e.alive(ctx, source, "", maxForks); err != nil {
			return Change{}, err
		}
	}
	if len(kept) >= maxForks {
		return Change{}, sluice.Errorf(sluice.Conflict, "the source has %d forks, the limit", len(kept))
	}
	next.Children = append(kept, Child{made.key.Path, made.ID})
	return source.change(next, e.now())
}

// inherit returns the segments that a fork takes from its source: up to an offset, and sub JSON
// messages, or sub bytes of the next message, behind it.
func (e *Engine) inherit(ctx context.Context, source *stream, offset uint64, sub int64) ([]Segment, error) {
	segments := source.segments(source.key.Path)
	for upTo := offset; sub > 0; {
		piece, ev, err := e.next(ctx, source.key.Namespace, behind(segments, upTo))
		switch {
		case err != nil:
			return nil, err
		case ev == nil:
			return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Sub-Offset is beyond the end of the source")
		case IsJSON(source.ContentType):
			sub--
			upTo, offset = ev.Seq, ev.Seq
		case sub > int64(len(ev.Data)):
			return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Sub-Offset is beyond the end of the message, which has %d bytes", len(ev.Data))
		default:
			kept := clip(segments, ev.Seq)
			last := &kept[len(kept)-1]
			if sub < int64(len(ev.Data)) || piece.Cut > 0 {
				last.Cut = sub
			}
			return kept, nil
		}
	}
	return clip(segments, offset), nil
}

// next returns the first event of the segments, cut to its segment, and the segment. The event is
// nil if there is none.
func (e *Engine) next(ctx context.Context, namespace string, segments []Segment) (Segment, *sluice.Event, error) {
	for _, s := range segments {
		events, err := e.store.Events(ctx, namespace, s.Path, s.After, s.UpTo)
		if err != nil {
			return s, nil, err
		}
		if len(events) > 0 {
			ev := s.cut(events[0])
			return s, &ev, nil
		}
	}
	return Segment{}, nil, nil
}

// Delete deletes a stream. A stream with forks is kept for them until the last one is deleted. The
// events stay in the log. Codes: NotFound; StreamGone.
func (e *Engine) Delete(ctx context.Context, key Key) error {
	return again(ctx, func() error {
		s, found, err := e.open(ctx, key)
		if err != nil {
			return err
		}
		if !found {
			return NotThere()
		}
		changes, err := e.ending(ctx, s)
		if err != nil {
			return err
		}
		_, err = e.store.Commit(ctx, Commit{Namespace: key.Namespace, Fence: Fence{key.Path, s.revision}, Changes: changes})
		return err
	})
}

// ending returns the changes that delete a stream: to its own record, to those of sources that were
// kept only for it, and to that of the next source, which no longer lists it.
func (e *Engine) ending(ctx context.Context, s *stream) ([]Change, error) {
	alive, err := e.alive(ctx, s, "", 1)
	if err != nil {
		return nil, err
	}
	if len(alive) > 0 {
		next := s.Record
		next.State = Soft
		change, err := s.change(next, e.now())
		return []Change{change}, err
	}
	var changes []Change
	for s != nil {
		last, err := e.store.Tail(ctx, s.key.Namespace, s.key.Path)
		if err != nil {
			return nil, err
		}
		change, err := s.change(Record{State: Gone, Start: max(last, s.Start), Writes: s.Writes}, e.now())
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
		var more []Change
		if s, more, err = e.released(ctx, s); err != nil {
			return nil, err
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// released returns the source of a fork that ends if the source ends with it, and otherwise the
// change of the source's record.
func (e *Engine) released(ctx context.Context, s *stream) (*stream, []Change, error) {
	if s.Fork == nil {
		return nil, nil, nil
	}
	source, err := e.load(ctx, Key{s.key.Namespace, s.Fork.From})
	if err != nil || source.ID != s.Fork.ID || source.State == Gone {
		return nil, nil, err
	}
	if source.State == Soft {
		others, err := e.alive(ctx, source, s.ID, 1)
		if err != nil {
			return nil, nil, err
		}
		if len(others) == 0 {
			return source, nil, nil
		}
	}
	next := source.Record
	next.Children = source.without(s.ID)
	change, err := source.change(next, e.now())
	return nil, []Change{change}, err
}
