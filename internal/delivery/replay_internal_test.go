package delivery

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// beside is what a replay's runner works with besides its own: it notes what reaches the subscription's.
type beside struct {
	disabled, cancelled []string
	buried              []sluice.DeadLetter
	recorded            []sluice.Attempt
	failing, held       int
	stored              sluice.Replay
	away                bool // nothing can be read or deleted
	unburied            []uint64
	fails               error // of what is recorded
}

// DeadLetters returns one letter, of event 7 at place 3.
func (b *beside) DeadLetters(_ context.Context, _ *sluice.Subscription, from, to uint64, _ int) ([]model.BuriedLetter, error) {
	switch {
	case b.away:
		return nil, sluice.Errorf(sluice.Unavailable, "the store is away")
	case from > 3 || to < 3:
		return nil, nil
	}
	return []model.BuriedLetter{{LetterSeq: 3, DeadLetter: sluice.DeadLetter{Seq: 7, Reason: sluice.Exhausted, Event: &sluice.Event{ID: "e", Seq: 7}}}}, nil
}

func (b *beside) Unbury(_ context.Context, seq uint64) error {
	if b.away {
		return sluice.Errorf(sluice.Unavailable, "the store is away")
	}
	b.unburied = append(b.unburied, seq)
	return nil
}

// ReadLane finds nothing in the log.
func (b *beside) ReadLane(_ context.Context, _ *sluice.Subscription, _ sluice.Path, from uint64, _ int) ([]model.ReadEvent, uint64, error) {
	return nil, from, nil
}

func (b *beside) Cancel(_ context.Context, _ *sluice.Subscription, first func() error) (bool, error) {
	b.cancelled = append(b.cancelled, string(sluice.EndpointGone))
	return true, first()
}

func (b *beside) Revoke(context.Context, *sluice.Subscription) (bool, error) {
	b.cancelled = append(b.cancelled, sluice.ReasonAccessRevoked)
	return true, nil
}

func (b *beside) DisableFailing(_ context.Context, _ *sluice.Subscription, reason string) error {
	b.disabled = append(b.disabled, reason)
	return nil
}

func (b *beside) SuspendCostly(_ context.Context, _ *sluice.Subscription, reason string) error {
	b.disabled = append(b.disabled, reason)
	return nil
}

func (b *beside) Record(a *sluice.Attempt, _ string, done func(error)) {
	b.recorded = append(b.recorded, *a)
	done(b.fails)
}

func (b *beside) Recover(context.Context, *sluice.Subscription, uint64, uint64) (map[uint64]model.Progress, error) {
	return nil, sluice.Errorf(sluice.Conflict, "the live deliveries' own")
}

func (b *beside) Bury(_ context.Context, d sluice.DeadLetter) error {
	b.buried = append(b.buried, d)
	return nil
}

func (b *beside) Held(*sluice.Subscription, *sluice.DeadLetter)          { b.held++ }
func (b *beside) Throttled(*sluice.Subscription, string)                 {}
func (b *beside) Failing(*sluice.Subscription, int, time.Time)           { b.failing++ }
func (b *beside) StillHeld(*sluice.Subscription, *sluice.DeadLetter)     {}
func (b *beside) Turned(*sluice.Subscription, sluice.Breaker, time.Time) {}
func (b *beside) StillFailing(*sluice.Subscription, int, time.Time)      {}
func (b *beside) Health(context.Context, *sluice.Subscription) (model.Health, error) {
	return model.Health{Breaker: sluice.BreakerOpen}, nil
}

func (b *beside) PutHealth(context.Context, *sluice.Subscription, model.Health) error {
	b.failing++
	return nil
}

// The replays' own store.
type replayStore struct {
	Replays

	b *beside
}

func (s replayStore) Progress(_ context.Context, _ sluice.Replay, change func(*sluice.Replay)) error {
	change(&s.b.stored)
	return nil
}

