package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// BenchmarkMirror_CatchUp prints how many entries of 1 KiB a second a new mirror takes from a source of 50,000, at depth full,
// with both sides on this machine: a namespace of the same server, and one of another server over HTTP.
func BenchmarkMirror_CatchUp(b *testing.B) {
	const items, size = 50_000, 1 << 10
	for _, remote := range []bool{false, true} {
		b.Run(map[bool]string{false: "local", true: "remote"}[remote], func(b *testing.B) {
			low := start(b, b.TempDir(), nil)
			low.must(b, http.StatusCreated, "PUT /v1/namespaces/low", `{}`)
			data := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", size))
			for at := 0; at < items; at += 500 {
				events := make([]sluice.Event, 500)
				for i := range events {
					events[i] = sluice.Event{Path: sluice.Path(fmt.Sprint("/a/", (at+i)%100)), Type: "t", Source: "/s", Data: data}
				}
				_, err := low.api.Publish(b.Context(), "low", events...)
				require.NoError(b, err)
			}
			high, source := low, "low"
			credential := ""
			if remote {
				high, source = start(b, b.TempDir(), nil), low.at.HTTP+"/v1/namespaces/low"
				credential = `,"credential":"` + low.grant(b, "service:mirror", "scope:low", "read").token + `"`
			}
			b.ResetTimer()
			for n := range b.N {
				ns := fmt.Sprint("high", n)
				high.must(b, http.StatusCreated, "PUT /v1/namespaces/"+ns, `{}`)
				begun := time.Now()
				high.must(b, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"m%d","mode":"mirror","namespace":%q,"source":%q,"depth":"full"%s}`, n, ns, source, credential))
				for {
					r := high.must(b, http.StatusOK, fmt.Sprintf("POST /v1/subscriptions/m%d/sync?wait=1m", n), "")
					if r.field(b, "watermark") == float64(items) {
						require.InDelta(b, items, r.field(b, "mirrored_count"), 0)
						break
					}
				}
				b.ReportMetric(items/time.Since(begun).Seconds(), "items/s")
			}
		})
	}
}
