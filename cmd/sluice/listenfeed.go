package main

import (
	"cmp"
	"context"
	"strconv"
	"sync"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// follow forwards a feed's events until the feed breaks off, and returns the reason. resume moves
// when an event is in the lanes, not when it is forwarded: a reconnection repeats none, and after
// an interrupt waiting events are dropped.
func (l *listener) follow(ctx context.Context, api *client.Client) error {
	q := client.FeedQuery{Pattern: l.sub.Pattern, Types: l.sub.Filter.Types, Since: l.resume, Projection: sluice.ProjectionFull}
	for item, err := range api.Feed(ctx, l.cmd.NS, q) {
		switch {
		case err != nil:
			return err
		case item.Away != nil:
			return item.Away
		case item.Event != nil:
			item.Event.Seq = item.Seq
			err = l.lanes.add(ctx, item.Event)
			l.resume = item.Resume
		case item.Subscribed != nil:
			l.resume = cmp.Or(item.Resume, l.resume, strconv.FormatUint(*item.Subscribed, 10))
			err = l.sayWhere()
		case item.Lagged != nil && item.Lagged.Unreadable != nil:
			cmdkit.ComplainLost(l.session, []sluice.Gap{*item.Lagged.Unreadable})
		case item.Lagged != nil:
			err = l.fill(ctx, api, item.Lagged.Oldest)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// fill forwards the events before a sequence that a feed skipped because the command read too
// slowly. It pages through the log, and waits for room like the feed.
func (l *listener) fill(ctx context.Context, api *client.Client, before uint64) error {
	q := client.EventsQuery{
		Pattern: l.sub.Pattern, Types: l.sub.Filter.Types, Since: l.resume, Until: strconv.FormatUint(before-1, 10), Limit: listenAhead,
	}
	for {
		page, err := api.Events(ctx, l.cmd.NS, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := l.lanes.add(ctx, &page.Items[i]); err != nil {
				return err
			}
			l.resume = strconv.FormatUint(page.Items[i].Seq, 10)
		}
		if page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
	}
}

// lanes forwards events: those of one path in order, and those of several paths concurrently.
// Memory is bounded by listenAhead events in all lanes. A path has a goroutine while it has events;
// at most listenAtOnce of them forward at the same time, the others wait for their turn.
type lanes struct {
	deliver func(*sluice.Event)
	room    chan struct{} // has an element for each event that waits or is forwarded
	free    chan struct{} // has an element for each path that is served
	working sync.WaitGroup

	mu    sync.Mutex
	queue map[sluice.Path][]*sluice.Event // of paths with a worker
}

func newLanes(deliver func(*sluice.Event)) *lanes {
	return &lanes{
		deliver: deliver, room: make(chan struct{}, listenAhead), free: make(chan struct{}, listenAtOnce),
		queue: map[sluice.Path][]*sluice.Event{},
	}
}

// add waits for room and queues the event. It returns an error if the context ends.
func (l *lanes) add(ctx context.Context, ev *sluice.Event) error {
	select {
	case l.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting, served := l.queue[ev.Path]
	l.queue[ev.Path] = append(waiting, ev)
	if !served {
		l.working.Go(func() { l.serve(ev.Path) })
	}
	return nil
}

// serve forwards the events of a path until none waits. The lane is removed under the same lock
// under which add looks for it, so no event is left without a worker.
func (l *lanes) serve(path sluice.Path) {
	l.free <- struct{}{}
	defer func() { <-l.free }()
	for {
		l.mu.Lock()
		waiting := l.queue[path]
		if len(waiting) == 0 {
			delete(l.queue, path)
			l.mu.Unlock()
			return
		}
		l.queue[path] = waiting[1:]
		l.mu.Unlock()
		l.deliver(waiting[0])
		<-l.room
	}
}
