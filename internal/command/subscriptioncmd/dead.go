package subscriptioncmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// DeadCmd manages dead letters.
type DeadCmd struct {
	LS      deadLsCmd      `cmd:"" name:"ls" help:"List dead letters, newest first."`
	Show    deadShowCmd    `cmd:"" help:"Show a dead letter with its event and its attempts."`
	Redrive deadRedriveCmd `cmd:"" help:"Redrive dead letters."`
	RM      deadRmCmd      `cmd:"" name:"rm" help:"Discard dead letters."`
}

type deadLsCmd struct {
	terminal.Watching

	Sub    string `arg:"" help:"Subscription."`
	Reason string `help:"Filter by reason: exhausted, expired, unreadable, refused, too_large, endpoint_gone, filter_error, handler_refused, output_refused, invalid or loop." placeholder:"REASON"`
	Path   string `aliases:"pattern" help:"Filter by the event's path." placeholder:"PATTERN"`
	Since  string `help:"Earliest failure: a time, an age such as 10m or 7d, or the sequence of an event, behind which the events of the letters are." placeholder:"WHEN"`
	Limit  int    `aliases:"last" help:"Maximum number of results; 0: all. --last is another name." default:"100"`
}

// Run lists dead letters.
func (c *deadLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	return c.Repeat(ctx, s, func() error { return c.show(ctx, s) })
}

// show lists the letters once. A letter of a lost range has no event; its sequences are printed as
// a range.
func (c *deadLsCmd) show(ctx context.Context, s *terminal.Session) error {
	if err := cmdkit.CheckSince(c.Since); err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := c.letters(ctx, api)
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, d := range all {
			rows[i] = []string{
				terminal.OrDash(d.EventID), sequences(d), terminal.OrDash(string(d.Path)), string(d.Reason), strconv.Itoa(d.Attempts),
				cmdkit.HTTPStatus(d.LastStatus), terminal.FormatTime(d.At), terminal.OrDash(d.LastError),
			}
		}
		return s.Table("EVENT | SEQ | PATH | REASON | ATTEMPTS | STATUS | GIVEN UP | ERROR", rows)
	})
}

// letters returns the dead letters to list. The server can only filter by time, so the client
// selects the letters after a sequence from all letters. That reads every page, also with --limit.
// A letter that covers a lost range is kept if its last sequence is larger.
func (c *deadLsCmd) letters(ctx context.Context, api *client.Client) ([]client.DeadLetter, error) {
	// --since is a sequence of the log, and the server's since is a time.
	limit, since := c.Limit, c.Since
	after, err := strconv.ParseUint(since, 10, 64)
	bySeq := err == nil || since == "-1"
	if bySeq {
		limit, since = 0, ""
	}
	all, err := terminal.Collect(limit, func(cursor string, most int) (client.Page[client.DeadLetter], error) {
		q := client.DeadLettersQuery{Reason: sluice.Reason(c.Reason), Path: sluice.Pattern(c.Path), Since: since, Limit: most, Cursor: cursor}
		return api.DeadLetters(ctx, c.Sub, q)
	})
	if err != nil || !bySeq {
		return all, err
	}
	all = slices.DeleteFunc(all, func(d client.DeadLetter) bool { return max(d.Seq, d.LastSeq) <= after })
	if c.Limit > 0 && len(all) > c.Limit {
		all = all[:c.Limit]
	}
	return all, nil
}

// sequences returns the sequence of a letter's event, or the lost range.
func sequences(d client.DeadLetter) string {
	text := strconv.FormatUint(d.Seq, 10)
	if d.LastSeq > d.Seq {
		text += "–" + strconv.FormatUint(d.LastSeq, 10)
	}
	return text
}

type deadShowCmd struct {
	Sub   string `arg:"" help:"Subscription."`
	Event string `arg:"" help:"ID of the event; its sequence if the event was never read."`
}

// Run shows the dead letter. The event is printed in full. It is missing if it could not be read,
// or is no longer stored.
func (c *deadShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	d, err := api.DeadLetter(ctx, c.Sub, c.Event)
	if err != nil {
		return err
	}
	return s.Show(d, func() error { return deadLetterTable(s, d) })
}

