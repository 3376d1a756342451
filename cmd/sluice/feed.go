package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// filterFlags select events.
type filterFlags struct {
	Types    []string `name:"type" aliases:"types" help:"Filter by type; a final .* matches any suffix." placeholder:"TYPE"`
	Sources  []string `name:"source" sep:"none" help:"Filter by source." placeholder:"SOURCE"`
	Subjects []string `name:"subject" sep:"none" help:"Filter by subject or related subject." placeholder:"SUBJECT"`
	Labels   []string `name:"label" sep:"none" help:"Filter by label; several values of one name are alternatives." placeholder:"NAME=VALUE"`
	CEL      string   `name:"cel" help:"Filter by a CEL expression over event." placeholder:"EXPR"`
}

// filter returns the filter of the flags. Labels of different names must all match; values of one
// name are alternatives. The server checks the CEL expression.
func (f *filterFlags) filter() (sluice.Filter, error) {
	wanted := sluice.Filter{Types: f.Types, Sources: f.Sources, Subjects: f.Subjects, CEL: f.CEL}
	for _, label := range f.Labels {
		name, value, ok := strings.Cut(label, "=")
		if !ok {
			return wanted, terminal.Usagef("--label %q: write NAME=VALUE", label)
		}
		if wanted.Labels == nil {
			wanted.Labels = map[string][]string{}
		}
		wanted.Labels[name] = append(wanted.Labels[name], value)
	}
	return wanted, nil
}

