package streamsub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/streamsub"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// after returns a time so many seconds after the start.
func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// made returns a subscription to events/* that was made when the log ended at 10.
func made(kind streamsub.Kind) streamsub.Subscription {
	c := streamsub.Config{Kind: kind, Pattern: "events/*", URL: "https://x.example", WakeStream: "wake/pool", Lease: 30 * time.Second}
	return streamsub.Subscription{
		Key: streamsub.Key{Namespace: "n", Root: "/v1", ID: "s"}, Config: c, Incarnation: "i", CreatedAt: start, Floor: 10, Base: 10, Links: map[string]streamsub.Link{},
	}
}

// act is what happens at a time, and what is to come of it.
type act struct {
	at    float64
	in    streamsub.Input
	tails map[string]uint64

	code  string // of the refusal
	woken bool
	then  string // the state
}

// state writes down what matters of a subscription.
func state(s *streamsub.Subscription) string {
	var b strings.Builder
	fmt.Fprintf(&b, "g%d", s.Generation)
	if w := s.Wake; w != nil {
		b.WriteString(" " + w.ID)
		if w.Send {
			b.WriteString(" send")
		}
		if w.Holder != "" {
			b.WriteString(" by " + w.Holder)
		}
		if !w.Until.IsZero() {
			fmt.Fprintf(&b, " until %g", w.Until.Sub(start).Seconds())
		}
	}
	if s.Failures > 0 {
		fmt.Fprintf(&b, " failed %d", s.Failures)
	}
	if !s.NotBefore.IsZero() {
		fmt.Fprintf(&b, " not before %g", s.NotBefore.Sub(start).Seconds())
	}
	for _, path := range []string{"events/a", "events/b", "named"} {
		if link, ok := s.Links[path]; ok {
			fmt.Fprintf(&b, " %s@%d", path, link.Acked)
		}
	}
	return b.String()
}

func stored(t *testing.T, s streamsub.Subscription) string {
	t.Helper()
	record, err := json.Marshal(s)
	require.NoError(t, err)
	return string(record)
}

