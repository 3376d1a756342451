package subscriptioncmd

import (
	"context"
	"strconv"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ProblemsCmd manages problems.
type ProblemsCmd struct {
	LS     problemsLsCmd     `cmd:"" name:"ls" default:"withargs" help:"List problems: the open ones first, and of these the oldest."`
	Show   problemsShowCmd   `cmd:"" help:"Show a problem, with the remedy."`
	Ack    problemsAckCmd    `cmd:"" help:"Acknowledge problems: you have taken note of them."`
	Ignore problemsIgnoreCmd `cmd:"" help:"Ignore problems, also if they occur again."`
	Reopen problemsReopenCmd `cmd:"" help:"Open problems that were acknowledged or ignored."`
}

// problemsLsCmd lists problems, without --state those of all states.
type problemsLsCmd struct {
	terminal.Watching

	NS    string `name:"ns" help:"Filter by namespace." placeholder:"NAME"`
	Sub   string `name:"sub" help:"Filter by subscription." placeholder:"ID"`
	State string `help:"Filter by state: open, acknowledged, ignored or resolved." enum:",open,acknowledged,ignored,resolved" default:"" placeholder:"STATE"`
	Limit int    `help:"Maximum number of results; 0: all." default:"50"`
}

// Run lists problems once or repeatedly.
func (c *problemsLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	return c.Repeat(ctx, s, func() error {
		all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Problem], error) {
			page, err := api.Problems(ctx, client.ProblemsQuery{Namespace: c.NS, Subscription: c.Sub, State: sluice.ProblemState(c.State), Limit: most, Cursor: cursor})
			return client.Page[sluice.Problem]{Items: page.Problems, Next: page.Next}, err
		})
		if err != nil {
			return err
		}
		return s.Show(all, func() error {
			rows := make([][]string, len(all))
			for i := range all {
				rows[i] = problemRow(&all[i])
			}
			return s.Table("ID | NAMESPACE | STATE | SINCE | LAST | EVENTS | PATHS | ATTEMPTS | STATUS | NEXT ATTEMPT", rows)
		})
	})
}

// problemRow returns the columns of the list; showProblem reads them by position.
func problemRow(p *sluice.Problem) []string {
	status := "-"
	if p.Status != 0 {
		status = strconv.Itoa(p.Status)
	}
	return []string{
		p.ID, p.Namespace, string(p.State), terminal.FormatTime(p.Since), terminal.FormatTime(p.LastAt), strconv.FormatUint(p.Events, 10),
		strconv.FormatUint(p.Paths, 10), strconv.FormatUint(p.Attempts, 10), status, terminal.FormatTimePtr(p.NextAttemptAt),
	}
}

type problemsShowCmd struct {
	ID string `arg:"" name:"problem" help:"Problem, as sluice problems ls shows it."`
}

// Run shows a problem.
func (c *problemsShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	p, err := api.Problem(ctx, c.ID)
	if err != nil {
		return err
	}
	return showProblem(s, &p)
}

// showProblem prints a problem with the sentence about its meaning. The optional facts are the last
// answer of the endpoint, the note, and the principal of the last change.
func showProblem(s *terminal.Session, p *sluice.Problem) error {
	return s.Show(p, func() error {
		row := problemRow(p)
		facts := []string{
			"id", p.ID, "subscription", p.Subscription, "namespace", p.Namespace, "class", string(p.Class), "state", string(p.State), "since", row[3], "last", row[4],
			"events", row[5], "paths", row[6], "attempts", row[7], "status", row[8], "next attempt", row[9], "meaning", p.Sentence,
		}
		for _, more := range [][2]string{{"answer", p.Answer}, {"note", p.Note}, {"changed by", p.ChangedBy}} {
			if more[1] != "" {
				facts = append(facts, more[0], more[1])
			}
		}
		return s.Facts(facts...)
	})
}

// problemsChange holds the arguments that all commands that change problems have.
type problemsChange struct {
	IDs  []string `arg:"" name:"problem" help:"Problems, as sluice problems ls shows them."`
	Note *string  `help:"Note for others; an empty one removes it." placeholder:"TEXT"`
}

// to changes the problems one after another until one fails, and prints each. Without --note, the
// note is unchanged.
func (c *problemsChange) to(ctx context.Context, s *terminal.Session, state sluice.ProblemState) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	for _, id := range c.IDs {
		p, err := api.ChangeProblem(ctx, id, sluice.ProblemChange{State: state, Note: c.Note})
		if err != nil {
			return err
		}
		if err := s.Show(p, func() error { return s.Say("%s is %s", p.ID, p.State) }); err != nil {
			return err
		}
	}
	return nil
}

type problemsAckCmd struct{ problemsChange }

// Run acknowledges problems.
func (c *problemsAckCmd) Run(ctx context.Context, s *terminal.Session) error {
	return c.to(ctx, s, sluice.ProblemAcknowledged)
}

type problemsIgnoreCmd struct{ problemsChange }

// Run ignores problems.
func (c *problemsIgnoreCmd) Run(ctx context.Context, s *terminal.Session) error {
	return c.to(ctx, s, sluice.ProblemIgnored)
}

type problemsReopenCmd struct{ problemsChange }

// Run reopens problems.
func (c *problemsReopenCmd) Run(ctx context.Context, s *terminal.Session) error {
	return c.to(ctx, s, sluice.ProblemOpen)
}
