package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// watchCmd is about what is published when events meet a condition.
type watchCmd struct {
	Set  watchSetCmd  `cmd:"" help:"Make a watch, or put it in the place of the one with its id."`
	Test watchTestCmd `cmd:"" help:"Say what a watch would have done with the events that are there."`
	LS   watchLsCmd   `cmd:"" name:"ls" help:"List watches."`
	Show watchShowCmd `cmd:"" help:"Show a watch."`
	RM   watchRmCmd   `cmd:"" name:"rm" help:"Cancel a watch."`
}

type watchSetCmd struct {
	ID      string `arg:"" help:"Its id."`
	Pattern string `arg:"" optional:"" help:"Paths of the events that it looks at, such as /sensors/**; --pattern says the same."`

	watchFlags

	Publish     string `help:"Where the event lives that is published." placeholder:"PATH"`
	As          string `help:"Its type." placeholder:"TYPE"`
	With        string `help:"Its data: JSON." placeholder:"JSON"`
	Description string `help:"What it is for." placeholder:"TEXT"`
}

// watchFlags are what a watch looks at, and when it fires.
type watchFlags struct {
	NS       string            `name:"ns" help:"The namespace." default:"default"`
	File     string            `help:"Read it from a file in the JSON (or YAML) of the API; - is stdin. Flags go over it." placeholder:"FILE"`
	Paths    string            `name:"pattern" help:"Paths of the events that it looks at." placeholder:"PATTERN"`
	Types    []string          `name:"type" aliases:"types" help:"Events of these types are readings, no others; a final .* matches what follows." placeholder:"TYPE"`
	Source   []string          `help:"Events of these sources are readings, no others." placeholder:"SOURCE" sep:"none"`
	Subject  []string          `help:"Events about these subjects, or related to them, are readings, no others." placeholder:"SUBJECT" sep:"none"`
	CEL      string            `name:"cel" help:"The condition: an expression over event that a reading meets or not." placeholder:"EXPR"`
	Label    map[string]string `help:"Part of the condition: the reading has this label; repeatable." placeholder:"K=V" mapsep:"none"`
	Level    bool              `help:"Fire for every reading that meets the condition, not only when it begins to hold."`
	Cooldown time.Duration     `help:"Fire once in this time, such as 10m, for each path; without it, as often as it may." placeholder:"DURATION"`
	For      time.Duration     `help:"Fire when the condition has held for this long, such as 30s; without it, at once." placeholder:"DURATION"`
}

// Help shows an example.
func (*watchSetCmd) Help() string {
	return `Examples:

  sluice watch set hot '/sensors/**' --type reading --cel 'event.data.celsius > 30' --for 1m --publish /alarms/hot --as alarm.raised
  sluice watch set hot --file watch.yaml

The first argument is its id, the second the pattern. "sluice watch test" says what it would have done with the events that are there.`
}

// Run makes the watch.
func (c *watchSetCmd) Run(ctx context.Context, s *session) error {
	spec, err := c.spec(s.stdin)
	if err != nil {
		return err
	}
	api, err := s.client()
	if err != nil {
		return err
	}
	w, err := api.PutWatch(ctx, c.NS, c.ID, spec)
	if err != nil {
		return err
	}
	return s.show(w, func() error {
		return s.say("Watch %s looks at events on %s behind %d, as revision %d.", w.ID, w.Pattern, w.FromSeq, w.Revision)
	})
}

// spec returns the file's content with the flags over it.
func (c *watchSetCmd) spec(stdin io.Reader) (client.WatchSpec, error) {
	spec, err := readWatch(c.File, stdin)
	if err != nil {
		return spec, err
	}
	if c.Pattern != "" && c.Paths != "" && c.Pattern != c.Paths {
		return spec, usagef("the pattern is said twice, as an argument and by --pattern")
	}
	c.Paths = cmp.Or(c.Paths, c.Pattern)
	c.over(&spec)
	spec.Action.Path, spec.Action.Type = cmp.Or(sluice.Path(c.Publish), spec.Action.Path), cmp.Or(c.As, spec.Action.Type)
	spec.Description = cmp.Or(c.Description, spec.Description)
	switch {
	case c.With == "":
	case !json.Valid([]byte(c.With)):
		return spec, usagef("--with is not JSON; write text in quotes: '\"hot\"'")
	default:
		spec.Action.Data = json.RawMessage(c.With)
	}
	switch {
	case spec.Pattern == "":
		return spec, errNoPattern()
	case spec.Action.Path == "" || spec.Action.Type == "":
		return spec, usagef("say what is published: --publish /alarms/hot --as alarm.raised")
	}
	return spec, nil
}