// deadLetterTable prints the letter, its event on one line, and its attempts.
func deadLetterTable(s *terminal.Session, d client.DeadLetter) error {
	data := ""
	if d.Event != nil {
		data = strings.TrimSpace(string(d.Event.AppendJSON(nil)))
	}
	err := s.Facts("event id", d.EventID, "seq", sequences(d), "path", string(d.Path), "reason", string(d.Reason),
		"attempts", strconv.Itoa(d.Attempts), "first failed", terminal.FormatTime(d.FirstFailedAt), "given up", terminal.FormatTime(d.At),
		"status", cmdkit.HTTPStatus(d.LastStatus), "error", d.LastError, "redrivable", strconv.FormatBool(d.Redrivable), "event", data)
	if err != nil || len(d.History) == 0 {
		return err
	}
	if err := s.Say(""); err != nil {
		return err
	}
	return attemptTable(s, d.History)
}

type deadRedriveCmd struct {
	Sub    string   `arg:"" help:"Subscription."`
	Events []string `arg:"" optional:"" name:"event" help:"IDs of the events."`
	All    bool     `help:"Select all dead letters."`
	Rate   float64  `help:"Maximum requests per second; default: the subscription's rate." placeholder:"N"`
}

// Run starts the replay. It does not wait for the end of the replay. Letters that cannot be
// redriven are skipped, and the reason is printed; code Conflict if that leaves none. A letter is
// removed when its event is delivered, so an interrupted redrive can be repeated.
func (c *deadRedriveCmd) Run(ctx context.Context, s *terminal.Session) error {
	if err := someOrAll(c.Events, c.All); err != nil {
		return err
	}
	if c.Rate < 0 {
		return terminal.Usagef("--rate %g: write a number per second, such as 5", c.Rate)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	r, err := api.Redrive(ctx, c.Sub, client.RedriveSpec{IDs: c.Events, All: c.All, Rate: sluice.Rate{PerSecond: c.Rate}})
	if err != nil {
		return err
	}
	return s.Show(r, func() error {
		if err := s.Say("Replay %s redrives %s of %s: sluice sub replays %s %s.", r.ID, terminal.DeadLetterCount(r.Total), c.Sub, c.Sub, r.ID); err != nil {
			return err
		}
		if r.Message == "" {
			return nil
		}
		return s.Say("Skipped: %s.", r.Message)
	})
}

// someOrAll returns a usage error for events together with --all, and for neither.
func someOrAll(events []string, all bool) error { //nolint:revive // flag-parameter: it is checked, not obeyed
	if all == (len(events) > 0) {
		return terminal.Usagef("name events, or pass --all")
	}
	return nil
}

// deadRmCmd discards dead letters. Either Events or All is required.
type deadRmCmd struct {
	terminal.Confirmation

	Sub    string   `arg:"" help:"Subscription."`
	Events []string `arg:"" optional:"" name:"event" help:"IDs of the events; sequences of events that were never read."`
	All    bool     `help:"Select all dead letters."`
}

// Run discards the dead letters. The events stay in the log. --all discards the letters that the
// server has when it executes the request, which may be more than the question named. Named letters
// are discarded one after another until one fails, with the event in the error.
func (c *deadRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	if err := someOrAll(c.Events, c.All); err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, func() (string, error) { return c.question(ctx, api) }); err != nil {
		return err
	}
	if c.All {
		if err := api.DiscardDeadLetters(ctx, c.Sub); err != nil {
			return err
		}
		return cmdkit.Done(s, "Discarded all dead letters of %s.", c.Sub)
	}
	for _, event := range c.Events {
		if err := api.DiscardDeadLetter(ctx, c.Sub, event); err != nil {
			return fmt.Errorf("%s: %w", event, err)
		}
		if err := cmdkit.Done(s, "Discarded the dead letter of %s.", event); err != nil {
			return err
		}
	}
	return nil
}

// question counts the letters with --all; if the caller may not see the status, it asks without the
// number.
func (c *deadRmCmd) question(ctx context.Context, api *client.Client) (string, error) {
	what := terminal.DeadLetterCount(uint64(len(c.Events)))
	if c.All {
		st, err := api.Status(ctx, c.Sub)
		many, err := terminal.Counted(err, ", %d,", st.DeadLetters)
		if err != nil {
			return "", err
		}
		what = "all dead letters" + many
	}
	return fmt.Sprintf("Discard %s of %s permanently?", what, c.Sub), nil
}
