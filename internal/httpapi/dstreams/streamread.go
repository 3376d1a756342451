package dstreams

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Modes of live reads.
const (
	liveNot      = ""
	liveLongPoll = "long-poll"
	liveSSE      = "sse"
)

// reading is a request for a part of a stream.
type reading struct {
	key    durable.Key
	from   durable.Place
	live   string
	cursor string
	show   durable.Show
}

func (s *Handler) getStream(c echo.Context) error {
	r, err := s.reading(c)
	if err != nil {
		return err
	}
	switch r.live {
	case liveLongPoll:
		return s.longPoll(c, r)
	case liveSSE:
		return s.sendStream(c, r)
	}
	page, err := s.opts.Engine.Read(c.Request().Context(), r.key, r.from, r.show)
	if err != nil {
		return err
	}
	setPage(c, page)
	if r.from.Now {
		return c.Blob(http.StatusOK, page.ContentType, durable.Join(page.Messages, page.ContentType))
	}
	tag := pageTag(page)
	h := c.Response().Header()
	h.Set("ETag", tag)
	h.Set(echo.HeaderCacheControl, caching(c, page))
	if matches(c.Request().Header.Get("If-None-Match"), tag) {
		return c.NoContent(http.StatusNotModified)
	}
	return c.Blob(http.StatusOK, page.ContentType, durable.Join(page.Messages, page.ContentType))
}

func (s *Handler) reading(c echo.Context) (reading, error) {
	key, err := streamKey(c)
	if err != nil {
		return reading{}, err
	}
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return reading{}, sluice.Errorf(sluice.InvalidRequest, "the query has an invalid percent-encoding")
	}
	r := reading{key: key, from: durable.Place{Conceal: s.onlyReads(c, key.Path)}, live: query.Get("live"), cursor: query.Get("cursor"), show: s.showing(c)}
	offsets := query["offset"]
	switch {
	case r.live != liveNot && r.live != liveLongPoll && r.live != liveSSE:
		return r, sluice.Errorf(sluice.InvalidRequest, "live: write long-poll or sse")
	case len(offsets) > 1:
		return r, sluice.Errorf(sluice.InvalidRequest, "offset: send it once")
	case len(offsets) == 0 && r.live != liveNot:
		return r, sluice.Errorf(sluice.InvalidRequest, "offset: live reads require an offset: -1 for the start, now for the end")
	case len(offsets) == 0 || offsets[0] == durable.FromBeginning:
		return r, nil
	case offsets[0] == durable.FromNow:
		r.from.Now = true
		return r, nil
	}
	r.from.After, err = durable.ParseOffset(offsets[0])
	return r, err
}

// setPage sets the headers with the position of a page.
func setPage(c echo.Context, page durable.Page) {
	h := c.Response().Header()
	h.Set(headerNextOffset, durable.FormatOffset(page.Next))
	if page.UpToDate {
		h.Set(headerUpToDate, "true")
	}
	if page.Ended() {
		h.Set(headerClosed, "true")
	}
	httpkit.SetUnreadable(c, page.Gaps)
}

// pageTag returns the ETag of a page: the stream, its range, whether the stream ends there, and what
// of it is lost.
func pageTag(page durable.Page) string {
	tag := fmt.Sprintf("%s:%d:%d", page.ID, page.From, page.Next)
	if page.Ended() {
		tag += ":c"
	}
	if len(page.Gaps) > 0 {
		tag += ":" + httpkit.Ranges(page.Gaps)
	}
	return strconv.Quote(tag)
}

func matches(header, tag string) bool {
	for given := range strings.SplitSeq(header, ",") {
		if given = strings.TrimPrefix(strings.TrimSpace(given), "W/"); given == tag || given == "*" {
			return true
		}
	}
	return false
}

// caching returns the Cache-Control of a page. Public content may be cached for a minute; content
// that requires a token must be revalidated each time, because access may have ended.
func caching(c echo.Context, page durable.Page) string {
	if httpkit.Caller(c).Principal == sluice.Anonymous && !page.UpToDate {
		return "public, max-age=60, stale-while-revalidate=300"
	}
	return "private, no-cache"
}

