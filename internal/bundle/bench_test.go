package bundle_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// BenchmarkDirectory verifies a directory with 1 GB of content and reads its entries, which reads every file
// twice: MB/s of the directory for each of both, and the most memory that the heap had.
func BenchmarkDirectory(b *testing.B) {
	for _, size := range []int{300, 2 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("content=%d", size), func(b *testing.B) {
			dir, total := fill(b, 1_000_000_000, size)
			peak, stop := watchHeap()
			defer stop()
			var verify, stream time.Duration
			for b.Loop() {
				start := time.Now()
				d := open(b, dir)
				c, err := d.Verify(b.Context(), trusting(b, 1))
				require.NoError(b, err)
				verified := time.Now()
				n := uint64(0)
				for _, err := range c.Entries(b.Context(), 0) {
					require.NoError(b, err)
					n++
				}
				require.Equal(b, c.Header.Count, n)
				verify, stream = verify+verified.Sub(start), stream+time.Since(verified)
				require.NoError(b, d.Close())
			}
			b.ReportMetric(float64(b.N)*total/1e6/verify.Seconds(), "verify-MB/s")
			b.ReportMetric(float64(b.N)*total/1e6/stream.Seconds(), "stream-MB/s")
			b.ReportMetric(float64(peak.Load())/1e6, "peak-MB")
		})
	}
}

// fill writes a bundle of so many bytes, with JSON content of a size.
func fill(b *testing.B, total, size int) (string, float64) {
	b.Helper()
	h := headerOf(sluice.DepthFull, 0, uint64(total))
	dir := filepath.Join(b.TempDir(), "bundle")
	w, err := bundle.NewDirectoryWriter(h.Scope, h.Since, into(b, dir))
	require.NoError(b, err)
	row := []byte(`{"id":123456,"name":"Jos\u00e9","total":12.5},`)
	start := time.Now()
	for seq, written := uint64(1), 0; written < total; seq++ {
		data := append(fmt.Appendf(nil, `{"seq":%d,"rows":[`, seq), bytes.Repeat(row, 1+size/len(row))...)
		data = append(data[:len(data)-1], "]}"...)
		ev := sluice.Event{
			Seq: seq, ID: fmt.Sprintf("01HZX%021d", seq), Path: "/orders/eu/42", Type: "order.placed", Source: "/shop", Subject: "order/42",
			Time: exported.Add(time.Duration(seq) * time.Millisecond), ContentType: "application/json", Data: data,
			Extensions: map[string]string{"author": "service:shop", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		}
		require.NoError(b, w.Append(bundle.Entry{Change: sluice.ChangeOf(ev)}))
		written += len(data)
	}
	_, err = w.Seal(h, keyOf(1))
	require.NoError(b, err)
	took, all := time.Since(start), 0
	require.NoError(b, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		require.NoError(b, err)
		info, err := d.Info()
		if !d.IsDir() {
			all += int(info.Size())
		}
		return err
	}))
	b.Logf("%d MB written at %.0f MB/s", all/1e6, float64(all)/1e6/took.Seconds())
	return dir, float64(all)
}

// watchHeap returns the most bytes of objects on the heap, until it is stopped.
func watchHeap() (*atomic.Uint64, func()) {
	peak, done := new(atomic.Uint64), make(chan struct{})
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	go func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				metrics.Read(sample)
				peak.Store(max(peak.Load(), sample[0].Value.Uint64()))
			}
		}
	}()
	return peak, func() { close(done) }
}
