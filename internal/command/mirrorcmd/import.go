package mirrorcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/bundle/medium"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type mirrorImportCmd struct {
	NS        string `arg:"" name:"namespace" help:"Namespace with the mirror."`
	Path      string `arg:"" help:"Bundle, or directory with bundles, such as a mounted medium." type:"existingpath"`
	AcceptGap bool   `name:"accept-gap" help:"Import a bundle even if changes before it are missing; the mirror records the gap for good."`
	Receipt   string `help:"File for the signed receipt; default: beside the bundles." placeholder:"FILE" type:"path"`
}

// Help describes the order and the receipt.
func (*mirrorImportCmd) Help() string {
	return `Imports bundles in their order into the mirror of their source (sluice mirror add URL, without a token). The server
verifies all of a bundle before it applies any of it. Bundles that were imported are passed over, and so are
those of a revoked key that later ones do not need. An interrupted import goes on where it was.

The receipt beside the bundles is for the way back: the next export begins behind it.`
}

// The outcomes of imports.
const (
	outcomeImported  = "imported"
	outcomeAgain     = "already imported"
	outcomeHeartbeat = "heartbeat"
)

// importedBundle is the outcome of importing a bundle. Applied is a number of entries, watermark a
// sequence of the source.
type importedBundle struct {
	File       string    `json:"file"`
	Outcome    string    `json:"outcome"`
	Applied    int       `json:"applied"`
	Watermark  uint64    `json:"watermark,omitempty"`
	ImportedAt string    `json:"imported_at,omitempty"` // when a bundle was imported earlier, if that is known
	ExportedAt time.Time `json:"exported_at"`
}

// Run imports the bundles, up to the first one that the server refuses for a reason other than a
// revoked key. The order is that of medium.Scan: by source, then by position. Results before an
// error are printed, and the exit status is 1 then. A second import passes over the bundles that
// were applied.
func (c *mirrorImportCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	found, err := medium.Scan(c.Path)
	if err != nil {
		return err
	}
	if found, err = c.wanted(ctx, s, api, found); err != nil {
		return err
	}
	var total int64
	for i := range found {
		total += found[i].Size
	}
	bar := terminal.NewProgress(s, total)
	bar.What = "importing"
	shown := &importBar{bar: bar}
	var results []importedBundle
	passed := passedOver{}
	for i := range found {
		result, refused := c.one(ctx, s, api, &found[i], shown)
		source := found[i].Header.SourceID
		if revoked(refused) {
			passed[source] = append(passed[source], refused)
			continue
		}
		if err = refused; err != nil {
			break
		}
		passed.settle(s, source)
		results = append(results, result)
	}
	bar.Close()
	err = errors.Join(passed.all(), err)
	if err != nil && len(results) == 0 {
		return err
	}
	return errors.Join(s.Show(results, func() error { return importTable(s, results) }), err)
}

// passedOver holds the errors for bundles whose key was revoked, by source. A medium may still have
// bundles that were imported before the revocation, and later bundles do not need them.
type passedOver map[string][]error

// revoked reports whether a bundle was refused because its key was revoked.
func revoked(err error) bool {
	return sluice.CodeOf(err) == sluice.UnknownKey && detailOf(err, "reason") == "revoked"
}

// settle prints that bundles of a source are skipped, because the server accepted a later one
// without them. It is called after an accepted bundle of the source: bundles name the one before,
// so the server had their changes already.
func (p passedOver) settle(s *terminal.Session, source string) {
	for _, refused := range p[source] {
		s.Complain("Passed over %v.", refused)
	}
	delete(p, source)
}

// all returns the errors of the bundles that settle has not reported.
func (p passedOver) all() (err error) {
	for _, refused := range p {
		err = errors.Join(err, errors.Join(refused...))
	}
	return err
}

// wanted removes the bundles of sources that the namespace does not mirror, if there are others. A
// medium of one source is sent as it is, so that the server says why it refuses it.
func (c *mirrorImportCmd) wanted(ctx context.Context, s *terminal.Session, api *client.Client, found []medium.Bundle) ([]medium.Bundle, error) {
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no bundles", c.Path)
	}
	if found[0].Header.SourceID == found[len(found)-1].Header.SourceID { // they are sorted
		return found, nil
	}
	mirrors, err := terminal.Collect(0, func(cursor string, most int) (client.Page[client.MirrorSummary], error) {
		return api.Mirrors(ctx, client.MirrorsQuery{Namespace: c.NS, Limit: most, Cursor: cursor})
	})
	if err != nil {
		return nil, err
	}
	sources := map[string]bool{}
	for i := range mirrors {
		sources[mirrors[i].Source] = true
	}
	var wanted []medium.Bundle
	for i := range found {
		if sources[found[i].Header.SourceID] {
			wanted = append(wanted, found[i])
			continue
		}
		s.Complain("%s is left out: %s does not mirror %s.", filepath.Base(found[i].Path), c.NS, found[i].Header.SourceID)
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("%s mirrors none of the sources: create a mirror with sluice mirror add", c.NS)
	}
	return wanted, nil
}

