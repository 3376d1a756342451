package mirrorcmd

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type mirrorFollowCmd struct {
	ID         string `arg:"" help:"Mirror."`
	PathPrefix string `name:"path-prefix" help:"Filter by the begin of the path, such as /orders/." placeholder:"PREFIX"`
	After      string `help:"Start behind the cursor of an entry; 0 shows all entries first. Default: new changes only." placeholder:"CURSOR"`
	Limit      int    `help:"Stop after this number of entries and gaps; 0: never." default:"0"`
}

// Help explains the output.
func (*mirrorFollowCmd) Help() string {
	return `The output is one JSON object a line: an entry as "item", with its cursor, or a range that the mirror lacks as "gap".
The copy changes when the mirror syncs: at its interval, or with sluice mirror sync.`
}

// mirrorFollowView is a change in the output.
type mirrorFollowView struct {
	Item   *sluice.MirroredItem `json:"item,omitempty"`
	Gap    *sluice.MirrorGap    `json:"gap,omitempty"`
	Resume string               `json:"resume"` // for --after
}

// Run shows the changes of the mirror. The client reconnects and continues without gaps or
// repetitions. An interrupt ends it with exit status 0. The value of resume in the last line is the
// --after of a later run.
func (c *mirrorFollowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, m, err := findMirror(ctx, s, c.ID)
	if err != nil {
		return err
	}
	shown := 0
	for change, err := range api.MirrorFeed(ctx, m.Namespace, client.MirrorFeedQuery{Mirror: c.ID, PathPrefix: c.PathPrefix, After: c.After}) {
		if ctx.Err() != nil {
			return nil // interrupted
		}
		if err != nil {
			return fmt.Errorf("follow %s: %w", c.ID, err)
		}
		if change.Mirrored == nil && change.Gap == nil {
			continue
		}
		if err := s.PrintLine(mirrorFollowView{change.Mirrored, change.Gap, change.Resume}); err != nil {
			return err
		}
		if shown++; shown == c.Limit {
			return nil
		}
	}
	return nil
}
