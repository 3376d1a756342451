package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tiny is quick in a few seconds: enough to see that nothing is lost.
func tiny() plans {
	p := quick()
	p.slow.lasts, p.slow.takes = 500*time.Millisecond, time.Second
	p.late.events, p.late.again = 200, time.Second
	p.outage.paths, p.outage.steps = 50, seconds(0.2, 0.5)
	p.outage.before, p.outage.down, p.outage.after = 500*time.Millisecond, time.Second, 500*time.Millisecond
	p.crash.publishers, p.crash.before, p.crash.after = 2, 200*time.Millisecond, 200*time.Millisecond
	p.parked.lanes, p.parked.lasts = 300, 500*time.Millisecond
	p.many.counts, p.many.events, p.many.paced, p.many.rests = []int{5, 50}, 200, 10, 100*time.Millisecond
	p.replicas.manyPlan = p.many
	p.replicas.counts = []int{20}
	p.vary.events, p.vary.paced, p.vary.many = 60, 5, []int{1, 100}
	p.fanout.subscriptions, p.fanout.flood, p.fanout.paced = 30, 3, 2
	p.rest.events, p.rest.batch, p.rest.clients = 200, 30, 8
	p.streams.appends, p.streams.flood, p.streams.wakes, p.streams.crowd = 20, 320, 10, 30
	p.streams.readers, p.streams.paced = 20, 5
	p.feeds.publishes, p.feeds.readers, p.feeds.fans, p.feeds.flood, p.feeds.paced = 20, 50, 20, 300, 20
	p.idle.readers, p.idle.rests, p.state.paths = 50, 100*time.Millisecond, []int{50, 1200}
	return p
}

func testRows(t *testing.T, binary string) {
	t.Helper()
	p, e := tiny(), benchEnv(t, binary)
	t.Run("a slow neighbour costs the healthy one no event", func(t *testing.T) {
		t.Parallel()
		rows := measured(t, p.slow.table(), e, "beside one that takes 1s")
		require.Len(t, rows, 3)
		for i, r := range rows {
			require.Equal(t, 50, r.events, i)
			require.Equal(t, r.events, r.arrived, i)
			require.GreaterOrEqual(t, r.besideTaken+r.besideLeft, r.besideEvents, "%s: answered, under way or waiting", i)
		}
	})
	t.Run("every failed delivery has its second attempt", func(t *testing.T) {
		t.Parallel()
		rows := measured(t, p.late.table(), e, "ratio")
		require.Len(t, rows, 3)
		for i, r := range rows {
			require.Equal(t, 200, r.events, i)
			require.Positive(t, r.max, i)
		}
	})
	t.Run("after an outage everything arrives in order", func(t *testing.T) {
		t.Parallel()
		rows := measured(t, p.outage.table(), e, "connection refused")
		require.Len(t, rows, 3)
		for _, r := range rows {
			require.Equal(t, 400, r.events, r.weather)
			require.Equal(t, r.events, r.arrived, r.weather)
			require.Zero(t, r.disordered, r.weather)
			require.Zero(t, r.dead, r.weather)
			require.LessOrEqual(t, r.records, p.outage.paths, "%s: one record for each path that failed", r.weather)
			require.Equal(t, r.weather != fair, r.failedPaths > 0, r.weather)
			require.LessOrEqual(t, r.pending, 64, r.weather)
			require.Positive(t, r.busiest, r.weather)
		}
		require.Zero(t, rows[1].requests, "no request was received")
		require.Positive(t, rows[2].requests)
	})
	t.Run("a crash loses nothing that was acknowledged", func(t *testing.T) {
		t.Parallel()
		for _, r := range measured(t, p.crash.table(e), e, "ratio") {
			require.Positive(t, r.events)
			require.Zero(t, r.missing)
			require.Positive(t, r.acks)
			require.Positive(t, r.arrivals)
		}
	})
	t.Run("parked lanes keep nothing from the healthy paths", func(t *testing.T) {
		t.Parallel()
		rows := measured(t, p.parked.table(), e, "while they are parked")
		require.Len(t, rows, 4)
		for i, r := range rows {
			require.Equal(t, 50, r.events, i)
			require.Equal(t, r.events, r.arrived, i)
			require.LessOrEqual(t, r.pending, 64, i)
			require.Equal(t, []int{0, 300, 300, 300}[i], r.records, i)
		}
	})
}