func (s *Handler) longPoll(c echo.Context, r reading) error {
	ctx, cancel := s.needs.UntilStop(c.Request().Context())
	defer cancel()
	ctx, end := context.WithTimeout(ctx, s.opts.LongPoll)
	defer end()
	page, err := s.opts.Engine.Await(ctx, r.key, r.from, r.show)
	if err == nil {
		err = s.requireStream(c, sluice.VerbRead, r.key.Path) // access may have been lost during the wait; then the stream's end is not revealed
	}
	if err != nil {
		return err
	}
	setPage(c, page)
	if !page.Ended() {
		c.Response().Header().Set(headerCursor, durable.Cursor(r.cursor, time.Now()))
	}
	if len(page.Messages) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	c.Response().Header().Set("ETag", pageTag(page))
	return c.Blob(http.StatusOK, page.ContentType, durable.Join(page.Messages, page.ContentType))
}

// sseLife is the time after which a reader of server-sent events must reconnect.
const sseLife = 60 * time.Second

// sendStream streams new content as server-sent events.
func (s *Handler) sendStream(c echo.Context, r reading) error {
	ctx, cancel := s.needs.UntilStop(c.Request().Context())
	defer cancel()
	ctx, end := context.WithTimeout(ctx, sseLife)
	defer end()
	follower := s.opts.Engine.Follow(r.key, r.from, r.show)
	defer follower.Close()
	page, err := follower.Read(ctx)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set(echo.HeaderCacheControl, "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if !durable.IsText(page.ContentType) {
		h.Set(headerEncoding, "base64")
	}
	c.Response().WriteHeader(http.StatusOK)
	flush := http.NewResponseController(c.Response()).Flush
	for {
		if r.cursor, err = sendPage(c, page, r.cursor); err == nil {
			err = flush()
		}
		if err != nil || page.Ended() {
			return gone(c, err)
		}
		page, err = nextPage(ctx, follower, page)
		if err == nil {
			err = s.requireStream(c, sluice.VerbRead, r.key.Path) // as for a long poll
		}
		if err != nil || ctx.Err() != nil {
			return gone(c, err)
		}
	}
}

// nextPage returns the content after a page as soon as there is any.
func nextPage(ctx context.Context, follower *durable.Follower, before durable.Page) (durable.Page, error) {
	if before.UpToDate {
		return follower.Next(ctx)
	}
	return follower.Read(ctx)
}

// gone returns the reason for the end of an event stream, unless the client has disconnected; the
// response has begun and cannot carry it.
func gone(c echo.Context, err error) error {
	if c.Request().Context().Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// sendPage sends a page's messages as one event, followed by the resume position. It returns the
// next cursor.
func sendPage(c echo.Context, page durable.Page, cursor string) (string, error) {
	if len(page.Messages) > 0 {
		if _, err := c.Response().Write(page.Text(func() []byte { return dataEvent(page) })); err != nil {
			return cursor, err
		}
	}
	if !page.Ended() {
		cursor = durable.Cursor(cursor, time.Now())
	}
	_, err := c.Response().Write(controlEvent(page, cursor))
	return cursor, err
}

// controlEvent returns the event with the position behind a page.
func controlEvent(page durable.Page, cursor string) []byte {
	b := make([]byte, 0, 160)
	b = append(b, "event: control\ndata:{\"streamNextOffset\":\""...)
	b = append(b, durable.FormatOffset(page.Next)...)
	b = append(b, '"')
	if !page.Ended() {
		b = append(b, `,"streamCursor":"`...)
		b = append(b, cursor...)
		b = append(b, '"')
	}
	if page.UpToDate {
		b = append(b, `,"upToDate":true`...)
	}
	if page.Ended() {
		b = append(b, `,"streamClosed":true`...)
	}
	if len(page.Gaps) > 0 {
		b = append(b, `,"streamUnreadable":"`...)
		b = append(b, httpkit.Ranges(page.Gaps)...)
		b = append(b, '"')
	}
	return append(b, "}\n\n"...)
}

// dataEvent returns the event with a page's messages. Every line break in the text starts a new data line, so
// that no text can end the event. Readers remove one space after the colon.
func dataEvent(page durable.Page) []byte {
	text := string(durable.Join(page.Messages, page.ContentType))
	if !durable.IsText(page.ContentType) {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var b bytes.Buffer
	b.WriteString("event: data\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("data:")
		if strings.HasPrefix(line, " ") {
			b.WriteByte(' ')
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
