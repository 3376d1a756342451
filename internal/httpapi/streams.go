package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/access"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// streamsBase is below what every namespace has its streams: everything behind the namespace's name is a path.
const streamsBase = "/streams/"

// Headers of Durable Streams.
const (
	headerNextOffset  = "Stream-Next-Offset"
	headerUpToDate    = "Stream-Up-To-Date"
	headerClosed      = "Stream-Closed"
	headerCursor      = "Stream-Cursor"
	headerTTL         = "Stream-TTL"
	headerExpiresAt   = "Stream-Expires-At"
	headerStreamSeq   = "Stream-Seq"
	headerForkedFrom  = "Stream-Forked-From"
	headerForkOffset  = "Stream-Fork-Offset"
	headerForkSub     = "Stream-Fork-Sub-Offset"
	headerProducer    = "Producer-Id"
	headerEpoch       = "Producer-Epoch"
	headerProducerSeq = "Producer-Seq"
	headerExpectedSeq = "Producer-Expected-Seq"
	headerReceivedSeq = "Producer-Received-Seq"
	headerEncoding    = "Stream-SSE-Data-Encoding"
)

// maxSafeInteger is the last whole number that every client can tell from the next.
const maxSafeInteger = 1<<53 - 1

// Streams is how Durable Streams are served.
type Streams struct {
	Engine    *durable.Engine
	Anonymous []string      // namespaces whose streams need no token
	LongPoll  time.Duration // how long a reader waits for what comes next; 30 s
	MaxBody   int64         // bytes of an append; 10 MiB
	PublicURL string        // how others reach the API; empty: as the request did
}

func isStream(path string) bool { return strings.HasPrefix(path, streamsBase) }

// crossOrigin lets pages of other origins use the streams: they show a token that no browser adds by itself.
func crossOrigin(h http.Header) {
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set(echo.HeaderAccessControlAllowOrigin, "*")
	h.Set(echo.HeaderAccessControlExposeHeaders, strings.Join([]string{
		headerNextOffset, headerUpToDate, headerClosed, headerCursor, headerTTL, headerExpiresAt, headerEpoch, headerProducerSeq,
		headerExpectedSeq, headerReceivedSeq, headerEncoding, "ETag", echo.HeaderLocation, echo.HeaderContentType, echo.HeaderXRequestID, echo.HeaderRetryAfter,
	}, ", "))
}

func (s *Server) streamOptions(c echo.Context) error {
	h := c.Response().Header()
	h.Set(echo.HeaderAccessControlAllowMethods, "GET, HEAD, PUT, POST, DELETE, OPTIONS")
	h.Set(echo.HeaderAccessControlAllowHeaders, strings.ToLower(strings.Join([]string{
		echo.HeaderAuthorization, echo.HeaderContentType, "If-None-Match", headerClosed, headerTTL, headerExpiresAt, headerStreamSeq,
		headerForkedFrom, headerForkOffset, headerForkSub, headerProducer, headerEpoch, headerProducerSeq, echo.HeaderXRequestID, "Traceparent", "Tracestate",
	}, ", ")))
	h.Set(echo.HeaderAccessControlMaxAge, "86400")
	return c.NoContent(http.StatusNoContent)
}

// streamKey returns the stream that a request is about.
func streamKey(c echo.Context) (durable.Key, error) {
	rest, err := paramOf(c, "*")
	if err != nil {
		return durable.Key{}, err
	}
	path, err := sluice.ParsePath("/" + rest)
	return durable.Key{Namespace: c.Param("ns"), Path: path}, err
}

// streaming demands a verb for the path that is the stream's. To the server's own paths nobody writes.
func streaming(v sluice.Verb) demand {
	return func(s *Server, c echo.Context) error {
		key, err := streamKey(c)
		if err != nil {
			return err
		}
		if v != sluice.VerbRead && key.Path.Reserved() {
			return sluice.Errorf(sluice.Forbidden, "path %q: paths that start with /_sys or /$ are the server's own", key.Path)
		}
		return s.requireStream(c, v, key.Path)
	}
}

func (s *Server) requireStream(c echo.Context, v sluice.Verb, path sluice.Path) error {
	t := access.Target{Namespace: c.Param("ns"), Path: path}
	if caller(c).Principal == sluice.Anonymous {
		return s.opts.Access.RequireOfAnybody(v, t, time.Now())
	}
	return s.require(c, v, t)
}

// anonymous returns whether a request without a token may pass, because it is about the streams of a
// namespace that the operator opened to everybody.
func (s *Server) anonymous(c echo.Context) bool {
	return isStream(c.Path()) && c.Request().Header.Get(echo.HeaderAuthorization) == "" &&
		s.opts.Access != nil && slices.Contains(s.opts.Streams.Anonymous, c.Param("ns"))
}

