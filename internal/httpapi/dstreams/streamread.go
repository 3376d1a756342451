package dstreams

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// reading is a request for a part of a stream.
type reading struct {
	ReadQuery

	key  durable.Key
	from durable.Place
	show durable.Show
}

// getStream answers GET of a stream: the content after the offset, with the next offset in a
// header. Without live it answers at once, also with an empty page at the end, and If-None-Match
// can give 304. live=long-poll answers 204 if nothing came in time; live=sse streams for
// EventStreamLife. Codes NotFound, also for a hidden stream; StreamGone; InvalidRequest.
func (s *Handler) getStream(c echo.Context) error {
	r, err := s.reading(c)
	if err != nil {
		return err
	}
	switch r.Live {
	case LongPoll:
		return s.longPoll(c, r)
	case EventStream:
		return s.sendStream(c, r)
	}
	page, err := s.opts.Engine.Read(c.Request().Context(), r.key, r.from, r.show)
	if err != nil {
		return err
	}
	SetPage(c, page, durable.FormatOffset(page.Next))
	body := durable.Join(page.Messages, page.ContentType)
	if r.from.Now {
		return c.Blob(http.StatusOK, page.ContentType, body)
	}
	tag := pageTag(page, body)
	h := c.Response().Header()
	h.Set("ETag", tag)
	h.Set(echo.HeaderCacheControl, caching(c, page))
	if matches(c.Request().Header.Get("If-None-Match"), tag) {
		return c.NoContent(http.StatusNotModified)
	}
	return c.Blob(http.StatusOK, page.ContentType, body)
}

// reading parses a read. A stream whose events are all hidden looks missing to a caller that may
// not write to it.
func (s *Handler) reading(c echo.Context) (reading, error) {
	key, err := streamKey(c)
	if err != nil {
		return reading{}, err
	}
	r := reading{key: key, from: durable.Place{Conceal: s.onlyReads(c, key.Path)}, show: s.showing(c)}
	if r.ReadQuery, err = Query(c); err != nil {
		return r, err
	}
	switch r.Offset {
	case durable.FromBeginning:
	case durable.FromNow:
		r.from.Now = true
	default:
		r.from.After, err = durable.ParseOffset(r.Offset)
	}
	return r, err
}

// pageTag returns the ETag of a page: the stream, the range of the page, a digest of the body,
// whether the stream ends there, and which part of the range is lost. The range alone does not
// identify the body: events are erased, callers see different ones, and a new log numbers its own
// from 1 again.
func pageTag(page durable.Page, body []byte) string {
	sum := sha256.Sum256(body)
	tag := fmt.Sprintf("%s:%d:%d:%x", page.ID, page.From, page.Next, sum[:12])
	if page.Ended() {
		tag += ":c"
	}
	if len(page.Gaps) > 0 {
		tag += ":" + httpkit.Ranges(page.Gaps)
	}
	return strconv.Quote(tag)
}

// matches reports whether an If-None-Match has the tag, or "*". Weak tags count.
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

// longPoll waits up to Options.LongPoll. The end of the caller's grant ends it with
// Unauthenticated, and access is checked again after the wait.
func (s *Handler) longPoll(c echo.Context, r reading) error {
	ctx, cancel := s.needs.UntilEnd(c.Request().Context())
	defer cancel()
	ctx, end := context.WithTimeout(ctx, s.opts.LongPoll)
	defer end()
	page, err := s.opts.Engine.Await(ctx, r.key, r.from, r.show)
	if lost := authz.Lost(ctx); lost != nil {
		return lost
	}
	if err == nil {
		err = s.requireStream(c, sluice.VerbRead, r.key.Path) // without access, which may have ended during the wait, the stream's end stays hidden
	}
	if err != nil {
		return err
	}
	SetPage(c, page, durable.FormatOffset(page.Next))
	if !page.Ended() {
		SetCursor(c, r.Cursor)
	}
	if len(page.Messages) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	body := durable.Join(page.Messages, page.ContentType)
	c.Response().Header().Set("ETag", pageTag(page, body))
	return c.Blob(http.StatusOK, page.ContentType, body)
}

// sendStream streams new content as server-sent events. An error before the first page is an
// ordinary response; later ones end the connection and are logged. The reader continues at the
// offset of the last control event.
func (s *Handler) sendStream(c echo.Context, r reading) error {
	ctx, cancel := s.needs.UntilEnd(c.Request().Context())
	defer cancel()
	ctx, end := context.WithTimeout(ctx, EventStreamLife)
	defer end()
	follower := s.opts.Engine.Follow(r.key, r.from, r.show)
	defer follower.Close()
	page, err := follower.Read(ctx)
	if err != nil {
		return err
	}
	BeginEvents(c, page.ContentType)
	for {
		r.Cursor, err = SendPage(c, page, durable.FormatOffset(page.Next), r.Cursor)
		if err != nil || page.Ended() {
			return Gone(c, err)
		}
		page, err = nextPage(ctx, follower, page)
		if err == nil {
			err = s.requireStream(c, sluice.VerbRead, r.key.Path) // as for a long poll
		}
		if err != nil || ctx.Err() != nil {
			return Gone(c, err)
		}
	}
}

// nextPage returns the page after another one, as soon as it has content.
func nextPage(ctx context.Context, follower *durable.Follower, before durable.Page) (durable.Page, error) {
	if before.UpToDate {
		return follower.Next(ctx)
	}
	return follower.Read(ctx)
}
