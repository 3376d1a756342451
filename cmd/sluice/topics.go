package main

import (
	"cmp"
	"context"
	"strconv"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// topicsCmd lists the paths of a namespace and of its mirrors.
type topicsCmd struct {
	NS         string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Mirrored   bool   `help:"Also list the paths of its mirrors, with their number of entries."`
	PathPrefix string `name:"path-prefix" help:"Filter by the begin of the path, such as /orders/." placeholder:"PREFIX"`
	Limit      int    `help:"Maximum number of paths of the namespace, and of its mirrors; 0: all." default:"0"`
}

// topicsView is the list in JSON output.
type topicsView struct {
	Topics   []sluice.Topic         `json:"topics"`
	Mirrored []sluice.MirroredTopic `json:"mirrored_topics,omitzero"`
}

const topicsPage = 1000 // the maximum of the server

// Run lists the paths. --limit applies to the paths of the namespace and to those of the mirrors
// separately. Paths are in the order of their last event, those of mirrors by mirror and name.
func (c *topicsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	view := topicsView{Topics: []sluice.Topic{}}
	q := client.TopicsQuery{IncludeMirrored: c.Mirrored, PathPrefix: c.PathPrefix, Limit: min(cmp.Or(c.Limit, topicsPage), topicsPage)}
	for more := true; more; {
		page, err := api.Topics(ctx, c.NS, q)
		if err != nil {
			return err
		}
		view.Topics, view.Mirrored = append(view.Topics, page.Topics...), append(view.Mirrored, page.Mirrored...)
		q.Cursor = page.Next
		// One list may be full while the other continues. The server fills pages of mirrored paths,
		// so that an empty one is the end; an empty page of others is not.
		more = q.Cursor != "" && (c.Limit == 0 || len(view.Topics) < c.Limit || len(page.Mirrored) > 0 && len(view.Mirrored) < c.Limit)
		q.Limit = topicsPage // or a small --limit would read a long other list in small pages
	}
	if c.Limit > 0 {
		view.Topics, view.Mirrored = view.Topics[:min(c.Limit, len(view.Topics))], view.Mirrored[:min(c.Limit, len(view.Mirrored))]
	}
	return s.Show(view, func() error {
		rows := make([][]string, 0, len(view.Topics)+len(view.Mirrored))
		for _, t := range view.Topics {
			rows = append(rows, []string{string(t.Topic), strconv.FormatUint(t.LatestSequence, 10), "", "", ""})
		}
		for _, t := range view.Mirrored {
			rows = append(rows, []string{string(t.Topic), strconv.FormatUint(t.LatestSequence, 10), strconv.Itoa(t.EntryCount), t.Subscription, t.Source})
		}
		return s.Table("PATH | SEQ | ENTRIES | MIRROR | SOURCE", rows)
	})
}
