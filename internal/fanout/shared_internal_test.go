package fanout

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/gsl"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Subjects returns a set as logs have it.
func (s *stored) Subjects() Subjects { return gsl.NewSublist[any]() }

// sharing returns a member that is attached and live, of a log whose reader is at 10.
func sharing() *member {
	m := (&stored{first: 1, last: 10}).behind()
	l := m.log
	l.match, l.holds, l.cursors, l.room.L = l.router.deps.Log.Subjects(), map[*member]uint64{}, map[int]*cursor{0: {}}, &l.mu
	l.members[m] = struct{}{}
	m.attached, m.live, m.reading, m.wake = true, true, true, func() {}
	return m
}

// with queues events for the member and counts them.
func (m *member) with(n int, at time.Time) *member {
	for range n {
		m.log.add(m, &sluice.Event{Seq: m.after + 1, Path: "/a"}, nil, &content{weight: 1}, at)
	}
	return m
}

// A member is detached once, with its shard's cursor below it.
func TestDetach_HoldsTheCursor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*member)
		want   moving
		hold   uint64
	}{
		"attached":       {want: detaching, hold: 10},
		"detached":       {change: func(m *member) { m.moving = detaching }, want: detaching},
		"leaving":        {change: func(m *member) { m.moving = leaving }, want: leaving},
		"not attached":   {change: func(m *member) { m.attached = false }, want: staying},
		"being attached": {change: func(m *member) { m.attached, m.moving = false, joining }, want: detaching, hold: 10},
		"held before":    {change: func(m *member) { m.log.holds[m] = 3 }, want: detaching, hold: 3},
	} {
		m := sharing()
		if c.change != nil {
			c.change(m)
		}
		m.log.detach(m)
		require.Equal(t, []any{c.want, c.hold}, []any{m.moving, m.log.holds[m]}, name)
		require.Equal(t, c.hold > 0, len(m.log.router.soon) == 1, name)
	}
}

// When the queues are full, those fall behind that have far more than the others.
func TestRelieve_LargestQueuesFallBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events int
		others int // with an event each
		change func(*member)
		behind bool
	}{
		"far more":       {events: 40, others: 9, behind: true},
		"few":            {events: 16, others: 9},
		"one more":       {events: 17, others: 9, behind: true},
		"all have many":  {events: 40},
		"twice as many":  {events: 40, others: 1},
		"being detached": {events: 40, others: 9, change: func(m *member) { m.moving = detaching }},
		"not attached":   {events: 40, others: 9, change: func(m *member) { m.attached = false }},
	} {
		m := sharing().with(c.events, time.Now())
		m.unread.missed = missed{Waits{Seq: 1}, 1}
		for range c.others {
			one := sharing()
			one.log = m.log
			one.with(1, time.Now())
		}
		if c.change != nil {
			c.change(m)
		}
		m.log.relieve()
		require.Equal(t, c.behind, !m.live, name)
		if c.behind {
			require.Equal(t, []int{c.others, c.others}, []int{m.log.queued, len(m.log.busy)}, "%s: it gives back its room", name)
			require.Equal(t, missed{Waits{Seq: 11}, 10 + uint64(c.events)}, m.unread.missed)
		}
	}
	m := sharing().with(40, time.Now())
	m.live, m.unread.missed = false, missed{Waits{Seq: 1}, 1}
	for range 9 {
		one := sharing()
		one.log = m.log
		one.with(1, time.Now())
	}
	m.log.relieve()
	require.EqualValues(t, 1, m.unread.missed.last, "it has fallen behind before")
}

// A cursor stays below what is in progress, and below members whose position is being stored.
func TestFloors_AreBelowHolds(t *testing.T) {
	t.Parallel()
	m := sharing()
	require.Equal(t, map[int]uint64{0: 10}, m.log.floors())
	m.log.holds[m] = 4
	require.Equal(t, map[int]uint64{0: 4}, m.log.floors())
	m.after, m.log.holds[m] = 2, 7
	m.with(1, time.Now())
	require.Equal(t, map[int]uint64{0: 2}, m.log.floors())
	m.attached = false
	require.Equal(t, map[int]uint64{0: 7}, m.log.floors())
	m.log.ack(m.queue.entries[0])
	require.WithinDuration(t, time.Now(), m.queue.acked, time.Hour)
}

// A member whose receiver hangs is detached when all wait for it.
func TestDetachHanging_AfterAWhile(t *testing.T) {
	t.Parallel()
	now := time.Now()
	long, ago := now.Add(-hangsAfter-1), now.Add(-hangsAfter)
	for name, c := range map[string]struct {
		at, acked time.Time
		own       bool
		want      moving
	}{
		"hanging":               {at: long, acked: long, want: detaching},
		"at the limit":          {at: ago, acked: long},
		"settled at the limit":  {at: long, acked: ago},
		"settled meanwhile":     {at: long, acked: now},
		"with a new event":      {at: now, acked: long},
		"with its own position": {at: long, acked: long, own: true, want: joining},
	} {
		m := sharing().with(1, c.at)
		m.queue.acked = c.acked
		if c.own {
			m.attached, m.moving = false, joining
		}
		m.log.detachHanging(now)
		require.Equal(t, c.want, m.moving, name)
	}
}

