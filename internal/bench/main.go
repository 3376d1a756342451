// Command bench knows how Sluice's speed is compared: with a bare loop that consumes a durable
// consumer of JetStream and POSTs, without signatures, order, retries or a log, in the same run,
// on the same machine, under the same load, in turn. It prints what it measured and judges
// nothing.
//
// Both systems are processes of their own, so that what they use can be told from what the load
// uses; publishers and the receiver are in this one. Everything is on loopback and in a
// temporary directory, and gone afterwards.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // this is main
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// run measures what the arguments ask for; in a child process it is the bare loop.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if spec := os.Getenv(loopEnv); spec != "" {
		return runLoop(ctx, spec)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("sluice", "bin/sluice", "the `binary` of Sluice to measure")
	quick := flags.Bool("quick", false, "only see whether it works")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p := full()
	if *quick {
		p = smoke()
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is a temporary directory
	rows, err := p.measure(ctx, *binary, dir, func(format string, args ...any) {
		_, _ = fmt.Fprintf(stderr, format, args...) // nobody may be looking
	})
	if err != nil {
		return err
	}
	return p.print(stdout, rows)
}
