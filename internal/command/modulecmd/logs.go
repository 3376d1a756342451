package modulecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type moduleSchemaCmd struct{}

// Run prints the schema.
func (moduleSchemaCmd) Run(s *terminal.Session) error { return s.PrintText(module.Schema(), nil) }

type moduleLogsCmd struct {
	moduleName

	Handler string        `help:"Filter by the ID of the handler." placeholder:"ID"`
	Since   string        `help:"Events after a sequence, or attempts since a time or an age such as 10m or 7d." placeholder:"WHEN"`
	Limit   int           `aliases:"last" help:"Maximum number of events of each subscription, the latest ones. --last is another name." default:"100"`
	Follow  bool          `short:"f" help:"Go on with new attempts until interrupted."`
	Every   time.Duration `hidden:"" default:"1s"`
}

// Help explains the output.
func (*moduleLogsCmd) Help() string {
	return `The output is the attempts of the module's programs, the newest last, each with what its program wrote. With -o json it is one attempt a line.`
}

// Run shows the attempts. With --follow it asks every second and ends with exit status 0 on an
// interrupt. Attempts of one round are ordered by their start; an attempt that ends late can follow
// younger ones.
func (c *moduleLogsCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return terminal.Usagef("--limit %d: write 1 to 1000", c.Limit)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	subs, err := c.subscriptions(ctx, s, api)
	if err != nil {
		return err
	}
	l := moduleLog{api: api, query: client.DeliveriesQuery{Since: c.Since, Limit: c.Limit}, seen: map[string]time.Time{}}
	if !c.Follow {
		return l.show(ctx, s, subs)
	}
	// Attempts that ended before an interrupt are shown: the request in progress is finished, and
	// one more follows.
	looking, done := terminal.Outliving(ctx, lastLook)
	defer done()
	for {
		interrupted := ctx.Err() != nil
		if err := l.show(looking, s, subs); err != nil || interrupted {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.Every):
		}
	}
}

// lastLook is how long the last request after an interrupt may take.
const lastLook = 5 * time.Second

// moduleLog records which attempts of a module were shown. seen grows with each delivery that is
// shown, by "SUBSCRIPTION SEQUENCE". It is used by one goroutine.
type moduleLog struct {
	api   *client.Client
	query client.DeliveriesQuery
	seen  map[string]time.Time // last attempt of a delivery
}

// subscriptions returns the subscriptions of the module, or of one of its handlers. It prints why
// the module does not run, if so. The subscriptions of a module without an approval do not exist;
// show ignores that.
func (c *moduleLogsCmd) subscriptions(ctx context.Context, s *terminal.Session, api *client.Client) (ids []string, err error) {
	m, err := api.Module(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	if m.State != sluice.ModuleApproved {
		s.Complain("module %s is %s: %s", m.Name, m.State, m.Reason)
	}
	for _, h := range m.Handlers {
		if c.Handler == "" || c.Handler == h.ID {
			ids = append(ids, h.Subscriptions...)
		}
	}
	if len(ids) == 0 && c.Handler != "" {
		return nil, terminal.Usagef("--handler: module %s has no handler %q", c.Name, c.Handler)
	}
	return ids, nil
}

// show prints the attempts that it has not printed before, the newest last.
func (l *moduleLog) show(ctx context.Context, s *terminal.Session, subs []string) error {
	var attempts []sluice.Attempt
	for _, sub := range subs {
		more, err := l.news(ctx, sub)
		if err != nil && sluice.CodeOf(err) != sluice.SubscriptionMissing { // the module may not be approved
			return err
		}
		attempts = append(attempts, more...)
	}
	slices.SortStableFunc(attempts, func(a, b sluice.Attempt) int { return a.StartedAt.Compare(b.StartedAt) })
	for i := range attempts {
		if err := showAttempt(s, &attempts[i]); err != nil {
			return err
		}
	}
	return nil
}

// news returns the attempts of a subscription that it has not returned before: those of the latest
// deliveries, and those of deliveries that wait for their next attempt, however old they are.
func (l *moduleLog) news(ctx context.Context, sub string) (attempts []sluice.Attempt, err error) {
	for _, state := range []string{"", "retrying"} {
		q := l.query
		q.State = state
		page, err := l.api.Deliveries(ctx, sub, q)
		if err != nil {
			return nil, fmt.Errorf("deliveries of %s: %w", sub, err)
		}
		for _, d := range page.Items {
			more, err := l.attemptsOf(ctx, sub, d)
			if err != nil {
				return nil, err
			}
			attempts = append(attempts, more...)
		}
	}
	return attempts, nil
}

// attemptsOf returns the attempts of a delivery after the last one that was seen. It makes no
// request for a delivery without a new attempt. A delivery that is not stored any more has none.
func (l *moduleLog) attemptsOf(ctx context.Context, sub string, d client.Delivery) (attempts []sluice.Attempt, err error) {
	event := strconv.FormatUint(d.Seq, 10)
	key := sub + " " + event
	last := l.seen[key]
	if d.EventID == "" || !d.LastAttemptAt.After(last) {
		return nil, nil
	}
	one, err := l.api.Delivery(ctx, sub, event)
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("delivery %s of %s: %w", d.EventID, sub, err)
	}
	for _, a := range one.Attempts {
		if a.StartedAt.After(last) {
			attempts = append(attempts, a)
			l.seen[key] = a.StartedAt
		}
	}
	return attempts, nil
}

// showAttempt prints an attempt with its output.
func showAttempt(s *terminal.Session, a *sluice.Attempt) error {
	if s.IsJSON() {
		return s.PrintLine(a)
	}
	how := string(a.Outcome)
	if a.Published > 0 {
		how += fmt.Sprintf(", published %d", a.Published)
	}
	if a.Error != "" {
		how += ": " + a.Error
	}
	err := s.Say("%s %s %s %s on %s, attempt %s after %s: %s", terminal.FormatTime(a.StartedAt), a.Subscription, a.EventID, a.Type, a.Path,
		cmdkit.AttemptNumber(*a), a.Duration.Std().Round(time.Millisecond), how)
	return errors.Join(err, sayIndented(s, a.Output))
}
