package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// streamCmd manages Durable Streams.
type streamCmd struct {
	Create streamCreateCmd `cmd:"" help:"Create a stream, or confirm an identical one."`
	Append streamAppendCmd `cmd:"" help:"Append to a stream."`
	Read   streamReadCmd   `cmd:"" help:"Print the content of a stream, and with --follow new content."`
	Info   streamInfoCmd   `cmd:"" help:"Show the metadata of a stream."`
	Close  streamCloseCmd  `cmd:"" help:"Close a stream to appends."`
	RM     streamRmCmd     `cmd:"" name:"rm" help:"Delete streams. Their events stay in the log."`
}

// streamArg is a stream on the command line.
type streamArg struct {
	Path sluice.Path `arg:"" help:"Path of the stream, such as /chats/7."`

	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

// api returns a client, or an error if the path is invalid.
func (a *streamArg) api(s *terminal.Session) (*client.Client, error) {
	if _, err := sluice.ParsePath(string(a.Path)); err != nil {
		return nil, terminal.Usage(err)
	}
	return s.Client()
}

// missing adds to the error for a missing stream how to create it.
func (a *streamArg) missing(err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Code != sluice.NotFound {
		return err
	}
	return &sluice.Error{Code: e.Code, Message: e.Message + "; create it with: sluice stream create " + string(a.Path), Details: e.Details}
}

// streamCreateCmd creates a stream. TTL and Expires exclude each other, and so do Data and From.
type streamCreateCmd struct {
	streamArg

	Data string `arg:"" optional:"" help:"Initial content; @FILE reads a file, - reads stdin."`

	ContentType string        `help:"Content type; application/json makes a stream of messages." default:"application/octet-stream" placeholder:"TYPE"`
	TTL         time.Duration `name:"ttl" help:"Lifetime, extended by each read and write; whole seconds." placeholder:"DURATION"`
	Expires     time.Time     `help:"Expiry time." placeholder:"TIME"`
	Closed      bool          `help:"Close the stream to appends."`
	From        sluice.Path   `help:"Path of the source stream of a fork." placeholder:"PATH"`
	At          string        `help:"Offset in the source where the fork starts; default: its end." placeholder:"OFFSET"`
}

// spec returns the requested stream.
func (c *streamCreateCmd) spec(stdin io.Reader) (client.StreamSpec, error) {
	spec := client.StreamSpec{ContentType: c.ContentType, TTL: c.TTL, ExpiresAt: c.Expires, Closed: c.Closed}
	switch {
	case c.TTL < 0 || c.TTL%time.Second != 0:
		return spec, terminal.Usagef("--ttl %s: write whole seconds", c.TTL)
	case c.TTL > 0 && !c.Expires.IsZero():
		return spec, terminal.Usagef("--ttl and --expires exclude each other")
	case c.From != "" && c.Data != "":
		return spec, terminal.Usagef("a fork starts with the content of its source; append to it instead")
	case c.From != "":
		spec.Fork = &client.StreamFork{From: c.From, Offset: c.At}
	case c.At != "":
		return spec, terminal.Usagef("--at requires --from")
	}
	var err error
	if c.Data != "" {
		spec.Body, err = dataOf(c.Data, stdin)
	}
	return spec, err
}

// dataOf returns the data that an argument stands for: the argument itself, a file, or stdin. "@"
// alone names no file, and is an error. The data is read as a whole.
func dataOf(argument string, stdin io.Reader) (data []byte, err error) {
	file, isFile := strings.CutPrefix(argument, "@")
	switch {
	case argument == "-":
		data, err = io.ReadAll(stdin)
	case isFile:
		data, err = os.ReadFile(filepath.Clean(file))
	default:
		return []byte(argument), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read data: %w", err)
	}
	return data, nil
}

// streamView is a stream in JSON output.
type streamView struct {
	Namespace string      `json:"namespace"`
	Path      sluice.Path `json:"path"`
	client.StreamInfo

	TTL string `json:"ttl,omitempty"`
}

// view returns the JSON form of a stream's metadata.
func (a *streamArg) view(info client.StreamInfo) streamView {
	v := streamView{Namespace: a.NS, Path: a.Path, StreamInfo: info}
	if info.TTL > 0 {
		v.TTL = info.TTL.String()
	}
	return v
}

// Run creates the stream. An identical stream is confirmed with exit status 0. Code Conflict if a
// different one exists; NotFound if the source of a fork is missing.
func (c *streamCreateCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := c.api(s)
	if err != nil {
		return err
	}
	spec, err := c.spec(s.Stdin)
	if err != nil {
		return err
	}
	info, created, err := api.CreateStream(ctx, c.NS, c.Path, spec)
	if err != nil {
		return err
	}
	return s.Show(c.view(info), func() error {
		if !created {
			return s.Say("Stream %s of %s already exists; it ends at %s.", c.Path, info.ContentType, info.Next)
		}
		return s.Say("Created stream %s of %s; it ends at %s.", c.Path, info.ContentType, info.Next)
	})
}

// streamAppendCmd appends to a stream. Seq is compared as text with that of the previous append.
// Number counts the appends of a producer in an epoch; a retry has the number of the first try.
type streamAppendCmd struct {
	streamArg

	Data string `arg:"" help:"Data to append; @FILE reads a file, - reads stdin. For JSON a value, or an array of values."`

	ContentType string `help:"Content type; default: the stream's content type, requested from the server." placeholder:"TYPE"`
	Close       bool   `help:"Close the stream after this append."`
	Seq         string `help:"Sequence string; must sort after that of the previous append." placeholder:"TEXT"`
	Producer    string `help:"Make retries idempotent: producer ID; requires --epoch and --number." placeholder:"ID"`
	Epoch       int64  `help:"Producer epoch: 0, incremented after each restart that lost the number." default:"0" placeholder:"N"`
	Number      int64  `help:"Sequence number of the append within the epoch, from 0." default:"0" placeholder:"N"`
}

// Run appends the data. Without --producer a lost response is not retried, because the append may
// have been stored. Codes Conflict if the stream is closed or has another content type, or an
// earlier append of the producer is missing; Forbidden for an old epoch.
func (c *streamAppendCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := c.api(s)
	if err != nil {
		return err
	}
	if c.Producer == "" && (c.Epoch != 0 || c.Number != 0) {
		return terminal.Usagef("--epoch and --number require --producer")
	}
	data, err := dataOf(c.Data, s.Stdin)
	if err != nil {
		return err
	}
	wish := client.StreamAppend{Data: data, Close: c.Close, Seq: c.Seq}
	if wish.ContentType, err = c.contentType(ctx, api, data); err != nil {
		return c.missing(err)
	}
	if c.Producer != "" {
		wish.Producer = &client.StreamProducer{ID: c.Producer, Epoch: c.Epoch, Seq: c.Number}
	}
	done, err := api.AppendStream(ctx, c.NS, c.Path, wish)
	if err != nil {
		return c.missing(err)
	}
	return s.Show(done, func() error {
		switch {
		case done.Duplicate:
			return s.Say("Already appended; %s ends at %s.", c.Path, done.Next)
		case done.Closed:
			return s.Say("Appended to %s and closed it; it ends at %s.", c.Path, done.Next)
		}
		return s.Say("Appended to %s; it ends at %s.", c.Path, done.Next)
	})
}

// contentType returns the content type of the stream. If the caller may only write, it derives the
// content type from the data.
func (c *streamAppendCmd) contentType(ctx context.Context, api *client.Client, data []byte) (string, error) {
	if c.ContentType != "" {
		return c.ContentType, nil
	}
	info, err := api.Stream(ctx, c.NS, c.Path)
	switch {
	case err == nil || sluice.CodeOf(err) != sluice.Forbidden:
		return info.ContentType, err
	case json.Valid(data):
		return "application/json", nil
	case utf8.Valid(data):
		return "text/plain", nil
	}
	return "application/octet-stream", nil
}

type streamReadCmd struct {
	streamArg

	Offset string `help:"Start offset (exclusive); -1 is the start, now the end." default:"-1" placeholder:"OFFSET"`
	Follow bool   `short:"f" help:"Follow new content until the stream is closed."`
}

// Run prints the stream. Without --follow it ends at the end of the stream at that time. Messages
// are one a line; bytes are written unchanged, without line breaks between pages, so that a
// redirected file has the content.
func (c *streamReadCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := c.api(s)
	if err != nil {
		return err
	}
	pages := api.FollowStream(ctx, c.NS, c.Path, c.Offset)
	if !c.Follow {
		pages = c.toTheEnd(ctx, api)
	}
	for page, err := range pages {
		if err != nil && c.Follow && ctx.Err() != nil {
			return nil // the reader of stdout has closed it
		}
		if err == nil {
			err = printPage(s, page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// toTheEnd yields the pages up to the current end of the stream. It ends after an error.
func (c *streamReadCmd) toTheEnd(ctx context.Context, api *client.Client) iter.Seq2[client.StreamPage, error] {
	return func(yield func(client.StreamPage, error) bool) {
		page := client.StreamPage{Next: c.Offset}
		for !page.UpToDate {
			var err error
			if page, err = api.ReadStream(ctx, c.NS, c.Path, page.Next); !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// pageView is a part of a stream in JSON output, which has one per line.
type pageView struct {
	ContentType string            `json:"content_type,omitempty"`
	Messages    []json.RawMessage `json:"messages,omitempty"`    // if it is JSON
	Text        string            `json:"data_text,omitempty"`   // if it is other text
	Base64      []byte            `json:"data_base64,omitempty"` // if it is neither
	Next        string            `json:"next_offset"`
	UpToDate    bool              `json:"up_to_date"`
	Closed      bool              `json:"closed"`
}

// printPage prints a part of a stream: for people, its bytes unchanged, or its messages, one per
// line. On a terminal it removes control characters, line by line.
func printPage(s *terminal.Session, page client.StreamPage) error {
	out, err := written(page, s.IsJSON())
	if err == nil && s.Watched && !s.IsJSON() && !page.IsJSON() {
		out = []byte(terminal.HarmlessLines(string(out)))
	}
	return s.PrintText(out, err)
}

// written returns a page for programs as one line of JSON, and for people as its content.
func written(page client.StreamPage, forPrograms bool) ([]byte, error) {
	var messages []json.RawMessage
	if page.IsJSON() {
		var err error
		if messages, err = page.Messages(); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	switch {
	case forPrograms:
		return terminal.EncodeJSON(pageViewOf(page, messages), "")
	case !page.IsJSON():
		return page.Data, nil
	}
	for _, m := range messages {
		if err := json.Compact(&out, m); err != nil {
			return nil, err
		}
		out.WriteByte('\n')
	}
	return terminal.EscapedJSON(out.Bytes()), nil
}

// pageViewOf returns a page in the form for programs; text that is not UTF-8 is base64.
func pageViewOf(page client.StreamPage, messages []json.RawMessage) pageView {
	v := pageView{ContentType: page.ContentType, Messages: messages, Next: page.Next, UpToDate: page.UpToDate, Closed: page.Closed}
	switch {
	case page.IsJSON():
	case utf8.Valid(page.Data):
		v.Text = string(page.Data)
	default:
		v.Base64 = page.Data
	}
	return v
}

type streamInfoCmd struct{ streamArg }

// Run shows the stream.
func (c *streamInfoCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := c.api(s)
	if err != nil {
		return err
	}
	info, err := api.Stream(ctx, c.NS, c.Path)
	if err != nil {
		return err
	}
	v := c.view(info)
	return s.Show(v, func() error {
		expires := ""
		if !info.ExpiresAt.IsZero() {
			expires = terminal.FormatTime(info.ExpiresAt)
		}
		return s.Facts("path", string(c.Path), "namespace", c.NS, "content type", info.ContentType, "ends at", info.Next,
			"closed", strconv.FormatBool(info.Closed), "ttl", v.TTL, "expires", expires)
	})
}

type streamCloseCmd struct{ streamArg }

// Run closes the stream. It is permanent and does not ask, because no content is lost. Closing a
// closed stream succeeds.
func (c *streamCloseCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := c.api(s)
	if err != nil {
		return err
	}
	done, err := api.CloseStream(ctx, c.NS, c.Path)
	if err != nil {
		return err
	}
	return s.Show(done, func() error { return s.Say("Closed stream %s; it ends at %s.", c.Path, done.Next) })
}

type streamRmCmd struct {
	terminal.Confirmation

	Paths []sluice.Path `arg:"" name:"path" help:"Paths of the streams."`

	NS string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
}

func texts(paths []sluice.Path) []string {
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = string(path)
	}
	return all
}

// Run deletes the streams. It asks once for all, or requires --yes. Code NotFound for a missing
// stream ends it; earlier ones stay deleted.
func (c *streamRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	if err := c.Confirm(s, terminal.Question("Delete %s permanently? Readers lose access; the events stay in the log.", strings.Join(texts(c.Paths), ", "))); err != nil {
		return err
	}
	for _, path := range c.Paths {
		stream := streamArg{Path: path, NS: c.NS}
		api, err := stream.api(s)
		if err != nil {
			return err
		}
		if err := api.DeleteStream(ctx, c.NS, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := cmdkit.Done(s, "Deleted stream %s.", string(path)); err != nil {
			return err
		}
	}
	return nil
}
