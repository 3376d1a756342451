package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// producersCmd manages producers of events that caused themselves.
type producersCmd struct {
	LS    producersLsCmd    `cmd:"" name:"ls" help:"List producers that are marked unsafe."`
	Clear producersClearCmd `cmd:"" help:"Clear the unsafe mark of a producer."`
}

type producersLsCmd struct{}

// Run lists the marks. The most recent mark is first. A marked producer's events with a cause are
// refused (S4-82).
func (producersLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(0, func(cursor string, _ int) (client.Page[sluice.Unsafe], error) {
		return c.UnsafeProducers(ctx, cursor)
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i := range all {
			is := &all[i]
			rows[i] = []string{is.Producer, terminal.FormatTime(is.Since), strconv.FormatUint(is.Count, 10), terminal.FormatTime(is.LastAt), is.Namespace, is.Event.ID, chainOf(is)}
		}
		return s.Table("PRODUCER | SINCE | LOOPS | LAST | NAMESPACE | EVENT | CAUSES", rows)
	})
}

// chainOf returns the last refused event and its nearest causes, as types and paths. The newest is
// first; at most three links are shown, and the number of the others.
func chainOf(is *sluice.Unsafe) string {
	const most = 3
	links := append([]sluice.Link{is.Event}, is.Chain...)
	var parts []string
	for _, l := range links[:min(most, len(links))] {
		parts = append(parts, l.Type+" "+string(l.Path))
	}
	if more := len(links) - len(parts); more > 0 {
		parts = append(parts, strconv.Itoa(more)+" more")
	}
	return strings.Join(parts, " ← ")
}

type producersClearCmd struct {
	Producer string `arg:"" help:"Producer name as listed."`
}

// Run removes the mark. Codes NotFound if there is no mark; Conflict if another loop was found
// meanwhile. It does not ask: the mark returns with the next loop.
func (c *producersClearCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := api.ClearProducer(ctx, c.Producer); err != nil {
		return err
	}
	return s.Show(map[string]string{"cleared": c.Producer}, func() error { return s.Say("%s is no longer marked", c.Producer) })
}
