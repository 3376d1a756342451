package namespacecmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// TypesCmd manages the catalogue of event types.
type TypesCmd struct {
	LS    typesLsCmd    `cmd:"" name:"ls" help:"List event types."`
	Show  typesShowCmd  `cmd:"" help:"Show an event type."`
	Put   typesPutCmd   `cmd:"" help:"Create or replace event types from files."`
	RM    typesRmCmd    `cmd:"" name:"rm" help:"Delete an event type."`
	Check typesCheckCmd `cmd:"" help:"Validate data against the schema of an event type, without publishing."`
}

type typesLsCmd struct {
	NS string `help:"Namespace." default:"default" placeholder:"NAME"`
}

// Run lists the event types. It reads all pages and sorts them by type.
func (c *typesLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(0, func(cursor string, _ int) (client.Page[sluice.EventType], error) {
		return api.EventTypes(ctx, c.NS, cursor)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b sluice.EventType) int { return strings.Compare(a.Type, b.Type) })
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, t := range all {
			rows[i] = []string{t.Type, hasSchema(&t), terminal.OrDash(strings.Join(t.SummaryFields, ",")), terminal.OrDash(labels(&t)), terminal.FormatTime(t.UpdatedAt), t.Description}
		}
		return s.Table("TYPE | SCHEMA | SUMMARY | LABELS | UPDATED | DESCRIPTION", rows)
	})
}

// hasSchema returns "yes", or "-" for a type that accepts any data.
func hasSchema(t *sluice.EventType) string {
	if len(t.Schema) == 0 {
		return "-"
	}
	return "yes"
}

// labels returns the static labels as "area=sales,tier=gold", in the order of their names.
func labels(t *sluice.EventType) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(t.StaticLabels)) {
		pairs = append(pairs, name+"="+t.StaticLabels[name])
	}
	return strings.Join(pairs, ",")
}

type typesShowCmd struct {
	Type string `arg:"" help:"Event type."`
	NS   string `help:"Namespace." default:"default" placeholder:"NAME"`
}

// Run shows the event type.
func (c *typesShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	t, err := api.EventType(ctx, c.NS, c.Type)
	if err != nil {
		return err
	}
	return s.Show(t, func() error {
		err := s.Facts("type", t.Type, "namespace", t.Namespace, "description", t.Description, "summary", strings.Join(t.SummaryFields, ", "),
			"labels", labels(&t), "revision", strconv.FormatUint(t.Revision, 10), "created", terminal.FormatTime(t.CreatedAt), "updated", terminal.FormatTime(t.UpdatedAt))
		if err != nil || len(t.Schema) == 0 {
			return err
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, t.Schema, "", "  "); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
		return s.Say("%s", terminal.Clean(terminal.EscapedJSON(pretty.Bytes())))
	})
}

// typesPutCmd creates or changes event types. Revision 0 replaces any revision.
type typesPutCmd struct {
	Files    []string `arg:"" name:"file" help:"JSON: an event type with its \"type\", or an array of them; - for stdin."`
	NS       string   `help:"Namespace." default:"default" placeholder:"NAME"`
	Revision uint64   `help:"Required current revision." placeholder:"N"`
}

// Help shows an example of a file.
func (*typesPutCmd) Help() string {
	return `A file: {"type":"order.placed","description":"…","schema":{…},"summary_fields":["total"],"static_labels":{"area":"sales"}}`
}