func errNoPattern() error { return usagef("say which paths, such as '/sensors/**'") }

// over puts the flags over what a file said.
func (c *watchFlags) over(spec *client.WatchSpec) {
	spec.Pattern = cmp.Or(sluice.Pattern(c.Paths), spec.Pattern)
	spec.Cooldown, spec.For = cmp.Or(sluice.Duration(c.Cooldown), spec.Cooldown), cmp.Or(sluice.Duration(c.For), spec.For)
	spec.Filter.CEL = cmp.Or(c.CEL, spec.Filter.CEL)
	if len(c.Types) > 0 {
		spec.Filter.Types = c.Types
	}
	if len(c.Source) > 0 {
		spec.Filter.Sources = c.Source
	}
	if len(c.Subject) > 0 {
		spec.Filter.Subjects = c.Subject
	}
	if len(c.Label) > 0 {
		spec.Filter.Labels = map[string][]string{}
	}
	for name, value := range c.Label {
		spec.Filter.Labels[name] = []string{value}
	}
	if c.Level {
		spec.Trigger = sluice.TriggerLevel
	}
}

func readWatch(file string, stdin io.Reader) (spec client.WatchSpec, err error) {
	var data []byte
	from := file
	switch file {
	case "":
		return spec, nil
	case "-":
		from = "stdin"
		data, err = io.ReadAll(stdin)
	default:
		data, err = os.ReadFile(filepath.Clean(file))
	}
	if err != nil {
		return spec, fmt.Errorf("read watch: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &spec); err != nil {
		return spec, fmt.Errorf("read watch from %s: %w", from, err)
	}
	return spec, nil
}

type watchLsCmd struct {
	NS string `name:"ns" help:"The namespace." default:"default"`
}

// Run lists the watches.
func (c *watchLsCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	all, err := collect(0, func(cursor string, _ int) (client.Page[sluice.Watch], error) {
		return api.Watches(ctx, c.NS, cursor)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b sluice.Watch) int { return strings.Compare(a.ID, b.ID) })
	return s.show(all, func() error {
		rows := make([][]string, len(all))
		for i, w := range all {
			is := statusOf(&w)
			rows[i] = []string{
				w.ID, string(w.Pattern), string(w.Trigger), compact(w.Filter), string(w.Action.Path), w.Action.Type, string(w.CreatedBy), when(w.CreatedAt),
				standing(is), strconv.FormatUint(is.Fired, 10), when(is.FiredAt),
			}
		}
		return s.table("WATCH | PATTERN | TRIGGER | FILTER | PUBLISHES ON | TYPE | BY | CREATED | STATE | FIRED | LAST", rows)
	})
}

type watchShowCmd struct {
	ID string `arg:"" help:"The watch."`
	NS string `name:"ns" help:"The namespace." default:"default"`
}

// Run shows the watch.
func (c *watchShowCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	w, err := api.Watch(ctx, c.NS, c.ID)
	if err != nil {
		return err
	}
	return s.show(w, func() error {
		is := statusOf(&w)
		return s.facts("watch", w.ID, "namespace", w.Namespace, "description", w.Description, "pattern", string(w.Pattern), "filter", compact(w.Filter),
			"trigger", string(w.Trigger), "cooldown", span(w.Cooldown), "for", span(w.For), "publishes", compact(w.Action),
			"looks behind", strconv.FormatUint(w.FromSeq, 10), "revision", strconv.FormatUint(w.Revision, 10), "created", when(w.CreatedAt), "by", string(w.CreatedBy),
			"state", standing(is), "looked at", fmt.Sprintf("%d readings, up to %d", is.Readings, is.Place), "fired", firedOf(is),
			"not fired", count(is.Missed, "readings for which it might have"), "not looked at", count(is.Throttled, "readings"))
	})
}

// statusOf returns what came of a watch; an older server does not say.
func statusOf(w *sluice.Watch) sluice.WatchStatus {
	if w.Status == nil {
		return sluice.WatchStatus{}
	}
	return *w.Status
}

// standing says on how many paths the condition holds, and how many cool down.
func standing(is sluice.WatchStatus) string {
	text := "idle"
	if is.Holds > 0 {
		text = fmt.Sprintf("holds on %d", is.Holds)
	}
	if is.Cooling > 0 {
		text += fmt.Sprintf(", %d cooling until %s", is.Cooling, when(is.CoolsUntil))
	}
	return text
}

func firedOf(is sluice.WatchStatus) string {
	if is.Fired == 0 {
		return "never"
	}
	return fmt.Sprintf("%d times, last at %s because of %d: %s", is.Fired, when(is.FiredAt), is.FiredSeq, is.Outcome)
}

func count(n uint64, of string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, of)
}

