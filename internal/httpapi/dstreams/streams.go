package dstreams

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

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

	// headerIncarnation has the incarnation of the log that the stream is in. Offsets of another
	// incarnation are meaningless. The header is not part of the protocol.
	headerIncarnation = "Sluice-Incarnation"
)

// maxSafeInteger is the largest integer that every client represents exactly.
const maxSafeInteger = 1<<53 - 1

// CrossOrigin allows pages of other origins to use the streams. This is safe because a browser
// never adds a token by itself.
func CrossOrigin(h http.Header) {
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set(echo.HeaderAccessControlAllowOrigin, "*")
	h.Set(echo.HeaderAccessControlExposeHeaders, exposedHeaders)
}

// exposedHeaders are the response headers that pages of other origins may read.
const exposedHeaders = headerNextOffset + ", " + headerUpToDate + ", " + headerClosed + ", " + headerCursor + ", " + headerTTL + ", " + headerExpiresAt + ", " +
	headerEpoch + ", " + headerProducerSeq + ", " + headerExpectedSeq + ", " + headerReceivedSeq + ", " + headerEncoding + ", " + httpkit.HeaderUnreadable + ", " + headerIncarnation + ", ETag, " +
	echo.HeaderLocation + ", " + echo.HeaderContentType + ", " + echo.HeaderXRequestID + ", " + echo.HeaderRetryAfter

func (s *Handler) streamOptions(c echo.Context) error {
	httpkit.Preflight(c, "GET, HEAD, PUT, POST, DELETE, OPTIONS",
		echo.HeaderAuthorization, echo.HeaderContentType, "If-None-Match", headerClosed, headerTTL, headerExpiresAt, headerStreamSeq,
		headerForkedFrom, headerForkOffset, headerForkSub, headerProducer, headerEpoch, headerProducerSeq, echo.HeaderXRequestID, "Traceparent", "Tracestate")
	return c.NoContent(http.StatusNoContent)
}

// streamKey returns the request's stream.
func streamKey(c echo.Context) (durable.Key, error) {
	rest, err := httpkit.Param(c, "*")
	if err != nil {
		return durable.Key{}, err
	}
	path, err := sluice.ParsePath("/" + rest)
	return durable.Key{Namespace: c.Param("ns"), Path: path}, err
}

// showing returns the function that decides which events the caller may read.
func (s *Handler) showing(c echo.Context) durable.Show {
	return func(ev *sluice.Event) (bool, error) { return s.needs.Rights.Shows(c, sluice.VerbRead, ev) }
}

// putStream answers PUT of a stream: 201 for a new one, 200 for an equal one. The initial content
// needs the rights of publishing. Codes Conflict for a different stream; NotFound for a fork's
// source; those of publishing.
func (s *Handler) putStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	data, err := httpkit.Body(c)
	if err != nil {
		return err
	}
	wish := durable.Create{
		ContentType: contentType(c), Closed: closes(c), Body: data, Admit: s.needs.Admit(c, len(data)),
	}
	if wish.Lifetime, err = lifetime(c.Request().Header); err != nil {
		return err
	}
	if wish.Fork, err = s.forkWish(c); err != nil {
		return err
	}
	info, created, err := s.opts.Engine.Create(c.Request().Context(), key, wish)
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

// streamURL returns the URL of a stream in the form in which the request came: below the namespace,
// or below rootBase.
func (s *Handler) streamURL(c echo.Context, key durable.Key) string {
	path := streamsBase + key.Namespace + string(key.Path)
	if cameByRoot(c) {
		path = strings.TrimSuffix(rootBase, "/") + string(key.Path)
	}
	return s.baseURL() + (&url.URL{Path: path}).EscapedPath()
}

// baseURL returns the configured public URL. It is not taken from the request, because the sender
// controls the Host header; without it, URLs are relative references (RFC 3986, 4.2).
func (s *Handler) baseURL() string { return strings.TrimSuffix(s.opts.PublicURL, "/") }

// contentType returns the content type of a request, "" if absent or invalid.
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

// lifetime returns the zero Lifetime without a header: the stream does not expire. Code
// InvalidRequest.
func lifetime(h http.Header) (durable.Lifetime, error) {
	ttl, expires := h.Values(headerTTL), h.Values(headerExpiresAt)
	switch {
	case len(ttl) > 0 && len(expires) > 0:
		return durable.Lifetime{}, sluice.Errorf(sluice.InvalidRequest, "send either Stream-TTL or Stream-Expires-At")
	case len(ttl) > 0:
		d, err := durable.ParseTTL(ttl[0])
		return durable.Lifetime{TTL: &d}, err
	case len(expires) > 0:
		at, err := time.Parse(time.RFC3339, expires[0])
		if err != nil {
			return durable.Lifetime{}, sluice.Errorf(sluice.InvalidRequest, "Stream-Expires-At: write an RFC 3339 time such as 2030-01-31T12:00:00Z")
		}
		return durable.Lifetime{ExpiresAt: &at, Said: expires[0]}, nil
	}
	return durable.Lifetime{}, nil
}