func (s replayStore) Replay(context.Context, sluice.Replay) (sluice.Replay, error) {
	if s.b.away {
		return sluice.Replay{}, sluice.Errorf(sluice.NotFound, "no such replay")
	}
	return s.b.stored, nil
}

func (s replayStore) Recover(context.Context, *sluice.Subscription, sluice.Replay) (map[uint64]model.Progress, error) {
	return map[uint64]model.Progress{7: {EventID: "e"}}, nil
}

// replayRunner returns the ports of a replay's runner, and what stands behind them.
func replayRunner(t *testing.T, kind sluice.ReplayKind) (*replaying, Deps, *beside) {
	t.Helper()
	b := &beside{stored: sluice.Replay{To: 9}}
	ports := Deps{Log: b, Healths: b, Registry: b, Announce: b, Events: b, Letters: b, Replays: replayStore{b: b}}
	rep := newReplaying(sluice.Replay{ID: "r", Kind: kind, From: 1, To: 9, State: sluice.ReplayRunning}, ports, slog.New(slog.DiscardHandler))
	run := rep.runner(&sluice.Subscription{ID: "s"}, New(nil, nil, ports, Options{}))
	return rep, run.ports, b
}

// How the endpoint does is for the live deliveries to say: a replay neither disables its subscription nor warns of it, nor
// stops at its breaker. That the endpoint is gone ends the subscription all the same.
func TestReplay_DoesNotDisableItsSubscription(t *testing.T) { // decision 0009
	t.Parallel()
	_, ports, b := replayRunner(t, sluice.ReplayRange)
	sub := &sluice.Subscription{ID: "s"}
	require.NoError(t, ports.Registry.DisableFailing(t.Context(), &sluice.Subscription{}, "failing"))
	require.NoError(t, ports.Registry.SuspendCostly(t.Context(), &sluice.Subscription{}, "filter"))
	require.Equal(t, sluice.ReplayCancelled, b.stored.State, "it ends the replay alone")
	ports.Announce.Failing(sub, 50, time.Now())
	require.NoError(t, ports.Healths.PutHealth(t.Context(), sub, model.Health{Breaker: sluice.BreakerOpen}))
	is, err := ports.Healths.Health(t.Context(), sub)
	require.NoError(t, err)
	require.Zero(t, is)
	require.Equal(t, []int{0, 0}, []int{len(b.disabled), b.failing})

	cancelled, err := ports.Registry.Cancel(t.Context(), &sluice.Subscription{}, func() error { return nil })
	require.NoError(t, err)
	require.True(t, cancelled)
	require.Equal(t, []string{"endpoint_gone"}, b.cancelled)
	ports.Announce.Held(sub, &sluice.DeadLetter{})
	require.Equal(t, 1, b.held)
}

// Attempts and dead letters of a replay carry its mark, and are counted in its record.
func TestReplay_MarksAttemptsAndDeadLetters(t *testing.T) { // decision 0009
	t.Parallel()
	rep, ports, b := replayRunner(t, sluice.ReplayRange)
	require.False(t, rep.counted())
	require.NoError(t, ports.Log.Bury(t.Context(), sluice.DeadLetter{EventID: "e", Reason: sluice.Expired}))
	for _, outcome := range []sluice.Outcome{sluice.Delivered, sluice.Failed, sluice.Delivered} {
		ports.Log.Record(&sluice.Attempt{Seq: 3, Outcome: outcome}, "n", func(err error) { require.NoError(t, err) })
	}
	require.Equal(t, "r", b.buried[0].Replay)
	for _, a := range b.recorded {
		require.Equal(t, "r", a.Replay)
	}
	require.True(t, rep.counted())
	require.NoError(t, rep.save(t.Context(), 5))
	require.Equal(t, []uint64{5, 2, 1}, []uint64{b.stored.Next, b.stored.Sent, b.stored.Dead})
	require.False(t, rep.counted(), "it is stored")
	require.NoError(t, rep.save(t.Context(), 4))
	require.EqualValues(t, 5, b.stored.Next, "never back")

	before, err := ports.Log.Recover(t.Context(), &sluice.Subscription{ID: "s"}, 0, 0)
	require.NoError(t, err)
	require.Equal(t, map[uint64]model.Progress{7: {EventID: "e"}}, before, "of the replay's own attempts")

	rep.goOn(sluice.Replay{Sent: 40, Dead: 0})
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayCancelled, "why"))
	require.Equal(t, []any{sluice.ReplayCancelled, "why", uint64(5), uint64(40), uint64(1)}, []any{b.stored.State, b.stored.Reason, b.stored.Next, b.stored.Sent, b.stored.Dead})
	require.NotNil(t, b.stored.EndedAt)
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayDone, ""))
	require.EqualValues(t, 10, b.stored.Next)
}

