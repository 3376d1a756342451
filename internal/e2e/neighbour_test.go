package e2e_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// How often, and for how long, a neighbour's event is published in each half of a round. The attack goes on for longer.
const (
	neighbourEvery = 5 * time.Millisecond
	neighbourTime  = 10 * time.Second
)

// BenchmarkNeighbour prints how long events take to a neighbour while five events go to 400 filters of another principal
// that exhaust their allowance (attack 3 of issue 13); "cheap" has the same events and filters that cost nothing, which
// is what the fan-out to 400 subscriptions takes. The neighbour is one subscription of the namespace, a feed of it, or a
// subscription in each of 100 other namespaces.
//
// A round has a server of its own, for what exhausts its allowance is suspended. It measures the neighbour alone, and at
// once again beside the attack. "ratio" is the median of the rounds' ratios of the 99th percentiles.
func BenchmarkNeighbour(b *testing.B) {
	attacks := map[string]func(n int) string{
		"equal":    func(int) string { return dearFilter(0) },
		"distinct": dearFilter,
		"cheap":    func(int) string { return `"filter":{"cel":"event.type=='never'"}` },
	}
	for _, neighbour := range []string{"subscription", "feed", "namespaces"} {
		for _, attack := range []string{"equal", "distinct", "cheap"} {
			b.Run(neighbour+"/"+attack, func(b *testing.B) {
				var alone, beside, ratios []float64
				for range b.N {
					a, with := besideFilters(b, neighbour, attacks[attack])
					alone, beside, ratios = append(alone, p99(a)), append(beside, p99(with)), append(ratios, p99(with)/p99(a))
				}
				b.ReportMetric(median(alone), "alone-p99-ms")
				b.ReportMetric(median(beside), "beside-p99-ms")
				b.ReportMetric(median(ratios), "ratio")
			})
		}
	}
}

// besideFilters returns how many milliseconds events take to a neighbour alone, and beside 400 filters; both ascending.
func besideFilters(b *testing.B, neighbour string, filter func(n int) string) (alone, beside []float64) {
	b.Helper()
	s := startLogging(b, b.TempDir(), nil, io.Discard)
	defer s.stop(b)
	w := newStopwatch(b, s, neighbour)
	eve := s.grant(b, "user:eve", "path:default/cel/**", "subscribe publish")
	for i := range 400 {
		s.must(b, http.StatusCreated, "POST /v1/subscriptions", wish(w.hook.URL+"/"+strconv.Itoa(i), `"pattern":"/cel/**"`, filter(i)), as(eve.token)...)
	}
	w.measure(b, s, time.Second) // connections are opened
	alone = w.measure(b, s, neighbourTime)
	for range 5 {
		s.must(b, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/cel/x","type":"t","data":`+listOf(250)+`}`, as(eve.token)...)
	}
	beside = w.measure(b, s, neighbourTime)
	slices.Sort(alone)
	slices.Sort(beside)
	return alone, beside
}

// p99 returns the 99th percentile of what is sorted.
func p99(took []float64) float64 { return took[len(took)*99/100] }

func median[T cmp.Ordered](of []T) T { return slices.Sorted(slices.Values(of))[len(of)/2] }

// stopwatch is a neighbour that tells when an event arrives.
type stopwatch struct {
	hook       *hooktest.Server
	namespaces []string // in turn

	arrived sync.Map // of channels, by event id
	count   int
}

func newStopwatch(b *testing.B, s *running, neighbour string) *stopwatch {
	b.Helper()
	w := &stopwatch{namespaces: []string{"default"}}
	w.hook = hooktest.New(b, func(r hooktest.Request) hooktest.Answer {
		w.arrives(idOf(r))
		return hooktest.Answer{}
	})
	switch neighbour {
	case "feed":
		w.follow(b, s)
		return w
	case "namespaces":
		w.namespaces = nil
		for i := range 100 {
			ns := "n" + strconv.Itoa(i)
			s.must(b, http.StatusCreated, "PUT /v1/namespaces/"+ns, `{}`)
			w.namespaces = append(w.namespaces, ns)
		}
	}
	for _, ns := range w.namespaces {
		s.must(b, http.StatusCreated, "POST /v1/subscriptions", wish(w.hook.URL, `"namespace":"`+ns+`","pattern":"/victim"`))
	}
	return w
}

// follow has what a feed shows arrive.
func (w *stopwatch) follow(b *testing.B, s *running) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.at.HTTP+"/v1/namespaces/default/feed?pattern=/victim", http.NoBody)
	require.NoError(b, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := s.api.HTTP.Do(req)
	require.NoError(b, err)
	b.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(b, http.StatusOK, resp.StatusCode)
	go func() {
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var frame struct{ Event struct{ ID string } }
				_ = json.Unmarshal([]byte(data), &frame)
				w.arrives(frame.Event.ID)
			}
		}
	}()
}

func (w *stopwatch) arrives(id string) {
	if c, ok := w.arrived.LoadAndDelete(id); ok {
		close(c.(chan struct{}))
	}
}

// measure returns how many milliseconds events take from publisher to neighbour that are published at a steady rate: one
// that waits does not make the next one late unnoticed.
func (w *stopwatch) measure(b *testing.B, s *running, lasts time.Duration) []float64 {
	b.Helper()
	took := make([]float64, lasts/neighbourEvery)
	began := time.Now()
	var all sync.WaitGroup
	for i := range took {
		due := began.Add(time.Duration(i+1) * neighbourEvery)
		<-time.After(time.Until(due))
		w.count++
		id, arrived := "v"+strconv.Itoa(w.count), make(chan struct{})
		w.arrived.Store(id, arrived)
		all.Go(func() {
			s.must(b, http.StatusCreated, "POST /v1/namespaces/"+w.namespaces[i%len(w.namespaces)]+"/events", fmt.Sprintf(`{"path":"/victim","id":%q,"type":"t","data":{}}`, id))
			<-arrived
			took[i] = float64(time.Since(due).Microseconds()) / 1000
		})
	}
	all.Wait()
	return took
}
