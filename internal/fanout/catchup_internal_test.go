package fanout

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// stored is a log that keeps the messages of the path /a from a sequence on.
type stored struct {
	Log

	first, last uint64
	asked       int
	limit       int // of the last page
	failed      error
}

func (s *stored) Bounds(context.Context, string) (Bounds, error) {
	return Bounds{First: s.first, Last: s.last}, s.failed
}

func (s *stored) Next(_ context.Context, _, _ string, from uint64, limit int) (all []Message, err error) {
	s.asked, s.limit = s.asked+1, limit
	for seq := max(from, s.first); seq <= s.last && len(all) < limit; seq++ {
		all = append(all, Message{Seq: seq, Event: func() (sluice.Event, error) {
			if seq == 13 {
				return sluice.Event{}, sluice.Errorf(sluice.Internal, "no event")
			}
			return sluice.Event{Path: "/a", Data: []byte("123")}, nil
		}})
	}
	return all, s.failed
}

// behind returns a member that reads a log by itself, behind 10, with a shared reader at the end.
func (s *stored) behind() *member {
	m := memberOf("/a", "a")
	m.log = &shared{router: New(Deps{Log: s, Owns: func(int) bool { return true }, Slog: slog.New(slog.DiscardHandler)}), pos: s.last, members: map[*member]struct{}{}, busy: map[*member]struct{}{}}
	m.placed, m.after = true, 10
	return m
}

// S4-25: events are lost if one of them was known to be the subscription's.
func TestLeftBehind_FromTheFirstAwaitedEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waits, missed uint64
		filtered      bool
		want          span
	}{
		"nothing known":              {},
		"awaited":                    {waits: 15, want: span{15, 19}},
		"awaited first":              {waits: 11, want: span{11, 19}},
		"awaited last":               {waits: 19, want: span{19, 19}},
		"awaited and stored":         {waits: 20},
		"missed":                     {missed: 15, want: span{11, 19}},
		"missed first":               {missed: 11, want: span{11, 19}},
		"missed last":                {missed: 19, want: span{11, 19}},
		"missed and stored":          {missed: 20},
		"missed before":              {missed: 10},
		"missed, of unknown content": {missed: 15, filtered: true},
		"both":                       {waits: 17, missed: 18, want: span{17, 19}},
		"the awaited one is stored":  {waits: 25, missed: 12, want: span{11, 19}},
	} {
		s := &stored{first: 20, last: 30}
		m := s.behind()
		m.unread.waits, m.unread.missed.last = Waits{Seq: c.waits}, c.missed
		if c.filtered {
			m.sub.Filter.Types = []string{"rare"}
		}
		got, err := m.log.leftBehind(t.Context(), m, 11)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
	}
	s := &stored{failed: sluice.Errorf(sluice.Unavailable, "no leader")}
	m := s.behind()
	_, err := m.log.leftBehind(t.Context(), m, 11)
	require.NoError(t, err, "nothing was to be asked")
	m.unread.waits.Seq = 15
	_, err = m.log.leftBehind(t.Context(), m, 11)
	require.ErrorIs(t, err, s.failed)
}

