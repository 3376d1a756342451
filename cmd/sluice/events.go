package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// eventsCmd shows events.
type eventsCmd struct {
	LS  eventsLsCmd  `cmd:"" name:"ls" help:"List events, newest first."`
	Get eventsGetCmd `cmd:"" help:"Show an event."`
}

type eventsLsCmd struct {
	NS      string   `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Pattern string   `aliases:"path" help:"Filter by path." placeholder:"PATTERN"`
	Types   []string `name:"type" aliases:"types" help:"Filter by type; a final .* matches any suffix." placeholder:"TYPE"`
	Since   string   `help:"Start position: a sequence, an event ID, a time, or an age such as 10m or 7d; -1 is the start." placeholder:"WHEN"`
	Until   string   `help:"End position: a sequence, an event ID, a time, or an age." placeholder:"WHEN"`
	Limit   int      `aliases:"last" help:"Maximum number of results; 0: all. --last is another name." default:"100"`
	Oldest  bool     `name:"oldest-first" help:"List the oldest events first."`
}

// eventView is an event in JSON output. It is the same in events ls, events get, feed and state, so
// one program can read all of them.
type eventView struct {
	Seq         uint64            `json:"seq"`
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	Path        sluice.Path       `json:"path"`
	Source      string            `json:"source"`
	Time        time.Time         `json:"time"`
	Subject     string            `json:"subject,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Extensions  map[string]string `json:"extensions,omitempty"`
	Data        json.RawMessage   `json:"data,omitempty"`        // if it is JSON
	DataText    string            `json:"data_text,omitempty"`   // if it is other text
	DataBase64  []byte            `json:"data_base64,omitempty"` // if it is neither
}

// viewOf returns an event for JSON output. Exactly one of the data fields is set if the event has
// data.
func viewOf(ev sluice.Event) eventView {
	v := eventView{
		Seq: ev.Seq, ID: ev.ID, Type: ev.Type, Path: ev.Path, Source: ev.Source, Time: ev.Time,
		Subject: ev.Subject, ContentType: ev.ContentType, Extensions: ev.Extensions,
	}
	switch {
	case ev.JSONData() != nil:
		v.Data = ev.JSONData()
	case strings.HasPrefix(ev.ContentType, "text/"):
		v.DataText = string(ev.Data)
	default:
		v.DataBase64 = ev.Data
	}
	return v
}

// Run lists events, the newest first or, with --oldest-first, in log order. Damaged ranges are
// reported on stderr, and are no error.
func (c *eventsLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	if err := cmdkit.CheckSince(c.Since); err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, lost, err := c.events(ctx, api)
	if err != nil {
		return err
	}
	cmdkit.ComplainLost(s, lost)
	views, rows := make([]eventView, len(all)), make([][]string, len(all))
	for i, ev := range all {
		views[i] = viewOf(ev)
		rows[i] = []string{strconv.FormatUint(ev.Seq, 10), terminal.FormatTime(ev.Time), string(ev.Path), ev.Type, ev.ID, cmdkit.Excerpt(ev.Data)}
	}
	return s.Show(views, func() error { return s.Table("SEQ | TIME | PATH | TYPE | ID | DATA", rows) })
}

// events returns the events to list, and the ranges in which events may be lost.
func (c *eventsLsCmd) events(ctx context.Context, api *client.Client) (all []sluice.Event, lost []sluice.Gap, err error) {
	query := client.EventsQuery{Pattern: sluice.Pattern(c.Pattern), Types: c.Types, Since: c.Since, Until: c.Until}
	if !c.Oldest {
		w := newest{api: api, ns: c.NS, query: query}
		all, err = w.events(ctx, c.Limit)
		return all, w.lost, err
	}
	now := time.Now()
	query.Since, query.Until = sluice.Ago(c.Since, now), sluice.Ago(c.Until, now)
	all, err = terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Event], error) {
		query.Limit, query.Cursor = most, cursor
		page, err := api.Events(ctx, c.NS, query)
		lost = append(lost, page.Unreadable...)
		return page, err
	})
	return all, lost, err
}

type eventsGetCmd struct {
	ID string `arg:"" help:"ID or sequence of the event."`
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run shows the event. Code NotFound for an event that is unknown, or that the caller may not see.
func (c *eventsGetCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	ev, err := api.Event(ctx, c.NS, c.ID)
	if err != nil {
		return err
	}
	return s.Show(viewOf(ev), func() error {
		return s.Facts("seq", strconv.FormatUint(ev.Seq, 10), "id", ev.ID, "type", ev.Type, "path", string(ev.Path),
			"source", ev.Source, "time", terminal.FormatTime(ev.Time), "subject", ev.Subject, "content type", ev.ContentType,
			"extensions", cmdkit.Compact(ev.Extensions), "data", string(ev.Data))
	})
}
