package fanout

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	page      = 64 // events that a member that is behind reads with one request
	seekPages = 4  // pages that seek reads
)

// catchUp starts to read the log for a member that is behind, if the member has room for half a
// window. The caller holds the lock.
func (l *shared) catchUp(m *member) {
	if m.live || m.reading || 2*m.queue.unacked > m.window() {
		return
	}
	m.reading = true
	l.router.readers.Go(func() { l.read(l.router.ctx, m) })
}

// read reads the log for a member until the member has no room, or has caught up with the shared
// reader.
func (l *shared) read(ctx context.Context, m *member) {
	pause := supervise.Pause{First: again, Most: againMost}
	for {
		select {
		case l.router.reading <- struct{}{}:
		case <-ctx.Done():
			return
		}
		more, err := l.readPage(ctx, m)
		<-l.router.reading
		if ctx.Err() != nil || err == nil && !more {
			return
		}
		if err != nil {
			l.router.log.LogAttrs(ctx, slog.LevelWarn, "read a log", slog.String("for", "deliveries"),
				slog.String("subscription", m.settings().ID), slog.Any("error", err))
			pause.Wait(ctx)
		}
	}
}

// readPage reads a page for a member, and reports whether to read on.
func (l *shared) readPage(ctx context.Context, m *member) (more bool, err error) {
	l.mu.Lock()
	from, seen, limit := m.after+1, l.pos, min(page, max(1, m.window()-m.queue.unacked))
	l.mu.Unlock()
	msgs, end, err := l.next(ctx, m, from, seen, limit)
	if err != nil {
		return true, err
	}
	var gap span
	if len(msgs) == 0 || msgs[0].Seq > from {
		if gap, err = l.leftBehind(ctx, m, from); err != nil {
			return true, err
		}
	}
	l.mu.Lock()
	more, wake := l.take(m, msgs, end, seen, gap)
	if !more {
		m.reading = false
	}
	l.mu.Unlock()
	if wake != nil {
		wake()
	}
	return more, nil
}

// next returns the next messages of all filters of a member, and the sequence up to which they are
// complete. That is at most seen, the position of the shared reader. Messages that are stored while
// next reads one filter after the other come from the shared reader.
func (l *shared) next(ctx context.Context, m *member, from, seen uint64, limit int) (all []Message, end uint64, err error) {
	end = seen
	for _, filter := range m.filters {
		if from > seen {
			break
		}
		msgs, err := l.router.deps.Log.Next(ctx, l.namespace, filter, from, limit)
		if err != nil {
			return nil, 0, err
		}
		if len(msgs) > 0 {
			end = min(end, msgs[len(msgs)-1].Seq)
		}
		all = append(all, msgs...)
	}
	slices.SortFunc(all, func(a, b Message) int { return cmp.Compare(a.Seq, b.Seq) })
	for len(all) > 0 && all[len(all)-1].Seq > end {
		all = all[:len(all)-1]
	}
	return all, end, nil
}

// seek searches a few pages for the first event that a member that is behind wants, and records it
// in m.unread.waits. If that event leaves the log before the member reads it, it counts as missed.
func (l *shared) seek(ctx context.Context, m *member, wanted func(*sluice.Event) bool) error {
	l.mu.Lock()
	from, seen, look := max(m.after, m.unread.sought)+1, l.pos, !m.live && m.placed && !m.own && m.unread.waits.Seq <= m.after
	l.mu.Unlock()
	for n := 0; look && n < seekPages; n++ {
		msgs, end, err := l.next(ctx, m, from, seen, page)
		if err != nil {
			return err
		}
		for _, msg := range msgs {
			ev, failed := msg.Event()
			ev.Seq = msg.Seq
			if failed == nil && wanted(&ev) {
				l.mu.Lock()
				defer l.mu.Unlock()
				m.unread.waits = m.waitsFor(&ev)
				return nil
			}
		}
		from = end + 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m.unread.sought = max(m.unread.sought, from-1)
	return nil
}

// leftBehind returns the range of messages that left the log before the member read them, if at
// least one of them was known to be for the member; otherwise the zero span.
func (l *shared) leftBehind(ctx context.Context, m *member, from uint64) (span, error) {
	l.mu.Lock()
	waits, last := m.next().Seq, m.unread.missed.last
	if !m.plain() {
		last = 0
	}
	l.mu.Unlock()
	if max(waits, last) < from {
		return span{}, nil
	}
	is, err := l.router.deps.Log.Bounds(ctx, l.namespace)
	first := is.First
	switch {
	case err != nil:
	case waits >= from && waits < first:
		return span{waits, first - 1}, nil
	case last >= from && last < first:
		return span{from, first - 1}, nil
	}
	return span{}, err
}

// take queues the messages that a member has read up to end, when the shared reader was at seen. It
// reports whether to read on. The caller holds the lock, and calls wake, if it is not nil, without
// it.
func (l *shared) take(m *member, msgs []Message, end, seen uint64, gap span) (more bool, wake func()) {
	if m.gone {
		return false, nil
	}
	now, before := time.Now(), len(m.queue.entries)
	for _, msg := range msgs {
		ev, failed := msg.Event()
		ev.Seq = msg.Seq
		if !m.wants(&ev, failed) {
			continue
		}
		l.add(m, &ev, failed, &content{weight: overhead + len(ev.Data)}, now)
	}
	m.after = max(m.after, end, gap.to)
	if gap.from > 0 {
		m.lost = append(m.lost, gap)
	}
	if m.source == nil && (before == 0 && len(m.queue.entries) > 0 || gap.from > 0) {
		wake = m.wake
	}
	if end < seen || m.unread.missed.last > seen {
		return m.queue.unacked < m.window(), wake
	}
	m.live = true
	m.unread.caughtUp()
	return false, wake
}