// showing returns the gate of a reader.
func (s *Server) showing(c echo.Context) durable.Show {
	return func(ev *sluice.Event) (bool, error) {
		if s.opts.Access != nil && caller(c).Principal == sluice.Anonymous {
			return passes(s.opts.Access.ShowsAnybody(ev, time.Now()))
		}
		return s.shows(c, sluice.VerbRead, ev)
	}
}

// admitting returns what is asked about events before they are appended: as of those that are published.
func (s *Server) admitting(c echo.Context, size int) durable.Admit {
	ns := c.Param("ns")
	return func(ctx context.Context, events []sluice.Event) error {
		if s.opts.Quota != nil {
			if err := s.opts.Quota.Take(ns, len(events), size, time.Now()); err != nil {
				return err
			}
		}
		if err := inheritTrace(c.Request().Header, events); err != nil {
			return err
		}
		if err := s.catalogued(ns, events); err != nil {
			return err
		}
		stamp(events, producer(c))
		if s.opts.Causes == nil {
			return nil
		}
		return s.opts.Causes.CheckNew(ctx, ns, producer(c), events)
	}
}

func (s *Server) putStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	data, err := body(c)
	if err != nil {
		return err
	}
	wish := durable.Create{
		ContentType: contentType(c), Closed: closes(c), Body: data, Admit: s.admitting(c, len(data)),
	}
	if wish.Lifetime, err = lifetime(c.Request().Header); err != nil {
		return err
	}
	if wish.Fork, err = s.forkWish(c); err != nil {
		return err
	}
	info, created, err := s.opts.Streams.Engine.Create(c.Request().Context(), key, wish)
	if err != nil {
		return err
	}
	setInfo(c, info)
	c.Response().Header().Set(echo.HeaderContentType, info.ContentType)
	if !created {
		return c.NoContent(http.StatusOK)
	}
	c.Response().Header().Set(echo.HeaderLocation, s.streamURL(c, key))
	return c.NoContent(http.StatusCreated)
}

func (s *Server) streamURL(c echo.Context, key durable.Key) string {
	base := strings.TrimSuffix(s.opts.Streams.PublicURL, "/")
	if base == "" {
		base = "http://" + c.Request().Host
		if s.opts.TLS {
			base = "https://" + c.Request().Host
		}
	}
	return base + (&url.URL{Path: streamsBase + key.Namespace + string(key.Path)}).EscapedPath()
}

// contentType returns the content type of a request, "" if it has none that is one.
func contentType(c echo.Context) string {
	given := strings.TrimSpace(c.Request().Header.Get(echo.HeaderContentType))
	if durable.MediaType(given) == "" || strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return given
}

func closes(c echo.Context) bool {
	return strings.EqualFold(c.Request().Header.Get(headerClosed), "true")
}

func lifetime(h http.Header) (durable.Lifetime, error) {
	ttl, expires := h.Values(headerTTL), h.Values(headerExpiresAt)
	switch {
	case len(ttl) > 0 && len(expires) > 0:
		return durable.Lifetime{}, sluice.Errorf(sluice.InvalidRequest, "send Stream-TTL or Stream-Expires-At, not both")
	case len(ttl) > 0:
		d, err := durable.ParseTTL(ttl[0])
		return durable.Lifetime{TTL: &d}, err
	case len(expires) > 0:
		at, err := time.Parse(time.RFC3339, expires[0])
		if err != nil {
			return durable.Lifetime{}, sluice.Errorf(sluice.InvalidRequest, "Stream-Expires-At: write a time as RFC 3339 does, such as 2030-01-31T12:00:00Z")
		}
		return durable.Lifetime{ExpiresAt: &at, Said: expires[0]}, nil
	}
	return durable.Lifetime{}, nil
}

