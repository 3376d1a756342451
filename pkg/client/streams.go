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

// Start positions of a stream reader, in addition to the offsets in responses.
const (
	FromBeginning = "-1"
	FromNow       = "now" // the current end of the stream
)

// StreamSpec describes a stream to create; all fields are optional.
type StreamSpec struct {
	// Default application/octet-stream; application/json makes a stream of messages.
	ContentType string
	Body        []byte        // initial content; for JSON a value, or an array of values
	TTL         time.Duration // lifetime, in whole seconds, extended by each read and write
	ExpiresAt   time.Time     // expiry time
	Closed      bool          // the stream accepts no appends
	Fork        *StreamFork   // nil: not a fork
}

// StreamFork describes the source of a forked stream, in the same namespace.
type StreamFork struct {
	From   sluice.Path
	Offset string // end of the shared content; default: the end of the source
	Sub    int64  // number of bytes of the next message, or of further JSON messages, to include
}

// StreamInfo is the metadata of a stream.
type StreamInfo struct {
	ContentType string        `json:"content_type"`
	Next        string        `json:"next_offset"` // offset of the end
	Closed      bool          `json:"closed"`
	TTL         time.Duration `json:"-"`                   // 0: none
	ExpiresAt   time.Time     `json:"expires_at,omitzero"` // zero: never
}

// CreateStream creates a stream on a path and reports whether it is new. Code Conflict if a
// different stream exists; NotFound if the source of a fork does not exist.
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

// octets is the default content type.
const octets = "application/octet-stream"

// streamPath returns the path of a stream's URL.
func streamPath(namespace string, path sluice.Path) string {
	return join(join(streams, namespace), strings.Split(strings.TrimPrefix(string(path), "/"), "/")...)
}

// infoOf reads the stream metadata in the headers of a response. Missing headers leave fields
// empty.
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

// Stream returns the metadata of a stream. Codes NotFound; StreamGone if it was deleted and still
// has forks.
func (c *Client) Stream(ctx context.Context, namespace string, path sluice.Path) (StreamInfo, error) {
	got, err := c.do(ctx, call{method: http.MethodHead, path: streamPath(namespace, path)}, nil)
	if err != nil {
		return StreamInfo{}, wordless(err, got.header, path)
	}
	return infoOf(got.header), nil
}

// wordless returns the error message for a response without a body.
func wordless(err error, h http.Header, path sluice.Path) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || h == nil {
		return err
	}
	switch e.Code { //nolint:exhaustive // of the others the status says enough
	case sluice.NotFound:
		e.Message = fmt.Sprintf("stream %q not found", path)
	case sluice.StreamGone:
		e.Message = fmt.Sprintf("the stream %q was deleted; it is kept for its forks", path)
	}
	if id := h.Get("X-Request-Id"); id != "" {
		return e.With("request_id", id)
	}
	return e
}

// StreamAppend describes an append to a stream.
type StreamAppend struct {
	ContentType string // content type of the stream; default application/octet-stream
	Data        []byte // for JSON a value, or an array of values
	Close       bool   // close the stream after this append
	Seq         string // if set, must sort after that of the previous append, as a string
	Producer    *StreamProducer
}

// StreamProducer makes retries of an append idempotent.
type StreamProducer struct {
	ID string
	// Producer epoch; increment it when the producer restarts; a higher epoch fences lower ones.
	Epoch int64
	Seq   int64 // sequence number of the append within the epoch, from 0
}

// StreamAppended is the result of an append.
type StreamAppended struct {
	Next      string `json:"next_offset"` // offset after the append
	Closed    bool   `json:"closed"`
	Duplicate bool   `json:"duplicate"` // the producer sent this append before; nothing was stored
}

// AppendStream appends to a stream and returns when JetStream has stored it. Without a response,
// only an append with a producer is retried. Codes NotFound; StreamGone; Conflict if the stream is
// closed (details "closed" and "next_offset"), has another content type, or an earlier append is
// missing (detail "expected_seq"); Forbidden if a higher epoch of the producer has written (detail
// "epoch").
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

// refusedAppend adds the information in the response headers to an error.
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

// CloseStream closes a stream to appends, permanently.
func (c *Client) CloseStream(ctx context.Context, namespace string, path sluice.Path) (StreamAppended, error) {
	return c.AppendStream(ctx, namespace, path, StreamAppend{Close: true})
}

// DeleteStream deletes a stream; its events stay in the namespace's log. Code NotFound if it does
// not exist, which is also the result of a repeated call.
func (c *Client) DeleteStream(ctx context.Context, namespace string, path sluice.Path) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: streamPath(namespace, path)}, nil)
	return err
}

// StreamPage is a part of a stream.
type StreamPage struct {
	ContentType string
	Data        []byte // concatenated bytes, or for JSON an array of the messages
	Next        string // offset to continue from
	UpToDate    bool   // the page reaches the end of the stream
	Closed      bool   // the page reaches the end of a closed stream

	cursor string
}

// IsJSON reports whether the page belongs to a JSON stream. An empty page may lack the information.
func (p StreamPage) IsJSON() bool {
	media, _, err := mime.ParseMediaType(p.ContentType)
	return err == nil && media == "application/json"
}

// Messages returns the messages of a page of a JSON stream; an empty page has none.
func (p StreamPage) Messages() (all []json.RawMessage, err error) {
	if len(p.Data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(p.Data, &all); err != nil {
		return nil, fmt.Errorf("a page of %s is not a JSON array: %w", p.ContentType, err)
	}
	return all, nil
}

// ReadStream returns the content of a stream after an offset ("" for the start), at most a few
// megabytes. Continue at the page's Next until it is up to date. Codes NotFound; StreamGone.
func (c *Client) ReadStream(ctx context.Context, namespace string, path sluice.Path, offset string) (StreamPage, error) {
	return c.readStream(ctx, streamPath(namespace, path), params("offset", offset))
}

// ReadMirrorStream is ReadStream for the entries of a mirror, which are messages of JSON. Code WindowExceeded
// if the offset is from before the mirror was begun anew, or restored from a backup.
func (c *Client) ReadMirrorStream(ctx context.Context, namespace, mirror, offset string) (StreamPage, error) {
	return c.readStream(ctx, join(namespaces, namespace, "items", "stream"), params("subscription", mirror, "offset", offset))
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

// FollowStream yields the content of a stream after an offset ("" for the start), and then new
// content, using long polls. It ends when a closed stream has been read to its end; the last page
// may be empty. To resume later, start at the Next of the last page. An unreachable server is
// retried for some seconds. Any other error, including that of ctx, is yielded as the last item.
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

// nextOf returns the page after a page, which is empty if no content arrives before the server's
// timeout. The position "now" is resolved without waiting, so that a lost response loses no
// content.
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
		page.Data = nil // for JSON it is an empty array
	}
	return page, err
}
