package demo

import (
	"bytes"
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

// request is one request at the receiver "r", and whether it is refused.
type request struct {
	id, path string
	seq      uint64
	attempt  int
	refused  bool
}

func TestDemo_DetectsFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		requests []request
		want     tally
	}{
		{
			"in order",
			[]request{{id: "1", path: "/a", seq: 1, attempt: 1}, {id: "2", path: "/a", seq: 2, attempt: 1}},
			tally{Delivered: 2, Attempts: 2},
		},
		{
			"a retry, while another path goes on",
			[]request{{"1", "/a", 1, 1, true}, {id: "2", path: "/b", seq: 2, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 2}},
			tally{Delivered: 2, Attempts: 3, Retried: 1},
		},
		{
			"a later event before an earlier one",
			[]request{{id: "2", path: "/a", seq: 2, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 1}},
			tally{Delivered: 2, Attempts: 2, OutOfOrder: 1},
		},
		{
			"a later event while an earlier one waits for its retry",
			[]request{{"1", "/a", 1, 1, true}, {id: "2", path: "/a", seq: 2, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 2}},
			tally{Delivered: 2, Attempts: 3, Retried: 1, OutOfOrder: 1},
		},
		{
			"the same event twice",
			[]request{{id: "1", path: "/a", seq: 1, attempt: 1}, {id: "1", path: "/a", seq: 1, attempt: 1}},
			tally{Delivered: 1, Attempts: 2},
		},
		{
			"another publisher's event",
			[]request{{id: "theirs", path: "/a", seq: 1, attempt: 1}},
			tally{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newReport(&terminal.Session{Stdout: io.Discard}, []sluice.Event{{ID: "1"}, {ID: "2"}})
			r.publishing("1")
			r.publishing("2")
			for _, one := range tt.requests {
				status := r.arrived(arrival{
					receiver: "r", at: time.Now(), status: http.StatusNoContent,
					delivery: &webhook.Delivery{ID: one.id, Path: one.path, Seq: one.seq, Attempt: one.attempt},
					refuse:   func(*webhook.Delivery) bool { return one.refused },
				})
				require.Equal(t, one.refused, status == http.StatusServiceUnavailable)
			}
			got := r.tally("r")
			require.Equal(t, tt.want, tally{Delivered: got.Delivered, Attempts: got.Attempts, Retried: got.Retried, OutOfOrder: got.OutOfOrder})
		})
	}
}

func TestDemo_FailsUnlessAllArrivesVerified(t *testing.T) {
	t.Parallel()
	r := newReport(&terminal.Session{Stdout: io.Discard}, []sluice.Event{{ID: "1"}})
	r.publishing("1")
	r.arrived(arrival{receiver: "r", err: webhook.ErrSignature, status: http.StatusUnauthorized})
	err := r.conclude()
	require.ErrorContains(t, err, "2 of 2 deliveries did not arrive in time")
	require.ErrorContains(t, err, "r: 1 requests failed verification")
}

func TestDemo_CompletesWhenBothReceiversHaveAll(t *testing.T) {
	t.Parallel()
	r := newReport(&terminal.Session{Stdout: io.Discard}, []sluice.Event{{ID: "1"}})
	r.publishing("1")
	for _, name := range []string{"a", "b"} {
		require.NotPanics(t, func() {
			select {
			case <-r.complete:
				panic(errors.New("too early"))
			default:
			}
		})
		r.arrived(arrival{receiver: name, at: time.Now(), delivery: &webhook.Delivery{ID: "1", Path: "/a", Seq: 1, Attempt: 1}, refuse: never})
	}
	<-r.complete
	require.NoError(t, r.conclude())
}

func TestReceiver_RefusesEveryThirdEventTwice(t *testing.T) {
	t.Parallel()
	refuse := stubborn(3)
	var refused []string
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		for attempt := 1; attempt <= 3; attempt++ {
			if !refuse(&webhook.Delivery{ID: id, Attempt: attempt}) {
				break
			}
			refused = append(refused, id)
		}
	}
	require.Equal(t, []string{"c", "c", "f", "f"}, refused)
}

func TestOrders_HaveSeveralPaths(t *testing.T) {
	t.Parallel()
	paths := map[sluice.Path]bool{}
	for _, ev := range madeUp(40) {
		_, err := sluice.ParsePath(string(ev.Path))
		require.NoError(t, err)
		require.NotNil(t, ev.JSONData())
		paths[ev.Path] = true
	}
	require.Greater(t, len(paths), 5)
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
func TestReport_PrintsCleanLines(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[2J\u202eb"
	var out bytes.Buffer
	r := newReport(&terminal.Session{Stdout: &out, Stderr: &out, Watched: true}, nil)
	r.print(arrival{receiver: "r", delivery: &webhook.Delivery{ID: hostile, Path: hostile, Type: hostile}, err: errors.New(hostile)})
	require.Contains(t, out.String(), "?[2J?b")
	require.NotContains(t, out.String(), hostile)
}
