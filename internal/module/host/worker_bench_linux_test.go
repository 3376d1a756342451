package host_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// goWorker answers each line with its id, which is all that it reads of it.
const goWorker = `package main

import ("bufio"; "bytes"; "os")

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1 << 20), bufio.NewWriter(os.Stdout)
	_, _ = out.WriteString("{\"ready\":true}\n")
	for {
		if in.Buffered() == 0 { _ = out.Flush() }
		line, err := in.ReadSlice('\n')
		if err != nil { return }
		id, _, _ := bytes.Cut(line, []byte(","))
		_, _ = out.Write(id)
		_, _ = out.WriteString(",\"ok\":true}\n")
	}
}
`

// BenchmarkWorker measures attempts, 64 at a time, beside the same program on bare pipes with 64 lines in flight.
func BenchmarkWorker(b *testing.B) {
	program := compiled(b, goWorker)
	for _, processes := range []int{1, 2} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			s := newWorkshop(b, program, fmt.Sprintf(`,"concurrency":64,"processes":%d`, processes))
			require.Equal(b, sluice.Delivered, s.send(b, "first", 1, "x").Outcome)
			ev := eventOf("e", map[string]any{"order": "1234567", "total": 5})
			var whole, bare time.Duration
			n := 0
			for b.Loop() {
				const events = 64 * 300
				began := time.Now()
				sends(b, s, ev, events/64)
				whole += time.Since(began)
				bare += onPipes(b, program, events, string(ev.AppendJSON(nil)))
				n += events
			}
			b.ReportMetric(float64(n)/whole.Seconds(), "events/s")
			b.ReportMetric(float64(n)/bare.Seconds(), "bare/s")
			b.ReportMetric(bare.Seconds()/whole.Seconds(), "ratio")
		})
	}
}

// sends makes attempts, 64 at a time, each of them n.
func sends(b *testing.B, s *workshop, ev *sluice.Event, n int) {
	b.Helper()
	var senders sync.WaitGroup
	for range 64 {
		senders.Go(func() {
			for range n {
				if a := s.host.Send(b.Context(), s.sub, ev, 1); a.Outcome != sluice.Delivered {
					b.Error(a)
				}
			}
		})
	}
	senders.Wait()
}

// onPipes returns how long a program takes to answer lines, 64 of them in flight.
func onPipes(b *testing.B, program string, events int, body string) time.Duration {
	b.Helper()
	file := filepath.Join(b.TempDir(), "worker")
	require.NoError(b, os.WriteFile(file, []byte(program), 0o700))
	cmd := exec.CommandContext(b.Context(), file)
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	answers := bufio.NewReader(out)
	_, err = answers.ReadString('\n')
	require.NoError(b, err)
	places := make(chan struct{}, 64)
	began := time.Now()
	go func() {
		for i := range events {
			places <- struct{}{}
			_, _ = in.Write([]byte(`{"id":"` + strconv.Itoa(i) + `","attempt":1,"event":` + body + "}\n"))
		}
	}()
	for range events {
		_, err := answers.ReadString('\n')
		require.NoError(b, err)
		<-places
	}
	took := time.Since(began)
	require.NoError(b, in.Close())
	require.NoError(b, cmd.Wait())
	return took
}
