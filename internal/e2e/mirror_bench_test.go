package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The source of BenchmarkMirror_CatchUp.
const (
	catchUpItems = 50_000
	catchUpSize  = 1 << 10
)

// BenchmarkMirror_CatchUp prints how many entries of 1 KiB a second a new mirror takes from a source of 50,000, at depth full,
// with both sides on this machine: a namespace of the same server, and one of another server over HTTP.
func BenchmarkMirror_CatchUp(b *testing.B) {
	b.Run("local", func(b *testing.B) {
		low := filledSource(b)
		for n := range b.N {
			low.catchesUp(b, n, `"source":"low"`)
		}
	})
	b.Run("remote", func(b *testing.B) {
		low, high := filledSource(b), start(b, b.TempDir(), nil)
		reads := low.grant(b, "service:mirror", "scope:low", "read").token
		for n := range b.N {
			high.catchesUp(b, n, fmt.Sprintf(`"source":"%s/v1/namespaces/low","credential":%q`, low.at.HTTP, reads))
		}
	})
}

// filledSource returns a server with the entries in its namespace low.
func filledSource(b *testing.B) *running {
	b.Helper()
	low := start(b, b.TempDir(), nil)
	low.must(b, http.StatusCreated, "PUT /v1/namespaces/low", `{}`)
	data := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", catchUpSize))
	for at := 0; at < catchUpItems; at += 500 {
		events := make([]sluice.Event, 500)
		for i := range events {
			events[i] = sluice.Event{Path: sluice.Path(fmt.Sprint("/a/", (at+i)%100)), Type: "t", Source: "/s", Data: data}
		}
		_, err := low.api.Publish(b.Context(), "low", events...)
		require.NoError(b, err)
	}
	b.ResetTimer()
	return low
}

