package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSubscriptions_Batch creates 1,000 subscriptions in a batch, paused ones too: those have no runner.
func BenchmarkSubscriptions_Batch(b *testing.B) {
	const size = 1000
	for _, enabled := range []bool{true, false} {
		b.Run(fmt.Sprintf("enabled=%t", enabled), func(b *testing.B) {
			s := start(b, b.TempDir(), nil)
			for round := 0; b.Loop(); round++ {
				b.StopTimer()
				s.must(b, http.StatusCreated, fmt.Sprintf("PUT /v1/namespaces/n%d", round), "{}")
				var body bytes.Buffer
				for i := range size {
					fmt.Fprintf(&body, `{"id":"s%d-%d","namespace":"n%d","pattern":"/customers/%d/**","endpoint":{"url":"http://127.0.0.1:9/hook/%d"},"enabled":%t}`+"\n", round, i, round, i, i, enabled)
				}
				b.StartTimer()
				require.NotContains(b, s.must(b, http.StatusOK, "POST /v1/subscriptions/batch", body.String(), "Content-Type", "application/x-ndjson").text, `"error"`)
			}
			b.ReportMetric(size*float64(b.N)/b.Elapsed().Seconds(), "subscriptions/s")
		})
	}
}