func code(err error) string {
	if r, ok := errors.AsType[*streamsub.Refusal](err); ok {
		return r.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestStep_KnownTransitions(t *testing.T) {
	t.Parallel()
	type tails = map[string]uint64
	look := func(wake string) streamsub.Input {
		return streamsub.Input{Do: streamsub.Look, WakeID: wake, Jitter: 0.5}
	}
	sent := func(wake string, ok, done bool) streamsub.Input {
		return streamsub.Input{Do: streamsub.Sent, Wake: wake, OK: ok, Done: done, WakeID: "after-" + wake, Jitter: 0.5}
	}
	call := func(wake string, g uint64, done bool, acks ...streamsub.Ack) streamsub.Input {
		return streamsub.Input{Do: streamsub.Called, Wake: wake, Generation: g, Done: done, Acks: acks, WakeID: "after-" + wake}
	}
	claim := func(worker, wake string) streamsub.Input {
		return streamsub.Input{Do: streamsub.Claimed, Worker: worker, WakeID: wake}
	}
	release := func(wake string, g uint64) streamsub.Input {
		return streamsub.Input{Do: streamsub.Released, Wake: wake, Generation: g, WakeID: "after-" + wake}
	}
	a := func(seq uint64) streamsub.Ack { return streamsub.Ack{Path: "events/a", Offset: seq} }
	for name, tt := range map[string]struct {
		kind streamsub.Kind
		acts []act
	}{
		"earlier events do not wake": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 10}, then: "g0"},
			{in: look("w1"), tails: tails{"other/a": 11}, then: "g0"},
		}},
		"a webhook that is done at once has the snapshot": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{at: 1, in: look("w2"), tails: tails{"events/a": 12}, then: "g1 w1 send until 30"},
			{at: 2, in: sent("w1", true, true), tails: tails{"events/a": 11}, then: "g1 events/a@11"},
		}},
		"what came after the snapshot wakes again": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{at: 2, in: sent("w1", true, true), tails: tails{"events/a": 12}, woken: true, then: "g2 after-w1 send until 32 events/a@11"},
			{at: 3, in: sent("w1", true, true), tails: tails{"events/a": 12}, then: "g2 after-w1 send until 32 events/a@11"},
		}},
		"calls make the lease longer, and the last one ends it": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11, "events/b": 12}, woken: true, then: "g1 w1 send until 30"},
			{at: 1, in: sent("w1", true, false), then: "g1 w1 until 30"},
			{at: 20, in: call("w1", 1, false, a(11)), tails: tails{"events/a": 11}, then: "g1 w1 until 50 events/a@11"},
			{at: 40, in: look("w2"), tails: tails{"events/b": 12}, then: "g1 w1 until 50 events/a@11"},
			{at: 40, in: call("w2", 1, true), code: streamsub.Fenced, then: "g1 w1 until 50 events/a@11"},
			{at: 40, in: call("w1", 2, true), code: streamsub.Fenced, then: "g1 w1 until 50 events/a@11"},
			{at: 41, in: call("w1", 1, true, streamsub.Ack{Path: "events/b", Offset: 12}), tails: tails{"events/a": 11, "events/b": 12}, then: "g1 events/a@11 events/b@12"},
			{at: 42, in: call("w1", 1, true), code: streamsub.Fenced, then: "g1 events/a@11 events/b@12"},
		}},
		"who says nothing for a lease is forgotten": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{at: 1, in: sent("w1", true, false), then: "g1 w1 until 30"},
			{at: 30, in: call("w1", 1, true, a(11)), tails: tails{"events/a": 11}, code: streamsub.Fenced, then: "g1 w1 until 30"},
			{at: 30, in: look("w2"), tails: tails{"events/a": 11}, woken: true, then: "g2 w2 send until 60"},
			{at: 31, in: call("w1", 1, true, a(11)), tails: tails{"events/a": 11}, code: streamsub.Fenced, then: "g2 w2 send until 60"},
		}},
		"attempts are made again, then with another generation": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{in: sent("w1", false, false), then: "g1 w1 send until 30 failed 1 not before 1"},
			{at: 1, in: sent("w1", false, false), then: "g1 w1 send until 30 failed 2 not before 3"},
			{at: 3, in: sent("w1", false, false), then: "g1 w1 send until 30 failed 3 not before 7"},
			{at: 29, in: sent("w1", false, false), then: "g1 w1 send until 30 failed 4 not before 37"},
			{at: 30, in: look("w2"), tails: tails{"events/a": 11}, then: "g1 failed 4 not before 37"},
			{at: 37, in: look("w2"), tails: tails{"events/a": 11}, woken: true, then: "g2 w2 send until 67 failed 4"},
			{at: 38, in: sent("w2", true, false), then: "g2 w2 until 67"},
		}},
		"a request without an answer is one that failed": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{at: 30, in: look("w2"), tails: tails{"events/a": 11}, then: "g1 failed 1 not before 31"},
			{at: 30, in: sent("w1", false, false), then: "g1 failed 1 not before 31"},
			{at: 31, in: look("w3"), tails: nil, then: "g1"},
		}},
		"a callback proves that the endpoint was reached": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{at: 1, in: call("w1", 1, false), then: "g1 w1 until 31"},
			{at: 2, in: sent("w1", false, false), then: "g1 w1 until 31"},
		}},
		"acknowledgements go forward, and no further than the stream": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 15}, woken: true, then: "g1 w1 send until 30"},
			{in: call("w1", 1, false, a(16)), tails: tails{"events/a": 15}, code: streamsub.InvalidOffset, then: "g1 w1 send until 30"},
			{in: call("w1", 1, false, a(13)), tails: tails{"events/a": 15}, then: "g1 w1 until 30 events/a@13"},
			{in: call("w1", 1, false, a(12)), tails: tails{"events/a": 15}, code: streamsub.InvalidOffset, then: "g1 w1 until 30 events/a@13"},
			{in: call("w1", 1, false, a(14), streamsub.Ack{Path: "x", Offset: 1}), tails: tails{"events/a": 15, "x": 9}, code: streamsub.InvalidOffset, then: "g1 w1 until 30 events/a@13"},
			{in: call("w1", 1, true, a(15)), tails: nil, then: "g1 events/a@15"}, // it was deleted meanwhile
		}},
		"one worker has it, and the lease begins with that": {streamsub.PullWake, []act{
			{in: claim("x", "w0"), tails: tails{"events/a": 10}, code: streamsub.NoPendingWork, then: "g0"},
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send"},
			{in: call("w1", 1, true), code: streamsub.Fenced, then: "g1 w1 send"},
			{in: sent("w1", true, false), then: "g1 w1"},
			{at: 500, in: look("w2"), tails: tails{"events/a": 11}, then: "g1 w1"},
			{at: 500, in: claim("x", "w2"), tails: tails{"events/a": 12}, then: "g1 w1 by x until 530"},
			{at: 501, in: claim("y", "w3"), tails: tails{"events/a": 12}, code: streamsub.AlreadyClaimed, then: "g1 w1 by x until 530"},
			{at: 520, in: call("w1", 1, false), then: "g1 w1 by x until 550"},
			{at: 530, in: call("w1", 1, true, a(12)), tails: tails{"events/a": 13}, woken: true, then: "g2 after-w1 send events/a@12"},
		}},
		"a claim after the lease is another generation": {streamsub.PullWake, []act{
			{in: claim("x", "w1"), tails: tails{"events/a": 11}, then: "g1 w1 by x until 30"},
			{at: 30, in: claim("y", "w2"), tails: tails{"events/a": 11}, then: "g2 w2 by y until 60"},
			{at: 31, in: release("w1", 1), tails: tails{"events/a": 11}, code: streamsub.Fenced, then: "g2 w2 by y until 60"},
			{at: 31, in: release("w2", 2), tails: tails{"events/a": 11}, woken: true, then: "g3 after-w2 send"},
		}},
		"a wake that nothing is left of does not hold up the next": {streamsub.PullWake, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send"},
			{in: sent("w1", true, false), then: "g1 w1"},
			{in: claim("x", "w2"), tails: nil, code: streamsub.NoPendingWork, then: "g1"},
			{in: look("w2"), tails: tails{"events/a": 12}, woken: true, then: "g2 w2 send"},
		}},
		"a line that cannot be written is written later": {streamsub.PullWake, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send"},
			{in: sent("w1", false, false), then: "g1 w1 send failed 1 not before 1"},
			{in: claim("x", "w2"), tails: tails{"events/a": 11}, then: "g1 w1 by x until 30"},
		}},
		"named streams begin where they end": {streamsub.Webhook, []act{
			{in: streamsub.Input{Do: streamsub.Linked, Paths: []string{"named", "events/a"}}, tails: tails{"named": 7, "events/a": 12}, then: "g0 events/a@10 named@7"},
			{in: streamsub.Input{Do: streamsub.Linked, Paths: []string{"named"}}, tails: tails{"named": 20}, then: "g0 events/a@10 named@7"},
			{in: look("w1"), tails: tails{"named": 20, "events/a": 12}, woken: true, then: "g1 w1 send until 30 events/a@10 named@7"},
			{in: streamsub.Input{Do: streamsub.Unlinked, Paths: []string{"named", "events/a", "unknown"}}, then: "g1 w1 send until 30 events/a@10"},
			{in: call("w1", 1, true, a(12)), tails: tails{"events/a": 12, "named": 20}, then: "g1 events/a@12"},
		}},
		"what is withdrawn is not told": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11, "events/b": 12}, woken: true, then: "g1 w1 send until 30"},
			{in: streamsub.Input{Do: streamsub.Withdrawn, Wake: "w1", Paths: []string{"events/a"}}, then: "g1 w1 send until 30"},
			{in: sent("w1", true, true), tails: tails{"events/b": 12}, then: "g1 events/b@12"},
			{in: look("w2"), tails: tails{"events/a": 11}, woken: true, then: "g2 w2 send until 30 events/b@12"},
			{in: streamsub.Input{Do: streamsub.Withdrawn, Wake: "w2", Paths: []string{"events/a"}}, then: "g2 events/b@12"},
			{in: streamsub.Input{Do: streamsub.Withdrawn, Wake: "w2", Paths: []string{"events/b"}}, then: "g2 events/b@12"}, // it is over
		}},
		"what a worker has seen cannot be withdrawn": {streamsub.PullWake, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send"},
			{in: streamsub.Input{Do: streamsub.Withdrawn, Wake: "w0", Paths: []string{"events/a"}}, then: "g1 w1 send"}, // another wake
			{in: claim("x", "w2"), tails: tails{"events/a": 11}, then: "g1 w1 by x until 30"},
			{in: streamsub.Input{Do: streamsub.Withdrawn, Wake: "w1", Paths: []string{"events/a"}}, then: "g1 w1 by x until 30"},
		}},
		"what a webhook has called back about cannot be withdrawn": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{in: call("w1", 1, false), tails: tails{"events/a": 11}, then: "g1 w1 until 30"},
			{in: streamsub.Input{Do: streamsub.Withdrawn, Wake: "w1", Paths: []string{"events/a"}}, then: "g1 w1 until 30"},
		}},
		"what is given back and has nothing new is over": {streamsub.PullWake, []act{
			{in: claim("x", "w1"), tails: tails{"events/a": 11}, then: "g1 w1 by x until 30"},
			{in: release("w1", 1), then: "g1"},
		}},
		"a webhook's wake is not claimed": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{in: claim("x", "w2"), tails: tails{"events/a": 11}, code: streamsub.InvalidRequest, then: "g1 w1 send until 30"},
		}},
		"an attempt that arrived ends the waiting": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{in: sent("w1", false, false), then: "g1 w1 send until 30 failed 1 not before 1"},
			{at: 0.5, in: sent("w1", true, true), tails: tails{"events/a": 12}, woken: true, then: "g2 after-w1 send until 30.5 events/a@11"},
		}},
		"an answer that failed acknowledges nothing": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 11}, woken: true, then: "g1 w1 send until 30"},
			{in: sent("w1", false, true), tails: tails{"events/a": 11}, then: "g1 w1 send until 30 failed 1 not before 1"},
		}},
		"what is acknowledged again is no error, and no news": {streamsub.Webhook, []act{
			{in: look("w1"), tails: tails{"events/a": 15}, woken: true, then: "g1 w1 send until 30"},
			{in: call("w1", 1, false, a(13)), tails: tails{"events/a": 15}, then: "g1 w1 until 30 events/a@13"},
			{in: call("w1", 1, false, a(13), streamsub.Ack{Path: "events/b", Offset: 9}), tails: tails{"events/a": 15, "events/b": 9}, then: "g1 w1 until 30 events/a@13"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := made(tt.kind)
			for i, a := range tt.acts {
				before, record := state(&s), stored(t, s)
				next, woken, err := streamsub.Step(s, a.in, streamsub.View{At: 100, Tails: a.tails}, after(a.at))
				require.Equal(t, a.code, code(err), "act %d", i)
				require.Equal(t, a.woken, woken, "act %d", i)
				require.Equal(t, a.then, state(&next), "act %d", i)
				require.Equal(t, before, state(&s), "act %d changes nothing that was given", i)
				require.JSONEq(t, record, stored(t, s), "act %d changes nothing that was given", i)
				s = next
			}
		})
	}
}

