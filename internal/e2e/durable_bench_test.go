package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
)

// BenchmarkAppends measures what appending to a stream costs over HTTP, clients and server sharing the machine's
// processors, and prints it beside what JetStream's own publish costs in the same run: "ratio" is the appends in
// the time of one publish by as many publishers. On a machine that others use, cpu-µs/append is what can be compared.
func BenchmarkAppends(b *testing.B) {
	producer := func(client, n int) []string {
		return []string{"Producer-Id", "p" + strconv.Itoa(client), "Producer-Epoch", "0", "Producer-Seq", strconv.Itoa(n)}
	}
	for _, bench := range []struct {
		name    string
		clients int
		streams int
		headers func(client, n int) []string
	}{
		{"plain", 1, 1, nil},
		{"plain", 32, 1, nil},
		{"plain", 32, 32, nil},
		{"producer", 1, 1, producer},
		{"producer", 32, 1, producer},
		{"producer", 32, 32, producer},
		{"seq", 1, 1, func(_, n int) []string { return []string{"Stream-Seq", fmt.Sprintf("%09d", n)} }},
	} {
		b.Run(fmt.Sprintf("%s/clients=%d/streams=%d", bench.name, bench.clients, bench.streams), func(b *testing.B) {
			s := start(b, b.TempDir(), nil)
			s.api.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: bench.clients}
			defer s.api.HTTP.CloseIdleConnections()
			for i := range bench.streams {
				s.must(b, http.StatusCreated, "PUT "+benchStream(i), "", text()...)
			}
			base := together(b, bench.clients, publishing(b, s.at.NATS, bench.clients))
			before := faulttest.CPU(b)
			b.ResetTimer()
			took := together(b, bench.clients, func(client, n int) error {
				headers := text()
				if bench.headers != nil {
					headers = append(headers, bench.headers(client, n)...)
				}
				status, err := s.send(b, benchStream(client%bench.streams), benchData, headers)
				if err == nil && status != http.StatusOK && status != http.StatusNoContent {
					err = fmt.Errorf("status %d", status)
				}
				return err
			})
			b.StopTimer()
			b.ReportMetric(float64((faulttest.CPU(b)-before).Microseconds())/float64(b.N), "cpu-µs/append")
			b.ReportMetric(float64(b.N)/took.Seconds(), "appends/s")
			b.ReportMetric(float64(b.N)/base.Seconds(), "publishes/s")
			b.ReportMetric(base.Seconds()/took.Seconds(), "ratio")
		})
	}
}

func benchStream(i int) string { return durableAt + "/bench/" + strconv.Itoa(i) }

// together has clients do something b.N times in all and returns how long they took; each counts its own.
func together(b *testing.B, clients int, do func(client, n int) error) time.Duration {
	b.Helper()
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	began := time.Now()
	for client := range clients {
		all.Go(func() {
			for n := 0; left.Add(-1) >= 0; n++ {
				if err := do(client, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// publishing returns what publishes an event as NATS clients do: each over a connection of its own, as it is over HTTP.
func publishing(b *testing.B, url string, clients int) func(client, n int) error {
	b.Helper()
	own := make([]jetstream.JetStream, clients)
	for i := range own {
		own[i] = dial(b, url)
	}
	return func(client, n int) error {
		_, err := own[client].PublishMsg(b.Context(), &nats.Msg{
			Subject: jsNames(b).EventsPrefix() + "default.base." + strconv.Itoa(client), Data: []byte(benchData),
			Header: nats.Header{"Nats-Msg-Id": {fmt.Sprintf("%s-%d-%d-%d", b.Name(), b.N, client, n)}},
		})
		return err
	}
}

const benchData = "one line of a log, or the token of an answer\n"

// send appends to a stream and returns the answer's status.
func (s *running) send(tb testing.TB, at, data string, headers []string) (int, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, s.at.HTTP+at, strings.NewReader(data))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.api.HTTP.Do(req)
	if err != nil {
		return 0, err
	}
	if _, err = io.Copy(io.Discard, resp.Body); err != nil {
		return 0, errors.Join(err, resp.Body.Close())
	}
	return resp.StatusCode, resp.Body.Close()
}