// A letter that an operator discarded while a lane of its redrive waited is not written again.
func TestReplay_OfLettersBuriesNoneThatWasDiscarded(t *testing.T) {
	t.Parallel()
	_, ports, b := replayRunner(t, sluice.ReplayDeadLetters)
	require.NoError(t, ports.Log.Bury(t.Context(), sluice.DeadLetter{EventID: "e", Reason: sluice.Expired}))
	require.Empty(t, b.buried)
	require.NoError(t, ports.Log.Bury(t.Context(), sluice.DeadLetter{EventID: "e", Reason: sluice.Exhausted}))
	require.Equal(t, "r", b.buried[0].Replay)
}

// A replay ends where it was told to; one of letters ends with them.
func TestReplay_WantsUpToItsEnd(t *testing.T) {
	t.Parallel()
	rep, _, _ := replayRunner(t, sluice.ReplayRange)
	require.True(t, rep.wants(&sluice.Event{Seq: 9}))
	require.False(t, rep.wants(&sluice.Event{Seq: 10}))
	letters, _, _ := replayRunner(t, sluice.ReplayDeadLetters)
	require.True(t, letters.wants(&sluice.Event{Seq: 1 << 40}))
	rep.replay.Types = []string{"order.*"}
	require.False(t, rep.wants(&sluice.Event{Seq: 9, Type: "lamp.on"}))
}

// A range is done as far as its position, letters as far as their number.
func TestReplay_ProgressIsOfItsKind(t *testing.T) {
	t.Parallel()
	for want, rep := range map[float64]sluice.Replay{
		0:    {Kind: sluice.ReplayRange, From: 11, To: 20},
		0.3:  {Kind: sluice.ReplayRange, From: 11, To: 20, Next: 14, Sent: 1},
		1:    {Kind: sluice.ReplayRange, From: 11, To: 20, Next: 21},
		0.75: {Kind: sluice.ReplayDeadLetters, From: 11, To: 200, Next: 12, Total: 4, Sent: 2, Dead: 1},
	} {
		require.InDelta(t, want, replayRatio(&rep), 1e-9, "%+v", rep)
	}
	require.InDelta(t, 1, replayRatio(&sluice.Replay{Kind: sluice.ReplayDeadLetters, Total: 1, Sent: 2}), 1e-9)
}

// A replay's lanes, rate and end are its own.
func TestReplay_RunsBesideTheLiveDeliveries(t *testing.T) {
	t.Parallel()
	for kind, ofLetters := range map[sluice.ReplayKind]bool{sluice.ReplayRange: false, sluice.ReplayDeadLetters: true} {
		b := &beside{stored: sluice.Replay{To: 9}}
		ports := Deps{Log: b, Events: b, Replays: replayStore{b: b}}
		rep := newReplaying(sluice.Replay{ID: "r", Kind: kind, To: 9, Sent: 3, Dead: 2, Rate: sluice.Rate{PerSecond: 7}}, ports, slog.New(slog.DiscardHandler))
		require.False(t, rep.counted(), "it goes on from what is stored")
		run := rep.runner(&sluice.Subscription{ID: "s"}, New(nil, nil, ports, Options{}))
		_, is := run.ports.Events.(replayLetters)
		require.Equal(t, ofLetters, is)
		require.Equal(t, streams.ReplayLanes("r"), run.scope.lanesOf)
		require.Equal(t, sluice.Rate{PerSecond: 7}, run.scope.rate)
		require.True(t, run.scope.only(&sluice.Event{Seq: 9}))
		require.Equal(t, ofLetters, run.scope.only(&sluice.Event{Seq: 10}))
		require.NoError(t, run.scope.conclude(t.Context()))
		require.Equal(t, []any{sluice.ReplayDone, uint64(3), uint64(2), uint64(10)}, []any{b.stored.State, b.stored.Sent, b.stored.Dead, b.stored.Next})
	}
}