// Waits grow from one second to a minute, and are spread by a fifth.
func TestAttempt_WaitsAreSpread(t *testing.T) {
	t.Parallel()
	for _, jitter := range []float64{0, 1} {
		s := made(streamsub.Webhook)
		s.Config.Lease = streamsub.MaxLease
		s, _, _ = streamsub.Step(s, streamsub.Input{WakeID: "w"}, streamsub.View{At: 100, Tails: map[string]uint64{"events/a": 11}}, start)
		for n := range 12 {
			s, _, _ = streamsub.Step(s, streamsub.Input{Do: streamsub.Sent, Wake: "w", Jitter: jitter}, streamsub.View{At: 100}, start)
			want := min(time.Duration(1<<n)*time.Second, time.Minute)
			require.Equal(t, time.Duration(float64(want)*(0.8+0.4*jitter)), s.NotBefore.Sub(start), "%d", n)
		}
		require.Equal(t, s.NotBefore, s.Next())
	}
}

// Of a log that lost its end or was made anew, rather too much is told than too little.
func TestLog_RestartedOneWakesForAll(t *testing.T) {
	t.Parallel()
	for floor, want := range map[uint64]map[string]uint64{60: {"events/a": 3, "events/c": 1}, 1: {"events/a": 3}} {
		s := made(streamsub.Webhook)
		s.Links["events/a"], s.Links["events/b"] = streamsub.Link{Acked: 50}, streamsub.Link{Acked: 2}
		s.Links["events/d"] = streamsub.Link{Acked: 3} // the last there is
		s.Floor, s.Base = floor, floor
		s, woken, err := streamsub.Step(s, streamsub.Input{WakeID: "w"}, streamsub.View{At: 3, Tails: map[string]uint64{"events/a": 3, "events/b": 2, "events/c": 1, "events/d": 3}}, start)
		require.NoError(t, err)
		require.True(t, woken)
		require.Equal(t, want, s.Wake.Snapshot)
	}
}

