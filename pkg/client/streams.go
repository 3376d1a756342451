package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const streams = "/streams"

// Where a reader of a stream begins, besides at an offset that an answer gave.
const (
	FromBeginning = "-1"
	FromNow       = "now" // behind what there is
)

// StreamSpec is what a stream shall be; everything is optional.
type StreamSpec struct {
	ContentType string        // application/octet-stream; of application/json it is a stream of messages
	Body        []byte        // what it begins with; of JSON a value, or an array of values
	TTL         time.Duration // it ends when it was neither read nor written for so long; whole seconds
	ExpiresAt   time.Time     // when it ends
	Closed      bool          // nothing can be appended
	Fork        *StreamFork   // nil: it is none
}

// StreamFork says what a new stream has of another one of its namespace.
type StreamFork struct {
	From   sluice.Path
	Offset string // up to where; its end if empty
	Sub    int64  // so many bytes of the next message, or messages of JSON, more
}

// StreamInfo is what a stream is and where it ends.
type StreamInfo struct {
	ContentType string        `json:"content_type"`
	Next        string        `json:"next_offset"` // offset behind everything
	Closed      bool          `json:"closed"`
	TTL         time.Duration `json:"-"`                   // 0: none
	ExpiresAt   time.Time     `json:"expires_at,omitzero"` // zero: never
}

// CreateStream makes a stream of a path, and says whether there was none. Code Conflict if there is another one
// than is wanted; NotFound if the source of a fork does not exist.
func (c *Client) CreateStream(ctx context.Context, namespace string, path sluice.Path, spec StreamSpec) (StreamInfo, bool, error) {
	header := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			header[name] = value
		}
	}
	set("Content-Type", spec.ContentType)
	if spec.TTL != 0 {
		set("Stream-TTL", strconv.FormatInt(int64(spec.TTL/time.Second), 10))
	}
	if !spec.ExpiresAt.IsZero() {
		set("Stream-Expires-At", spec.ExpiresAt.UTC().Format(time.RFC3339Nano))
	}
	if spec.Closed {
		set("Stream-Closed", "true")
	}
	if f := spec.Fork; f != nil {
		set("Stream-Forked-From", string(f.From))
		set("Stream-Fork-Offset", f.Offset)
		if f.Sub != 0 {
			set("Stream-Fork-Sub-Offset", strconv.FormatInt(f.Sub, 10))
		}
	}
	got, err := c.do(ctx, call{
		method: http.MethodPut, path: streamPath(namespace, path), header: header, media: octets, body: spec.Body,
	}, nil)
	if err != nil {
		return StreamInfo{}, false, err
	}
	return infoOf(got.header), got.status == http.StatusCreated, nil
}

// octets is the content type of what has none.
const octets = "application/octet-stream"

// streamPath returns the path of a stream's URL.
func streamPath(namespace string, path sluice.Path) string {
	return join(join(streams, namespace), strings.Split(strings.TrimPrefix(string(path), "/"), "/")...)
}

// infoOf reads what an answer's headers say of a stream. What is not there is left out.
func infoOf(h http.Header) StreamInfo {
	info := StreamInfo{ContentType: h.Get("Content-Type"), Next: h.Get(nextOffset), Closed: isTrue(h, streamClosed)}
	if ttl, err := strconv.ParseInt(h.Get("Stream-TTL"), 10, 32); err == nil {
		info.TTL = time.Duration(ttl) * time.Second
	}
	if at, err := time.Parse(time.RFC3339, h.Get("Stream-Expires-At")); err == nil {
		info.ExpiresAt = at
	}
	return info
}

const (
	nextOffset   = "Stream-Next-Offset"
	streamClosed = "Stream-Closed"
)

func isTrue(h http.Header, name string) bool { return strings.EqualFold(h.Get(name), "true") }

