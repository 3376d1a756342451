// Command sluice is the one binary: the server, a demonstration of it, and a client for
// everything that can be asked of a server.
package main

import (
	"context"
	"os"
)

func main() {
	ctx, cancel := untilSignalled(context.Background())
	os.Exit(run(ctx, os.Args[1:], &session{
		stdin: os.Stdin, stdout: output{os.Stdout, cancel}, stderr: os.Stderr,
		environ: os.Environ(), terminal: isTerminal(os.Stderr), watched: isTerminal(os.Stdout), exit: os.Exit,
	}))
}

// isTerminal reports whether somebody may be watching the file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
