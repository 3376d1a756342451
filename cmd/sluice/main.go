// Command sluice is the only binary: it is the server, a demonstration of the server, and a client
// for all of the server's functions.
package main

import (
	"context"
	"os"

	"golang.org/x/term"

	"github.com/sluice-io/sluice/internal/terminal"
)

func main() {
	ctx, cancel := terminal.UntilSignalled(context.Background())
	os.Exit(run(ctx, os.Args[1:], &terminal.Session{
		Stdin: os.Stdin, Stdout: terminal.PipeWriter{Writer: os.Stdout, Cancel: cancel}, Stderr: os.Stderr,
		Environ: os.Environ(), Terminal: isTerminal(os.Stderr), Interactive: isTerminal(os.Stdin), Watched: isTerminal(os.Stdout), Exit: os.Exit,
	}))
}

// isTerminal reports whether the file is a terminal; /dev/null is not one.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