func TestConfig_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	k := streamsub.Key{Namespace: "n", ID: "s"}
	good := streamsub.Config{Kind: streamsub.Webhook, Pattern: "/a/**", Streams: []string{"/b", "a", "b"}, URL: "https://x.example", Lease: time.Second}
	normal, err := good.Normal(k)
	require.NoError(t, err)
	require.Equal(t, "a/**", normal.Pattern)
	require.Equal(t, []string{"a", "b"}, normal.Streams)
	for name, change := range map[string]func(*streamsub.Config){
		"kind":          func(c *streamsub.Config) { c.Kind = "mail" },
		"nothing":       func(c *streamsub.Config) { c.Pattern, c.Streams = "", nil },
		"url":           func(c *streamsub.Config) { c.URL = "" },
		"wake stream":   func(c *streamsub.Config) { c.Kind = streamsub.PullWake },
		"short lease":   func(c *streamsub.Config) { c.Lease = time.Second - 1 },
		"long lease":    func(c *streamsub.Config) { c.Lease = 10*time.Minute + 1 },
		"pattern":       func(c *streamsub.Config) { c.Pattern = "a*/b" },
		"star":          func(c *streamsub.Config) { c.Streams = []string{"a/*"} },
		"empty stream":  func(c *streamsub.Config) { c.Streams = []string{"/"} },
		"reserved":      func(c *streamsub.Config) { c.Streams = []string{"_sys/x"} },
		"control":       func(c *streamsub.Config) { c.Streams = []string{"x/__ds/y"} },
		"control alone": func(c *streamsub.Config) { c.Kind, c.WakeStream = streamsub.PullWake, "__ds" },
		"many streams":  func(c *streamsub.Config) { c.Streams = make([]string, 1001) },
		"description":   func(c *streamsub.Config) { c.Description = string(make([]byte, 3000)) },
	} {
		c := good
		change(&c)
		_, err := c.Normal(k)
		require.Equal(t, streamsub.InvalidRequest, code(err), name)
	}
}

