package mirrorcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/bundle/medium"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// mirrorExportCmd exports bundles. Since 0 begins a chain anew; nil continues the one in the
// directory.
type mirrorExportCmd struct {
	NS       string  `arg:"" name:"namespace" help:"Namespace."`
	Dir      string  `arg:"" help:"Directory of the bundles, such as a mounted medium." type:"path"`
	Depth    string  `help:"How much of the data is exported: catalog (none), summary or full; default: that of the bundles in the directory, or catalog." enum:",catalog,summary,full" default:"" placeholder:"DEPTH"`
	Since    *uint64 `help:"Sequence (exclusive) at which the first bundle begins; default: the end of the last bundle or receipt in the directory, or 0." placeholder:"SEQ"`
	Form     string  `help:"Form of the bundles: document for JSON files of up to 64 MiB, directory for directories of plain files; default: that of the bundles in the directory, or document." enum:",document,directory" default:"" placeholder:"FORM"`
	MaxBytes int64   `name:"max-bytes" help:"Size of a bundle in a directory, about; the rest goes into the next one; default: 1 GiB." placeholder:"BYTES"`
	Previous string  `help:"Digest of the bundle before it, with --since." placeholder:"DIGEST"`
}

// Help describes the directory and the order of exports.
func (*mirrorExportCmd) Help() string {
	return `Writes signed bundles of the changes of a namespace, for mirrors that no network connects with it.

  sluice mirror export orders /media/courier --depth full

Running the command again exports the changes since, also after an interruption, and without the bundles that were
taken away if the receipt of the importer is there. If there is no change, a heartbeat says so.`
}

// exportBundles is an export in progress. It is used by one goroutine, while the directory is
// locked. query.Since and query.Previous move with each bundle.
type exportBundles struct {
	api   *client.Client
	ns    string
	dir   string
	begun *medium.Place // nil: from the beginning, or where the flags say
	query client.ExportQuery
	plain bool // directories of plain files
	most  int64
	bar   *terminal.Progress
	made  []exportedBundle
}

// exportedBundle describes a bundle that was written.
type exportedBundle struct {
	File       string    `json:"file"`
	Since      uint64    `json:"since"`
	Through    uint64    `json:"through"`
	Entries    uint64    `json:"entries"`
	Digest     string    `json:"digest"`
	ExportedAt time.Time `json:"exported_at"`
}

