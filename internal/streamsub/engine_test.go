package streamsub_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestWebhook_IsWokenByNewEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.publish(t, "/events/old")
	p := b.process(t, "one", true)
	p.subscribe(t, webhook())
	b.publish(t, "/other/x")
	seq := b.publish(t, "/events/new")
	n := b.wait(t, 1)[0]
	require.Equal(t, uint64(1), n.Generation)
	require.Equal(t, "http://here/streams/default/__ds/subscriptions/s/callback", n.Callback)
	require.Len(t, n.Streams, 1)
	require.Equal(t, streamsub.Told{Path: "events/new", Link: "glob", Acked: "1", Tail: strconv.FormatUint(seq, 10), Pending: true}, n.Streams[0])
	woken, err := p.Call(t.Context(), key, done(n))
	require.NoError(t, err)
	require.False(t, woken)
	_, err = p.Call(t.Context(), key, done(n))
	require.Equal(t, streamsub.Fenced, code(err))
	s := p.stored(t)
	all, err := p.Streams(t.Context(), &s)
	require.NoError(t, err)
	require.Equal(t, []streamsub.Stream{{Path: "events/new", Acked: seq, Tail: seq}, {Path: "events/old", Acked: 1, Tail: 1}}, all)
	b.publish(t, "/events/old")
	require.Equal(t, "events/old", b.wait(t, 2)[1].Streams[1].Path)
}

func TestEngine_AnyReplicaTakesCallbacksOneSends(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.process(t, "one", true), b.process(t, "two", false)
	one.subscribe(t, webhook())
	for n := 1; n <= 20; n++ {
		b.publish(t, "/events/x")
		got := b.wait(t, n)[n-1]
		require.Equal(t, "one", got.By)
		require.Equal(t, uint64(n), got.Generation)
		require.Eventually(t, func() bool { // a process that has just begun reads the log first
			_, err := two.Call(t.Context(), key, done(got))
			return err == nil
		}, patience, 10*time.Millisecond)
	}
	require.Len(t, b.all(), 20)
	require.Nil(t, two.stored(t).Wake)
}

// The one that sends dies: what was under way is sent by the other one, under the same name.
func TestEngine_SuccessorContinuesTheWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answer = func(ctx context.Context, _ notice) streamsub.Answer {
		<-ctx.Done()
		return streamsub.Answer{Error: "cut off"}
	}
	one, two := b.process(t, "one", true), b.process(t, "two", false)
	one.subscribe(t, webhook())
	b.publish(t, "/events/x")
	first := b.wait(t, 1)[0]
	one.stop() // without a word
	b.change(func() {
		b.answer = func(context.Context, notice) streamsub.Answer {
			return streamsub.Answer{OK: true, Body: []byte(`{"done":true}`)}
		}
	})
	two.own(true)
	second := b.wait(t, 2)[1]
	require.Equal(t, "two", second.By)
	require.Equal(t, first.Wake, second.Wake)
	require.Equal(t, first.Generation, second.Generation)
	require.Eventually(t, func() bool { s := two.stored(t); return s.Wake == nil && s.Links["events/x"].Acked > 0 }, patience, 5*time.Millisecond)
}

// When an attempt is due is stored: neither a restart nor another process makes it sooner, nor forgets it.
func TestAttempt_KeepsItsTimeAcrossARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answer = func(context.Context, notice) streamsub.Answer { return streamsub.Answer{Error: "status 500"} }
	one := b.process(t, "one", true)
	one.subscribe(t, webhook())
	b.publish(t, "/events/x")
	b.wait(t, 2) // the second about a second later
	var due time.Time
	require.Eventually(t, func() bool { s := one.stored(t); due = s.NotBefore; return s.Failures == 2 }, patience, 5*time.Millisecond)
	require.True(t, one.stored(t).Wake.Send)
	one.stop()
	b.change(func() {
		b.answer = func(context.Context, notice) streamsub.Answer { return streamsub.Answer{OK: true} }
	})
	two := b.process(t, "two", true)
	b.wait(t, 3)
	require.False(t, time.Now().Before(due), "not before it is due")
	require.Eventually(t, func() bool { s := two.stored(t); return s.Wake != nil && !s.Wake.Send && s.Failures == 0 }, patience, 5*time.Millisecond)
}

