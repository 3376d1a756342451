package subscriptioncmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
)

// Limits of one request of an import.
const (
	importBatch = 500
	importBytes = 1 << 20 // a larger definition is sent alone
)

// subImportCmd creates the subscriptions of a file.
type subImportCmd struct {
	File   string `arg:"" help:"File with definitions; - reads stdin."`
	DryRun bool   `name:"dry-run" help:"Check all definitions, with rights and limits, and create nothing."`
}

// Help describes the file and the results.
func (*subImportCmd) Help() string {
	return `The file has the definitions of POST /v1/subscriptions: YAML documents (separated by ---, or lists), or one JSON object
in each line. A definition that exists with the same configuration is left alone, so the same file can be imported
again, also after an interruption. One that fails does not keep the others: it is printed with its line, and the exit
status is 1.

Generated secrets are printed to stdout as they come, an ID and its secret in each line, and are not shown again:

  sluice sub import customers.yaml > secrets.txt

With -o json, stdout has the result of each definition as a line of JSON.`
}

// imported is the result of one definition.
type imported struct {
	Line int `json:"line"`
	Item int `json:"item,omitempty"` // number in the list that begins at the line; 0: it is in no list
	client.BatchResult
}

// importing is an import in progress.
type importing struct {
	s       *terminal.Session
	dry     bool
	create  func(ctx context.Context, specs any) ([]client.BatchResult, error)
	file    *definitionFile
	bar     *terminal.Progress
	started time.Time

	created, exist, failed int
}

// Run imports the file.
func (c *subImportCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	file, err := openDefinitions(c.File, s.Stdin)
	if err != nil {
		return err
	}
	defer file.Close()
	bar := terminal.NewProgress(s, file.Size)
	bar.What = "importing"
	defer bar.Close()
	m := importing{s: s, dry: c.DryRun, create: api.CreateSubscriptions, file: file, bar: bar, started: time.Now()}
	if m.dry {
		m.create = api.CheckSubscriptions
	}
	err = m.all(ctx)
	bar.Close()
	m.summary()
	if err == nil && m.failed > 0 {
		err = fmt.Errorf("%d of %d subscriptions failed", m.failed, m.created+m.exist+m.failed)
	}
	return err
}

// all sends the definitions in batches. The server creates each definition of a batch on its own,
// so after an error any of that batch may exist. A second import of the same file finds them and
// continues (S0-27, S1-116). If ctx ends, the batch in flight is completed or fails.
func (m *importing) all(ctx context.Context) error {
	for {
		batch, err := m.file.Next(importBatch, importBytes)
		if err != nil || len(batch) == 0 {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.send(ctx, batch); err != nil {
			return fmt.Errorf("from line %d on, nothing is known: %w; import the file again", batch[0].line, err)
		}
		m.bar.Advance(m.file.Read)
	}
}

// send sends a batch, without the definitions that cannot be read, and prints the results. Results
// are in the order of the file. A response with another number of results is an error, because a
// secret would be printed beside the wrong ID.
func (m *importing) send(ctx context.Context, batch []definition) error {
	var specs []json.RawMessage
	for _, d := range batch {
		if d.err == nil {
			specs = append(specs, d.spec)
		}
	}
	var results []client.BatchResult
	if len(specs) > 0 {
		var err error
		if results, err = m.create(ctx, specs); err != nil {
			return err
		}
		if len(results) != len(specs) {
			return fmt.Errorf("%d subscriptions were sent and %d confirmed", len(specs), len(results))
		}
	}
	for _, d := range batch {
		one := imported{Line: d.line, Item: d.item}
		if d.err != nil {
			one.Status, one.Error = client.BatchFailed, d.err
		} else {
			one.BatchResult, results = results[0], results[1:]
		}
		if err := m.tell(d, one); err != nil {
			return err
		}
	}
	return nil
}

// tell counts a result and prints it. Secrets go to stdout and failures to stderr; in JSON, all
// results go to stdout, too. A secret that the file contains is printed in JSON only.
func (m *importing) tell(d definition, one imported) error {
	switch one.Status {
	case client.BatchCreated:
		m.created++
	case client.BatchExists:
		m.exist++
	default:
		m.failed++
		m.bar.Close() // the bar is drawn again later
		m.s.Complain("%s: %s (%s)", d.place(m.file.name), one.Error.Message, string(one.Error.Code))
	}
	if m.s.IsJSON() {
		return m.s.PrintLine(one)
	}
	if one.Secret == "" || d.hasSecret() {
		return nil
	}
	m.bar.Close()
	return m.s.Say("%s %s", one.ID, one.Secret)
}

// summary prints the numbers of results.
func (m *importing) summary() {
	took := time.Since(m.started)
	did := "Created %d"
	if m.dry {
		did = "Would create %d"
	}
	m.s.Complain(did+", %d exist, %d failed: %d subscriptions in %s (%.0f/s).", m.created, m.exist, m.failed,
		m.created+m.exist+m.failed, took.Round(time.Millisecond), float64(m.created+m.exist+m.failed)/max(took.Seconds(), 1e-6))
}

// hasSecret reports whether the definition contains its secret, which then need not be printed.
func (d definition) hasSecret() bool {
	var given struct {
		Endpoint struct {
			Secret string `json:"secret"`
		} `json:"endpoint"`
	}
	return json.Unmarshal(d.spec, &given) == nil && given.Endpoint.Secret != ""
}

// place returns the file and line of a definition, for messages.
func (d definition) place(file string) string {
	at := fmt.Sprintf("%s, line %d", file, d.line)
	if d.item > 0 {
		at += fmt.Sprintf(", item %d", d.item)
	}
	return at
}

// plainError returns the message of a YAML error without the name of its library.
func plainError(err error) error {
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: "))
}
