package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// feedCmd shows events as they come.
type feedCmd struct {
	Pattern string `arg:"" optional:"" help:"Of these paths only." default:"/**"`

	NS         string        `name:"ns" help:"The namespace." default:"default" placeholder:"NAME"`
	Types      []string      `name:"type" aliases:"types" help:"Of these types only; a final .* matches what follows." placeholder:"TYPE"`
	Sources    []string      `name:"source" sep:"none" help:"Of these sources only." placeholder:"SOURCE"`
	Labels     []string      `name:"label" sep:"none" help:"With this label only; several of a name are alternatives." placeholder:"NAME=VALUE"`
	CEL        string        `name:"cel" help:"Only those for which this expression over event is true." placeholder:"EXPR"`
	Since      string        `help:"Begin behind a sequence, an event's id, a time, or so long ago, such as 10m; -1 is the beginning." placeholder:"WHEN"`
	Projection string        `help:"How much of the data: full, summary or none." placeholder:"NAME"`
	Buffer     int           `help:"How many events to be behind before some are missed." placeholder:"N"`
	Coalesce   []string      `help:"Show one of the events that have the same values of these labels, such as type or a member of the data." placeholder:"LABEL"`
	Window     time.Duration `help:"With --coalesce, within this time; 1ms to 5s." default:"100ms"`
	First      bool          `help:"With --coalesce, the first of them, not the last."`
	Limit      int           `help:"End after so many events; 0: never." default:"0"`
}

// Run shows events until the context ends.
func (c *feedCmd) Run(ctx context.Context, s *session) error {
	query, err := c.query(time.Now())
	if err != nil {
		return err
	}
	api, err := s.client()
	if err != nil {
		return err
	}
	shown := 0
	for item, err := range api.Feed(ctx, c.NS, query) {
		if err != nil && ctx.Err() != nil {
			return nil // whoever follows it has seen enough
		}
		if err == nil {
			err = s.printFeed(item)
		}
		if err != nil {
			return err
		}
		if item.Event != nil {
			shown++
		}
		if c.Limit > 0 && shown == c.Limit {
			return nil
		}
	}
	return nil
}

func (c *feedCmd) query(now time.Time) (client.FeedQuery, error) {
	q := client.FeedQuery{
		Pattern: sluice.Pattern(c.Pattern), Types: c.Types, Sources: c.Sources, CEL: c.CEL, Since: c.Since, Projection: c.Projection,
		Buffer: c.Buffer, CoalesceLabels: c.Coalesce, CoalesceFirst: c.First,
	}
	if _, err := sluice.ParsePattern(c.Pattern); err != nil {
		return q, usageError{err}
	}
	if ago, err := time.ParseDuration(c.Since); err == nil && ago > 0 {
		q.Since = now.Add(-ago).UTC().Format(time.RFC3339Nano)
	}
	for _, label := range c.Labels {
		name, value, ok := strings.Cut(label, "=")
		if !ok {
			return q, usagef("--label %q: write NAME=VALUE", label)
		}
		if q.Labels == nil {
			q.Labels = map[string][]string{}
		}
		q.Labels[name] = append(q.Labels[name], value)
	}
	if len(c.Coalesce) > 0 {
		q.CoalesceWindow = c.Window
	}
	if len(c.Coalesce) == 0 && c.First {
		return q, usagef("--first belongs to --coalesce")
	}
	return q, nil
}

// feedView is an event of a feed as programs get it, one a line.
type feedView struct {
	eventView

	Coalesced int    `json:"coalesced,omitempty"`
	Resume    string `json:"resume"` // for --since, to go on
}

// printFeed prints what a feed tells, one thing a line; what is no event goes to stderr for people.
func (s *session) printFeed(item client.FeedItem) error {
	switch ev := item.Event; {
	case ev != nil && s.json():
		view := feedView{eventView: viewOf(*ev), Resume: item.Resume}
		view.Seq = item.Seq
		if item.Coalesced > 1 {
			view.Coalesced = item.Coalesced
		}
		return s.printLine(view)
	case ev != nil:
		more := ""
		if item.Coalesced > 1 {
			more = fmt.Sprintf("  (one of %d)", item.Coalesced)
		}
		return s.say("%s  %s  %s  %s  %s%s", strconv.FormatUint(item.Seq, 10), ev.Time.Local().Format(time.TimeOnly), ev.Type, ev.Path, excerpt(ev.Data), more)
	case item.Lagged != nil && s.json():
		return s.printLine(map[string]any{"lagged": item.Lagged})
	case item.Lagged != nil:
		s.complain("sluice: too slow: %d events before %d were not shown", item.Lagged.Missed, item.Lagged.Oldest)
	case item.Subscribed != nil && s.json():
		return s.printLine(map[string]any{"subscribed": true, "current_seq": *item.Subscribed})
	case item.Away != nil:
		s.complain("sluice: the server is away; waiting for it: %v", item.Away)
	}
	return nil
}

// printLine prints a value as one line of JSON.
func (s *session) printLine(value any) error {
	encoder := json.NewEncoder(s.stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