// A subscription that is behind looks a few pages ahead, from where it looked last.
func TestSeek_FindsTheFirstWantedEvent(t *testing.T) {
	t.Parallel()
	all := uint64(seekPages * page)
	for name, c := range map[string]struct {
		change func(*member)
		wanted uint64
		found  uint64
		asked  int
		sought uint64
	}{
		"the first":             {wanted: 11, found: 11, asked: 1},
		"on the second page":    {wanted: 11 + page, found: 11 + page, asked: 2},
		"on the last page":      {wanted: 10 + all, found: 10 + all, asked: seekPages},
		"further":               {wanted: 11 + all, asked: seekPages, sought: 10 + all},
		"looked before":         {change: func(m *member) { m.unread.sought = 10 + all }, wanted: 11 + all, found: 11 + all, asked: 1, sought: 10 + all},
		"looked, and was read":  {change: func(m *member) { m.unread.sought = 5 }, wanted: 11, found: 11, asked: 1, sought: 5},
		"to the end":            {change: func(m *member) { m.unread.sought = 998 }, asked: 1, sought: 1000},
		"at the end":            {change: func(m *member) { m.after = 1000 }, sought: 1000},
		"known":                 {change: func(m *member) { m.unread.waits.Seq = 11 }, wanted: 11, found: 11, sought: 10},
		"known, and was read":   {change: func(m *member) { m.unread.waits.Seq = 10 }, wanted: 11, found: 11, asked: 1},
		"no event":              {wanted: 13, asked: seekPages, found: 0, sought: 10 + all},
		"live":                  {change: func(m *member) { m.live = true }, wanted: 11, sought: 10},
		"not placed":            {change: func(m *member) { m.placed = false }, wanted: 11, sought: 10},
		"with its own consumer": {change: func(m *member) { m.own = true }, wanted: 11, sought: 10},
	} {
		s := &stored{first: 1, last: 1000}
		m := s.behind()
		if c.change != nil {
			c.change(m)
		}
		require.NoError(t, m.log.seek(t.Context(), m, func(ev *sluice.Event) bool { return ev.Seq == c.wanted }), name)
		require.Equal(t, []uint64{c.found, uint64(c.asked), c.sought}, []uint64{m.unread.waits.Seq, uint64(s.asked), m.unread.sought}, name)
	}
	s := &stored{last: 1000, failed: sluice.Errorf(sluice.Unavailable, "no leader")}
	m := s.behind()
	require.ErrorIs(t, m.log.seek(t.Context(), m, nil), s.failed)
}

// A subscription that has read up to the shared reader is live, unless more came for it meanwhile; one that has a window
// of events reads on later.
func TestTake_EntersAPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change    func(*member)
		end, seen uint64
		gap       span
		more      bool
		live      bool
		woken     bool
		queued    int
		after     uint64
	}{
		"all":                     {end: 12, seen: 12, live: true, woken: true, queued: 2, after: 12},
		"none":                    {end: 10, seen: 10, live: true, after: 10},
		"nothing matched":         {change: func(m *member) { m.floors[0] = 20 }, end: 12, seen: 12, live: true, after: 12},
		"a window full":           {end: 12, seen: 15, woken: true, queued: 2, after: 12},
		"a part":                  {end: 11, seen: 15, more: true, woken: true, queued: 1, after: 11},
		"more came":               {change: func(m *member) { m.unread.missed.last = 13 }, end: 11, seen: 11, more: true, woken: true, queued: 1, after: 11},
		"what came was read":      {change: func(m *member) { m.unread.missed.last = 12 }, end: 12, seen: 12, live: true, woken: true, queued: 2, after: 12},
		"with a source":           {change: func(m *member) { m.source = &Source{member: m} }, end: 12, seen: 12, live: true, queued: 2, after: 12},
		"woken before":            {change: func(m *member) { m.after = 9; m.queued(10) }, end: 11, seen: 11, live: true, queued: 2, after: 11},
		"a gap":                   {end: 10, seen: 14, gap: span{11, 14}, more: true, woken: true, after: 14},
		"a gap of one with a run": {change: func(m *member) { m.after = 9; m.queued(10) }, end: 10, seen: 10, gap: span{1, 1}, live: true, woken: true, queued: 1, after: 10},
		"gone":                    {change: func(m *member) { m.gone = true }, end: 12, seen: 12, after: 10},
	} {
		s := &stored{first: 11, last: c.end}
		m := s.behind()
		m.wake = func() {}
		if c.change != nil {
			c.change(m)
		}
		msgs, _ := s.Next(t.Context(), "", "", 11, page)
		more, wake := m.log.take(m, msgs, c.end, c.seen, c.gap)
		require.Equal(t, []any{c.more, c.live, c.woken, c.queued, c.after}, []any{more, m.live, wake != nil, len(m.queue.entries), m.after}, name)
		if c.live {
			require.Equal(t, missed{}, m.unread.missed, name)
		}
		require.Equal(t, c.gap.from > 0, len(m.lost) > 0, name)
		if c.queued == 2 && c.end == 12 {
			require.Equal(t, overhead+3, m.queue.entries[1].content.weight)
		}
	}
}

