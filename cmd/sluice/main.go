// Command sluice is the one binary: the server, a demonstration of it, and a client for
// everything that can be asked of a server.
package main

import (
	"context"
	"os"

	"github.com/sluice-io/sluice/internal/terminal"
)

func main() {
	ctx, cancel := terminal.UntilSignalled(context.Background())
	os.Exit(run(ctx, os.Args[1:], &terminal.Session{
		Stdin: os.Stdin, Stdout: terminal.PipeWriter{Writer: os.Stdout, Cancel: cancel}, Stderr: os.Stderr,
		Environ: os.Environ(), Terminal: isTerminal(os.Stderr), Watched: isTerminal(os.Stdout), Exit: os.Exit,
	}))
}

// isTerminal reports whether somebody may be watching the file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
