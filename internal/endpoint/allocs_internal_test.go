//go:build !race

package endpoint

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// frugal answers requests without any allocation.
func frugal(conn net.Conn) {
	buf, answer := make([]byte, maxRequest), []byte(fine)
	for n := 0; ; {
		some, err := conn.Read(buf[n:])
		if err != nil {
			return
		}
		n += some
		head, size := bytes.Index(buf[:n], []byte("\r\n\r\n")), 0
		if head < 0 {
			continue
		}
		for _, c := range buf[bytes.Index(buf[:n], []byte("Content-Length: "))+len("Content-Length: "):] {
			if c < '0' || c > '9' {
				break
			}
			size = size*10 + int(c-'0')
		}
		if n < head+4+size {
			continue
		}
		n = 0
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// Issue 15: allocations of an attempt, all of them, are a checked number. The race detector empties pools at random.
func TestSend_AllocatesNoMoreThanBefore(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	s, sub := plain(t, frugal)
	ev, ctx := small(), context.WithoutCancel(t.Context())
	n := testing.AllocsPerRun(1000, func() {
		if a := s.Send(ctx, sub, ev, 1); a.Outcome != sluice.Delivered {
			require.Fail(t, a.Error)
		}
	})
	require.LessOrEqual(t, n, 41.0)
}

// One attempt, without the endpoint's work.
func BenchmarkAttempt(b *testing.B) {
	for _, size := range []int{260, 4 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s, sub := plain(b, frugal)
			ev := small()
			ev.Data = bytes.Repeat([]byte("7"), size)
			b.ReportAllocs()
			for b.Loop() {
				if a := s.Send(b.Context(), sub, ev, 1); a.Outcome != sluice.Delivered {
					b.Fatal(a.Error)
				}
			}
		})
	}
}