func testRest(t *testing.T, binary string) {
	t.Helper()
	rows := measured(t, tiny().rest.table(), benchEnv(t, binary), "always") // what does not arrive is an error
	require.Len(t, rows, 6)
	for i, r := range rows {
		require.Positive(t, r.rate, i)
		require.GreaterOrEqual(t, r.ack99, r.ack50, i)
		require.GreaterOrEqual(t, r.p99, r.p50, i)
		require.Zero(t, r.again, i)
	}
}

func testStreams(t *testing.T, binary string) {
	t.Helper()
	rows := measured(t, tiny().streams.table(), benchEnv(t, binary), "ratio") // what was acknowledged and is not there is an error
	for i, want := range []int{20, 20, 320, 320, 10, 10, 30, 30, 100, 100} {
		r := rows[i]
		require.Equal(t, want, r.count, i)
		require.Equal(t, want == 320, r.rate > 0, i)
		require.Equal(t, want != 320, r.p50 > 0, i)
		require.True(t, want == 100 || r.cpu == 0, i) // of a hundred deliveries it may be less than the kernel counts
		require.GreaterOrEqual(t, r.last, r.p99, i)
	}
}

func testFeeds(t *testing.T, binary string) {
	t.Helper()
	p, e := tiny(), benchEnv(t, binary)
	rows := measured(t, p.feeds.table(), e, "that take nothing") // what is not told is an error
	for i, want := range []int{20, 20, 20, 20, 20, 400, 6000, 6000, 300, 6000} {
		require.Equal(t, want, rows[i].count, i)
		require.Zero(t, rows[i].lagged, i)
		require.Equal(t, i < 6, rows[i].p50 > 0, i)
		require.Equal(t, i > 3, rows[i].rate > 0, i)
	}
	measured(t, p.idle.table(), e, "WebSocket")
	state := measured(t, p.state.table(), e, "1,200 paths") // a path that is missing is an error
	require.Positive(t, state[1].all)
}

func testVariants(t *testing.T, binary string) {
	t.Helper()
	p, e := tiny(), benchEnv(t, binary)
	for want, s := range map[string][]section{"65,536 bytes": p.vary.bodies(e), "paths: 100": p.vary.overPaths(e), "attempt": p.vary.schemes(e)} {
		for i, r := range measured(t, s[0].(table[sample]), e, want) {
			require.Zero(t, r.again, i)
			require.Positive(t, r.rate, i)
		}
	}
	for i, r := range measured(t, p.fanout.table(), e, "Sluice") { // a delivery that is missing is an error
		require.Zero(t, r.again, i)
		require.Positive(t, r.p50, i)
	}
}

func testReplicas(t *testing.T, binary string) {
	t.Helper()
	for i, r := range measured(t, tiny().replicas.table(), benchEnv(t, binary), "nats-server RSS") {
		require.Zero(t, r.lost, i)
		require.Zero(t, r.refused, i)
		require.Positive(t, r.rate, i)
		require.Positive(t, r.consumers, i)
	}
}

func testMany(t *testing.T, binary string) {
	t.Helper()
	for i, r := range measured(t, tiny().many.table(), benchEnv(t, binary), "50 subscriptions") {
		require.Zero(t, r.lost, i)
		require.Positive(t, r.rate, i)
		require.Positive(t, r.ready, i)
	}
}

// measured measures a table of one round, and requires that it prints a line with the text.
func measured[R any](t *testing.T, what table[R], e env, text string) (rows []R) {
	t.Helper()
	samples, err := what.measure(t.Context(), e)
	require.NoError(t, err)
	for _, rounds := range samples {
		rows = append(rows, rounds[0])
	}
	var out strings.Builder
	require.NoError(t, what.result(samples).print(&out))
	t.Log(out.String())
	require.Contains(t, out.String(), text)
	return rows
}