func TestFull_AndLow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		queued, weight int
		full, low      bool
	}{
		{0, 0, false, true},
		{maxQueued - 1, 0, false, false},
		{maxQueued, 0, true, false},
		{0, maxWeight - 1, false, false},
		{0, maxWeight, true, false},
		{maxQueued/4*3 - 1, 0, false, true},
		{maxQueued / 4 * 3, 0, false, false},
		{0, maxWeight/4*3 - 1, false, true},
		{0, maxWeight / 4 * 3, false, false},
	} {
		l := &shared{queued: c.queued, weight: c.weight}
		require.Equal(t, []bool{c.full, c.low}, []bool{l.full(), l.low()}, "%+v", c)
	}
}

// A reader that ends routes nothing, nor what it has routed before, and does not wait for room.
func TestEnter_AfterTheEnd(t *testing.T) {
	t.Parallel()
	m := sharing()
	l := m.log
	require.NoError(t, l.match.Insert("a", m))
	msg := Message{Subject: "a", Seq: 10, Event: func() (sluice.Event, error) { return sluice.Event{Path: "/a", Data: []byte("12345")}, nil }}
	m.after = 5
	woken, err := l.enter(t.Context(), msg)
	require.NoError(t, err)
	require.Empty(t, woken)
	msg.Seq = 11
	ended, end := context.WithCancel(t.Context())
	end()
	l.queued = maxQueued
	_, err = l.enter(ended, msg)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []uint64{10, 0}, []uint64{l.pos, uint64(len(m.queue.entries))})
	l.queued = maxQueued - 1
	woken, err = l.enter(t.Context(), msg)
	require.NoError(t, err)
	require.Len(t, woken, 1)
	require.Equal(t, []uint64{11, 11, overhead + 5}, []uint64{l.pos, m.queue.entries[0].Event.Seq, uint64(l.weight)})
}

// A member with two windows of events falls behind, and what comes then is noted.
func TestOffer_LongQueueFallsBehind(t *testing.T) {
	t.Parallel()
	offer := func(m *member, seq uint64) (woken bool) {
		return m.log.offer(m, &sluice.Event{Seq: seq, Path: "/a"}, nil, &content{}, time.Now()) != nil
	}
	m := sharing().with(2*2-1, time.Now())
	require.False(t, offer(m, 14), "it was woken before")
	require.True(t, m.live)
	require.False(t, offer(m, 15))
	require.Equal(t, []any{false, missed{Waits{Seq: 11}, 15}}, []any{m.live, m.unread.missed})
	m = sharing().with(4, time.Now())
	m.live, m.unread.missed.first.Seq = false, 3
	offer(m, 15)
	require.Equal(t, missed{Waits{Seq: 3}, 15}, m.unread.missed)
	require.True(t, offer(sharing(), 11))
	require.False(t, offer(sharing().opened(2), 11), "it has a runner")
}

// What the reader remembers tells whether a member has to read what is behind it.
func TestUnwanted_LooksBehindTheSequence(t *testing.T) {
	t.Parallel()
	m := sharing()
	l := m.log
	for seq, subject := range map[uint64]string{7: "a", 8: "b", 10: "b"} {
		l.recent[seq] = trace{seq - 1, seq, subject}
	}
	l.recent[10].before = 8
	for after, want := range map[uint64]bool{10: true, 9: true, 8: true, 7: true, 6: false, 3: false} {
		require.Equal(t, want, l.unwanted(m, after), after)
	}
}

// A log that lost its end takes all positions back with it.
func TestShorten_TakesPositionsBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last   uint64
		failed error
		want   []uint64
	}{
		"shorter":     {last: 6, want: []uint64{6, 6, 6, 3, 6, 2}},
		"as long":     {last: 10, want: []uint64{10, 12, 12, 3, 10, 2}},
		"longer":      {last: 12, want: []uint64{10, 12, 12, 3, 12, 2}},
		"not reached": {last: 6, failed: sluice.Errorf(sluice.Unavailable, "no leader"), want: []uint64{10, 12, 12, 3, 12, 2}},
	} {
		m := sharing()
		l := m.log
		l.router.deps.Log = &stored{last: c.last, failed: c.failed}
		m.after, m.floors, l.cursors = 12, []uint64{12, 3}, map[int]*cursor{0: {Cursor: Cursor{Seq: 12}}, 1: {Cursor: Cursor{Seq: 2}}}
		l.shorten(t.Context())
		require.Equal(t, c.want, []uint64{l.pos, m.after, m.floors[0], m.floors[1], l.cursors[0].Seq, l.cursors[1].Seq}, name)
	}
}

