package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// request is one request at the receiver, and whether it is refused.
type request struct {
	id, path string
	seq      uint64
	attempt  int
	refused  bool
}

func (r request) arrival() arrival {
	a := arrival{at: time.Now(), status: http.StatusNoContent, delivery: &webhook.Delivery{ID: r.id, Path: r.path, Seq: r.seq, Attempt: r.attempt}}
	if r.refused {
		a.status = http.StatusServiceUnavailable
	}
	return a
}

func recording(ids ...string) *record {
	events := make([]sluice.Event, len(ids))
	for i, id := range ids {
		events[i] = sluice.Event{ID: id, Path: "/a"}
	}
	r := newRecord(events)
	for _, ev := range events {
		r.publishing(ev)
	}
	return r
}

func TestRecord_DetectsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		requests []request
		want     tally
	}{
		"in order": {
			[]request{{id: "1", path: "/a", seq: 1, attempt: 1}, {id: "2", path: "/a", seq: 2, attempt: 1}},
			tally{Delivered: 2, Attempts: 2},
		},
		"a retry, while another path goes on": {
			[]request{{"1", "/a", 1, 1, true}, {id: "2", path: "/b", seq: 2, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 2}},
			tally{Delivered: 2, Attempts: 3, Retried: 1},
		},
		"a later event before an earlier one": {
			[]request{{id: "2", path: "/a", seq: 2, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 1}},
			tally{Delivered: 2, Attempts: 2, OutOfOrder: 1},
		},
		"a later event while an earlier one waits for its retry": {
			[]request{{"1", "/a", 1, 1, true}, {id: "2", path: "/a", seq: 2, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 2}},
			tally{Delivered: 2, Attempts: 3, Retried: 1, OutOfOrder: 1},
		},
		"the same event twice": {
			[]request{{id: "1", path: "/a", seq: 1, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 1}},
			tally{Delivered: 1, Attempts: 3, Twice: 1},
		},
		"another publisher's event": {
			[]request{{id: "theirs", path: "/a", seq: 1, attempt: 1}},
			tally{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := recording("1", "2")
			for _, one := range c.requests {
				r.arrived(one.arrival())
			}
			r.tally.Receiver = ""
			require.Equal(t, c.want, r.tally)
			require.Equal(t, c.want.OutOfOrder > 0, r.faults() != nil)
		})
	}
}

func TestRecord_ConcludesOnlyIfAllArrivedVerified(t *testing.T) {
	t.Parallel()
	s := &terminal.Session{Stdout: io.Discard}
	r := recording("1")
	require.ErrorContains(t, r.conclude(s, nil), "1 of 1 deliveries did not arrive in time")
	r.arrived(request{id: "1", path: "/a", seq: 1, attempt: 1}.arrival())
	require.NoError(t, r.conclude(s, nil))
	r.arrived(arrival{err: webhook.ErrSignature, status: http.StatusUnauthorized})
	require.ErrorContains(t, r.conclude(s, nil), "1 requests failed verification")
}

func TestRecord_WaitsForConditions(t *testing.T) {
	t.Parallel()
	r := recording("1")
	require.ErrorContains(t, r.until(t.Context(), time.Nanosecond, func() bool { return false }), "not within 1ns")
	met := make(chan error, 1)
	go func() { met <- r.until(t.Context(), time.Hour, func() bool { return r.tally.Delivered == 1 }) }()
	r.arrived(request{id: "1", path: "/a", seq: 1, attempt: 1}.arrival())
	require.NoError(t, <-met)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	require.ErrorContains(t, r.until(ctx, time.Hour, func() bool { return false }), "interrupted")
}

// A statement that does not hold is printed with ✗ and ends the command.
func TestStage_ReportsStatementsThatDoNotHold(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := newStage(&terminal.Session{Stdout: &out})
	require.NoError(t, g.holds(nil, "all is well"))
	require.ErrorContains(t, g.holds(errors.New("3 are missing"), "all has arrived"), "all has arrived: 3 are missing")
	require.Equal(t, "✓ all is well\n✗ all has arrived\n", out.String())
	require.Equal(t, []statement{{Text: "all is well", Holds: true}, {Text: "all has arrived"}}, g.statements)
}

// The playground is for a user at a terminal, or for --keep.
func TestCmd_ContinuesForUsersOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cmd  Cmd
		s    terminal.Session
		want bool
	}{
		{Cmd{}, terminal.Session{Interactive: true}, true},
		{Cmd{}, terminal.Session{}, false},
		{Cmd{Exit: true}, terminal.Session{Interactive: true}, false},
		{Cmd{Keep: true}, terminal.Session{}, true},
		{Cmd{}, terminal.Session{Interactive: true, Flags: terminal.Flags{Output: terminal.FormatJSON}}, false},
	} {
		require.Equal(t, c.want, c.cmd.continues(&c.s), "%+v", c)
	}
}

func TestReceiver_RefusesAsArranged(t *testing.T) {
	t.Parallel()
	r := newReceiver(newRecord(nil), newStage(&terminal.Session{Stdout: io.Discard}))
	in := func(path sluice.Path, attempt int) *webhook.Delivery {
		return &webhook.Delivery{Path: string(path), Attempt: attempt}
	}
	require.True(t, r.refuses(in(troubled, 9)))
	require.False(t, r.refuses(in(stubborn, 1)))
	r.repair()
	require.False(t, r.refuses(in(troubled, 1)))
	r.play()
	require.False(t, r.refuses(in(troubled, 1)))
	require.True(t, r.refuses(in(stubborn, 2)))
	require.False(t, r.refuses(in(stubborn, 3)))
}

func TestOrders_HaveSeveralPaths(t *testing.T) {
	t.Parallel()
	paths, ids := map[sluice.Path]bool{}, map[string]bool{}
	for _, ev := range append(lives(), scans(40)...) {
		_, err := sluice.ParsePath(string(ev.Path))
		require.NoError(t, err)
		require.NotNil(t, ev.JSONData())
		paths[ev.Path], ids[ev.ID] = true, true
	}
	require.Len(t, paths, 10)
	require.Len(t, ids, 52)
	require.Equal(t, troubled, lives()[2].Path)
	require.Equal(t, []string{head, behind}, []string{lives()[2].ID, lives()[6].ID})
	require.Equal(t, troubled, lives()[6].Path)
}

func TestPercentiles_AreOfTheMeasurements(t *testing.T) {
	t.Parallel()
	require.Zero(t, quantile(nil, 50))
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = time.Duration(i) * time.Millisecond
	}
	require.InDelta(t, 50, quantile(hundred, 50), 0.001)
	require.InDelta(t, 99, quantile(hundred, 99), 0.001)
}

// The lines of the demo print nothing that a terminal obeys.
func TestStage_PrintsCleanLines(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[2J\u202eb"
	var out bytes.Buffer
	g := newStage(&terminal.Session{Stdout: &out, Stderr: &out, Watched: true})
	g.arrived(arrival{delivery: &webhook.Delivery{ID: hostile, Path: hostile, Type: hostile}})
	g.arrived(arrival{err: errors.New(hostile)})
	require.Contains(t, out.String(), "?[2J?b")
	require.NotContains(t, out.String(), hostile)
}