// Issue 13, attack 10: the line that calls workers names the stream because of which it is written, never one that was withdrawn.
func TestStep_WithdrawnTriggerIsNotTold(t *testing.T) {
	t.Parallel()
	s := streamsub.Subscription{
		Config: streamsub.Config{Kind: streamsub.PullWake, Pattern: "**", WakeStream: "pool"},
		Wake:   &streamsub.Wake{ID: "w", Trigger: "a", Snapshot: map[string]uint64{"a": 1, "c": 2, "b": 3}, Send: true},
	}
	next, _, err := streamsub.Step(s, streamsub.Input{Do: streamsub.Withdrawn, Wake: "w", Paths: []string{"a"}}, streamsub.View{At: 9}, time.Now())
	require.NoError(t, err)
	require.Equal(t, "c", next.Wake.Trigger)
}

// A webhook that is done at once is done with what it was told of, though the log's Floor went past that meanwhile.
func TestStep_KeepsAcknowledgementsBehindTheFloor(t *testing.T) {
	t.Parallel()
	s := made(streamsub.Webhook)
	s.Floor, s.Wake = 20, &streamsub.Wake{ID: "w", Trigger: "events/a", Snapshot: map[string]uint64{"events/a": 15}, Send: true, Until: after(30)}
	next, _, err := streamsub.Step(s, streamsub.Input{Do: streamsub.Sent, Wake: "w", OK: true, Done: true}, streamsub.View{At: 100, Tails: map[string]uint64{"events/a": 30}}, start)
	require.NoError(t, err)
	require.Equal(t, map[string]streamsub.Link{"events/a": {Acked: 15}}, next.Links)
}

