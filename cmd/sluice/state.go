package main

import (
	"context"
	"strconv"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// stateCmd shows the state: the last event of every path.
type stateCmd struct {
	Pattern string `arg:"" optional:"" help:"Filter by path, such as /orders/42 or /orders/**."`

	filterFlags

	NS    string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	At    uint64 `help:"Sequence of the snapshot, as far as its events are still stored; default: the latest." placeholder:"SEQ"`
	Limit int    `help:"Maximum number of paths; 0: all." default:"0"`
}

// stateView is a state in JSON output. Seq is the since of a feed that continues the state without
// a gap.
type stateView struct {
	Seq    uint64      `json:"seq"` // later events are changes of the state
	Events []eventView `json:"events"`
}

// Run shows the state. All pages are as of one sequence, that of the first page. Code
// WindowExceeded if it is no longer stored; nothing is printed then.
func (c *stateCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	q := client.StateQuery{Pattern: sluice.Pattern(c.Pattern), At: c.At}
	if q.Filter, err = c.filter(); err != nil {
		return err
	}
	var lost []sluice.Gap // of the whole snapshot; every page has them
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Event], error) {
		q.Limit, q.Cursor = most, cursor
		page, err := api.State(ctx, c.NS, q)
		q.At, lost = page.Seq, page.Unreadable
		return client.Page[sluice.Event]{Items: page.Events, Next: page.Next}, err
	})
	if err != nil {
		return err
	}
	cmdkit.ComplainLost(s, lost)
	view, rows := stateView{q.At, make([]eventView, len(all))}, make([][]string, len(all))
	for i, ev := range all {
		view.Events[i] = viewOf(ev)
		rows[i] = []string{string(ev.Path), strconv.FormatUint(ev.Seq, 10), terminal.FormatTime(ev.Time), ev.Type, ev.ID, cmdkit.Excerpt(ev.Data)}
	}
	return s.Show(view, func() error {
		if err := s.Table("PATH | SEQ | TIME | TYPE | ID | DATA", rows); err != nil {
			return err
		}
		return s.Say("As of %d.", view.Seq)
	})
}
