package schedulecmd

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

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"

	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// WatchCmd manages watches.
type WatchCmd struct {
	Set  watchSetCmd  `cmd:"" help:"Create a watch, or replace the one with this ID."`
	Test watchTestCmd `cmd:"" help:"Simulate a watch over stored events."`
	LS   watchLsCmd   `cmd:"" name:"ls" help:"List watches."`
	Show watchShowCmd `cmd:"" help:"Show a watch."`
	RM   watchRmCmd   `cmd:"" name:"rm" help:"Cancel a watch."`
}

// watchSetCmd creates or replaces a watch. The pattern is an argument or a flag, or both if they
// are equal.
type watchSetCmd struct {
	ID      string `arg:"" help:"ID of the watch."`
	Pattern string `arg:"" optional:"" help:"Pattern of the events' paths, such as /sensors/**; same as --pattern."`

	watchFlags

	Publish     string `help:"Path of the published event." placeholder:"PATH"`
	As          string `help:"Type of the published event." placeholder:"TYPE"`
	With        string `help:"Data of the published event, as JSON." placeholder:"JSON"`
	Description string `help:"Description." placeholder:"TEXT"`
}

// watchFlags select a watch's readings and set its firing rules. They are common to set and test,
// so a tested watch can be set with the same flags.
type watchFlags struct {
	NS       string            `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	File     string            `help:"File with the JSON or YAML of the API; - reads stdin. Flags override it." placeholder:"FILE"`
	Paths    string            `name:"pattern" help:"Pattern of the events' paths." placeholder:"PATTERN"`
	Types    []string          `name:"type" aliases:"types" help:"Types of the readings; a final .* matches any suffix." placeholder:"TYPE"`
	Source   []string          `help:"Sources of the readings." placeholder:"SOURCE" sep:"none"`
	Subject  []string          `help:"Subjects, or related subjects, of the readings." placeholder:"SUBJECT" sep:"none"`
	CEL      string            `name:"cel" help:"Condition: a CEL expression over event." placeholder:"EXPR"`
	Label    map[string]string `help:"Label that the reading must have, as part of the condition; repeatable." placeholder:"K=V" mapsep:"none"`
	Level    bool              `help:"Fire for every reading that meets the condition, not only for the first."`
	Cooldown time.Duration     `help:"Interval in which each path fires at most once, such as 10m; default: unlimited." placeholder:"DURATION"`
	For      time.Duration     `help:"Time for which the condition must hold, such as 30s; default: fires immediately." placeholder:"DURATION"`
}

// Help shows an example.
func (*watchSetCmd) Help() string {
	return `Examples:

  sluice watch set hot '/sensors/**' --type reading --cel 'event.data.celsius > 30' --for 1m --publish /alarms/hot --as alarm.raised
  sluice watch set hot --file watch.yaml

The first argument is the ID, the second the pattern. "sluice watch test" simulates a watch over stored events.`
}

// Run creates the watch. An identical watch is left alone, with its state. A different one starts
// anew with the events from then on: earlier readings and cooldowns are forgotten.
func (c *watchSetCmd) Run(ctx context.Context, s *terminal.Session) error {
	spec, err := c.spec(s.Stdin)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	w, err := api.PutWatch(ctx, c.NS, c.ID, spec)
	if err != nil {
		return err
	}
	return s.Show(w, func() error {
		return s.Say("Watch %s evaluates events on %s after %d, as revision %d.", w.ID, w.Pattern, w.FromSeq, w.Revision)
	})
}

// spec returns the file's content, overridden by the flags. Only a flag with a value overrides; an
// empty flag cannot clear a field of the file. A pattern, and a path and a type to publish, are
// required in one of them.
func (c *watchSetCmd) spec(stdin io.Reader) (client.WatchSpec, error) {
	spec, err := readWatch(c.File, stdin)
	if err != nil {
		return spec, err
	}
	if c.Pattern != "" && c.Paths != "" && c.Pattern != c.Paths {
		return spec, terminal.Usagef("the pattern is set twice, as an argument and by --pattern")
	}
	c.Paths = cmp.Or(c.Paths, c.Pattern)
	c.over(&spec)
	spec.Action.Path, spec.Action.Type = cmp.Or(sluice.Path(c.Publish), spec.Action.Path), cmp.Or(c.As, spec.Action.Type)
	spec.Description = cmp.Or(c.Description, spec.Description)
	switch {
	case c.With == "":
	case !json.Valid([]byte(c.With)):
		return spec, terminal.Usagef("--with is not JSON; quote text: '\"hot\"'")
	default:
		spec.Action.Data = json.RawMessage(c.With)
	}
	switch {
	case spec.Pattern == "":
		return spec, errNoPattern()
	case spec.Action.Path == "" || spec.Action.Type == "":
		return spec, terminal.Usagef("an event to publish is required: --publish /alarms/hot --as alarm.raised")
	}
	return spec, nil
}

func errNoPattern() error { return terminal.Usagef("a pattern is required, such as '/sensors/**'") }

// over overrides a file's content with the flags. Lists replace those of the file and are not added
// to them. --level can set the trigger and not reset it.
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

// readWatch reads JSON or YAML from a file, or stdin for "-"; the zero spec for "". Unknown fields
// are an error, because a misspelled condition would match everything.
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
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run lists the watches. It reads all pages and sorts them by ID.
func (c *watchLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(0, func(cursor string, _ int) (client.Page[sluice.Watch], error) {
		return api.Watches(ctx, c.NS, cursor)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b sluice.Watch) int { return strings.Compare(a.ID, b.ID) })
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, w := range all {
			is := statusOf(&w)
			rows[i] = []string{
				w.ID, string(w.Pattern), string(w.Trigger), cmdkit.Compact(w.Filter), string(w.Action.Path), w.Action.Type, string(w.CreatedBy), terminal.FormatTime(w.CreatedAt),
				standing(is), strconv.FormatUint(is.Fired, 10), terminal.FormatTime(is.FiredAt),
			}
		}
		return s.Table("WATCH | PATTERN | TRIGGER | FILTER | PUBLISHES ON | TYPE | BY | CREATED | STATE | FIRED | LAST", rows)
	})
}

type watchShowCmd struct {
	ID string `arg:"" help:"Watch."`
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run shows the watch.
func (c *watchShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	w, err := api.Watch(ctx, c.NS, c.ID)
	if err != nil {
		return err
	}
	return s.Show(w, func() error {
		is := statusOf(&w)
		return s.Facts("watch", w.ID, "namespace", w.Namespace, "description", w.Description, "pattern", string(w.Pattern), "filter", cmdkit.Compact(w.Filter),
			"trigger", string(w.Trigger), "cooldown", terminal.FormatDuration(w.Cooldown), "for", terminal.FormatDuration(w.For), "publishes", cmdkit.Compact(w.Action),
			"starts after", strconv.FormatUint(w.FromSeq, 10), "revision", strconv.FormatUint(w.Revision, 10), "created", terminal.FormatTime(w.CreatedAt), "by", string(w.CreatedBy),
			"state", standing(is), "evaluated", fmt.Sprintf("%d readings, up to %d", is.Readings, is.Place), "fired", firedOf(is),
			"not fired", count(is.Missed, "readings that could have fired"), "throttled", count(is.Throttled, "readings"))
	})
}

// statusOf returns a watch's status; the zero status from an older server, which does not report
// it.
func statusOf(w *sluice.Watch) sluice.WatchStatus {
	if w.Status == nil {
		return sluice.WatchStatus{}
	}
	return *w.Status
}

// standing describes on how many paths the condition holds, and how many paths are in cooldown.
func standing(is sluice.WatchStatus) string {
	text := "idle"
	if is.Holds > 0 {
		text = fmt.Sprintf("condition holds on %d", is.Holds)
	}
	if is.Cooling > 0 {
		text += fmt.Sprintf(", %d cooling until %s", is.Cooling, terminal.FormatTime(is.CoolsUntil))
	}
	return text
}

// firedOf describes the firings. A firing is for a reading, by its sequence, and has an outcome of
// the action.
func firedOf(is sluice.WatchStatus) string {
	if is.Fired == 0 {
		return "never"
	}
	return fmt.Sprintf("%d times, last at %s for %d: %s", is.Fired, terminal.FormatTime(is.FiredAt), is.FiredSeq, is.Outcome)
}

// count returns "" for 0, so that Session.Facts omits the line.
func count(n uint64, of string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, of)
}

type watchTestCmd struct {
	ID string `arg:"" optional:"" help:"Watch; default: the watch described by the flags or a file."`

	watchFlags

	Since string `help:"Start position: a sequence, an event ID, a time, or an age such as 10m or 7d; default: the last 10,000 events of the namespace." placeholder:"WHEN"`
}

// Help shows an example.
func (*watchTestCmd) Help() string {
	return `Examples:

  sluice watch test --pattern '/sensors/**' --type reading --cel 'event.data.celsius > 30' --cooldown 10m
  sluice watch test hot --cel 'event.data.celsius > 35'

Flags override the watch. Nothing is published. The simulation starts without earlier readings.`
}

// Run prints the firings that the watch would have had. It makes one request for the simulation,
// and prints how to continue if more events follow. With an ID, the stored watch is the base; --file
// is a usage error then.
func (c *watchTestCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.ID != "" && c.File != "" {
		return terminal.Usagef("--file excludes the ID of a stored watch: name one of them")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	spec, err := readWatch(c.File, s.Stdin)
	if err != nil {
		return err
	}
	if c.ID != "" {
		w, err := api.Watch(ctx, c.NS, c.ID)
		if err != nil {
			return err
		}
		// The action is left out: a simulation publishes nothing.
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
	return s.Show(is, func() error { return trial(s, &is) })
}

// seqBefore returns the sequence after which the events from a position on lie; 0 if there is no
// position. A number is a sequence and is returned as it is. Other positions cost a request for the
// first event behind them; without one, it is an error.
func seqBefore(ctx context.Context, api *client.Client, ns, when string) (uint64, error) {
	if seq, err := strconv.ParseUint(when, 10, 64); err == nil || when == "" {
		return seq, nil
	}
	ev, ok, err := terminal.FirstEvent(ctx, api, ns, client.EventsQuery{Since: sluice.Ago(when, time.Now())})
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("--since %s: no events after that", when)
	}
	return ev.Seq - 1, nil
}

// trial prints the firings that a watch would have had. Missed is the number of readings for which
// a firing would have been missed, by reason.
func trial(s *terminal.Session, is *sluice.WatchTrial) error {
	if len(is.Firings) > 0 {
		rows := make([][]string, len(is.Firings))
		for i, f := range is.Firings {
			rows[i] = []string{strconv.FormatUint(f.Seq, 10), terminal.FormatTime(f.At), string(f.Path), f.Type, f.ID}
		}
		if err := s.Table("SEQ | AT | PATH | TYPE | ID", rows); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("The watch would have fired %d times for %d readings in %d events after %d, up to %d.", is.Fires, is.Readings, is.Events, is.Since, is.Place)
	if len(is.Missed) > 0 {
		text += " Missed: " + cmdkit.Compact(is.Missed) + "."
	}
	if is.Throttled > 0 {
		text += fmt.Sprintf(" Throttled: %d readings.", is.Throttled)
	}
	if is.More {
		text += fmt.Sprintf(" More events follow: --since %d.", is.Place)
	}
	return s.Say("%s", text)
}

type watchRmCmd struct {
	ID string `arg:"" help:"Watch."`
	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// Run cancels the watch. It does not ask: set creates the watch again, without its state. Code
// NotFound.
func (c *watchRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := api.DeleteWatch(ctx, c.NS, c.ID); err != nil {
		return err
	}
	return cmdkit.Done(s, "Cancelled watch %s.", c.ID)
}