// Run exports bundles up to the end of the log. A lock in the directory keeps two exports from
// writing the same bundles. The bundles written before an error stay valid, and are printed.
func (c *mirrorExportCmd) Run(ctx context.Context, s *terminal.Session) (err error) {
	if c.Previous != "" && c.Since == nil {
		return terminal.Usagef("--previous requires --since: the end of the bundle with that digest")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	// The medium may be read by another user on another machine.
	if err := os.MkdirAll(c.Dir, 0o755); err != nil { //nolint:gosec // couriers read it
		return fmt.Errorf("export: %w", err)
	}
	unlock, err := medium.Lock(c.Dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	x := exportBundles{api: api, ns: c.NS, dir: c.Dir, most: c.MaxBytes}
	if err := c.begin(&x); err != nil {
		return err
	}
	x.bar = terminal.NewProgress(s, -1)
	x.bar.What = "exporting"
	if s.Terminal {
		if tail, unknown := api.State(ctx, c.NS, client.StateQuery{Limit: 1}); unknown == nil {
			x.bar.Total = int64(min(tail.Seq, 1<<62))
		}
	}
	err = x.run(ctx)
	x.bar.Close()
	if err != nil && len(x.made) == 0 {
		return err
	}
	return errors.Join(s.Show(x.made, func() error { return x.table(s) }), err)
}

// begin sets where the export begins: at the position in the flags or, without one, at the end of
// the last bundle in the directory. One chain of bundles has one depth.
func (c *mirrorExportCmd) begin(x *exportBundles) error {
	x.query.Depth, x.plain = sluice.Depth(c.Depth), c.Form == "directory"
	if c.Since != nil {
		x.query.Since, x.query.Previous = *c.Since, c.Previous
		return nil
	}
	last, err := medium.Last(c.Dir, c.NS)
	if last == nil || err != nil {
		return err
	}
	if c.Depth != "" && x.query.Depth != last.Depth {
		return terminal.Usagef("--depth %s: the bundles in %s have %s; export into another directory", c.Depth, c.Dir, last.Depth)
	}
	x.plain = x.plain || c.Form == "" && last.Directory
	x.begun, x.query = last, client.ExportQuery{Since: last.Through, Depth: last.Depth, Previous: last.Digest}
	return nil
}

// run exports until a bundle has no range. Each bundle names the digest of the one before, so the
// chain is built one bundle at a time. A bundle without a range means that the end of the log is
// reached.
func (x *exportBundles) run(ctx context.Context) error {
	next := x.document
	if x.plain {
		next = x.directory
	}
	for {
		h, err := next(ctx)
		if err != nil {
			return err
		}
		if h.Since == h.Through {
			return nil
		}
		x.query.Since = h.Through
		x.bar.Advance(int64(min(h.Through, 1<<62)))
	}
}

// document exports one bundle as a JSON document. It writes a heartbeat only if the export has
// written no bundle before it.
func (x *exportBundles) document(ctx context.Context) (*bundle.Header, error) {
	text, digest, err := x.api.ExportBundle(ctx, x.ns, x.query)
	if err != nil {
		return nil, err
	}
	var h bundle.Header
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("export: the server sent no bundle: %w", err)
	}
	if err := x.follows(&h); err != nil {
		return nil, err
	}
	if h.Since == h.Through && len(x.made) > 0 {
		return &h, nil
	}
	name := medium.Name(x.ns, &h, false)
	if err := medium.Write(filepath.Join(x.dir, name), text); err != nil {
		return nil, onMedium(err)
	}
	x.wrote(name, &h, digest)
	return &h, nil
}

// directory exports one bundle as a directory, which gets its final name when it is complete. It
// writes the files of an interrupted export again. A heartbeat is always a document. A name that
// ends with medium.Partial is never imported, so a crash between Receive and Rename leaves nothing
// that looks complete.
func (x *exportBundles) directory(ctx context.Context) (*bundle.Header, error) {
	partial := filepath.Join(x.dir, x.ns+medium.Partial)
	if err := os.RemoveAll(partial); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	stream, err := x.api.ExportDirectory(ctx, x.ns, x.query, x.most)
	if err != nil {
		return nil, err
	}
	m, err := bundle.Receive(ctx, stream, partial)
	if err = errors.Join(err, stream.Close()); err != nil {
		return nil, errors.Join(onMedium(err), os.RemoveAll(partial)) // the next export starts it over
	}
	h := &m.Header
	if err := x.follows(h); err != nil {
		return nil, err
	}
	if h.Since == h.Through {
		if err := os.RemoveAll(partial); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		return x.document(ctx)
	}
	name := medium.Name(x.ns, h, true)
	if err := os.Rename(partial, filepath.Join(x.dir, name)); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	x.wrote(name, h, m.Digest())
	return h, nil
}

// onMedium adds the remedy to an error from writing.
func onMedium(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: the bundles before are complete; export again into another directory with --since and --previous, or free space and run the command again; --max-bytes makes directories smaller", err)
	}
	return err
}

// wrote records a bundle, after which the next one begins. A heartbeat has no range, and no digest
// that a later bundle may name.
func (x *exportBundles) wrote(name string, h *bundle.Header, digest string) {
	x.made = append(x.made, exportedBundle{File: name, Since: h.Since, Through: h.Through, Entries: h.Count, Digest: digest, ExportedAt: h.ExportedAt})
	if h.Since < h.Through {
		x.query.Previous = digest
	}
}

// follows returns an error unless a bundle is from the same log as the bundles in the directory.
// Nil begun accepts every log, because it begins a chain.
func (x *exportBundles) follows(h *bundle.Header) error {
	switch was := x.begun; {
	case was == nil:
		return nil
	case was.Source != h.SourceID:
		return fmt.Errorf("the bundles in %s are of %s, and the server is %s: export into another directory", x.dir, was.Source, h.SourceID)
	case was.Incarnation != h.Incarnation:
		return fmt.Errorf("the log of %s was made anew since the last export: export into another directory, and create a new mirror for it", x.ns)
	}
	return nil
}

func (x *exportBundles) table(s *terminal.Session) error {
	for _, m := range x.made {
		var err error
		if m.Since == m.Through {
			err = s.Say("%s: nothing new through sequence %d at %s.", m.File, m.Through, terminal.FormatTime(m.ExportedAt))
		} else {
			err = s.Say("%s: %d entries, sequences %d to %d.", m.File, m.Entries, m.Since+1, m.Through)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