// catchesUp makes mirror n and waits until it has everything.
func (s *running) catchesUp(b *testing.B, n int, source string) {
	b.Helper()
	ns := fmt.Sprint("high", n)
	s.must(b, http.StatusCreated, "PUT /v1/namespaces/"+ns, `{}`)
	begun := time.Now()
	s.must(b, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"m%d","mode":"mirror","namespace":%q,"depth":"full",%s}`, n, ns, source))
	for done := false; !done; {
		r := s.must(b, http.StatusOK, fmt.Sprintf("POST /v1/subscriptions/m%d/sync?wait=1m", n), "")
		done = r.field(b, "mirrored_count") == float64(catchUpItems)
	}
	b.ReportMetric(catchUpItems/time.Since(begun).Seconds(), "items/s")
}

// BenchmarkMirror_Idle prints which part of a processor a server uses in 70 seconds with 10,000 mirrors of sources in which nothing
// happens, polled every minute, and without any; and the heap that they take.
func BenchmarkMirror_Idle(b *testing.B) {
	const side = 100
	s := start(b, b.TempDir(), nil)
	for i := range side {
		s.must(b, http.StatusCreated, fmt.Sprintf("PUT /v1/namespaces/low%d", i), `{}`)
		s.must(b, http.StatusCreated, fmt.Sprintf("PUT /v1/namespaces/high%d", i), `{}`)
	}
	for range b.N {
		heap, processor := restingHeap(), restingProcessor(b)
		begun := time.Now()
		for i := range side * side {
			_, err := s.api.CreateMirror(b.Context(), client.MirrorSpec{Namespace: fmt.Sprint("high", i/side), Source: fmt.Sprint("low", i%side)})
			require.NoError(b, err)
		}
		b.ReportMetric(side*side/time.Since(begun).Seconds(), "created/s")
		b.ReportMetric(100*processor, "%cpu-without")
		b.ReportMetric(100*restingProcessor(b), "%cpu-with")
		b.ReportMetric(float64(restingHeap()-heap)/(1<<20), "MiB-heap")
	}
}

// BenchmarkMirror_Create prints how many mirrors a second are created: the first thousand, and the last thousand of 10,000.
func BenchmarkMirror_Create(b *testing.B) {
	const side, all = 100, 10_000
	s := start(b, b.TempDir(), nil)
	for i := range side {
		s.must(b, http.StatusCreated, fmt.Sprintf("PUT /v1/namespaces/low%d", i), `{}`)
		s.must(b, http.StatusCreated, fmt.Sprintf("PUT /v1/namespaces/high%d", i), `{}`)
	}
	for range b.N {
		var begun time.Time
		for i := range all {
			if i == 0 || i == all-1000 {
				begun = time.Now()
			}
			_, err := s.api.CreateMirror(b.Context(), client.MirrorSpec{Namespace: fmt.Sprint("high", i/side), Source: fmt.Sprint("low", i%side), PollInterval: sluice.MaxPollInterval})
			require.NoError(b, err)
			if i == 999 {
				b.ReportMetric(1000/time.Since(begun).Seconds(), "first/s")
			}
		}
		b.ReportMetric(1000/time.Since(begun).Seconds(), "last/s")
	}
}

// restingProcessor returns which part of a processor this process uses in 70 seconds.
func restingProcessor(b *testing.B) float64 {
	b.Helper()
	before, begun := faulttest.CPU(b), time.Now()
	<-time.After(70 * time.Second)
	return float64(faulttest.CPU(b)-before) / float64(time.Since(begun))
}

// restingHeap returns the bytes in use.
func restingHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMirror_Steady prints how many entries a mirror that is polled every ten seconds lacks right after a poll, at most, while 1,000
// events of 1 KiB a second are published for a minute; a page has 100.
func BenchmarkMirror_Steady(b *testing.B) {
	for _, where := range []string{"local", "remote"} {
		b.Run(where, func(b *testing.B) {
			low := start(b, b.TempDir(), nil)
			low.must(b, http.StatusCreated, "PUT /v1/namespaces/low", `{}`)
			high, spec := low, client.MirrorSpec{Namespace: "high", Source: "low", Depth: sluice.DepthFull, PollInterval: sluice.MinPollInterval}
			if where == "remote" {
				high = start(b, b.TempDir(), nil)
				spec.Source, spec.Credential = low.at.HTTP+"/v1/namespaces/low", low.grant(b, "service:mirror", "scope:low", "read").token
			}
			high.must(b, http.StatusCreated, "PUT /v1/namespaces/high", `{}`)
			m, err := high.api.CreateMirror(b.Context(), spec)
			require.NoError(b, err)
			for range b.N {
				var is lag
				low.fillFor(b, time.Minute, func(published uint64) {
					st, err := high.api.MirrorStatus(b.Context(), m.ID)
					require.NoError(b, err)
					is.seen(&st, published)
				})
				b.ReportMetric(float64(is.polls), "polls")
				b.ReportMetric(float64(is.most), "items-behind")
			}
		})
	}
}

// fillFor publishes 1,000 events a second in the namespace low, and calls look with the last sequence again and again meanwhile.
func (s *running) fillFor(b *testing.B, lasts time.Duration, look func(published uint64)) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), lasts)
	defer cancel()
	var published atomic.Uint64
	events := make([]sluice.Event, 50)
	for i := range events {
		data := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", catchUpSize))
		events[i] = sluice.Event{Path: sluice.Path(fmt.Sprint("/a/", i)), Type: "t", Source: "/s", Data: data}
	}
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			if done, err := s.api.Publish(ctx, "low", events...); err == nil {
				published.Store(done[len(done)-1].Seq)
			}
		}
	}()
	for ; ctx.Err() == nil; <-time.After(time.Millisecond) {
		look(published.Load())
	}
}

// lag is what a mirror has lacked right after its polls, but the first one.
type lag struct {
	polls      int
	most, last uint64
}

// seen takes a status that was asked for when so much had been published.
func (l *lag) seen(st *sluice.MirrorStatus, published uint64) {
	if st.State == sluice.SyncSyncing || st.Watermark == l.last {
		return
	}
	if l.last > 0 {
		l.polls++
		l.most = max(l.most, published-min(published, st.Watermark))
	}
	l.last = st.Watermark
}