// A lease that expires while no server runs is over for the next server.
func TestLease_ExpiresAcrossARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.process(t, "one", true)
	c := webhook()
	c.Lease = time.Second
	one.subscribe(t, c)
	b.publish(t, "/events/x")
	first := b.wait(t, 1)[0]
	require.Eventually(t, func() bool { s := one.stored(t); return s.Wake != nil && !s.Wake.Send }, patience, 5*time.Millisecond)
	one.stop()
	two := b.process(t, "two", true)
	second := b.wait(t, 2)[1]
	require.Greater(t, second.Generation, first.Generation) // a notice whose lease has run out meanwhile is not sent
	require.NotEqual(t, first.Wake, second.Wake)
	_, err := two.Call(t.Context(), key, done(first))
	require.Equal(t, streamsub.Fenced, code(err))
}

// Events that come while no server runs are found by the next server.
func TestEngine_WakesForEventsOfItsDowntime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.process(t, "one", true)
	one.subscribe(t, webhook())
	one.stop()
	b.publish(t, "/events/x")
	b.process(t, "two", true)
	require.Equal(t, "events/x", b.wait(t, 1)[0].Streams[0].Path)
}

func TestWorkers_OneWinsTheWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.process(t, "one", true), b.process(t, "two", false)
	one.subscribe(t, pull())
	b.publish(t, "/events/x")
	var line uint64
	require.Eventually(t, func() bool {
		tail, err := b.store.Log.PathTail(t.Context(), "default", "/wake/pool")
		line = tail
		return err == nil && tail > 0
	}, patience, 5*time.Millisecond)
	ev, err := b.store.Log.Event(t.Context(), "default", line)
	require.NoError(t, err)
	require.Contains(t, string(ev.Data), `"type":"wake","subscription_id":"s","stream":"events/x","generation":1,"ts":`)

	claims := make([]streamsub.Claim, 8)
	errs := make([]error, len(claims))
	var all sync.WaitGroup
	for i := range claims {
		p := []*process{one, two}[i%2]
		all.Go(func() { claims[i], errs[i] = p.Claim(t.Context(), key, strconv.Itoa(i)) })
	}
	all.Wait()
	winner := -1
	for i, err := range errs {
		if err == nil {
			require.Equal(t, -1, winner, "one has it")
			winner = i
		} else {
			require.Equal(t, streamsub.AlreadyClaimed, code(err))
		}
	}
	require.NotEqual(t, -1, winner)
	c := claims[winner]
	call := streamsub.Call{Kind: streamsub.PullWake, Token: c.Token, Wake: c.Wake, Generation: c.Generation}
	_, err = two.Call(t.Context(), key, call)
	require.NoError(t, err, "a sign of life")
	call.Release = true
	_, err = two.Call(t.Context(), key, call)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		tail, err := b.store.Log.PathTail(t.Context(), "default", "/wake/pool")
		return err == nil && tail > line
	}, patience, 5*time.Millisecond, "there is something left: others are called")
	next, err := one.Claim(t.Context(), key, "x")
	require.NoError(t, err)
	require.Equal(t, uint64(2), next.Generation)
	_, err = one.Call(t.Context(), key, call)
	require.Equal(t, streamsub.Fenced, code(err))
}

func TestWakeStream_AbsentOneIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.gone["/wake/pool"] = true
	one := b.process(t, "one", true)
	one.subscribe(t, pull())
	b.publish(t, "/events/x")
	require.Eventually(t, func() bool { s := one.stored(t); return s.Failed() }, patience, 5*time.Millisecond)
	b.change(func() { b.gone["/wake/pool"] = false })
	require.Eventually(t, func() bool { s := one.stored(t); return s.Wake != nil && !s.Wake.Send && !s.Failed() }, patience, 5*time.Millisecond)
}

func TestWake_OmitsDeletedAndHiddenStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.gone["/events/gone"] = true
	b.shows = func(path sluice.Path) model.Decision {
		if path == "/events/hidden" {
			return model.Withhold
		}
		return model.Pass
	}
	p := b.process(t, "one", true)
	p.subscribe(t, webhook())
	b.publish(t, "/events/gone")
	b.publish(t, "/events/hidden")
	b.publish(t, "/events/seen")
	n := b.wait(t, 1)[0]
	require.Len(t, n.Streams, 1)
	require.Equal(t, "events/seen", n.Streams[0].Path)
	_, err := p.Call(t.Context(), key, done(n))
	require.NoError(t, err)
	b.change(func() { b.gone["/events/gone"] = false })
	b.publish(t, "/events/gone")
	require.Equal(t, "events/gone", b.wait(t, 2)[1].Streams[0].Path, "it came back")
}