// feedCmd shows events live.
type feedCmd struct {
	Pattern string `arg:"" optional:"" help:"Filter by path." default:"/**"`

	filterFlags

	NS         string        `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	Since      string        `help:"Start position: a sequence or event ID (exclusive), a time, or an age such as 10m or 7d; -1 is the start; last_per_path starts with the latest event on each path." placeholder:"WHEN" xor:"since"`
	Last       int           `help:"Start with the last N events that match." placeholder:"N" xor:"since"`
	Projection string        `help:"Amount of data: full, summary or none." placeholder:"NAME"`
	Buffer     int           `help:"Number of events that the reader may lag behind." placeholder:"N"`
	Coalesce   []string      `help:"Merge events with equal values of these labels, such as type or a member of the data." placeholder:"LABEL"`
	Window     time.Duration `help:"Window of --coalesce, 1ms to 5s; default: 100ms." placeholder:"DURATION"`
	First      bool          `help:"Keep the first event of a --coalesce window instead of the last."`
	Limit      int           `help:"Stop after this number of events; 0: never." default:"0"`
	Color      string        `help:"Colours: auto (on a terminal, unless NO_COLOR is set), always or never." enum:"auto,always,never" default:"auto"`
}

// Help explains the output, and how to resume.
func (*feedCmd) Help() string {
	return `With --since, stored events after that position are shown first; without it, only new events.

In the table format, a line is the sequence, the time, the type, the path and the start of the data. Messages about the feed go to stderr: missed events, if the
reader is too slow, and a lost connection, after which the feed reconnects and resumes.

With -o json, a line is one of {"subscribed":true,"current_seq":N,"incarnation":ID}, an event with its "seq" and "resume", {"lagged":{"missed_count":N,…}}, {"away":{"code":…,"message":…}}. To resume
after a line, pass its "resume" to --since.

^C ends it with status 0.`
}

// Run shows events until the context ends.
func (c *feedCmd) Run(ctx context.Context, s *terminal.Session) error {
	query, err := c.query(time.Now())
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Last > 0 {
		if query.Since, err = sinceLast(ctx, api, c.NS, client.EventsQuery{Pattern: query.Pattern, Types: query.Types}, c.Last); err != nil {
			return err
		}
	}
	return c.follow(ctx, s, api, query)
}

// follow shows the events of a feed until the context ends or the requested number of events has
// come.
func (c *feedCmd) follow(ctx context.Context, s *terminal.Session, api *client.Client, query client.FeedQuery) error {
	out := &feedPrinter{Session: s, paint: s.Painter(c.Color, s.Watched), notes: s.Painter(c.Color, s.Terminal), what: c.Pattern + " in " + c.NS}
	shown := 0
	for item, err := range api.Feed(ctx, c.NS, query) {
		if err != nil && ctx.Err() != nil {
			return nil // the reader of stdout has closed it
		}
		if err == nil {
			err = out.print(item)
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

// query returns the feed that the flags select. Ages are relative to now. It returns a usage error
// for a pattern or flags that the server would refuse or ignore.
func (c *feedCmd) query(now time.Time) (client.FeedQuery, error) {
	f, err := c.filter()
	q := client.FeedQuery{
		Pattern: sluice.Pattern(c.Pattern), Types: f.Types, Sources: f.Sources, Subjects: f.Subjects, Labels: f.Labels, CEL: f.CEL,
		Since: sluice.Ago(c.Since, now), Projection: c.Projection, Buffer: c.Buffer, CoalesceLabels: c.Coalesce, CoalesceWindow: c.Window, CoalesceFirst: c.First,
	}
	if err != nil {
		return q, err
	}
	if _, err := sluice.ParsePattern(c.Pattern); err != nil {
		return q, terminal.Usage(err)
	}
	return q, errors.Join(cmdkit.CheckSince(c.Since), c.checkCoalescing())
}

// checkCoalescing checks the flags about coalescing, because a server ignores mistakes in them.
func (c *feedCmd) checkCoalescing() error {
	switch {
	case len(c.Coalesce) == 0 && c.First:
		return terminal.Usagef("--first requires --coalesce")
	case len(c.Coalesce) == 0 && c.Window != 0:
		return terminal.Usagef("--window requires --coalesce")
	case c.Window != 0 && (c.Window < time.Millisecond || c.Window > 5*time.Second):
		return terminal.Usagef("--window %s: write 1ms to 5s", c.Window)
	}
	return nil
}

// feedView is an event of a feed in JSON output, which has one per line.
type feedView struct {
	eventView

	Coalesced int    `json:"coalesced,omitempty"`
	Resume    string `json:"resume"` // for --since, to resume
}

// feedPrinter prints a feed's messages, one per line. It is used by one goroutine. away is true
// from a lost connection until the feed is open again.
type feedPrinter struct {
	*terminal.Session

	paint terminal.Painter // of events
	notes terminal.Painter // of notes, on stderr
	what  string           // the source that is followed
	away  bool
}

// print prints an item. An error of writing ends the feed.
func (p *feedPrinter) print(item client.FeedItem) error {
	if p.IsJSON() {
		return p.line(item)
	}
	switch ev := item.Event; {
	case ev != nil:
		return p.event(ev, item)
	case item.Lagged != nil && item.Lagged.Unreadable != nil:
		cmdkit.ComplainLost(p.Session, []sluice.Gap{*item.Lagged.Unreadable})
	case item.Lagged != nil:
		p.note("too slow: %d events before %d were not shown", item.Lagged.Missed, item.Lagged.Oldest)
	case item.Away != nil:
		p.away = true
		p.note("connection lost; reconnecting: %v", item.Away)
	// The feed is open again: its first message after a lost connection.
	case p.away:
		p.away = false
		p.note("reconnected")
	case p.Terminal:
		p.note("following %s; ^C ends it", p.what)
	}
	return nil
}

// note prints a remark about a feed for people on stderr; events go to stdout.
func (p *feedPrinter) note(format string, args ...any) {
	p.Complain("%s", p.notes.Paint(terminal.Yellow, "sluice: "+fmt.Sprintf(format, args...)))
}

func (p *feedPrinter) event(ev *sluice.Event, item client.FeedItem) error {
	var more terminal.Clean
	if item.Coalesced > 1 {
		more = p.paint.Paint(terminal.Faint, fmt.Sprintf("  (one of %d)", item.Coalesced))
	}
	place := p.paint.Paint(terminal.Faint, strconv.FormatUint(item.Seq, 10)+"  "+ev.Time.Local().Format(time.TimeOnly))
	return p.Say("%s  %s  %s  %s%s", place, p.paint.Named(ev.Type), ev.Path, cmdkit.Excerpt(ev.Data), more)
}

// line prints a feed's message in JSON.
func (p *feedPrinter) line(item client.FeedItem) error {
	switch ev := item.Event; {
	case ev != nil:
		view := feedView{eventView: viewOf(*ev), Resume: item.Resume}
		view.Seq = item.Seq
		if item.Coalesced > 1 {
			view.Coalesced = item.Coalesced
		}
		return p.PrintLine(view)
	case item.Lagged != nil:
		return p.PrintLine(map[string]any{"lagged": item.Lagged, "resume": item.Resume})
	case item.Away != nil:
		return p.PrintLine(map[string]any{"away": terminal.FailureOf(item.Away).Error, "resume": item.Resume})
	case item.Subscribed != nil:
		return p.PrintLine(struct {
			Subscribed  bool   `json:"subscribed"`
			Current     uint64 `json:"current_seq"`
			Incarnation string `json:"incarnation,omitempty"`
		}{true, *item.Subscribed, item.Incarnation})
	}
	return nil
}