// A member that has caught up joins its cursor, and one whose delivery takes long gets a position of its own.
func TestMoves_OfMembers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	known := func(m *member) { m.stored = Position{Shared: true, Floors: []uint64{10}} }
	for name, c := range map[string]struct {
		change   func(*member)
		kind     moving
		attached bool
		none     bool
	}{
		"attached":                   {change: known, none: true},
		"attached, but not stored":   {attached: true},
		"slow":                       {change: func(m *member) { known(m); m.with(1, now.Add(-2*slowAfter)) }, kind: detaching},
		"not yet slow":               {change: func(m *member) { known(m); m.with(1, now) }, none: true},
		"slow and being attached":    {change: func(m *member) { m.with(1, now.Add(-2*slowAfter)); m.attached, m.moving = false, joining }, kind: joining},
		"caught up":                  {change: func(m *member) { known(m); m.attached = false }, kind: joining, attached: true},
		"with an event":              {change: func(m *member) { m.attached = false; m.with(1, now) }},
		"reading by itself":          {change: func(m *member) { m.attached, m.live = false, false }},
		"leaving":                    {change: func(m *member) { m.attached, m.moving = false, leaving }, kind: leaving},
		"detaching, stored the same": {change: func(m *member) { known(m); m.moving = detaching }, kind: detaching},
		"stored the same":            {change: func(m *member) { known(m); m.attached, m.live, m.after = false, false, 10 }, none: true},
		"with its own consumers":     {change: func(m *member) { m.own, m.attached = true, false }, none: true},
	} {
		m := sharing()
		if c.change != nil {
			c.change(m)
		}
		writes := m.log.moves()
		require.Equal(t, c.none, len(writes) == 0, name)
		if !c.none {
			require.Equal(t, []any{c.kind, c.attached}, []any{writes[0].kind, writes[0].position.Attached}, name)
		}
	}
}

// At the end the positions are stored that the cursors do not account for.
func TestEnds_StoresOpenPositions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*member)
		want   int
	}{
		"attached":               {func(*member) {}, 0},
		"with an event":          {func(m *member) { m.with(1, time.Now()) }, 1},
		"with its own position":  {func(m *member) { m.attached = false }, 1},
		"with its own consumers": {func(m *member) { m.own, m.attached = true, false }, 0},
	} {
		m := sharing()
		c.change(m)
		require.Len(t, m.log.ends(), c.want, name)
	}
}

// A position counts as stored when the store said so, and until then the cursor stays.
func TestMoved_EntersTheOutcome(t *testing.T) {
	t.Parallel()
	failed := sluice.Errorf(sluice.Unavailable, "timeout")
	for name, c := range map[string]struct {
		attached      bool
		moving, kind  moving
		err           error
		want          moving
		is, held      bool
		queued        int
		gone, unknown bool
	}{
		"attached":                 {moving: joining, kind: joining, want: staying, is: true, queued: 2},
		"attached again":           {attached: true, moving: joining, kind: joining, want: staying, is: true, queued: 2},
		"not attached":             {moving: joining, kind: joining, err: failed, want: staying, held: true, unknown: true},
		"slow meanwhile":           {moving: detaching, kind: joining, want: detaching, is: true, held: true, queued: 2},
		"detached":                 {attached: true, moving: detaching, kind: detaching, want: staying},
		"detached again":           {moving: detaching, kind: detaching, want: staying},
		"not detached":             {attached: true, moving: detaching, kind: detaching, err: failed, want: detaching, is: true, held: true, queued: 2, unknown: true},
		"stored":                   {moving: staying, kind: staying, want: staying},
		"stored, and slow by then": {attached: true, moving: detaching, kind: staying, want: detaching, is: true, held: true, queued: 2},
		"gone":                     {attached: true, moving: detaching, kind: detaching, gone: true, want: detaching, is: true, held: true, queued: 2},
	} {
		m := sharing()
		m.attached = c.attached
		m.with(3, time.Now())
		m.log.ack(m.queue.entries[1])
		m.moving, m.gone, m.log.holds[m], m.stored.Shared = c.moving, c.gone, 3, true
		m.log.moved(write{member: m, kind: c.kind, position: Position{Shared: true}}, c.err)
		_, held := m.log.holds[m]
		require.Equal(t, []any{c.want, c.is, c.held, c.queued, c.unknown}, []any{m.moving, m.attached, held, m.log.queued, !m.stored.Shared}, name)
	}
}

func TestRemove_ForgetsTheMember(t *testing.T) {
	t.Parallel()
	m := sharing().with(2, time.Now())
	m.moved = make(chan struct{})
	m.log.holds[m] = 3
	m.log.remove(m)
	require.Equal(t, []int{0, 0, 0, 0}, []int{m.log.queued, len(m.log.busy), len(m.log.holds), len(m.log.members)})
}

// A reader that goes back for some does not repeat anything to others, nor skip what they read by themselves.
func TestGoBack_KeepsOthersInTheirPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live, joins bool
		want        uint64
	}{
		"live":              {live: true, want: 10},
		"reading by itself": {want: 5},
		"joining":           {live: true, joins: true, want: 5},
	} {
		m := sharing()
		m.live, m.after = c.live, 5
		var joining []*member
		if c.joins {
			joining = append(joining, m)
		}
		m.log.goBack(3, joining)
		require.Equal(t, []uint64{3, c.want}, []uint64{m.log.pos, m.after}, name)
	}
}
