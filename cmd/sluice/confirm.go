package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// asking is for commands that cannot be undone: what is deleted for good, places in a log that are given up, rights whose loss
// cancels subscriptions, events that are sent again. What a command can set again as it was is not asked about.
type asking struct {
	Yes bool `help:"Skip the confirmation; required without a terminal."`
}

// sure returns nil if --yes was said, or if the answer to the question is yes. The question, which says what goes, is made only
// where it is asked. A usage error where there is no terminal to ask on.
func (a asking) sure(s *session, question func() (string, error)) error {
	if a.Yes {
		return nil
	}
	if !s.terminal {
		return usagef("this cannot be undone and needs a confirmation; without a terminal, pass --yes")
	}
	text, err := question()
	if err != nil {
		return err
	}
	s.complain("%s [y/N]", text)
	answer, err := bufio.NewReader(s.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes == "y" || yes == "yes" {
		return nil
	}
	return errors.New("nothing was done; answer y, or pass --yes")
}

// asks returns a question that needs nothing from the server.
func asks(format string, args ...any) func() (string, error) {
	return func() (string, error) { return fmt.Sprintf(format, args...), nil }
}

// counted returns what a count adds to a question, and nothing where the caller may not see it. An error says that there is
// nothing to ask about, or no server.
func counted(err error, format string, args ...any) (string, error) {
	if code := sluice.CodeOf(err); code == sluice.Forbidden || code == sluice.CapabilityRequired {
		return "", nil
	}
	return fmt.Sprintf(format, args...), err
}