func TestAccess_LossEndsTheSubscription(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process(t, "one", true)
	p.subscribe(t, webhook())
	b.change(func() { b.holds = model.Undecided })
	b.publish(t, "/events/x")
	b.change(func() { b.holds = model.Lost })
	require.Eventually(t, func() bool { _, err := p.Get(t.Context(), key); return code(err) == streamsub.NotFound }, patience, 5*time.Millisecond)
	_, err := p.Claim(t.Context(), key, "x")
	require.Equal(t, streamsub.NotFound, code(err))
	b.change(func() { require.Equal(t, []string{"made s", "removed s by " + string(sluice.System)}, b.book) })
}

// A token is of one incarnation: what was deleted and made anew has others.
func TestToken_IsOfOneIncarnation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process(t, "one", true)
	p.subscribe(t, webhook())
	b.publish(t, "/events/x")
	n := b.wait(t, 1)[0]
	require.NoError(t, p.Delete(t.Context(), key, "user:a"))
	_, err := p.Call(t.Context(), key, done(n))
	require.Equal(t, streamsub.NotFound, code(err))
	p.subscribe(t, webhook())
	b.publish(t, "/events/x")
	b.wait(t, 2)
	_, err = p.Call(t.Context(), key, done(n))
	require.Equal(t, streamsub.NotFound, code(err))
	for _, token := range []string{"", "x", n.Token + "x", "x." + n.Token, n.Token[:len(n.Token)-3]} {
		require.Equal(t, streamsub.TokenInvalid, code(p.Authentic(key, token)), token)
	}
	other := key
	other.ID = "other"
	require.Equal(t, streamsub.TokenInvalid, code(p.Authentic(other, n.Token)))
	require.NoError(t, p.Authentic(key, n.Token))
}

// What is cut off leaves nothing behind and is sent again.
func TestWithdraw_CutsOffTheRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answer = func(ctx context.Context, _ notice) streamsub.Answer {
		<-ctx.Done()
		return streamsub.Answer{Error: "cut off"}
	}
	p := b.process(t, "one", true)
	p.subscribe(t, webhook())
	b.publish(t, "/events/x")
	first := b.wait(t, 1)[0]
	require.NoError(t, p.Withdraw(t.Context(), func(*sluice.Subscription) bool { return false }))
	require.Len(t, b.all(), 1)
	require.NoError(t, p.Withdraw(t.Context(), func(s *sluice.Subscription) bool { return s.Pattern == "/events/*" && s.CreatedBy == "user:a" }))
	require.Equal(t, first.Wake, b.wait(t, 2)[1].Wake)
}

// An identical wish finds what is there, another one does not.
func TestPut_ConfirmsAnIdenticalSubscription(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process(t, "one", true)
	made := p.subscribe(t, webhook())
	yes := func(*streamsub.Subscription) bool { return true }
	c := webhook()
	c.Lease = 30 * time.Second
	again, created, err := p.Create(t.Context(), key, c, sluice.Caller{}, yes)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, made.Incarnation, again.Incarnation)
	_, _, err = p.Create(t.Context(), key, c, sluice.Caller{}, func(*streamsub.Subscription) bool { return false })
	require.Equal(t, streamsub.Exists, code(err), "another's")
	c.Description = "other"
	_, _, err = p.Create(t.Context(), key, c, sluice.Caller{}, yes)
	require.Equal(t, streamsub.Exists, code(err))
	require.NoError(t, p.Forget(t.Context(), "default", "user:b"))
	_, err = p.Get(t.Context(), key)
	require.Equal(t, streamsub.NotFound, code(err))
	require.Equal(t, []string{"made s", "removed s by user:b"}, b.book)
}

// Issue 13: a lease that runs out between the decision to wake and the request, as of a machine that was suspended, sends nothing.
func TestWake_IsNotSentWithoutALease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process(t, "one", true)
	p.subscribe(t, webhook())
	var asked int
	b.change(func() {
		b.shows = func(sluice.Path) model.Decision { // with the lock held
			if asked++; asked == 2 { // first when it is decided, then before it is sent
				*p.owner.yes = false
			}
			return model.Pass
		}
	})
	b.publish(t, "/events/x")
	lost := func() (yes bool) {
		b.change(func() { yes = !*p.owner.yes })
		return yes
	}
	require.Eventually(t, lost, patience, time.Millisecond)
	<-p.Changed()
	require.Empty(t, b.all())
	p.own(true)
	require.Equal(t, "one", b.wait(t, 1)[0].By)
}