// Stream returns what a stream is and where it ends. Codes NotFound; StreamGone if it was deleted and others
// were forked from it.
func (c *Client) Stream(ctx context.Context, namespace string, path sluice.Path) (StreamInfo, error) {
	got, err := c.do(ctx, call{method: http.MethodHead, path: streamPath(namespace, path)}, nil)
	if err != nil {
		return StreamInfo{}, wordless(err, got.header, path)
	}
	return infoOf(got.header), nil
}

// wordless says in words what an answer without a body means.
func wordless(err error, h http.Header, path sluice.Path) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || h == nil {
		return err
	}
	switch e.Code { //nolint:exhaustive // of the others the status says enough
	case sluice.NotFound:
		e.Message = fmt.Sprintf("there is no stream %q", path)
	case sluice.StreamGone:
		e.Message = fmt.Sprintf("the stream %q was deleted; others were forked from it", path)
	}
	if id := h.Get("X-Request-Id"); id != "" {
		return e.With("request_id", id)
	}
	return e
}

// StreamAppend is what is appended to a stream.
type StreamAppend struct {
	ContentType string // that of the stream; application/octet-stream if empty
	Data        []byte // of JSON a value, or an array of values
	Close       bool   // nothing comes behind it
	Seq         string // if not empty, it has to be larger, as a text, than that of the append before
	Producer    *StreamProducer
}

// StreamProducer makes an append count once, however often it is sent.
type StreamProducer struct {
	ID    string
	Epoch int64 // its how manieth life; a later one ends those before it
	Seq   int64 // the how manieth append in it, from 0
}

// StreamAppended is what became of an append.
type StreamAppended struct {
	Next      string `json:"next_offset"` // offset behind it
	Closed    bool   `json:"closed"`
	Duplicate bool   `json:"duplicate"` // the producer had sent it before, so nothing was stored
}

// AppendStream appends to a stream, and returns when JetStream has stored it. Only what has a producer is repeated
// if there is no answer. Codes NotFound; StreamGone; Conflict if the stream is closed (details "closed" and "next_offset"), of another
// content type, or an append is missing before this one (detail "expected_seq"); Forbidden if a later life
// of the producer has written (detail "epoch").
func (c *Client) AppendStream(ctx context.Context, namespace string, path sluice.Path, a StreamAppend) (StreamAppended, error) {
	header := map[string]string{}
	if a.ContentType != "" {
		header["Content-Type"] = a.ContentType
	}
	if a.Close {
		header[streamClosed] = "true"
	}
	if a.Seq != "" {
		header["Stream-Seq"] = a.Seq
	}
	if p := a.Producer; p != nil {
		header["Producer-Id"] = p.ID
		header["Producer-Epoch"], header["Producer-Seq"] = strconv.FormatInt(p.Epoch, 10), strconv.FormatInt(p.Seq, 10)
	}
	got, err := c.do(ctx, call{
		method: http.MethodPost, path: streamPath(namespace, path), header: header, media: octets, body: a.Data,
		once: a.Producer == nil && (len(a.Data) > 0 || !a.Close),
	}, nil)
	if err != nil {
		return StreamAppended{}, refusedAppend(err, got.header)
	}
	return StreamAppended{
		Next: got.header.Get(nextOffset), Closed: isTrue(got.header, streamClosed),
		Duplicate: a.Producer != nil && len(a.Data) > 0 && got.status == http.StatusNoContent,
	}, nil
}

// refusedAppend adds to an error what the headers of the answer say about it.
func refusedAppend(err error, h http.Header) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		return err
	}
	for name, detail := range map[string]string{nextOffset: "next_offset", "Producer-Epoch": "epoch", "Producer-Expected-Seq": "expected_seq"} {
		if text := h.Get(name); text != "" {
			e = e.With(detail, text)
		}
	}
	if isTrue(h, streamClosed) {
		e = e.With("closed", true)
	}
	return e
}

// CloseStream ends appending to a stream. What is closed stays so.
func (c *Client) CloseStream(ctx context.Context, namespace string, path sluice.Path) (StreamAppended, error) {
	return c.AppendStream(ctx, namespace, path, StreamAppend{Close: true})
}

