package durable

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
)

// followPage is how many messages a follower takes from a tail in one step.
const followPage = 32

// Follower reads a stream from a place on. It first reads the log, and at its end the tail that all
// followers of the stream in this process share. It is not safe for concurrent use.
type Follower struct {
	engine *Engine
	key    Key
	place  Place
	show   Show

	info   Info
	atEnd  bool // the last page was up to date
	read   time.Time
	tail   *tail  // nil: none yet
	behind uint64 // where to continue in the tail, if atEnd
}

// Follow returns a follower of a stream from a place on. Close it when it is not used any more.
func (e *Engine) Follow(key Key, from Place, show Show) *Follower {
	return &Follower{engine: e, key: key, place: from, show: show}
}

// Close leaves the shared tail. The follower can still be used, and joins it again.
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
	if page.UpToDate { // everything that the tail had told before is in the pages up to this one, or gone
		f.behind = max(page.Next, told)
	}
	return page, nil
}

// to moves the follower behind a page.
func (f *Follower) to(page *Page) {
	f.info, f.place, f.atEnd = page.Info, Place{After: page.Next}, page.UpToDate
}

// Next waits for the next page that has messages or gaps, or says that the stream is closed. If ctx
// ends first, it returns an empty page without an error. Codes: those of Read; Unavailable.
func (f *Follower) Next(ctx context.Context) (Page, error) {
	first := f.place.After
	for {
		page, changed, err := f.look(ctx)
		if page.From = first; err != nil || page.tells() {
			return page, err
		}
		if changed == nil && ctx.Err() == nil {
			continue // there may be more, or the tail has to be joined
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return page, nil
		}
	}
}

// look returns the next page, which may be empty, and a channel that is closed when there is more;
// nil: there may be more already.
func (f *Follower) look(ctx context.Context) (Page, <-chan struct{}, error) {
	if !f.atEnd {
		page, err := f.Read(ctx)
		return page, nil, err
	}
	if f.tail == nil {
		t, err := f.engine.enter(ctx, f.key)
		if err != nil && ctx.Err() != nil {
			return Page{Info: f.info, UpToDate: true}, nil, nil //nolint:nilerr // ctx ended, so the result is an empty page
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
		f.tail.set.forget(f.tail)
		f.Close()
	}
	page, err := f.Read(ctx)
	return page, nil, err
}

// pageOf returns a part of the tail as a page, without messages that the reader may not see.
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

// Await is Read, except that it waits for a page that has messages or gaps, or says that the stream
// is closed. If ctx ends first, it returns an empty page without an error.
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

// Text returns the result of encode for a page's messages. Readers that get the same messages share
// one result, so encode must depend on nothing else.
func (p *Page) Text(encode func() []byte) []byte {
	if p.form == nil {
		return encode()
	}
	p.form.making.Do(func() { p.form.text = encode() })
	return p.form.text
}