var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})$`)

// forkWish returns what a new stream is to be forked from, nil if from nothing. Whoever forks a stream has
// to be allowed to read it.
func (s *Server) forkWish(c echo.Context) (*durable.ForkWish, error) {
	h := c.Request().Header
	from, offset, sub := h.Get(headerForkedFrom), h.Get(headerForkOffset), h.Values(headerForkSub)
	if from == "" {
		if offset != "" || len(sub) > 0 {
			return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Offset and Stream-Fork-Sub-Offset go with Stream-Forked-From")
		}
		return nil, nil //nolint:nilnil // it is no fork
	}
	if inner, ok := strings.CutPrefix(from, streamsBase+c.Param("ns")+"/"); ok {
		from = "/" + inner
	}
	path, err := sluice.ParsePath(from)
	if err != nil {
		return nil, err
	}
	wish := &durable.ForkWish{From: path}
	if offset != "" {
		seq, err := durable.ParseOffset(offset)
		if err != nil {
			return nil, err
		}
		wish.Offset = &seq
	}
	if len(sub) > 0 {
		if !wholeNumber.MatchString(sub[0]) {
			return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Sub-Offset: write a whole number")
		}
		if wish.Sub, err = strconv.ParseInt(sub[0], 10, 64); err != nil {
			return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Sub-Offset: write a whole number")
		}
	}
	if wish.Sub > 0 && wish.Offset == nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Sub-Offset goes with Stream-Fork-Offset")
	}
	return wish, s.requireStream(c, sluice.VerbRead, path)
}

func (s *Server) postStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	data, err := body(c)
	if err != nil {
		return err
	}
	wish := durable.Append{ContentType: contentType(c), Body: data, Close: closes(c), Admit: s.admitting(c, len(data))}
	if wish.Producer, err = claim(c.Request().Header); err != nil {
		return err
	}
	if seq := c.Request().Header.Values(headerStreamSeq); len(seq) > 0 {
		wish.Seq, wish.HasSeq = seq[0], true
	}
	done, err := s.opts.Streams.Engine.Append(c.Request().Context(), key, wish)
	setAppended(c, wish, done, err)
	if err != nil {
		return err
	}
	if done.Producer != nil && done.Verdict == durable.Accepted && len(data) > 0 {
		return c.NoContent(http.StatusOK)
	}
	return c.NoContent(http.StatusNoContent)
}

// setAppended sets the headers that say what became of an append.
func setAppended(c echo.Context, wish durable.Append, done durable.Appended, err error) {
	h := c.Response().Header()
	if err == nil || done.Closed {
		h.Set(headerNextOffset, durable.FormatOffset(done.Next))
	}
	if done.Closed {
		h.Set(headerClosed, "true")
	}
	if done.Producer != nil {
		h.Set(headerEpoch, strconv.FormatInt(done.Producer.Epoch, 10))
		if err == nil {
			h.Set(headerProducerSeq, strconv.FormatInt(done.Producer.Seq, 10))
		}
	}
	if done.Verdict == durable.Gap && err != nil {
		h.Set(headerExpectedSeq, strconv.FormatInt(done.Expected, 10))
		h.Set(headerReceivedSeq, strconv.FormatInt(wish.Producer.Seq, 10))
	}
}

var digits = regexp.MustCompile(`^[0-9]{1,16}$`)

// claim returns what a request says of its producer, nil if nothing.
func claim(h http.Header) (*durable.Claim, error) {
	id, epoch, seq := h.Values(headerProducer), h.Values(headerEpoch), h.Values(headerProducerSeq)
	if len(id)+len(epoch)+len(seq) == 0 {
		return nil, nil //nolint:nilnil // it is no producer's
	}
	if len(id) != 1 || len(epoch) != 1 || len(seq) != 1 || id[0] == "" || len(id[0]) > maxAttribute {
		return nil, sluice.Errorf(sluice.InvalidRequest, "send Producer-Id, Producer-Epoch and Producer-Seq together, each once")
	}
	numbers := [2]int64{}
	for i, text := range []string{epoch[0], seq[0]} {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !digits.MatchString(text) || n > maxSafeInteger {
			return nil, sluice.Errorf(sluice.InvalidRequest, "Producer-Epoch and Producer-Seq: write whole numbers up to %d", maxSafeInteger)
		}
		numbers[i] = n
	}
	return &durable.Claim{ID: id[0], Epoch: numbers[0], Seq: numbers[1]}, nil
}

func (s *Server) deleteStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	if err := s.opts.Streams.Engine.Delete(c.Request().Context(), key); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) headStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	info, err := s.opts.Streams.Engine.Head(c.Request().Context(), key)
	if err != nil {
		return err
	}
	setInfo(c, info)
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, info.ContentType)
	if ttl := info.Lifetime.TTL; ttl != nil {
		h.Set(headerTTL, strconv.FormatInt(int64(*ttl/time.Second), 10))
	}
	if at := info.Lifetime.ExpiresAt; at != nil {
		h.Set(headerExpiresAt, info.Lifetime.Said)
	}
	return c.NoContent(http.StatusOK)
}

// setInfo sets the headers that say where a stream ends.
func setInfo(c echo.Context, info durable.Info) {
	h := c.Response().Header()
	h.Set(headerNextOffset, durable.FormatOffset(info.Next))
	if info.Closed {
		h.Set(headerClosed, "true")
	}
}

// How a reader wants what comes next.
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

func (s *Server) getStream(c echo.Context) error {
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
	page, err := s.opts.Streams.Engine.Read(c.Request().Context(), r.key, r.from, r.show)
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

func (s *Server) reading(c echo.Context) (reading, error) {
	key, err := streamKey(c)
	if err != nil {
		return reading{}, err
	}
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return reading{}, sluice.Errorf(sluice.InvalidRequest, "the query has a percent sign that encodes nothing")
	}
	r := reading{key: key, live: query.Get("live"), cursor: query.Get("cursor"), show: s.showing(c)}
	offsets := query["offset"]
	switch {
	case r.live != liveNot && r.live != liveLongPoll && r.live != liveSSE:
		return r, sluice.Errorf(sluice.InvalidRequest, "live: write long-poll or sse")
	case len(offsets) > 1:
		return r, sluice.Errorf(sluice.InvalidRequest, "offset: write it once")
	case len(offsets) == 0 && r.live != liveNot:
		return r, sluice.Errorf(sluice.InvalidRequest, "offset: whoever waits for what comes next has to say behind what; -1 is the beginning, now the end")
	case len(offsets) == 0 || offsets[0] == durable.FromBeginning:
		return r, nil
	case offsets[0] == durable.FromNow:
		r.from.Now = true
		return r, nil
	}
	r.from.After, err = durable.ParseOffset(offsets[0])
	return r, err
}

// setPage sets the headers that say how far a page reaches.
func setPage(c echo.Context, page durable.Page) {
	h := c.Response().Header()
	h.Set(headerNextOffset, durable.FormatOffset(page.Next))
	if page.UpToDate {
		h.Set(headerUpToDate, "true")
	}
	if page.Ended() {
		h.Set(headerClosed, "true")
	}
}

// pageTag names what a page says: the stream, from where to where, and whether that is its end.
func pageTag(page durable.Page) string {
	tag := fmt.Sprintf("%s:%d:%d", page.ID, page.From, page.Next)
	if page.Ended() {
		tag += ":c"
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

// caching says who may keep a page. What needs no token may be kept for a minute by everybody; what needs
// one is asked for again each time, because the right to see it may have ended.
func caching(c echo.Context, page durable.Page) string {
	if caller(c).Principal == sluice.Anonymous && !page.UpToDate {
		return "public, max-age=60, stale-while-revalidate=300"
	}
	return "private, no-cache"
}

func (s *Server) longPoll(c echo.Context, r reading) error {
	ctx, cancel := s.untilStop(c.Request().Context())
	defer cancel()
	ctx, end := context.WithTimeout(ctx, s.opts.Streams.LongPoll)
	defer end()
	page, err := s.opts.Streams.Engine.Await(ctx, r.key, r.from, r.show)
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

// sseLife is after what time a reader of server-sent events has to come again.
const sseLife = 60 * time.Second

// sendStream sends what comes as server-sent events.
func (s *Server) sendStream(c echo.Context, r reading) error {
	ctx, cancel := s.untilStop(c.Request().Context())
	defer cancel()
	ctx, end := context.WithTimeout(ctx, sseLife)
	defer end()
	engine := s.opts.Streams.Engine
	page, err := engine.Read(ctx, r.key, r.from, r.show)
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
		before := page.Next
		if page.UpToDate {
			page, err = engine.Await(ctx, r.key, durable.Place{After: before}, r.show)
		} else {
			page, err = engine.Read(ctx, r.key, durable.Place{After: before}, r.show)
		}
		if err != nil || ctx.Err() != nil {
			return gone(c, err)
		}
	}
}

// gone returns why a stream of events ends, unless it is because the client has gone: the answer has begun
// and can say nothing more.
func gone(c echo.Context, err error) error {
	if c.Request().Context().Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// sendPage sends a page's messages as one event, and behind it where to go on. It returns the cursor for the next.
func sendPage(c echo.Context, page durable.Page, cursor string) (string, error) {
	var b strings.Builder
	if len(page.Messages) > 0 {
		text := string(durable.Join(page.Messages, page.ContentType))
		if !durable.IsText(page.ContentType) {
			text = base64.StdEncoding.EncodeToString([]byte(text))
		}
		writeEvent(&b, "data", text)
	}
	control := `{"streamNextOffset":"` + durable.FormatOffset(page.Next) + `"`
	if !page.Ended() {
		cursor = durable.Cursor(cursor, time.Now())
		control += `,"streamCursor":"` + cursor + `"`
	}
	if page.UpToDate {
		control += `,"upToDate":true`
	}
	if page.Ended() {
		control += `,"streamClosed":true`
	}
	writeEvent(&b, "control", control+"}")
	_, err := c.Response().Write([]byte(b.String()))
	return cursor, err
}

// writeEvent writes a server-sent event. Whatever ends a line in the text begins a new one of the event's
// data, so that no text can end the event. A reader takes one space behind the colon away.
func writeEvent(b *strings.Builder, name, text string) {
	b.WriteString("event: " + name + "\n")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("data:")
		if strings.HasPrefix(line, " ") {
			b.WriteByte(' ')
		}
		b.WriteString(line + "\n")
	}
	b.WriteByte('\n')
}
