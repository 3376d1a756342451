package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// usage is the resource use of a process; zero without /proc.
type usage struct {
	cpu       time.Duration
	rss, peak int64 // bytes
}

// usage returns the resource use of the process, without child processes; zero once it has ended.
func (p *process) usage() usage {
	dir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	stat, err := os.ReadFile(dir + "stat") //nolint:gosec // of a process that was started
	if err != nil {
		return usage{}
	}
	status, err := os.ReadFile(dir + "status") //nolint:gosec // of a process that was started
	if err != nil {
		return usage{}
	}
	return usage{cpu: cpuOf(stat), rss: kib(status, "VmRSS:"), peak: kib(status, "VmHWM:")}
}

// cpuOf reads the user and system time, the 14th and 15th field; the second is a name in
// parentheses, which may have spaces.
func cpuOf(stat []byte) time.Duration {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)   // the kernel writes numbers
	system, _ := strconv.ParseInt(fields[12], 10, 64) // the kernel writes numbers
	return time.Duration(user+system) * tick
}

func kib(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64) // the kernel writes numbers
			return n << 10
		}
	}
	return 0
}
