package subscriptioncmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// OverviewCmd summarizes the deliveries of all subscriptions.
type OverviewCmd struct {
	terminal.Watching

	NS string `name:"ns" help:"Sum up one namespace only." placeholder:"NAME"`
}

// Help explains the sums.
func (*OverviewCmd) Help() string {
	return "Sums over the subscriptions that you manage. Admins of the server see its store and its replicas, too."
}

// Run shows the overview once or repeatedly. Readers share the sums of the server, so the numbers
// can be seconds old.
func (c *OverviewCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	return c.Repeat(ctx, s, func() error {
		o, err := api.Overview(ctx, c.NS)
		if err != nil {
			return err
		}
		return s.Show(o, func() error { return overviewTable(s, &o) })
	})
}

// overviewTable prints the sums. Server is nil unless the caller is an admin of the server.
func overviewTable(s *terminal.Session, o *sluice.Overview) error {
	oldest := "none"
	if u := o.Oldest; u != nil {
		oldest = seconds(u.AgeSeconds) + ", of " + u.Subscription
	}
	backlog := strconv.FormatUint(o.Backlog.Events, 10)
	if !o.Backlog.Complete {
		backlog += " or more"
	}
	dead := strconv.FormatUint(o.DeadLetters.Total, 10) + byNumber(o.DeadLetters.ByReason)
	if !o.DeadLetters.Counted {
		dead = "too many to count"
	}
	facts := []string{
		"oldest undelivered", oldest, "backlog", backlog,
		"deliveries", perSecond(o.Rates.Deliveries), "attempts", perSecond(o.Rates.Attempts),
		"last hour", fmt.Sprintf("%d delivered, %d failed%s", o.LastHour.Delivered, o.LastHour.Failed, byNumber(o.LastHour.Failures)),
		"p50, p95, p99", strings.Join([]string{milliseconds(o.LastHour.P50), milliseconds(o.LastHour.P95), milliseconds(o.LastHour.P99)}, ", "),
		"subscriptions", strings.TrimPrefix(healthSummary(o.Subscriptions), "Subscriptions: "),
		"breakers", fmt.Sprintf("%d open, %d half open", o.Breakers.Open, o.Breakers.HalfOpen),
		"lanes", fmt.Sprintf("%d parked, %d held, %d due within an hour", o.Lanes.Parked, o.Lanes.Held, o.Lanes.Due),
		"dead letters", dead, "replays", strconv.Itoa(o.Replays),
	}
	if len(o.Consumers) > 0 {
		facts = append(facts, "wake consumers", strings.TrimPrefix(byNumber(o.Consumers), ": "))
	}
	if o.Server == nil {
		return s.Facts(facts...)
	}
	facts = append(facts, "feeds", strconv.Itoa(o.Server.Feeds), "store", strconv.FormatUint(o.Server.Storage.UsedBytes>>20, 10)+" MiB used, "+o.Server.Storage.Level.String())
	if o.Server.Storage.Problem != "" {
		facts = append(facts, "problem", o.Server.Storage.Problem)
	}
	if err := s.Facts(facts...); err != nil || len(o.Server.Replicas) == 0 {
		return err
	}
	rows := make([][]string, len(o.Server.Replicas))
	for i, r := range o.Server.Replicas {
		rows[i] = []string{r.ID, r.Version, strconv.Itoa(r.Leases), strconv.Itoa(r.Feeds), terminal.FormatTime(r.SeenAt)}
	}
	if err := s.Say(""); err != nil {
		return err
	}
	return s.Table("REPLICA | VERSION | LEASES | FEEDS | SEEN", rows)
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'f', 1, 64) + " a second" }

// byNumber lists counts after a colon, the largest first. Zeros are left out; "" if nothing is
// left.
func byNumber[K ~string, N int | uint64](counts map[K]N) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(string(a), string(b)))
	})
	var parts []string
	for _, k := range keys {
		if counts[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// milliseconds formats a number of milliseconds; "-" for nil, which means that there was no
// attempt.
func milliseconds(v *float64) string {
	if v == nil {
		return "-"
	}
	return terminal.FormatDuration(sluice.Duration(time.Duration(*v * float64(time.Millisecond)).Round(time.Millisecond / 10)))
}

// subStatsCmd shows the attempts of a subscription in steps.
type subStatsCmd struct {
	ID    string `arg:"" name:"subscription" help:"Subscription."`
	Since string `help:"Earliest step: a time, or an age up to a day such as 6h; default: the last day, or hour in steps of a minute." placeholder:"TIME"`
	Step  string `help:"Step: 1m, 5m or 1h." enum:"1m,5m,1h" default:"1h"`
}

// Run shows the statistics. Times are in UTC. A --since before the last day, or the last hour in
// steps of a minute, counts as the beginning of that.
func (c *subStatsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	found, err := api.Statistics(ctx, c.ID, client.StatisticsQuery{Since: c.Since, Step: c.Step})
	if err != nil {
		return err
	}
	return s.Show(found, func() error {
		rows := make([][]string, len(found.Points))
		for i, p := range found.Points {
			rows[i] = []string{
				p.At.UTC().Format(time.RFC3339), strconv.FormatUint(p.Delivered, 10), strconv.FormatUint(p.Failed, 10),
				milliseconds(p.P50), milliseconds(p.P95), milliseconds(p.P99), terminal.OrDash(strings.TrimPrefix(byNumber(p.Failures), ": ")),
			}
		}
		return s.Table("STEP | DELIVERED | FAILED | P50 | P95 | P99 | FAILURES", rows)
	})
}