// Run creates or changes the event types, in the order of the files. All files are read and parsed
// before the first request. The types are stored one after another until one fails; those before it
// stay, are printed, and the exit status is 1. With --revision, code RevisionMismatch if the stored
// revision is another one.
func (c *typesPutCmd) Run(ctx context.Context, s *terminal.Session) error {
	var wanted []typeFile
	for _, file := range c.Files {
		found, err := readTypes(file, s.Stdin)
		if err != nil {
			return err
		}
		wanted = append(wanted, found...)
	}
	if c.Revision > 0 && len(wanted) != 1 {
		return terminal.Usagef("--revision applies to a single event type, not to %d", len(wanted))
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	stored, failed := c.put(ctx, api, wanted)
	if len(stored) == 0 && failed != nil {
		return failed
	}
	err = s.Show(stored, func() error {
		for _, t := range stored {
			if err := s.Say("Stored type %s in %s as revision %d.", t.Type, t.Namespace, t.Revision); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(failed, err)
}

// put stores the types one after another, and returns those that were stored.
func (c *typesPutCmd) put(ctx context.Context, api *client.Client, wanted []typeFile) ([]sluice.EventType, error) {
	stored := []sluice.EventType{}
	for _, t := range wanted {
		one, err := api.PutEventType(ctx, c.NS, t.Type, t.EventTypeSpec, c.Revision)
		if err != nil {
			return stored, fmt.Errorf("%s: %w", t.Type, err)
		}
		stored = append(stored, one)
	}
	return stored, nil
}

// typeFile is an event type in a file. Type is required; the other fields are those of the request.
type typeFile struct {
	client.EventTypeSpec

	Type string `json:"type"`
}

// readTypes reads event types from a file, or from stdin for "-". A single object counts as an
// array of one. Unknown fields are an error, because a misspelled "schema" would otherwise leave a
// type without one.
func readTypes(file string, stdin io.Reader) (types []typeFile, err error) {
	var data []byte
	if file == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(filepath.Clean(file))
	}
	if err != nil {
		return nil, fmt.Errorf("read event types: %w", err)
	}
	if data = bytes.TrimSpace(data); !bytes.HasPrefix(data, []byte("[")) {
		data = slices.Concat([]byte("["), data, []byte("]"))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&types); err != nil {
		return nil, fmt.Errorf("%s: not event types: %w", file, err)
	}
	for i := range types {
		if types[i].Type == "" {
			return nil, fmt.Errorf("%s: an event type has no \"type\"", file)
		}
	}
	return types, nil
}

type typesRmCmd struct {
	Type string `arg:"" help:"Event type."`
	NS   string `help:"Namespace." default:"default" placeholder:"NAME"`
}

// Run deletes the event type. It does not ask: no event is lost, and put restores the type. A
// strict catalogue refuses events of the type from then on (S4-64).
func (c *typesRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := api.DeleteEventType(ctx, c.NS, c.Type); err != nil {
		return err
	}
	return cmdkit.Done(s, "Deleted type %s.", c.Type)
}

type typesCheckCmd struct {
	Type string `arg:"" help:"Event type."`
	Data string `arg:"" help:"JSON; - for stdin."`
	NS   string `help:"Namespace." default:"default" placeholder:"NAME"`
}

// Run checks the data as the server would, and returns an error if the data violates the schema.
// The check runs in this process with the code of the server and the stored schema. A type without
// a schema is an error, because there is nothing to check.
func (c *typesCheckCmd) Run(ctx context.Context, s *terminal.Session) error {
	data := []byte(c.Data)
	if c.Data == "-" {
		var err error
		if data, err = io.ReadAll(s.Stdin); err != nil {
			return fmt.Errorf("read data: %w", err)
		}
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	t, err := api.EventType(ctx, c.NS, c.Type)
	if err != nil {
		return err
	}
	if len(t.Schema) == 0 {
		return errors.New(c.Type + " has no schema: any data is valid")
	}
	index := catalogue.New()
	index.SetType(t)
	ev := sluice.Event{Namespace: t.Namespace, Path: "/check", Type: t.Type, Data: data}
	if err := index.CheckData(&ev); err != nil {
		return err
	}
	summary := string(index.Summary(&ev))
	return s.Show(map[string]any{"ok": true, "summary": json.RawMessage(orNull(summary))}, func() error {
		return s.Say("The data matches the schema of %s. Its summary: %s", c.Type, terminal.OrDash(summary))
	})
}

// orNull returns the JSON null for a type without summary fields.
func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return text
}