// A stream that is named no more is one of the pattern's, with the cursor that it has; the others are forgotten. What was not named
// stays as it is.
func TestStep_UnlinkedStreamsOfThePatternKeepTheirCursors(t *testing.T) {
	t.Parallel()
	s := made(streamsub.Webhook)
	s.Links = map[string]streamsub.Link{"events/a": {Explicit: true, Acked: 12}, "named": {Explicit: true, Acked: 13}, "events/b": {Acked: 14}, "other": {Explicit: true, Acked: 5}}
	s.Wake = &streamsub.Wake{ID: "w", Snapshot: map[string]uint64{"events/a": 20, "named": 21, "other": 22}}
	next, woken, err := streamsub.Step(s, streamsub.Input{Do: streamsub.Unlinked, Paths: []string{"events/a", "named", "events/b", "events/c"}}, streamsub.View{At: 100}, start)
	require.NoError(t, err)
	require.False(t, woken)
	require.Equal(t, map[string]streamsub.Link{"events/a": {Acked: 12}, "events/b": {Acked: 14}, "other": {Explicit: true, Acked: 5}}, next.Links)
	require.Equal(t, map[string]uint64{"events/a": 20, "other": 22}, next.Wake.Snapshot, "what is no stream of it is not told")
}

// A notice lists a stream that has no events of its own, such as a fork, at its cursor: a worker that acknowledges what it was told
// is not refused.
func TestStep_AcceptsTheCursorOfAnEmptyStream(t *testing.T) {
	t.Parallel()
	wake := &streamsub.Wake{ID: "w", Trigger: "events/a", Snapshot: map[string]uint64{"events/a": 12}, Until: after(30)}
	for name, tt := range map[string]struct {
		fork uint64 // what is acknowledged of it
		code string
		then string
	}{
		"its cursor":        {5, "", "g1 events/a@12 named@5"},
		"behind its cursor": {4, streamsub.InvalidOffset, "g1 w until 30 named@5"},
		"beyond its cursor": {12, "", "g1 events/a@12 named@5"},
		"beyond the log":    {13, streamsub.InvalidOffset, "g1 w until 30 named@5"},
	} {
		s := made(streamsub.Webhook)
		s.Generation, s.Wake, s.Links = 1, wake, map[string]streamsub.Link{"named": {Explicit: true, Acked: 5}}
		in := streamsub.Input{
			Do: streamsub.Called, Wake: "w", Generation: 1, Done: true,
			Acks: []streamsub.Ack{{Path: "named", Offset: tt.fork}, {Path: "events/a", Offset: 12}},
		}
		next, _, err := streamsub.Step(s, in, streamsub.View{At: 12, Tails: map[string]uint64{"named": 0, "events/a": 12}}, after(1))
		require.Equal(t, tt.code, code(err), name)
		require.Equal(t, tt.then, state(&next), name)
	}
}

// A worker may have read events that were erased since: their offsets count as the end of the stream, and the report is not refused.
func TestStep_AcceptsOffsetsOfErasedEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tail  uint64 // what is left
		acked uint64
		code  string
		then  string
	}{
		"all is erased":                    {0, 14, "", "g1 events/a@12"},
		"what was acknowledged is left":    {11, 14, "", "g1 events/a@12"},
		"something is left that is unread": {12, 14, streamsub.InvalidOffset, "g1 w until 30 events/a@11"},
		"the log never had it":             {0, 16, streamsub.InvalidOffset, "g1 w until 30 events/a@11"},
	} {
		s := made(streamsub.Webhook)
		s.Generation, s.Links = 1, map[string]streamsub.Link{"events/a": {Acked: 11}}
		s.Wake = &streamsub.Wake{ID: "w", Trigger: "events/a", Snapshot: map[string]uint64{"events/a": 12}, Until: after(30)}
		in := streamsub.Input{Do: streamsub.Called, Wake: "w", Generation: 1, Done: true, Acks: []streamsub.Ack{{Path: "events/a", Offset: tt.acked}}}
		next, _, err := streamsub.Step(s, in, streamsub.View{At: 15, Tails: map[string]uint64{"events/a": tt.tail}}, after(1))
		require.Equal(t, tt.code, code(err), name)
		require.Equal(t, tt.then, state(&next), name)
	}
}

// A record without links, as one that never had any is stored, takes them.
func TestStep_TheFirstLink(t *testing.T) {
	t.Parallel()
	s := made(streamsub.Webhook)
	s.Links = nil
	next, _, err := streamsub.Step(s, streamsub.Input{Do: streamsub.Linked, Paths: []string{"named"}}, streamsub.View{At: 100, Tails: map[string]uint64{"named": 40}}, start)
	require.NoError(t, err)
	require.Equal(t, map[string]streamsub.Link{"named": {Explicit: true, Acked: 40}}, next.Links)
}