// DeleteStream ends a stream; its events stay in the namespace's log. Code NotFound if there is none, which is
// also the answer to a repeated call.
func (c *Client) DeleteStream(ctx context.Context, namespace string, path sluice.Path) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: streamPath(namespace, path)}, nil)
	return err
}

// StreamPage is a part of a stream as it was read.
type StreamPage struct {
	ContentType string
	Data        []byte // bytes one after another; of JSON, an array of the messages
	Next        string // offset to go on from
	UpToDate    bool   // there was nothing behind it
	Closed      bool   // and nothing will come

	cursor string
}

// IsJSON says whether the page is of a stream of JSON. An empty one may not say.
func (p StreamPage) IsJSON() bool {
	media, _, err := mime.ParseMediaType(p.ContentType)
	return err == nil && media == "application/json"
}

// Messages returns what a page of a stream of JSON has, nothing if it is empty.
func (p StreamPage) Messages() (all []json.RawMessage, err error) {
	if len(p.Data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(p.Data, &all); err != nil {
		return nil, fmt.Errorf("a page of %s is no JSON array: %w", p.ContentType, err)
	}
	return all, nil
}

// ReadStream returns what a stream has behind an offset ("": from its beginning), at most a few megabytes: go on
// at the page's Next until it is up to date. Codes NotFound; StreamGone.
func (c *Client) ReadStream(ctx context.Context, namespace string, path sluice.Path, offset string) (StreamPage, error) {
	return c.readStream(ctx, streamPath(namespace, path), params("offset", offset))
}

func (c *Client) readStream(ctx context.Context, path string, query url.Values) (StreamPage, error) {
	got, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query}, nil)
	if err != nil {
		return StreamPage{}, err
	}
	return StreamPage{
		ContentType: got.header.Get("Content-Type"), Data: got.body, Next: got.header.Get(nextOffset),
		UpToDate: isTrue(got.header, "Stream-Up-To-Date"), Closed: isTrue(got.header, streamClosed), cursor: got.header.Get("Stream-Cursor"),
	}, nil
}

// FollowStream yields what a stream has behind an offset ("": from its beginning), and then what comes, by
// long-polls, until the stream has been read to its end and is closed; the last page may be empty. Whoever goes on
// later does so at the Next of the page before. A server that is gone is asked again for some seconds; any other error,
// such as that of ctx when it ends, is yielded and is the last.
func (c *Client) FollowStream(ctx context.Context, namespace string, path sluice.Path, offset string) iter.Seq2[StreamPage, error] {
	return func(yield func(StreamPage, error) bool) {
		at := StreamPage{Next: offset}
		if offset == "" {
			at.Next = FromBeginning
		}
		for !at.Closed {
			page, err := c.nextOf(ctx, streamPath(namespace, path), at)
			if err != nil {
				yield(StreamPage{}, err)
				return
			}
			if (len(page.Data) > 0 || page.Closed) && !yield(page, nil) {
				return
			}
			at = page
		}
	}
}

// nextOf returns what comes behind a page, which is nothing if that takes longer than the server waits. Where now
// is is asked without waiting, so that nothing is missed if there is no answer.
func (c *Client) nextOf(ctx context.Context, path string, at StreamPage) (page StreamPage, err error) {
	query := params("offset", at.Next, "live", "long-poll", "cursor", at.cursor)
	if at.Next == FromNow {
		query.Del("live")
	}
	read := func() error {
		page, err = c.readStream(ctx, path, query)
		if err != nil && (ctx.Err() != nil || sluice.CodeOf(err) != sluice.Unavailable) {
			return backoff.Permanent(err)
		}
		return err
	}
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2))
	err = backoff.Retry(read, backoff.WithContext(backoff.WithMaxRetries(wait, c.Retries), ctx))
	if at.Next == FromNow {
		page.Data = nil // of JSON it is an empty array
	}
	return page, err
}
