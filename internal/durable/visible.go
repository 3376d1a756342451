package durable

import (
	"context"
	"slices"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// visibleLooked is how many events Visible reads: the last one, and the first ones of the stream.
const visibleLooked = pageLooked

// Visible reports whether a reader may know that a stream exists: the stream is empty, or the
// reader may see one of its events. It reads the last event and about the first ten thousand. If it
// finds no visible one among these, and there are more, the stream counts as visible. A missing
// stream counts as visible, too, because the caller finds out by itself.
func (e *Engine) Visible(ctx context.Context, key Key, show Show) (bool, error) {
	s, found, err := e.open(ctx, key)
	if isLost(err) || err == nil && !found {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return e.visible(ctx, s, show)
}

func (e *Engine) visible(ctx context.Context, s *stream, show Show) (bool, error) {
	tail, err := e.tail(ctx, s)
	if err != nil || tail == 0 {
		return err == nil, err
	}
	segments := clip(s.segments(s.key.Path), tail)
	looked := 0
	for _, part := range append(behind(segments, tail-1), segments...) { // the last event first: in most cases it decides
		seen, n, err := e.shown(ctx, s.key.Namespace, part, show, visibleLooked-looked)
		if looked += n; err != nil || seen || looked >= visibleLooked {
			return err == nil, err
		}
	}
	return looked == 0, nil // true if all events were erased: as for an empty stream
}

// shown reports whether a reader may see one of a segment's first most events, and how many it
// looked at.
func (e *Engine) shown(ctx context.Context, namespace string, part Segment, show Show, most int) (seen bool, looked int, err error) {
	for part.After < part.UpTo && looked < most {
		events, err := e.store.Events(ctx, namespace, part.Path, part.After, part.UpTo)
		if err != nil || len(events) == 0 {
			return false, looked, err
		}
		for i := range events[:min(len(events), most-looked)] {
			looked++
			if seen, err := show(&events[i]); err != nil || seen {
				return seen, looked, err
			}
		}
		part.After = events[len(events)-1].Seq
	}
	return false, looked, nil
}

// lastLooked is how many events LastVisible reads, approximately. lookFirst is how many sequences
// it searches first; each further search covers four times as many.
const (
	lastLooked = 1000
	lookFirst  = 64
)

// LastVisible returns the sequence of a stream's last event, not after upTo, that a reader may see.
// It returns 0 if there is none among about the last thousand, or if there is no stream.
func (e *Engine) LastVisible(ctx context.Context, key Key, upTo uint64, show Show) (uint64, error) {
	s, found, err := e.open(ctx, key)
	if isLost(err) || err == nil && !found {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	looked := 0
	for _, part := range slices.Backward(clip(s.segments(s.key.Path), upTo)) {
		for width := uint64(lookFirst); part.UpTo > part.After && looked < lastLooked; width *= 4 {
			window := part
			if part.UpTo-part.After > width {
				window.After = part.UpTo - width
			}
			seq, n, err := e.lastShown(ctx, s.key.Namespace, window, show)
			if looked += n; err != nil || seq > 0 {
				return seq, err
			}
			part.UpTo = window.After
		}
	}
	return 0, nil
}

// lastShown returns the sequence of a segment's last visible event, 0 if there is none, and how
// many events it looked at.
func (e *Engine) lastShown(ctx context.Context, namespace string, part Segment, show Show) (seq uint64, looked int, err error) {
	for part.After < part.UpTo {
		events, err := e.store.Events(ctx, namespace, part.Path, part.After, part.UpTo)
		if err != nil || len(events) == 0 {
			return seq, looked, err
		}
		for i := range events {
			looked++
			seen, err := show(&events[i])
			if err != nil {
				return 0, looked, err
			}
			if seen {
				seq = events[i].Seq
			}
		}
		part.After = events[len(events)-1].Seq
	}
	return seq, looked, nil
}

// concealed returns the error for a missing stream if the page has no messages and the reader may
// not know that the stream exists.
func (e *Engine) concealed(ctx context.Context, s *stream, page *Page, show Show) error {
	if len(page.Messages) > 0 {
		return nil
	}
	seen, err := e.visible(ctx, s, show)
	if err == nil && !seen {
		err = NotThere()
	}
	return err
}

// NoSource returns the error for a missing source of a fork. Code NotFound.
func NoSource(path sluice.Path) error {
	return sluice.Errorf(sluice.NotFound, "source stream %s not found", path)
}
