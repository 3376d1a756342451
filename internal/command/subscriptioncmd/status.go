package subscriptioncmd

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// StatusCmd shows the health of all subscriptions. Health takes precedence over All.
type StatusCmd struct {
	terminal.Watching

	NS     string   `name:"ns" help:"Filter by namespace." placeholder:"NAME"`
	Health []string `help:"Filter by health: failing, disabled, suspended, held, retrying, behind, dead_letters, paused, ok or cancelled." placeholder:"HEALTH"`
	All    bool     `help:"Show healthy, paused and cancelled subscriptions, too."`
	Limit  int      `help:"Maximum number of results; 0: all." default:"50"`
}

// Help explains the columns.
func (*StatusCmd) Help() string {
	return "Subscriptions with a problem, worst first. SUCCESS and P95 are of the last hour; OLDEST is the age of the oldest undelivered event."
}

// Run shows the health once or repeatedly.
func (c *StatusCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	return c.Repeat(ctx, s, func() error { return c.show(ctx, s, api) })
}

// show requests the health and shows it. The counts are of all subscriptions that the caller
// manages, also of those that the filter leaves out. The last page's are printed. JSON has the list
// without the counts.
func (c *StatusCmd) show(ctx context.Context, s *terminal.Session, api *client.Client) error {
	counts := map[sluice.Health]int{}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.SubscriptionHealth], error) {
		page, err := api.Health(ctx, client.HealthQuery{Namespace: c.NS, Health: c.wanted(), Limit: most, Cursor: cursor})
		counts = page.Counts
		return client.Page[sluice.SubscriptionHealth]{Items: page.Subscriptions, Next: page.Next}, err
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		if err := s.Say("%s", healthSummary(counts)); err != nil || len(all) == 0 {
			return err
		}
		rows := make([][]string, len(all))
		for i := range all {
			rows[i] = healthRow(&all[i], time.Now())
		}
		return s.Table("ID | NAMESPACE | HEALTH | FAILING SINCE | SUCCESS | P95 | OLDEST | PARKED | HELD | DEAD | LAST ANSWER | NEXT ATTEMPT", rows)
	})
}

// wanted returns the conditions to show. Nil means all.
func (c *StatusCmd) wanted() (all []sluice.Health) {
	for _, h := range c.Health {
		all = append(all, sluice.Health(h))
	}
	if len(all) > 0 || c.All {
		return all
	}
	return sluice.Troubles()
}

// healthSummary says how many subscriptions are in each condition, worst first.
func healthSummary(counts map[sluice.Health]int) string {
	var parts []string
	for _, h := range sluice.Healths() {
		if n := counts[h]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, h))
		}
	}
	if len(parts) == 0 {
		return "No subscriptions."
	}
	return "Subscriptions: " + strings.Join(parts, ", ")
}

// healthRow returns the columns; "-" stands for a figure without attempts in the last hour.
func healthRow(h *sluice.SubscriptionHealth, now time.Time) []string {
	success, p95, oldest, last := "-", "-", "-", "-"
	if percent := h.LastHour.SuccessPercent; percent != nil {
		success, p95 = strconv.FormatFloat(*percent, 'f', 1, 64)+" %", terminal.FormatDuration(h.LastHour.P95)
	}
	if h.LagSeconds > 0 {
		oldest = time.Duration(h.LagSeconds * float64(time.Second)).Round(time.Second).String()
	}
	if a := h.LastAttempt; a != nil {
		last = strings.TrimSpace(cmp.Or(lastStatus(a), string(a.Outcome)) + ", " + now.Sub(a.At).Round(time.Second).String() + " ago")
	}
	return []string{
		h.ID, h.Namespace, cmdkit.Because(string(h.Health), cmp.Or(h.SourceError, h.Reason)), terminal.FormatTimePtr(h.FailingSince), success, p95, oldest,
		strconv.Itoa(h.Parked), strconv.Itoa(h.Held), strconv.FormatUint(h.DeadLetters, 10), last, terminal.FormatTimePtr(h.NextAttemptAt),
	}
}

// lastStatus returns the status of a response, or the error if there was none.
func lastStatus(a *sluice.LastAnswer) string {
	if a.Status != 0 {
		return strconv.Itoa(a.Status)
	}
	return a.Error
}
