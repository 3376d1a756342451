package fanout

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// memberOf returns a member with a window of 2 and a source with room for more.
func memberOf(pattern sluice.Pattern, filters ...string) *member {
	return &member{
		log: &shared{}, sub: &sluice.Subscription{Pattern: pattern, Policy: sluice.Policy{Window: 2}}, filters: filters,
		floors: make([]uint64, len(filters)),
	}
}

// queued adds events of the path /a.
func (m *member) queued(seqs ...uint64) *member {
	for _, seq := range seqs {
		m.add(&sluice.Event{Seq: seq, Path: "/a"}, nil, &content{}, m.queue.acked)
	}
	return m
}

// opened opens a source with room for a number of deliveries.
func (m *member) opened(room int) *member {
	m.source = &Source{member: m, out: make(chan *model.Delivery, room)}
	m.hand()
	return m
}

func TestFloor_IsBelowTheQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live   bool
		after  uint64
		queued []uint64
		want   uint64
	}{
		"behind the reader":    {live: true, after: 3, want: 9},
		"ahead of the reader":  {live: true, after: 12, want: 12},
		"reading by itself":    {after: 3, want: 3},
		"with events":          {live: true, queued: []uint64{5, 8}, want: 4},
		"with events, by self": {queued: []uint64{5}, want: 4},
	} {
		m := memberOf("/a", "a").queued(c.queued...)
		m.live, m.after = c.live, max(m.after, c.after)
		require.Equal(t, c.want, m.floor(9), name)
	}
}

// S4-25: what a subscription waits for is an event that it was seen to want, or the first that matches.
func TestNext_IsBehindDeliveriesInProgress(t *testing.T) {
	t.Parallel()
	queue := func(m *member) { m.queued(5, 6, 7).opened(2) }
	for name, c := range map[string]struct {
		prepare    func(*member)
		open, next uint64
	}{
		"nothing":               {prepare: func(*member) {}},
		"queued":                {prepare: queue, open: 5, next: 7},
		"all handed out":        {prepare: func(m *member) { m.queued(5).opened(2) }, open: 5},
		"none handed out":       {prepare: func(m *member) { m.queued(5) }, next: 5},
		"queued, with a filter": {prepare: func(m *member) { m.sub.Filter.Types = []string{"x"}; queue(m) }, open: 5},
		"seen": {prepare: func(m *member) {
			m.sub.Filter.Types = []string{"x"}
			m.after, m.unread.waits = 5, Waits{Seq: 6}
		}, next: 6},
		"seen and passed":  {prepare: func(m *member) { m.after, m.unread.waits = 6, Waits{Seq: 6} }},
		"missed":           {prepare: func(m *member) { m.after, m.unread.missed.first = 5, Waits{Seq: 6} }, next: 6},
		"missed and read":  {prepare: func(m *member) { m.after, m.unread.missed.first = 6, Waits{Seq: 6} }},
		"missed, filtered": {prepare: func(m *member) { m.sub.Filter.Types, m.unread.missed.first = []string{"x"}, Waits{Seq: 6} }},
	} {
		m := memberOf("/a", "a")
		c.prepare(m)
		p := m.position(0)
		require.Equal(t, []uint64{c.open, c.next}, []uint64{p.Open.Seq, p.Next.Seq}, name)
	}
}

func TestFilterOf_IsTheSecondForThePathItself(t *testing.T) {
	t.Parallel()
	two, one := memberOf("/a/**", "a.>", "a"), memberOf("/a/**", ">")
	require.Equal(t, []int{1, 0, 0}, []int{two.filterOf("/a"), two.filterOf("/a/b"), two.filterOf("/a/b/c")})
	require.Equal(t, 0, one.filterOf("/a"))
	require.Equal(t, Waits{7, 1}, two.waitsFor(&sluice.Event{Seq: 7, Path: "/a"}))
}

func TestFloorsFrom_AreAtLeastTheSequence(t *testing.T) {
	t.Parallel()
	m := memberOf("/a/**", "a.>", "a")
	m.floors = []uint64{3}
	require.Equal(t, []uint64{3, 2}, m.floorsFrom(2))
	require.Equal(t, []uint64{5, 5}, m.floorsFrom(5))
}

func TestWants_EventsBehindItsFloors(t *testing.T) {
	t.Parallel()
	m := memberOf("/a/**", "a.>", "a")
	m.after, m.floors = 4, []uint64{5, 8}
	for _, c := range []struct {
		path sluice.Path
		seq  uint64
		err  error
		want bool
	}{
		{"/a/b", 4, nil, false},
		{"/a/b", 5, nil, false},
		{"/a/b", 6, nil, true},
		{"/a", 8, nil, false},
		{"/a", 9, nil, true},
		{"/c", 9, nil, false},
		{"", 9, sluice.Errorf(sluice.Internal, "no event"), true},
		{"", 4, sluice.Errorf(sluice.Internal, "no event"), false},
	} {
		require.Equal(t, c.want, m.wants(&sluice.Event{Path: c.path, Seq: c.seq}, c.err), "%+v", c)
	}
	m.after, m.floors = 9, []uint64{5, 8}
	require.False(t, m.wants(&sluice.Event{Path: "/a/b", Seq: 9}, nil), "it was queued")
	require.True(t, m.wants(&sluice.Event{Path: "/a/b", Seq: 10}, nil))
}

