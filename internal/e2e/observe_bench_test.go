package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// BenchmarkObserve reads a log of 10,000 events with 1 KiB of data each, page by page, over HTTP on the same machine, and decodes
// them.
func BenchmarkObserve(b *testing.B) {
	s := start(b, b.TempDir(), nil)
	const count = 10_000
	data := []byte(`{"text":"` + strings.Repeat("x", 1<<10) + `"}`)
	for range count / 1000 {
		batch := make([]sluice.Event, 1000)
		for i := range batch {
			batch[i] = sluice.Event{Path: "/a", Type: "t", Source: "/s", ContentType: "application/json", Data: data}
		}
		_, err := s.api.Publish(b.Context(), sluice.DefaultNamespace, batch...)
		require.NoError(b, err)
	}
	for _, limit := range []int{100, 1000} {
		b.Run("limit="+strconv.Itoa(limit), func(b *testing.B) {
			b.ReportAllocs()
			items, pages, before := 0, 0, faulttest.CPU(b)
			for b.Loop() {
				read, turns := observeAll(b, s.api, limit)
				items, pages = items+read, pages+turns
			}
			b.ReportMetric(float64(items)/b.Elapsed().Seconds(), "items/s")
			b.ReportMetric(float64((faulttest.CPU(b)-before).Microseconds())/float64(items), "cpu-µs/item")
			b.ReportMetric(float64(pages)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}

// observeAll reads all changes, and returns how many they are, and on how many pages.
func observeAll(b *testing.B, api *client.Client, limit int) (items, pages int) {
	b.Helper()
	for q := (client.ObserveQuery{Limit: limit}); ; {
		page, err := api.Observe(b.Context(), sluice.DefaultNamespace, q)
		require.NoError(b, err)
		items, pages = items+len(page.Items), pages+1
		if q.Since = page.ThroughSeq; !page.HasMore {
			return items, pages
		}
	}
}
