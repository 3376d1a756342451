package terminal

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// watchEvery is the interval of --watch.
const watchEvery = 2 * time.Second

// Watching adds --watch to commands that show a list or a state.
type Watching struct {
	Watch bool `short:"w" help:"Show it again every two seconds, until interrupted."`
}

// Repeat shows something once, or with --watch until the context ends. On a terminal, each output
// replaces the previous one. A failure after the first time is shown, and the repetition continues.
// It returns nil when ctx ends. Without a terminal, the outputs follow one another.
func (w Watching) Repeat(ctx context.Context, s *Session, show func() error) error {
	if !w.Watch {
		return show()
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := s.again(show, first); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// again shows the output in one write, so that the terminal does not flicker.
func (s *Session) again(show func() error, first bool) error { //nolint:revive // flag-parameter: the first failure ends it
	stdout := s.Stdout
	var page bytes.Buffer
	if s.Watched && !s.IsJSON() {
		page.WriteString("\x1b[H\x1b[2J") // home, and clear
	}
	s.Stdout = &page
	err := show()
	s.Stdout = stdout
	if err != nil && first {
		return err
	}
	if err != nil {
		fmt.Fprintf(&page, "sluice: %s\n", Harmless(err.Error()))
	}
	return s.PrintText(page.Bytes(), nil)
}
