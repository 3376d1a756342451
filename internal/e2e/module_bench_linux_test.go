package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
)

// handlesQuickly returns how long the module quick of a directory takes for events, from the first publish to the last outcome.
func handlesQuickly(b *testing.B, dirs string, events, paths int) time.Duration {
	b.Helper()
	s := start(b, b.TempDir(), func(c *config.Config) { c.Modules.Dirs = []string{dirs} })
	s.approves(b, "quick")
	js := dial(b, s.at.NATS)
	began := time.Now()
	for i := range events {
		_, err := js.PublishAsync(jsNames(b).EventsPrefix()+fmt.Sprintf("default.p%d", i%paths), []byte(strconv.Itoa(i)), jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	require.Eventually(b, func() bool {
		st, err := s.api.Status(b.Context(), "quick-run")
		return err == nil && idle(st)
	}, 5*time.Minute, 10*time.Millisecond)
	lasted := time.Since(began)
	st, err := s.api.Status(b.Context(), "quick-run")
	require.NoError(b, err)
	require.Zero(b, st.DeadLetters)
	return lasted
}

// BenchmarkModule_Exec publishes events and waits until the program of each has ended, beside a bare loop that starts the same
// program as often, two at a time, without Sluice.
func BenchmarkModule_Exec(b *testing.B) {
	const events, paths = 2000, 50
	dirs := b.TempDir()
	buildsHandler(b, dirs, "quick", "nothing", `{"events":[{"eventType":"message","handler":"handlers/run","filter":{"projectScoped":true},"concurrency":8}]}`)
	var whole, bare time.Duration
	n := 0
	for b.Loop() {
		whole += handlesQuickly(b, dirs, events, paths)

		began := time.Now()
		var loops sync.WaitGroup
		for range 2 {
			loops.Go(func() {
				for range events / 2 {
					if err := exec.CommandContext(b.Context(), filepath.Join(dirs, "quick/handlers/run")).Run(); err != nil {
						b.Error(err)
					}
				}
			})
		}
		loops.Wait()
		bare += time.Since(began)
		n += events
	}
	b.ReportMetric(float64(n)/whole.Seconds(), "events/s")
	b.ReportMetric(float64(n)/bare.Seconds(), "bare-programs/s")
}

// BenchmarkModule_HangingBesideWebhook measures the time from publish to request of a webhook, first alone and then beside
// hundreds of programs that hang, in turn.
func BenchmarkModule_HangingBesideWebhook(b *testing.B) {
	const hanging, rate, phase = 400, 250, 8 * time.Second
	dirs := b.TempDir()
	moduleOf(b, dirs, "hang", `exec sleep 1000`, "events/subscribe.json",
		`{"events":[{"eventType":"message","handler":"handlers/run","filter":{"projectScoped":true},"pattern":"/hang/**","concurrency":512,"timeout":"60s"}]}`)
	var alone, beside []time.Duration
	running := 0
	for b.Loop() {
		var mu sync.Mutex
		var took []time.Duration
		hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			now := time.Now()
			body, _ := io.ReadAll(r.Body)
			at, _ := strconv.ParseInt(string(body), 10, 64)
			mu.Lock()
			took = append(took, now.Sub(time.Unix(0, at)))
			mu.Unlock()
		}))
		s := start(b, b.TempDir(), func(c *config.Config) { c.Modules.Dirs, c.Webhooks.AllowInsecureLoopback = []string{dirs}, true })
		digest := s.must(b, http.StatusOK, "GET /v1/modules/hang", "").field(b, "digest")
		s.must(b, http.StatusOK, "POST /v1/modules/hang/approve", fmt.Sprintf(`{"digest":%q}`, digest))
		s.must(b, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"hook","pattern":"/web/**","endpoint":{"url":%q},"policy":{"envelope":"raw"}}`, hook.URL))
		js := dial(b, s.at.NATS)
		measured := func() []time.Duration {
			<-time.After(time.Second) // until the programs that have just begun are at rest
			mu.Lock()
			took = nil
			mu.Unlock()
			n := paced(b, js, rate, phase)
			var all []time.Duration
			require.Eventually(b, func() bool {
				mu.Lock()
				defer mu.Unlock()
				all = slices.Clone(took)
				return len(all) >= n
			}, time.Minute, 10*time.Millisecond)
			return all
		}
		alone = append(alone, measured()...)
		for i := range hanging {
			_, err := js.Publish(b.Context(), jsNames(b).EventsPrefix()+fmt.Sprintf("default.hang.p%d", i), nil)
			require.NoError(b, err)
		}
		require.Eventually(b, func() bool {
			running = len(marked(b, s.dir))
			return running >= 200
		}, time.Minute, 10*time.Millisecond)
		beside = append(beside, measured()...)
		hook.Close()
	}
	b.ReportMetric(float64(running), "hanging")
	for name, all := range map[string][]time.Duration{"alone": alone, "beside": beside} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-ms/p50")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-ms/p99")
	}
}

// paced publishes events for a while, at a rate per second, and returns how many.
func paced(b *testing.B, js jetstream.JetStream, rate int, phase time.Duration) (n int) {
	b.Helper()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for end := time.Now().Add(phase); time.Now().Before(end); n++ {
		<-tick.C
		_, err := js.PublishAsync(jsNames(b).EventsPrefix()+fmt.Sprintf("default.web.p%d", n%50), []byte(strconv.FormatInt(time.Now().UnixNano(), 10)))
		require.NoError(b, err)
	}
	return n
}
