package durable

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a page. A page that has reached one of them is full.
const (
	pageBytes    = 1 << 20
	pageMessages = 1000
	pageLooked   = 10_000 // events, shown or not
)

// Place is where a reader starts: behind a sequence, or at the stream's present end.
type Place struct {
	After uint64
	Now   bool

	Conceal bool // set for a reader that may not write: unless it may see an event, the stream is NotFound
}

// Show reports whether a reader may see an event.
type Show func(ev *sluice.Event) (bool, error)

// Page is a part of a stream.
type Page struct {
	Info // Next is the position to continue from

	From     uint64
	Messages [][]byte
	UpToDate bool         // the page reaches the end of the stream
	Gaps     []sluice.Gap // ranges of the page in which messages may be lost to damage

	size   int            // of the messages, in bytes
	glance *glance        // read in parallel with the record
	ready  []sluice.Event // events that were read before

	looked int // events that were read

	form *form // shared text of the messages, if other readers get the same page; nil: none
}

// tells reports whether a waiting reader has to get the page.
func (p Page) tells() bool { return len(p.Messages) > 0 || len(p.Gaps) > 0 || p.Ended() }

// Ended reports whether the page ends a closed stream, so that nothing will ever follow it.
func (p Page) Ended() bool { return p.UpToDate && p.Closed }

// Read returns the next page of a stream, without messages that the reader may not see. It counts
// as use of the stream, unless the store is full. Codes: NotFound; StreamGone; InvalidRequest for a
// place behind the end of the namespace's log; and those of show.
func (e *Engine) Read(ctx context.Context, key Key, from Place, show Show) (page Page, err error) {
	err = again(ctx, func() error {
		page, err = e.tryRead(ctx, key, from, show)
		return err
	})
	return page, err
}

func (e *Engine) tryRead(ctx context.Context, key Key, from Place, show Show) (Page, error) {
	seen := e.glance(ctx, key, from)
	defer seen.done.Wait()
	s, found, err := e.open(ctx, key)
	if err != nil {
		return Page{}, err
	}
	if !found {
		return Page{}, NotThere()
	}
	if err := e.renew(ctx, s, e.now()); err != nil && !sluice.IsFull(err) {
		return Page{}, err
	}
	if err := e.rescue(ctx, s); err != nil && !isRace(err) && !sluice.IsFull(err) {
		return Page{}, err
	}
	tail, err := seen.end(ctx, e, s)
	if err != nil {
		return Page{}, err
	}
	if from, err = e.place(ctx, key.Namespace, from, tail); err != nil {
		return Page{}, err
	}
	page := Page{Info: s.info(from.After), From: from.After, glance: seen}
	err = e.collect(ctx, s, tail, show, &page)
	page.Gaps = e.gaps(s, &page, from)
	if err == nil && from.Conceal {
		err = e.concealed(ctx, s, &page, show)
	}
	return page, err
}

// collect adds the messages of a stream that ends at tail to a page, from page.From on, until the
// page is full.
func (e *Engine) collect(ctx context.Context, s *stream, tail uint64, show Show, page *Page) error {
	for _, segment := range clip(behind(s.segments(s.key.Path), page.From), tail) {
		if segment.Path == s.key.Path {
			page.ready = page.glance.take(segment.After, segment.UpTo)
		}
		if whole, err := e.fill(ctx, s.key.Namespace, segment, show, page); err != nil || !whole {
			return err
		}
	}
	page.Next, page.UpToDate = tail, true
	return nil
}

// gaps returns the ranges of a page in which messages of its stream may be lost. At the end of a
// closed stream it also covers the range up to the closing record, which is after the messages.
// Otherwise no reader would ever learn of a loss behind the last message, because no later page
// follows.
func (e *Engine) gaps(s *stream, page *Page, from Place) (all []sluice.Gap) {
	known := e.store.Gaps(s.key.Namespace)
	if len(known) == 0 {
		return nil
	}
	upTo := page.Next
	if page.Ended() && !from.Now {
		upTo = max(upTo, s.revision)
	}
	for _, segment := range clip(behind(s.segments(s.key.Path), page.From), upTo) {
		all = append(all, sluice.GapsWithin(known, segment.After, segment.UpTo, func(p sluice.Path) bool { return p == segment.Path })...)
	}
	return all
}

// place returns a reader's position in a stream that ends at tail. A place behind the end becomes
// the end, because the events up to it may have been erased or have left the log. A place behind
// everything that the log ever had is an error, because no server of this log issued it, and a
// reader that continued from there would miss the next events.
func (e *Engine) place(ctx context.Context, namespace string, from Place, tail uint64) (Place, error) {
	if !from.Now && from.After > tail {
		last, err := e.store.LastSeq(ctx, namespace)
		if err != nil {
			return from, err
		}
		if from.After > last {
			return from, sluice.Errorf(sluice.InvalidRequest,
				"offset: not issued by this server, or the log was restored from an older copy; start at -1 or now")
		}
	}
	if from.Now || from.After > tail {
		from.After = tail
	}
	return from, nil
}

// fill adds a segment's messages to a page, and reports whether it added all of them.
func (e *Engine) fill(ctx context.Context, namespace string, segment Segment, show Show, page *Page) (whole bool, err error) {
	for segment.After < segment.UpTo {
		events, err := e.behind(ctx, namespace, segment, page)
		if err != nil || len(events) == 0 {
			return err == nil, err
		}
		for i := range events {
			if page.full() {
				return false, nil
			}
			page.looked++
			shown, err := show(&events[i])
			if err != nil {
				return false, err
			}
			segment.After, page.Next = events[i].Seq, events[i].Seq
			if shown {
				page.add(segment.cut(events[i]))
			}
		}
	}
	return true, nil
}

// behind returns the next events of a segment: at the first call those in page.ready, if there are
// any, otherwise those of the log.
func (e *Engine) behind(ctx context.Context, namespace string, segment Segment, page *Page) ([]sluice.Event, error) {
	ready := page.ready
	if page.ready = nil; len(ready) > 0 {
		return ready, nil
	}
	return e.store.Events(ctx, namespace, segment.Path, segment.After, segment.UpTo)
}

func (p *Page) full() bool {
	return p.size >= pageBytes || len(p.Messages) >= pageMessages || p.looked >= pageLooked
}

func (p *Page) add(ev sluice.Event) {
	m := message(&ev, p.ContentType)
	p.Messages = append(p.Messages, m)
	p.size += len(m)
}