func benchEnv(t *testing.T, binary string) env {
	t.Helper()
	return env{binary: binary, dir: t.TempDir(), progress: t.Logf}
}

func TestRows_UnknownNameIsAnError(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.ErrorContains(t, tiny().run(t.Context(), env{}, "late,early", &out), `"early"`)
	require.Empty(t, out.String())
}

func TestRequest_KnownForms(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	at := func(number, status, after int) arrival {
		when := begin.Add(time.Duration(after) * time.Millisecond)
		return arrival{mark: mark{number: number, sent: begin}, at: when, answered: when, status: status}
	}
	all := []arrival{
		at(0, http.StatusServiceUnavailable, 10), at(1, http.StatusOK, 20), at(0, http.StatusOK, 115), at(1, http.StatusOK, 200),
		at(4, http.StatusOK, 1300), at(2, http.StatusOK, 1400),
	}
	first, again := deliveries(all)
	require.Equal(t, 1, again, "1 was answered 200 twice")
	require.Len(t, first, 4)
	require.Equal(t, 1, disorder(first, 2), "of the path of 0, 2 and 4, 2 came last")
	require.Zero(t, disorder(first, 5))
	require.Equal(t, 4, busiest(all, begin))
	require.Equal(t, 2, busiest(all, begin.Add(time.Second)))
	require.Zero(t, busiest(nil, begin))
	require.Equal(t, 1400*time.Millisecond, percentile(took(first), 100))
	require.Zero(t, percentile(nil, 99))

	late, beyond := lateness(append(all[:4:4], at(0, http.StatusOK, 300)), 100*time.Millisecond)
	require.Equal(t, []time.Duration{5 * time.Millisecond, 80 * time.Millisecond}, late)
	require.Equal(t, 1, beyond)
}

func TestLateness_ComesFromTheAttemptLog(t *testing.T) {
	t.Parallel()
	due := time.Unix(1000, 0)
	late := latenessOf([]sluice.Attempt{
		{Seq: 1, Number: 1, Verdict: sluice.Verdict{Again: due}},
		{Seq: 2, Number: 1, Verdict: sluice.Verdict{Settled: true}},
		{Seq: 1, Number: 2, StartedAt: due.Add(7 * time.Millisecond)},
	})
	require.Equal(t, []time.Duration{7 * time.Millisecond}, late)
}

func TestWitness_ReopensAtItsAddress(t *testing.T) {
	t.Parallel()
	w, err := station(t.Context(), func(m mark, before int) (int, time.Duration) {
		return []int{http.StatusServiceUnavailable, http.StatusOK}[before], 0
	})
	require.NoError(t, err)
	defer func() { w.close() }()
	bare := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.ErrorContains(t, post(t.Context(), bare, w.url, body(3, 7, time.Now(), size)), "503")
	require.ErrorContains(t, post(t.Context(), bare, w.url, []byte("{}")), "400")
	w.close()
	require.Error(t, post(t.Context(), bare, w.url, body(3, 7, time.Now(), size)), "refused, or cut off while it closes")
	require.NoError(t, w.open(t.Context()))
	require.NoError(t, post(t.Context(), bare, w.url, body(3, 7, time.Now(), size)))
	require.Equal(t, 1, w.count(3))
	require.Len(t, w.of(3), 2)
	require.Empty(t, w.of(2))
}

func TestSubscribeMany_EndsAfterManyRefusals(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"code":"quota","message":"too many"}}`, http.StatusUnprocessableEntity)
	}))
	defer api.Close()
	rate, refused, err := subscribeMany(t.Context(), client.New(api.URL, "token"), "http://hook", 150, "/many/%d/**")
	require.ErrorContains(t, err, "too many")
	require.GreaterOrEqual(t, refused, 100)
	require.Less(t, refused, 100+manyMakers)
	require.Positive(t, rate)
}
