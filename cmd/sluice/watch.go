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
	LS   watchLsCmd   `cmd:"" name:"ls" help:"List watches."`
	Show watchShowCmd `cmd:"" help:"Show a watch."`
	RM   watchRmCmd   `cmd:"" name:"rm" help:"Cancel a watch."`
}

type watchSetCmd struct {
	ID      string `arg:"" help:"Its id."`
	Pattern string `arg:"" optional:"" help:"Paths of the events that it looks at, such as /sensors/**."`

	NS          string            `name:"ns" help:"The namespace." default:"default"`
	File        string            `help:"Read it from a file in the JSON (or YAML) of the API; - is stdin. Flags go over it." placeholder:"FILE"`
	Types       []string          `name:"type" aliases:"types" help:"Events of these types are readings, no others; a final .* matches what follows." placeholder:"TYPE"`
	Source      []string          `help:"Events of these sources are readings, no others." placeholder:"SOURCE" sep:"none"`
	Subject     []string          `help:"Events about these subjects, or related to them, are readings, no others." placeholder:"SUBJECT" sep:"none"`
	CEL         string            `name:"cel" help:"The condition: an expression over event that a reading meets or not." placeholder:"EXPR"`
	Label       map[string]string `help:"Part of the condition: the reading has this label; repeatable." placeholder:"K=V" mapsep:"none"`
	Level       bool              `help:"Fire for every reading that meets the condition, not only when it begins to hold."`
	Cooldown    time.Duration     `help:"Fire once in this time, such as 10m, for each path; without it, as often as it may." placeholder:"DURATION"`
	For         time.Duration     `help:"Fire when the condition has held for this long, such as 30s; without it, at once." placeholder:"DURATION"`
	Publish     string            `help:"Where the event lives that is published." placeholder:"PATH"`
	As          string            `help:"Its type." placeholder:"TYPE"`
	With        string            `help:"Its data: JSON." placeholder:"JSON"`
	Description string            `help:"What it is for." placeholder:"TEXT"`
}

// Help shows an example.
func (*watchSetCmd) Help() string {
	return `sluice watch set hot '/sensors/**' --type reading --cel 'event.data.celsius > 30' --for 1m --publish /alarms/hot --as alarm.raised`
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
	spec.Pattern = cmp.Or(sluice.Pattern(c.Pattern), spec.Pattern)
	spec.Cooldown, spec.For = cmp.Or(sluice.Duration(c.Cooldown), spec.Cooldown), cmp.Or(sluice.Duration(c.For), spec.For)
	spec.Filter.CEL = cmp.Or(c.CEL, spec.Filter.CEL)
	spec.Action.Path, spec.Action.Type = cmp.Or(sluice.Path(c.Publish), spec.Action.Path), cmp.Or(c.As, spec.Action.Type)
	spec.Description = cmp.Or(c.Description, spec.Description)
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
	switch {
	case c.With == "":
	case !json.Valid([]byte(c.With)):
		return spec, usagef("--with is not JSON; write text in quotes: '\"hot\"'")
	default:
		spec.Action.Data = json.RawMessage(c.With)
	}
	switch {
	case spec.Pattern == "":
		return spec, usagef("say which paths, such as '/sensors/**'")
	case spec.Action.Path == "" || spec.Action.Type == "":
		return spec, usagef("say what is published: --publish /alarms/hot --as alarm.raised")
	}
	return spec, nil
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
			rows[i] = []string{w.ID, string(w.Pattern), string(w.Trigger), compact(w.Filter), string(w.Action.Path), w.Action.Type, string(w.CreatedBy), when(w.CreatedAt)}
		}
		return s.table("WATCH | PATTERN | TRIGGER | FILTER | PUBLISHES ON | TYPE | BY | CREATED", rows)
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
		return s.facts("watch", w.ID, "namespace", w.Namespace, "description", w.Description, "pattern", string(w.Pattern), "filter", compact(w.Filter),
			"trigger", string(w.Trigger), "cooldown", span(w.Cooldown), "for", span(w.For), "publishes", compact(w.Action),
			"looks behind", strconv.FormatUint(w.FromSeq, 10), "revision", strconv.FormatUint(w.Revision, 10), "created", when(w.CreatedAt), "by", string(w.CreatedBy))
	})
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
