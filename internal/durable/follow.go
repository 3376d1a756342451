package durable

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
)

// followPage is how many messages a follower takes from a tail at once.
const followPage = 32

// Follower reads a stream onwards: from the log, and what is stored from then on from the tail that the
// stream's followers in this process share. It is not safe for concurrent use.
type Follower struct {
	engine *Engine
	key    Key
	place  Place
	show   Show

	info   Info
	atEnd  bool // the last page was up to date
	read   time.Time
	tail   *tail  // nil: none yet
	behind uint64 // where to go on in the tail, if atEnd
}

// Follow returns a follower of a stream from a place on. Close ends it.
func (e *Engine) Follow(key Key, from Place, show Show) *Follower {
	return &Follower{engine: e, key: key, place: from, show: show}
}

// Close lets go of what is shared.
func (f *Follower) Close() {
	if f.tail != nil {
		f.tail.leave()
		f.tail = nil
	}
}

// Read returns the next page of the log, as Engine.Read does.
func (f *Follower) Read(ctx context.Context) (Page, error) {
	var told uint64
	if f.tail != nil {
		told = f.tail.told()
	}
	page, err := f.engine.Read(shutdown.Lasting(ctx), f.key, f.place, f.show)
	if err != nil {
		return Page{}, err
	}
	f.to(&page)
	f.read, f.behind = f.engine.now(), page.Next
	if page.UpToDate { // what was told by then is in the pages up to this one, or gone
		f.behind = max(page.Next, told)
	}
	return page, nil
}

// to enters a page.
func (f *Follower) to(page *Page) {
	f.info, f.place, f.atEnd = page.Info, Place{After: page.Next}, page.UpToDate
}

// Next waits, until ctx ends, for the next page that has messages or gaps, or is the stream's end. When ctx
// ends it returns the empty page. Codes: those of Read; Unavailable.
func (f *Follower) Next(ctx context.Context) (Page, error) {
	first := f.place.After
	for {
		page, changed, err := f.look(ctx)
		if page.From = first; err != nil || page.tells() {
			return page, err
		}
		if changed == nil && ctx.Err() == nil {
			continue // there is more, or the tail has to be joined
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return page, nil
		}
	}
}

// look returns the next page, which may be empty, and what is closed when there is more; nil: maybe there is.
func (f *Follower) look(ctx context.Context) (Page, <-chan struct{}, error) {
	if !f.atEnd {
		page, err := f.Read(ctx)
		return page, nil, err
	}
	if f.tail == nil {
		t, err := f.engine.enter(ctx, f.key)
		if err != nil && ctx.Err() != nil {
			return Page{Info: f.info, UpToDate: true}, nil, nil //nolint:nilerr // nothing came in time, which is an answer
		}
		if err != nil {
			return Page{}, nil, err
		}
		f.tail = t
	}
	var room [followPage]*item
	p, ok := f.tail.part(f.behind, room[:], f.read, f.engine.now())
	if ok {
		page, err := f.pageOf(p)
		return page, p.changed, err
	}
	if f.tail.isOver() {
		f.Close()
	}
	page, err := f.Read(ctx)
	return page, nil, err
}

// pageOf returns a part as a page, without messages that the reader may not see.
func (f *Follower) pageOf(p part) (Page, error) {
	page := Page{Info: p.info(f.place.After), From: f.place.After, UpToDate: p.upToDate, form: p.form}
	for _, it := range p.items {
		ev, data := it.load(p.ContentType)
		shown, err := f.show(ev)
		if err != nil {
			return Page{}, err
		}
		if page.Next = it.seq; shown {
			page.Messages = append(page.Messages, data)
		} else {
			page.form = nil
		}
	}
	page.Gaps = f.engine.gaps(p.stream, &page, f.place)
	f.to(&page)
	if len(p.items) > 0 {
		f.behind = page.Next
	}
	return page, nil
}

// Await is Read that waits, until ctx ends, for a page that is not empty, has gaps, or is the stream's end.
// When ctx ends it returns the empty page.
func (e *Engine) Await(ctx context.Context, key Key, from Place, show Show) (Page, error) {
	f := e.Follow(key, from, show)
	defer f.Close()
	page, err := f.Read(ctx)
	if err != nil || page.tells() {
		return page, err
	}
	first := page.From
	page, err = f.Next(ctx)
	page.From = first
	return page, err
}

// Text returns the result of encode for a page's messages, which those who get the same messages share: it
// depends on nothing else.
func (p *Page) Text(encode func() []byte) []byte {
	if p.form == nil {
		return encode()
	}
	p.form.making.Do(func() { p.form.text = encode() })
	return p.form.text
}
