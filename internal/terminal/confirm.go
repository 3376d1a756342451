package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Confirmation is for commands that cannot be undone: permanent deletions, lost positions in a log,
// revocations that cancel subscriptions, and events that are sent again. A change that another
// command can reverse needs no confirmation.
type Confirmation struct {
	Yes bool `help:"Skip the confirmation; required without a terminal."`
}

// Confirm returns nil with --yes, or if the answer to the question is yes. The question, which
// lists the losses, is built only if it is asked. Without a terminal it returns a usage error. It
// reads a line from stdin, and may read beyond it.
func (a Confirmation) Confirm(s *Session, question func() (string, error)) error {
	if a.Yes {
		return nil
	}
	if !s.Terminal {
		return Usagef("this cannot be undone and needs a confirmation; without a terminal, pass --yes")
	}
	text, err := question()
	if err != nil {
		return err
	}
	s.Complain("%s [y/N]", text)
	answer, err := bufio.NewReader(s.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes == "y" || yes == "yes" {
		return nil
	}
	return errors.New("nothing was done; answer y, or pass --yes")
}

// Question returns a question that can be built without a request to the server.
func Question(format string, args ...any) func() (string, error) {
	return func() (string, error) { return fmt.Sprintf(format, args...), nil }
}

// Counted returns the part of a question with a count, from the error of reading the count. It
// returns "" if the caller may not see the count. Any other error is returned: the resource does
// not exist, or the server does not respond.
func Counted(err error, format string, args ...any) (string, error) {
	if code := sluice.CodeOf(err); code == sluice.Forbidden || code == sluice.CapabilityRequired {
		return "", nil
	}
	return fmt.Sprintf(format, args...), err
}