type watchTestCmd struct {
	ID string `arg:"" optional:"" help:"The watch; without it, one that flags or a file describe."`

	watchFlags

	Since string `help:"Look at the events after a sequence, an event's id, a time, or so long ago, such as 10m or 7d; without it, at the last 10,000 of the namespace." placeholder:"WHEN"`
}

// Help shows an example.
func (*watchTestCmd) Help() string {
	return `Examples:

  sluice watch test --pattern '/sensors/**' --type reading --cel 'event.data.celsius > 30' --cooldown 10m
  sluice watch test hot --cel 'event.data.celsius > 35'

Flags go over what the watch says. Nothing is published. It is tried as if nothing had come before the first of the events.`
}

// Run says what the watch would have done.
func (c *watchTestCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	spec, err := readWatch(c.File, s.stdin)
	if err != nil {
		return err
	}
	if c.ID != "" {
		w, err := api.Watch(ctx, c.NS, c.ID)
		if err != nil {
			return err
		}
		spec = client.WatchSpec{Pattern: w.Pattern, Filter: w.Filter, Trigger: w.Trigger, Cooldown: w.Cooldown, For: w.For}
	}
	if c.over(&spec); spec.Pattern == "" {
		return errNoPattern()
	}
	since, err := seqBefore(ctx, api, c.NS, c.Since)
	if err != nil {
		return err
	}
	is, err := api.TestWatch(ctx, c.NS, spec, since)
	if err != nil {
		return err
	}
	return s.show(is, func() error { return s.trial(&is) })
}

// seqBefore returns the sequence behind which the events after a place lie; 0 for no place.
func seqBefore(ctx context.Context, api *client.Client, ns, when string) (uint64, error) {
	if seq, err := strconv.ParseUint(when, 10, 64); err == nil || when == "" {
		return seq, nil
	}
	page, err := api.Events(ctx, ns, client.EventsQuery{Since: sluice.Ago(when, time.Now()), Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(page.Items) == 0 {
		return 0, fmt.Errorf("--since %s: there are no events after that", when)
	}
	return page.Items[0].Seq - 1, nil
}

// trial shows what a watch would have done.
func (s *session) trial(is *sluice.WatchTrial) error {
	if len(is.Firings) > 0 {
		rows := make([][]string, len(is.Firings))
		for i, f := range is.Firings {
			rows[i] = []string{strconv.FormatUint(f.Seq, 10), when(f.At), string(f.Path), f.Type, f.ID}
		}
		if err := s.table("SEQ | AT | PATH | TYPE | ID", rows); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("It would have fired %d times for %d readings among %d events behind %d, up to %d.", is.Fires, is.Readings, is.Events, is.Since, is.Place)
	if len(is.Missed) > 0 {
		text += " Not, though it might have: " + compact(is.Missed) + "."
	}
	if is.Throttled > 0 {
		text += fmt.Sprintf(" Not looked at: %d readings.", is.Throttled)
	}
	if is.More {
		text += fmt.Sprintf(" There are more: --since %d.", is.Place)
	}
	return s.say("%s", text)
}

type watchRmCmd struct {
	ID string `arg:"" help:"The watch."`
	NS string `name:"ns" help:"The namespace." default:"default"`
}

// Run cancels the watch.
func (c *watchRmCmd) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	if err := api.DeleteWatch(ctx, c.NS, c.ID); err != nil {
		return err
	}
	return s.done("Cancelled watch %s.", c.ID)
}
