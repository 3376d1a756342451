package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// print writes the rows, and below each pair the ratio of Sluice to the bare loop.
func (p plan) print(w io.Writer, rows []row) error {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%d times %d events of %d bytes over %d paths by %d publishers, %d requests in flight; then %d events, one each %s\n",
		p.floods, p.events, p.size, p.paths, p.publishers, p.window, p.paced, p.interval)
	fmt.Fprintf(&out, "medians of %d rounds in turn (sync always: %d); publishers and receiver are on the same cores\n\n", p.rounds, p.always)
	var cells strings.Builder
	cells.WriteString("\tsync\tdeliveries/s\tp50 ms\tp99 ms\tCPU ms/event\tpaced CPU ms/event\tRSS MiB\tpeak RSS MiB\tsent again\t\n")
	for i, r := range rows {
		fmt.Fprintf(&cells, "%s\t%s\t%.0f\t%.2f\t%.2f\t%.3f\t%.3f\t%.0f\t%.0f\t%d\t\n", r.name, r.sync, r.rate,
			ms(r.p50), ms(r.p99), ms(r.cpu), ms(r.pacedCPU), mib(r.rss), mib(r.peak), r.again)
		if i%2 == 1 {
			base := rows[i-1]
			fmt.Fprintf(&cells, "ratio\t\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\t\n", ratio(r.rate, base.rate),
				ratio(r.p50, base.p50), ratio(r.p99, base.p99), ratio(r.cpu, base.cpu), ratio(r.pacedCPU, base.pacedCPU),
				ratio(r.rss, base.rss), ratio(r.peak, base.peak))
		}
	}
	return write(w, out.String(), cells.String())
}

// write writes a text and below it a table with cells that end in tabs.
func write(w io.Writer, text, cells string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(table, cells); err != nil {
		return err
	}
	return table.Flush()
}

// machine describes the machine and its load.
func machine() string {
	return fmt.Sprintf("%d cores, %s/%s, %s%s\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), loadAverage())
}

// loadAverage returns the machine's load; "" if unknown.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 0 {
		return ", load " + fields[0]
	}
	return ""
}

// ratio is empty if the bare loop's share was too small to be measured.
func ratio[T int64 | float64 | time.Duration](ours, base T) string {
	if base == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", float64(ours)/float64(base))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
