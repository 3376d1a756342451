package subscriptioncmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type subSeekCmd struct {
	terminal.Confirmation

	ID string `arg:"" help:"Subscription."`
	To string `arg:"" help:"Position: a sequence, an event ID, an RFC 3339 time, an age such as 10m or 7d, all or new."`
}

// Run moves the subscription. Lanes that wait for a retry are abandoned without dead letters. The
// event at the new position is delivered next, also if it was delivered before. It always asks.
func (c *subSeekCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, func() (string, error) { return c.question(ctx, api) }); err != nil {
		return err
	}
	sub, err := api.SeekSubscription(ctx, c.ID, c.To)
	if err != nil {
		return err
	}
	return s.Show(sub, func() error { return s.Say("Subscription %s continues from %s.", c.ID, c.To) })
}

// question names the current position and the backlog, if the caller may see them.
func (c *subSeekCmd) question(ctx context.Context, api *client.Client) (string, error) {
	st, err := api.Status(ctx, c.ID)
	now, err := terminal.Counted(err, " It is at %d, with %d events waiting.", st.AckFloor, st.Backlog)
	return fmt.Sprintf("Move %s to %s? The events in between are skipped or sent again.%s", c.ID, c.To, now), err
}

// subReplayCmd replays events. From and To are inclusive. Type and Event both apply if both are
// set.
type subReplayCmd struct {
	terminal.Confirmation

	ID     string   `arg:"" help:"Subscription."`
	From   string   `help:"First event: a sequence, an event ID, an RFC 3339 time, or an age such as 10m or 7d; default: the oldest stored event." placeholder:"WHERE"`
	To     string   `help:"Last event; default: the newest." placeholder:"WHERE"`
	Type   []string `aliases:"types" help:"Filter by type, such as order.paid or order.*; repeatable." placeholder:"TYPE"`
	Event  []string `help:"Filter by event ID; repeatable." placeholder:"ID"`
	Rate   float64  `help:"Maximum requests per second; 0: the subscription's rate." default:"0" placeholder:"N"`
	DryRun bool     `help:"Only count the events."`
	Wait   bool     `help:"Wait for the end of the replay; fails if the replay was cancelled."`
}

// Help explains the question.
func (*subReplayCmd) Help() string {
	return "Deliveries cannot be undone: without --from and --event, the command asks before it replays all stored events."
}