// The letters of what arrived are deleted, if not now then the next time; attempts that were not stored count for nothing.
func TestReplay_DeletesLettersOfArrivedEvents(t *testing.T) {
	t.Parallel()
	rep, ports, b := replayRunner(t, sluice.ReplayDeadLetters)
	rep.arrived(7)
	require.Empty(t, rep.answered, "its letters are not read yet")
	found, err := readDeadLetters(t.Context(), b, nil, &rep.replay)
	require.NoError(t, err)
	rep.letters.Store(found)
	var told []error
	full := sluice.Errorf(sluice.Unavailable, "full")
	b.fails = full
	ports.Log.Record(&sluice.Attempt{Seq: 7, Outcome: sluice.Delivered}, "n", func(err error) { told = append(told, err) })
	require.Empty(t, rep.answered)
	b.fails = nil
	ports.Log.Record(&sluice.Attempt{Seq: 7, Outcome: sluice.Delivered}, "n", func(err error) { told = append(told, err) })
	require.Equal(t, []error{full, nil}, told)
	require.Equal(t, []uint64{7}, rep.answered)

	b.away = true
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(rep.deleteLetters(t.Context())))
	b.away = false
	require.NoError(t, rep.deleteLetters(t.Context()))
	require.NoError(t, rep.deleteLetters(t.Context()))
	require.Equal(t, []uint64{3}, b.unburied)

	rep.goOn(sluice.Replay{Sent: 1, Dead: 4})
	require.Equal(t, []uint64{2, 4}, []uint64{rep.sent, rep.dead})
	rep.goOn(sluice.Replay{})
	require.Equal(t, []uint64{2, 4}, []uint64{rep.sent, rep.dead})
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayCancelled, ""))
	require.Equal(t, []uint64{2, 4}, []uint64{b.stored.Sent, b.stored.Dead})
}

// A replay of letters is not done while a letter of a delivered event cannot be deleted.
func TestReplay_IsDoneWhenItsLettersAreDeleted(t *testing.T) {
	t.Parallel()
	b := &beside{stored: sluice.Replay{To: 9, State: sluice.ReplayRunning}}
	ports := Deps{Log: b, Events: b, Replays: replayStore{b: b}, Letters: b}
	rep := newReplaying(sluice.Replay{ID: "r", Kind: sluice.ReplayDeadLetters, From: 1, To: 9}, ports, slog.New(slog.DiscardHandler))
	run := rep.runner(&sluice.Subscription{ID: "s"}, New(nil, nil, ports, Options{}))
	found, err := readDeadLetters(t.Context(), b, nil, &rep.replay)
	require.NoError(t, err)
	rep.letters.Store(found)
	require.Empty(t, found.settled(map[uint64]model.Progress{7: {EventID: "another", Settled: true}, 6: {EventID: "e", Settled: true}}))
	require.Equal(t, []uint64{7}, found.settled(map[uint64]model.Progress{7: {EventID: "e", Settled: true}}))
	rep.arrived(7)
	b.away = true
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(run.scope.conclude(t.Context())))
	require.Equal(t, sluice.ReplayRunning, b.stored.State)
	b.away = false
	require.NoError(t, run.scope.conclude(t.Context()))
	require.Equal(t, sluice.ReplayDone, b.stored.State)
	require.Equal(t, []uint64{3}, b.unburied)
}