// one imports one bundle. A bundle that was imported before is a success. The receipt is kept after
// each bundle, because the next one may fail.
func (c *mirrorImportCmd) one(ctx context.Context, s *terminal.Session, api *client.Client, b *medium.Bundle, bar *importBar) (importedBundle, error) {
	is := importedBundle{File: filepath.Base(b.Path), Outcome: outcomeImported, ExportedAt: b.Header.ExportedAt}
	if b.Heartbeat() {
		is.Outcome = outcomeHeartbeat
	}
	done, err := c.send(ctx, api, b, bar)
	if sluice.CodeOf(err) == sluice.BundleImported {
		is.Outcome, is.ImportedAt = outcomeAgain, detailOf(err, "imported_at")
		return is, nil
	}
	if err != nil {
		return is, fmt.Errorf("%s: %w%s", is.File, err, remedyOf(err, c.NS))
	}
	is.Applied, is.Watermark = done.Applied, done.Watermark
	c.keepReceipt(s, b, done.Receipt)
	return is, nil
}

// send sends a bundle to the server, which applies it.
func (c *mirrorImportCmd) send(ctx context.Context, api *client.Client, b *medium.Bundle, bar *importBar) (sluice.BundleImport, error) {
	if b.Directory {
		return c.sendDirectory(ctx, api, b, bar)
	}
	text, err := os.ReadFile(b.Path)
	if err != nil {
		return sluice.BundleImport{}, err
	}
	done, err := api.ImportBundle(ctx, c.NS, text, c.AcceptGap)
	bar.add(int(b.Size))
	return done, err
}

// sendDirectory sends the files of a directory that the server does not have. It sends none before
// the server has accepted the manifest. It repeats the upload while the server still lacks files
// and each round makes progress.
func (c *mirrorImportCmd) sendDirectory(ctx context.Context, api *client.Client, b *medium.Bundle, bar *importBar) (done sluice.BundleImport, err error) {
	dir, err := bundle.OpenDirectory(b.Path)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := dir.Check(); err != nil {
		return done, err
	}
	var missing []string
	for has := b.Size; ; {
		result, err := c.sendFiles(ctx, api, dir, missing, bar)
		if err != nil || len(result.Missing) == 0 {
			return result.BundleImport, err
		}
		if missing != nil && result.MissingBytes >= has {
			return done, fmt.Errorf("the server has not received %d files", len(result.Missing))
		}
		if missing == nil {
			bar.add(int(b.Size - result.MissingBytes)) // they arrived before
		}
		missing, has = result.Missing, result.MissingBytes
	}
}

// sendFiles sends the manifest and the named files. The goroutine that reads the files ends with
// the request: closing r makes its writes fail. An unreadable file is the better error, because the
// server sees only a stream that ends.
func (c *mirrorImportCmd) sendFiles(ctx context.Context, api *client.Client, dir *bundle.Directory, names []string, bar *importBar) (client.DirectoryImport, error) {
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := dir.Send(ctx, w, names, bar.add)
		w.CloseWithError(err)
		sent <- err
	}()
	result, err := api.ImportDirectory(ctx, c.NS, r, c.AcceptGap)
	_ = r.Close() // the server has answered, and reads nothing more
	if unread := <-sent; unread != nil && sluice.CodeOf(unread) == sluice.Unprocessable {
		return result, unread // the cause of the server's error, if it has one
	}
	return result, err
}

// importBar shows how many bytes were sent. done is in bytes.
type importBar struct {
	bar  *terminal.Progress
	done int64
}

func (b *importBar) add(n int) {
	b.done += int64(n)
	b.bar.Advance(b.done)
}

// keepReceipt writes a receipt. If it cannot, the import still succeeds, because a medium may be
// read-only.
func (c *mirrorImportCmd) keepReceipt(s *terminal.Session, b *medium.Bundle, receipt json.RawMessage) {
	if len(receipt) == 0 {
		return
	}
	file := c.Receipt
	if file == "" {
		file = filepath.Join(filepath.Dir(b.Path), medium.ReceiptName(b.Header.SourceName))
	}
	if err := medium.Write(file, receipt); err != nil {
		s.Complain("The receipt is not written (%v); name another file with --receipt.", err)
	}
}

// detailOf returns a detail of the server's error; "" if it has none. Other types than text count
// as none.
func detailOf(err error, name string) string {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		text, _ := e.Details[name].(string)
		return text
	}
	return ""
}

// remedyOf returns the end of a sentence about a refused bundle.
func remedyOf(err error, ns string) string {
	switch sluice.CodeOf(err) { //nolint:exhaustive // the messages of the others have a remedy
	case sluice.BundleGap:
		return "; or use --accept-gap to leave them out for good"
	case sluice.UnknownKey:
		if detailOf(err, "reason") == "revoked" {
			return ""
		}
		return "; compare it with the source, then: sluice mirror trust " + ns
	case sluice.BundleSignatureInvalid:
		return "; the bundle was changed on its way: take it from the source again"
	}
	return ""
}

func importTable(s *terminal.Session, results []importedBundle) error {
	for _, r := range results {
		var err error
		switch {
		case r.Outcome == outcomeAgain && r.ImportedAt != "":
			err = s.Say("%s: already imported at %s.", r.File, r.ImportedAt)
		case r.Outcome == outcomeAgain:
			err = s.Say("%s: already imported.", r.File)
		case r.Outcome == outcomeHeartbeat:
			err = s.Say("%s: nothing new through sequence %d at %s.", r.File, r.Watermark, terminal.FormatTime(r.ExportedAt))
		default:
			err = s.Say("%s: imported %d entries, through sequence %d.", r.File, r.Applied, r.Watermark)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