// Run starts the replay, or counts its events. It returns as soon as the server has stored the
// replay; with --wait, when it has ended. A cancelled replay is an error then.
func (c *subReplayCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.Rate < 0 {
		return terminal.Usagef("--rate %v: write the requests per second, such as 50", c.Rate)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	req := client.ReplayRequest{From: c.From, To: c.To, Types: c.Type, EventIDs: c.Event, Rate: sluice.Rate{PerSecond: c.Rate}}
	if c.DryRun {
		return c.count(ctx, s, api, req)
	}
	if c.From == "" && len(c.Event) == 0 {
		if err := c.Confirm(s, func() (string, error) { return c.question(ctx, api, req) }); err != nil {
			return err
		}
	}
	rep, err := api.Replay(ctx, c.ID, req)
	if err == nil && c.Wait {
		rep, err = waitForReplay(ctx, s, api, rep)
	}
	if err != nil {
		return err
	}
	return showEnded(s, rep, func() error { return replayTable(s, []sluice.Replay{rep}) })
}

// question returns a question that says how many events are sent again without an explicit start.
func (c *subReplayCmd) question(ctx context.Context, api *client.Client, req client.ReplayRequest) (string, error) {
	n, err := api.CountReplay(ctx, c.ID, req)
	many, err := terminal.Counted(err, ", about %d events", n.Count)
	return fmt.Sprintf("Replay all stored events to %s%s?", c.ID, many), err
}

// count prints the number of events that the caller may see. It is an estimate beyond 10,000 events
// or five seconds of counting.
func (c *subReplayCmd) count(ctx context.Context, s *terminal.Session, api *client.Client, req client.ReplayRequest) error {
	n, err := api.CountReplay(ctx, c.ID, req)
	if err != nil {
		return err
	}
	return s.Show(n, func() error {
		if n.Exact {
			return s.Say("%d events would be delivered again.", n.Count)
		}
		if n.Unevaluated > 0 {
			return s.Say("About %d events would be delivered again (an estimate); the filter cannot be evaluated on %d more.", n.Count, n.Unevaluated)
		}
		return s.Say("About %d events would be delivered again (an estimate).", n.Count)
	})
}

// waitForReplay waits until a replay has ended, and returns it. It asks every cmdkit.PollInterval.
// If ctx ends, the replay continues on the server, and the error names the command that shows it.
// Any other failure of a request ends the waiting.
func waitForReplay(ctx context.Context, s *terminal.Session, api *client.Client, rep sluice.Replay) (sluice.Replay, error) {
	bar := terminal.NewProgress(s, int64(min(rep.Total, 1<<62)))
	bar.What = "replaying"
	defer bar.Close()
	tick := time.NewTicker(cmdkit.PollInterval)
	defer tick.Stop()
	for rep.State == sluice.ReplayRunning {
		select {
		case <-ctx.Done():
			return rep, fmt.Errorf("%w; the replay continues: sluice sub replays %s %s", context.Cause(ctx), rep.Subscription, rep.ID)
		case <-tick.C:
		}
		next, err := api.GetReplay(ctx, rep.Subscription, rep.ID)
		switch {
		case err == nil:
			rep = next
		case ctx.Err() == nil:
			return rep, err
		}
		// The bounds prevent an underflow before the first event, and an overflow of the
		// conversion.
		bar.Advance(int64(min(rep.Next-min(rep.Next, rep.From), 1<<62)))
	}
	return rep, nil
}

// showEnded shows a replay as show does. A cancelled replay is an error after that: it may have done
// nothing.
func showEnded(s *terminal.Session, rep sluice.Replay, show func() error) error {
	if err := s.Show(rep, show); err != nil {
		return err
	}
	if rep.State == sluice.ReplayCancelled {
		return errors.New("the replay was cancelled: " + rep.Reason)
	}
	return nil
}

type subReplaysCmd struct {
	ID     string `arg:"" help:"Subscription."`
	Replay string `arg:"" optional:"" help:"Replay to show."`
	Cancel bool   `help:"Cancel the replay."`
}

// Run shows replays, or cancels one. The list is newest first, and has ended replays, of which the
// server keeps the last 100. Cancelling stops further deliveries; those in flight are completed.
func (c *subReplaysCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.Cancel && c.Replay == "" {
		return terminal.Usagef("--cancel: name the replay")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Replay == "" {
		all, err := api.Replays(ctx, c.ID)
		if err != nil {
			return err
		}
		return s.Show(all, func() error { return replayTable(s, all) })
	}
	act := api.GetReplay
	if c.Cancel {
		act = api.CancelReplay
	}
	rep, err := act(ctx, c.ID, c.Replay)
	if err != nil {
		return err
	}
	return s.Show(rep, func() error { return replayTable(s, []sluice.Replay{rep}) })
}

// replayTable prints replays, and on stderr a warning for each that met damaged files of the log.
func replayTable(s *terminal.Session, all []sluice.Replay) error {
	rows := make([][]string, len(all))
	for i, rep := range all {
		from, next := strconv.FormatUint(rep.From, 10)+"–"+strconv.FormatUint(rep.To, 10), strconv.FormatUint(rep.Next, 10)
		if rep.Kind == sluice.ReplayDeadLetters {
			from, next = "-", "-" // sequences of dead letters mean nothing to users
		}
		rows[i] = []string{
			rep.ID, string(rep.Kind), cmdkit.Because(string(rep.State), rep.Reason),
			from, next,
			strconv.FormatUint(rep.Sent, 10), strconv.FormatUint(rep.Dead, 10), terminal.FormatTime(rep.CreatedAt),
		}
	}
	for _, rep := range all {
		if rep.Unreadable > 0 {
			s.Complain("sluice: up to %d events of replay %s cannot be read: the files of the log are damaged", rep.Unreadable, rep.ID)
		}
	}
	return s.Table("REPLAY | KIND | STATE | RANGE | NEXT | DELIVERED | DEAD | BEGUN", rows)
}