func TestWantsAll_WithoutAnyLimit(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*member){
		"a pattern": func(m *member) { m.sub.Pattern = "/a/**" },
		"a start":   func(m *member) { m.sub.From.Kind = sluice.StartLastPerPath },
		"a filter":  func(m *member) { m.sub.Filter.Types = []string{"x"} },
	} {
		m := memberOf("/**", ">")
		require.True(t, m.wantsAll())
		change(m)
		require.False(t, m.wantsAll(), name)
	}
}

// A window bounds what is handed out, and the source's room too, after the window was changed.
func TestHand_FillsTheWindow(t *testing.T) {
	t.Parallel()
	require.Len(t, memberOf("/a", "a").queued(1, 2, 3).opened(9).source.out, 2)
	require.Len(t, memberOf("/a", "a").queued(1, 2, 3).opened(1).source.out, 1)
	require.EqualValues(t, 3, memberOf("/a", "a").queued(1, 3).after)
}

// An acknowledgement counts once, in any order, also of an entry that was taken back.
func TestSettle_CountsOnce(t *testing.T) {
	t.Parallel()
	m := memberOf("/a", "a").queued(1, 2, 3)
	all := slices.Clone(m.queue.entries)
	m.opened(9)
	require.True(t, m.queue.settle(all[1]))
	require.False(t, m.queue.settle(all[1]))
	require.Equal(t, []int{3, 2, 1}, []int{len(m.queue.entries), m.queue.unacked, m.queue.unhanded})
	m.queue.rewind()
	require.Equal(t, []int{2, 2}, []int{len(m.queue.entries), m.queue.unhanded})
	require.True(t, all[0].Redelivered)
	require.True(t, m.queue.settle(all[0]))
	require.Equal(t, []int{1, 1, 1}, []int{len(m.queue.entries), m.queue.unacked, m.queue.unhanded})
	require.True(t, m.queue.settle(all[2]))
	require.Equal(t, []int{0, 0, 0}, []int{len(m.queue.entries), m.queue.unacked, m.queue.unhanded})
}

// What was not handed out is read again later.
func TestCut_LeavesDeliveriesInProgress(t *testing.T) {
	t.Parallel()
	m := memberOf("/a", "a").queued(1, 2, 5).opened(9)
	removed := m.cut()
	require.Len(t, removed, 1)
	require.Equal(t, []uint64{4, 2, 0}, []uint64{m.after, uint64(m.queue.unacked), uint64(m.queue.unhanded)})
	m.after = 9
	require.Empty(t, m.cut())
	require.EqualValues(t, 9, m.after)
	for _, seq := range []uint64{5, 7} {
		m.unread.miss(Waits{Seq: seq})
	}
	require.Equal(t, missed{Waits{Seq: 5}, 7}, m.unread.missed)
}

// A runner looks for earlier attempts up to the sequence that was the last one when the process began.
func TestClean_WithoutEarlierAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*member)
		want   bool
	}{
		"all was attempted before": {func(m *member) { m.after = 9 }, false},
		"all comes later":          {func(m *member) { m.after = 10 }, true},
		"records":                  {func(m *member) { m.after, m.busy = 10, true }, false},
		"a later event":            {func(m *member) { m.queued(11) }, true},
		"the last event":           {func(m *member) { m.queued(10) }, false},
		"read up to there":         {func(m *member) { m.live, m.log.pos = true, 10 }, true},
		"not read up to there":     {func(m *member) { m.live, m.log.pos = true, 9 }, false},
		"reading by itself":        {func(m *member) { m.log.pos = 10 }, false},
		"read, but not settled":    {func(m *member) { m.queued(10).live, m.log.pos = true, 10 }, false},
	} {
		m := memberOf("/a", "a")
		m.doubt = 10
		c.change(m)
		require.Equal(t, c.want, m.clean(), name)
	}
}

func TestWorks_WithAnythingToDo(t *testing.T) {
	t.Parallel()
	require.False(t, memberOf("/a", "a").works())
	for name, change := range map[string]func(*member){
		"consumers of its own": func(m *member) { m.own = true },
		"records":              func(m *member) { m.busy = true },
		"an event":             func(m *member) { m.queued(1) },
		"lost events":          func(m *member) { m.lost = []span{{1, 2}} },
	} {
		m := memberOf("/a", "a")
		change(m)
		require.True(t, m.works(), name)
	}
}

// What is stored about a member is stored again when it says something else.
func TestEquals_ComparesAllThatIsStored(t *testing.T) {
	t.Parallel()
	p := Position{Shared: true, Floors: []uint64{4}, Open: Waits{Seq: 5}, Next: Waits{Seq: 7}}
	require.True(t, p.equals(p))
	for _, change := range []func(*Position){
		func(p *Position) { p.Floors = []uint64{5} },
		func(p *Position) { p.Open.Seq = 6 },
		func(p *Position) { p.Next.Filter = 1 },
	} {
		other := p
		change(&other)
		require.False(t, p.equals(other))
	}
}