// A replay goes on where it had come to, unless it has ended.
func TestReplay_OpensWhereItHadComeTo(t *testing.T) {
	t.Parallel()
	sub := &sluice.Subscription{ID: "s"}
	rep, ports, b := replayRunner(t, sluice.ReplayRange)
	open := func(now sluice.Replay) (*replaySource, error) {
		b.stored = now
		src, err := ports.Sources.Open(t.Context(), sub)
		if err != nil {
			require.Nil(t, src)
			return nil, err
		}
		<-src.Exhausted() // it reads
		src.Close()
		is, ok := src.(*replaySource)
		require.True(t, ok)
		return is, nil
	}
	for want, now := range map[uint64]sluice.Replay{5: {From: 2, Next: 5, Sent: 40}, 6: {From: 6, Sent: 40}} {
		now.State, now.To = sluice.ReplayRunning, 9
		src, err := open(now)
		require.NoError(t, err)
		require.Equal(t, want, src.start)
		require.EqualValues(t, 40, rep.sent)
	}
	_, err := open(sluice.Replay{State: sluice.ReplayCancelled})
	require.ErrorIs(t, err, errReplayed)
	b.away = true
	_, err = open(sluice.Replay{State: sluice.ReplayRunning})
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))

	rep, ports, b = replayRunner(t, sluice.ReplayDeadLetters)
	running := sluice.Replay{Kind: sluice.ReplayDeadLetters, State: sluice.ReplayRunning, From: 1, To: 9, Next: 5}
	rep.ports.Letters = lost{b}
	_, err = open(running)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	rep.ports.Letters = b
	rep.replay.Types = []string{"none"}
	src, err := open(running)
	require.NoError(t, err)
	require.EqualValues(t, 1, src.start)
	require.Same(t, rep.letters.Load(), src.events)
}

// lost cannot read letters.
type lost struct{ Letters }

func (lost) DeadLetters(context.Context, *sluice.Subscription, uint64, uint64, int) ([]model.BuriedLetter, error) {
	return nil, sluice.Errorf(sluice.Unavailable, "the store is away")
}

// Issue 13, F5: a replay counts the sequences of its range that cannot be read, up to where it has come and for the
// subscription's paths, and forgets none if damage is settled meanwhile.
func TestReplay_CountsUnreadableSequences(t *testing.T) {
	t.Parallel()
	var gaps []sluice.Gap
	b := &beside{stored: sluice.Replay{Kind: sluice.ReplayRange, From: 3, To: 20}}
	ports := Deps{Log: b, Events: b, Replays: replayStore{b: b}, Lost: func(string) []sluice.Gap { return gaps }}
	rep := newReplaying(sluice.Replay{ID: "r", Kind: sluice.ReplayRange, From: 3, To: 20}, ports, slog.New(slog.DiscardHandler))
	rep.runner(&sluice.Subscription{ID: "s", Pattern: "/a/*"}, New(nil, nil, ports, Options{}))
	gaps = []sluice.Gap{
		{From: 1, To: 4, Events: 4}, {From: 6, To: 6, Path: "/b/1", Events: 1}, {From: 7, To: 7, Path: "/a/1", Events: 1}, {From: 12, To: 30, Events: 3},
	}
	for next, want := range map[uint64]uint64{3: 0, 5: 2, 8: 3, 13: 4} {
		b.stored.Unreadable = 0
		b.stored.Next = 0
		require.NoError(t, rep.save(t.Context(), next))
		require.Equal(t, want, b.stored.Unreadable, "up to %d", next)
	}
	b.stored.Next = 8
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayCancelled, ""))
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayDone, ""))
	require.EqualValues(t, 6, b.stored.Unreadable, "all of the range")
	gaps = nil
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayDone, ""))
	require.EqualValues(t, 6, b.stored.Unreadable)
	gaps, b.stored = []sluice.Gap{{From: 1, To: 9, Events: 9}}, sluice.Replay{Kind: sluice.ReplayDeadLetters, From: 1, To: 9}
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayDone, ""))
	require.Zero(t, b.stored.Unreadable, "its range is of dead letters")
}