// Messages that left the log before they were routed are lost for those that may have wanted them.
func TestPassGap_TellsLiveMembers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*member)
		first  uint64
		lost   []span
		woken  bool
	}{
		"live":                        {first: 20, lost: []span{{11, 19}}, woken: true},
		"nothing expired":             {first: 11},
		"one expired":                 {first: 12, lost: []span{{11, 11}}, woken: true},
		"behind":                      {change: func(m *member) { m.live = false }, first: 20},
		"ahead":                       {change: func(m *member) { m.after = 19 }, first: 20},
		"partly ahead":                {change: func(m *member) { m.after = 15 }, first: 20, lost: []span{{16, 19}}, woken: true},
		"long idle":                   {change: func(m *member) { m.after = 5 }, first: 20, lost: []span{{11, 19}}, woken: true},
		"long idle, nothing expired":  {change: func(m *member) { m.after = 5 }, first: 11},
		"with a source":               {change: func(m *member) { m.source = &Source{} }, first: 20, lost: []span{{11, 19}}},
		"after a start":               {change: func(m *member) { m.log.began = false }, first: 20},
		"after a start, of all paths": {change: func(m *member) { m.log.began, m.sub.Pattern = false, "/**" }, first: 20, lost: []span{{11, 19}}, woken: true},
	} {
		s := &stored{first: c.first, last: 30}
		m := s.behind()
		m.log.members[m], m.log.pos, m.log.began, m.live, m.wake = struct{}{}, 10, true, true, func() {}
		if c.change != nil {
			c.change(m)
		}
		m.log.mu.Lock()
		woken := m.log.passGap(t.Context(), 20)
		require.Empty(t, m.log.passGap(t.Context(), 11), name)
		m.log.mu.Unlock()
		require.Equal(t, c.lost, m.lost, name)
		require.Equal(t, c.woken, len(woken) == 1, name)
	}
	s := &stored{first: 20, failed: sluice.Errorf(sluice.Unavailable, "no leader")}
	m := s.behind()
	m.log.members[m], m.log.pos, m.log.began, m.live = struct{}{}, 10, true, true
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	require.Empty(t, m.log.passGap(t.Context(), 20))
	s.failed = nil
	ended, end := context.WithCancel(t.Context())
	end()
	require.Empty(t, m.log.passGap(ended, 20))
	require.Empty(t, m.lost)
}

// A subscription that is behind reads when it has room for half a window, as much as it has room for.
func TestCatchUp_ReadsIntoItsRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window, unacked int
		change          func(*member)
		limit           int
	}{
		"all free":        {window: 8, limit: 8},
		"half":            {window: 8, unacked: 4, limit: 4},
		"less":            {window: 8, unacked: 5},
		"a large window":  {window: 1000, limit: page},
		"reading already": {window: 8, change: func(m *member) { m.reading = true }},
		"live":            {window: 8, change: func(m *member) { m.live = true }},
	} {
		s := &stored{first: 11, last: 2000}
		m := s.behind()
		m.sub.Policy.Window, m.wake, m.log.router.ctx = c.window, func() {}, t.Context()
		m.queued(make([]uint64, c.unacked)...)
		m.after = 10
		if c.change != nil {
			c.change(m)
		}
		m.log.mu.Lock()
		m.log.catchUp(m)
		require.Equal(t, c.limit > 0 || m.reading, m.reading, name)
		m.log.mu.Unlock()
		m.log.router.readers.Wait()
		if c.window <= page {
			require.Equal(t, c.limit, s.limit, name)
			continue
		}
		require.Positive(t, s.limit)
		require.LessOrEqual(t, s.limit, page, name)
	}
	s := &stored{first: 11, last: 12}
	m := s.behind()
	m.queue.unacked = 5
	_, err := m.log.readPage(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, 1, s.limit, "more than a window after the settings changed")
	m.after = 12
	_, err = m.log.readPage(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, 1, s.asked, "there is nothing behind the shared reader")
}
