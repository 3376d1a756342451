package namespacecmd

import (
	"context"
	"strconv"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// nsObserveCmd shows a page of the changes of a namespace.
type nsObserveCmd struct {
	Name  string `arg:"" help:"Namespace."`
	Since uint64 `help:"Sequence after which the page begins." placeholder:"SEQ"`
	Limit int    `help:"Maximum number of changes, at most 1000." default:"100"`
	Depth string `help:"How much of the data is shown: catalog (none), summary or full." enum:"catalog,summary,full" default:"full"`
}

// Help explains the use of the page.
func (*nsObserveCmd) Help() string {
	return "A page is what another namespace gets that follows this one: events, and the IDs of erased ones. The server keeps nothing about its readers."
}

// Run shows the page. The next page begins with --since at the printed sequence. A page may be
// empty and not the last one, because changes that the caller may not see are left out.
func (c *nsObserveCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	page, err := api.Observe(ctx, c.Name, client.ObserveQuery{Since: c.Since, Limit: c.Limit, Depth: sluice.Depth(c.Depth)})
	if err != nil {
		return err
	}
	cmdkit.ComplainLost(s, page.Lost)
	return s.Show(page, func() error {
		rows := make([][]string, len(page.Items))
		for i, change := range page.Items {
			ev, at := change.Event, ""
			if change.Op != sluice.OpDelete {
				at = terminal.FormatTime(ev.Time)
			}
			rows[i] = []string{strconv.FormatUint(ev.Seq, 10), string(change.Op), ev.ID, string(ev.Path), at, ev.Type, cmdkit.Excerpt(ev.Data)}
		}
		if err := s.Table("SEQ | OP | ID | PATH | TIME | TYPE | DATA", rows); err != nil {
			return err
		}
		return s.Say("Up to %d of %d, in the log %s.", page.ThroughSeq, page.LastSeq, page.Incarnation)
	})
}
