// Command bench compares Sluice's speed with a bare loop that consumes a durable consumer of
// JetStream and POSTs, without signatures, order, retries or a log, in the same run, on the same
// machine, under the same load, in turn. It measures Sluice in trouble: beside a slow endpoint,
// with deliveries to retry, through an outage, with parked lanes, each beside the same without that
// trouble. It measures Durable Streams and wakes beside JetStream's own and bare POSTs; and the
// resource use of feeds, and their cost for publishers. It prints the results without a judgement,
// stores them as JSON, and writes docs/performance.md from that.
//
// The systems are processes of their own, to separate their resource use from the load's;
// publishers and receivers are in this one. Everything is on loopback and in a temporary directory,
// and removed afterwards.
//
// A row is measured like this, with the bench on both sides of the measured system:
//
//	publishers ──► system (a process) ──► receiver
//	 load, flow         │                  receiver, witness, bell
//	                    └─► CPU and memory: usage, watcher
//
// Its rounds become a part of the page:
//
//	rounds ──► table ──► result ──► report: <row>.json ──► page: performance.md, plots, results.ndjson
//
// An event carries the mark "<phase> <number> <Unix ns>" in its data, so that a receiver can tell
// repetitions, and the time since its publish, without any state of the publishers.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the measurements in the arguments; in a child process it is the bare loop, readers of
// feeds, or a NATS server. An error ends the bench; the results of the rows before it remain.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if spec := os.Getenv(loopEnv); spec != "" {
		return runLoop(ctx, spec)
	}
	if spec := os.Getenv(audienceEnv); spec != "" {
		return runAudience(ctx, spec, os.Stdin, stdout)
	}
	if spec := os.Getenv(memberEnv); spec != "" {
		return runMember(ctx, spec)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("sluice", "bin/sluice", "the `binary` of Sluice to measure")
	commit := flags.String("commit", "unknown", "the `commit` of that binary")
	short := flags.Bool("quick", false, "only see whether it works")
	p := complete()
	rows := flags.String("rows", "", "which `rows`: of "+strings.Join(p.names(), ",")+" (all)")
	most := flags.Int("subscriptions", 10_000, "the `number` of subscriptions in the largest rows, at most")
	results := flags.String("results", "", "the `directory` for the results, a file for each of the rows")
	missing := flags.Bool("missing", false, "leave out rows whose results are there")
	docs := flags.String("page", "", "measure nothing: write the page of performance into this `directory`, from files with results")
	down := flags.Duration("outage", 0, "how long the endpoint is down (1m, quick: 5s)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *docs != "" {
		return writePage(*docs, flags.Args())
	}
	if *short {
		p = quick()
	}
	p.upTo(*most)
	p.outage.down = cmp.Or(*down, p.outage.down)
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is a temporary directory
	return p.run(ctx, env{binary: *binary, commit: *commit, results: *results, missing: *missing, dir: dir, progress: func(format string, args ...any) {
		_, _ = fmt.Fprintf(stderr, format, args...) // progress may be lost
	}}, *rows, stdout)
}