// postStream answers POST of a stream: 204, or 200 for an accepted append of a producer. A
// duplicate of a producer's append is 204 and stores nothing; without a producer, a repetition
// appends again. Codes NotFound; StreamGone; Conflict for a closed stream, another content type or
// a sequence out of order; Forbidden for an old epoch; those of publishing.
func (s *Handler) postStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	data, err := httpkit.Body(c)
	if err != nil {
		return err
	}
	wish := durable.Append{ContentType: contentType(c), Body: data, Close: closes(c), Admit: s.needs.Admit(c, len(data))}
	if wish.Producer, err = claim(c.Request().Header); err != nil {
		return err
	}
	if seq := c.Request().Header.Values(headerStreamSeq); len(seq) > 0 {
		wish.Seq, wish.HasSeq = seq[0], true
	}
	done, err := s.opts.Engine.Append(c.Request().Context(), key, wish)
	setAppended(c, wish, done, err)
	if err != nil {
		return err
	}
	if done.Producer != nil && done.Verdict == durable.Accepted && len(data) > 0 {
		return c.NoContent(http.StatusOK)
	}
	return c.NoContent(http.StatusNoContent)
}

// setAppended sets the headers with the result of an append.
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

// claim returns the producer of a request, nil if none.
func claim(h http.Header) (*durable.Claim, error) {
	id, epoch, seq := h.Values(headerProducer), h.Values(headerEpoch), h.Values(headerProducerSeq)
	if len(id)+len(epoch)+len(seq) == 0 {
		return nil, nil //nolint:nilnil // the request has no producer
	}
	if len(id) != 1 || len(epoch) != 1 || len(seq) != 1 || id[0] == "" || len(id[0]) > sluice.MaxAttribute {
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

// deleteStream answers DELETE of a stream with 204. The events stay in the log. The wake consumers
// of the stream are removed before the response, also if the stream was deleted before (S1-122).
// Codes NotFound; StreamGone.
func (s *Handler) deleteStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	err = s.opts.Engine.Delete(c.Request().Context(), key)
	if err := s.needs.Deleted(c.Request().Context(), key.Namespace, key.Path, err); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// onlyReads reports whether the caller may not write to a path. A stream there is then hidden from
// the caller unless the caller may see one of its events.
func (s *Handler) onlyReads(c echo.Context, path sluice.Path) bool {
	return s.requireStream(c, sluice.VerbPublish, path) != nil
}

// mayKnow returns missing, the error for a missing stream, if the stream is hidden from the caller.
func (s *Handler) mayKnow(c echo.Context, key durable.Key, missing error) error {
	if !s.onlyReads(c, key.Path) {
		return nil
	}
	seen, err := s.opts.Engine.Visible(c.Request().Context(), key, s.showing(c))
	if err == nil && !seen {
		err = missing
	}
	return err
}

// headStream answers HEAD of a stream with headers only. It does not renew the lifetime.
func (s *Handler) headStream(c echo.Context) error {
	key, err := streamKey(c)
	if err != nil {
		return err
	}
	info, err := s.opts.Engine.Head(c.Request().Context(), key)
	if err == nil {
		err = s.mayKnow(c, key, durable.NotThere())
	}
	if err != nil {
		return err
	}
	setInfo(c, info)
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, info.ContentType)
	if s.opts.Incarnation != nil {
		id, err := s.opts.Incarnation(c.Request().Context(), key.Namespace)
		if err != nil {
			return err
		}
		h.Set(headerIncarnation, id)
	}
	if ttl := info.Lifetime.TTL; ttl != nil {
		h.Set(headerTTL, strconv.FormatInt(int64(*ttl/time.Second), 10))
	}
	if at := info.Lifetime.ExpiresAt; at != nil {
		h.Set(headerExpiresAt, info.Lifetime.Said)
	}
	return c.NoContent(http.StatusOK)
}

// setInfo sets the headers with the end of a stream.
func setInfo(c echo.Context, info durable.Info) {
	h := c.Response().Header()
	h.Set(headerNextOffset, durable.FormatOffset(info.Next))
	if info.Closed {
		h.Set(headerClosed, "true")
	}
}
