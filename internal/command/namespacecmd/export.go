package namespacecmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// nsExportCmd writes the events of a namespace as lines, in the format of the server's own export.
type nsExportCmd struct {
	Name  string `arg:"" help:"Namespace."`
	File  string `help:"Output file, instead of stdout; an existing export is continued." placeholder:"FILE" type:"path"`
	Since string `help:"Start position: a sequence or event ID (exclusive), a time, or an age such as 10m or 7d; default: the oldest stored event." placeholder:"WHEN"`
}

// Help describes the lines and the end of the export.
func (*nsExportCmd) Help() string {
	return `Each line is a CloudEvent in JSON with its "sequence", in log order. The last line is the last event that the
namespace had when the export started. Events that you may not see are left out (sluice whoami).

  sluice ns export shop --file shop.jsonl

Running the command again appends later events, also after an interrupted export. It fails if some of them are no longer stored,
or if the file belongs to another log.`
}

// exporting is an export in progress. n counts the lines written. lost has the ranges that the
// server could not read; the export continues after them.
type exporting struct {
	api *client.Client
	ns  string
	out io.Writer
	n   int

	lost []sluice.Gap
}

// Run writes the events. The end is the sequence of the log when the command starts, so the export
// of a busy log ends. The file is flushed to the disk and closed also after an error; the next run
// continues after its last complete line.
func (c *nsExportCmd) Run(ctx context.Context, s *terminal.Session) (err error) {
	api, err := s.Client()
	if err != nil {
		return err
	}
	x := exporting{api: api, ns: c.Name, out: s.Stdout}
	since := sluice.Ago(c.Since, time.Now())
	// The end is fixed before the first page; later events are for the next run.
	tail, err := api.State(ctx, c.Name, client.StateQuery{Limit: 1})
	if err != nil {
		return err
	}
	if c.File != "" {
		file, begun, err := c.open(ctx, api, tail.Seq)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Sync(), file.Close()) }()
		if begun != "" {
			since = begun
		}
		x.out = file
	}
	if since == "" {
		since = "-1"
	}
	if err := x.write(ctx, since, tail.Seq); err != nil {
		return err
	}
	cmdkit.ComplainLost(s, x.lost)
	s.Complain("Exported %d events of %s up to %d.", x.n, c.Name, tail.Seq)
	return nil
}

// write writes the events after a position and up to a sequence. It writes a page at a time, up to
// 1,000 events. A failure can leave an incomplete last line, which open removes.
func (x *exporting) write(ctx context.Context, since string, upTo uint64) error {
	q := client.EventsQuery{Since: since, Until: strconv.FormatUint(upTo, 10), Limit: 1000}
	for {
		page, err := x.api.Events(ctx, x.ns, q)
		if err != nil {
			return err
		}
		var lines bytes.Buffer
		for i := range page.Items {
			// An event is one line, so that contentOf finds it.
			if err := json.Compact(&lines, page.Items[i].AppendJSON(nil)); err != nil { // data may have line breaks
				return fmt.Errorf("event %d: %w", page.Items[i].Seq, err)
			}
			lines.WriteByte('\n')
		}
		if _, err := x.out.Write(lines.Bytes()); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		x.n += len(page.Items)
		x.lost = append(x.lost, page.Unreadable...)
		if page.Next == "" || page.Next == q.Cursor {
			return nil
		}
		q.Cursor = page.Next
	}
}

// open opens the file, removes an incomplete last line, and returns the sequence after which to
// continue; "" for a new file, and for one that has only the begin of an export's first line. It
// reads the whole file to find the last line. end is the last sequence of the log. The caller
// closes the file. The mode of a new file is 0600, because events may be confidential.
func (c *nsExportCmd) open(ctx context.Context, api *client.Client, end uint64) (*os.File, string, error) {
	file, err := os.OpenFile(c.File, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", err
	}
	is, err := contentOf(file)
	switch {
	case err != nil:
	case is.end > 0:
		err = c.goesOn(ctx, api, end, is.last)
	default:
		err = c.isBegun(ctx, api, end, is.rest)
	}
	if err == nil {
		err = file.Truncate(is.end)
	}
	if err == nil {
		_, err = file.Seek(is.end, io.SeekStart)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("%s: %w", c.File, err), file.Close())
	}
	if is.end == 0 {
		return file, "", nil
	}
	return file, strconv.FormatUint(is.last.Seq, 10), nil
}

// goesOn returns an error unless the next events can be appended after a file's last event. A log
// that was restored or made anew reuses sequences: its end must not be before that event, and its
// event at that sequence must have the ID that the file has. An event that is not stored any more
// cannot be compared, and is accepted.
func (c *nsExportCmd) goesOn(ctx context.Context, api *client.Client, end uint64, last sluice.Event) error {
	if c.Since != "" {
		return terminal.Usagef("--since requires a new file: this one is continued after its last event, %d", last.Seq)
	}
	if last.Namespace != c.Name || last.Seq == 0 {
		return fmt.Errorf("its last line is not an event of %s: name another file", c.Name)
	}
	if last.Seq > end {
		return fmt.Errorf("it belongs to another log: it ends at %d, and the log of %s at %d; name another file", last.Seq, c.Name, end)
	}
	there, err := api.Event(ctx, c.Name, strconv.FormatUint(last.Seq, 10))
	switch sluice.CodeOf(err) { //nolint:exhaustive // the others are failures
	case "":
	case sluice.NotFound, sluice.WindowExceeded: // it was erased, or has left the log
		return nil
	default:
		return err
	}
	if there.ID != last.ID {
		return fmt.Errorf("it belongs to another log: event %d of %s is %q there, and %q in the file; name another file", last.Seq, c.Name, there.ID, last.ID)
	}
	return nil
}

// isBegun returns an error unless a text without a line break is the begin of an export's first
// line, as an interruption leaves it. "" is one.
func (c *nsExportCmd) isBegun(ctx context.Context, api *client.Client, end uint64, text []byte) error {
	const begin = `{"specversion":"1.0"`
	if n := min(len(text), len(begin)); string(text[:n]) != begin[:n] {
		return errors.New("it is not an export of events: name another file")
	}
	if !json.Valid(text) {
		return nil
	}
	var whole sluice.Event
	if err := json.Unmarshal(text, &whole); err != nil {
		return err
	}
	return c.goesOn(ctx, api, end, whole)
}

// content is what a file has: the end of its last complete line, the event on that line, and the
// text behind it, which counts as an interrupted write. The event is zero if there is no complete
// line.
type content struct {
	end  int64
	last sluice.Event
	rest []byte
}

// contentOf reads a whole file.
func contentOf(file io.Reader) (is content, err error) {
	r := bufio.NewReaderSize(file, 1<<16)
	var whole []byte
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			is.rest = line
			break
		}
		if err != nil {
			return is, err
		}
		whole = line
		is.end += int64(len(line))
	}
	if is.end > 0 {
		err = json.Unmarshal(whole, &is.last)
	}
	return is, err
}
