package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Answers stores the responses to requests with an Idempotency-Key for a day.
type Answers interface {
	// Get returns the stored response for a key, and its revision. Code NotFound.
	Get(ctx context.Context, key string) (model.KeptAnswer, uint64, error)
	// Put stores a response and returns its revision. Code Conflict unless the stored revision is
	// the given one; 0 means that none is stored.
	Put(ctx context.Context, key string, kept model.KeptAnswer, revision uint64) (uint64, error)
	// Delete removes the stored response for a key. Code Conflict unless the stored revision is the
	// given one.
	Delete(ctx context.Context, key string, revision uint64) error
}

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"

	maxIdempotencyKey = 255             // bytes
	maxKeptAnswer     = 256 << 10       // bytes of a response body
	keyedLimit        = 4 * time.Minute // time limit for a request with a key
	abandonedAfter    = 5 * time.Minute // longer than any request takes: its replica died
	keepPatience      = 5 * time.Second // time limit for storing a response
)

// once serves a POST with an Idempotency-Key at most once: for a day, the same request from the
// same caller gets the first response. A caller that leaves does not end such a request. Errors are
// not stored, so a repeated request is tried again. A replica that dies leaves the second state:
//
//	none ─► in flight ─┬─ success ─────► response, for a day
//	  ▲                ├─ 5 min ───────► in flight, of a repetition
//	  │                ├─ server error ► failed ─► in flight, of a repetition
//	  └─── refused ────┘
//
// A repetition has the seed of the failed request, and its events thereby the same IDs.
func (s *Server) once(c echo.Context, handle echo.HandlerFunc) error {
	given := c.Request().Header.Values(headerIdempotencyKey)
	if len(given) == 0 || c.Request().Method != http.MethodPost || !strings.HasPrefix(c.Path(), "/v1/") || opensSession(c) {
		return handle(c)
	}
	if s.opts.Answers == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not store responses; omit %s", headerIdempotencyKey)
	}
	if len(given) > 1 || given[0] == "" || len(given[0]) > maxIdempotencyKey || strings.ContainsFunc(given[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sluice.Errorf(sluice.InvalidRequest, "%s: send it once, with 1 to %d printable characters such as a UUID", headerIdempotencyKey, maxIdempotencyKey)
	}
	request, err := hashRequest(c)
	if err != nil {
		return err
	}
	key := answerKey(c, given[0])
	mine, revision, err := s.reserve(c.Request().Context(), key, request)
	switch {
	case sluice.IsFull(err): // requests that add to a full store were refused earlier; this one frees space or revokes permissions
		s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelWarn, "the store is too full to save the response for an Idempotency-Key", slog.Any("error", err))
		return handle(c)
	case err != nil:
		return err
	}
	if mine.Status != 0 {
		return replayAnswer(c, &mine)
	}
	return s.keep(c, handle, key, mine, revision)
}

// answerKey returns the key of a stored response: a hash of the caller, its grant (names of
// principals are not unique), the URL and the Idempotency-Key.
func answerKey(c echo.Context, given string) string {
	who := httpkit.Caller(c)
	return hashOf(string(who.Principal), who.Grant, c.Request().URL.EscapedPath(), c.Request().URL.RawQuery, given)
}

// hashRequest returns a hash of the request, and restores its body.
func hashRequest(c echo.Context) (string, error) {
	data, err := httpkit.Body(c)
	if err != nil {
		return "", err
	}
	c.Request().Body = io.NopCloser(bytes.NewReader(data))
	header := c.Request().Header
	parts := []string{string(data)}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if name == echo.HeaderContentType || name == "If-Match" || strings.HasPrefix(name, "Ce-") {
			parts = append(parts, name, strings.Join(header[name], "\n"))
		}
	}
	return hashOf(parts...), nil
}

// hashOf returns a hash of parts. Their lengths keep two lists of parts from having the same hash.
func hashOf(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // writing to a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil))
}

// reserve records that a request is in flight, and returns that record with its revision, or it
// returns the stored response. Codes Unprocessable if the key was used for a different request;
// Conflict while the first one is in flight.
func (s *Server) reserve(ctx context.Context, key, request string) (model.KeptAnswer, uint64, error) {
	mine := model.KeptAnswer{Request: request, Begun: time.Now().UTC(), Seed: uuid.Must(uuid.NewV7()).String()}
	revision, err := s.opts.Answers.Put(ctx, key, mine, 0)
	if sluice.CodeOf(err) != sluice.Conflict {
		return mine, revision, err
	}
	kept, revision, err := s.opts.Answers.Get(ctx, key)
	switch {
	case sluice.CodeOf(err) == sluice.NotFound:
		return mine, 0, underWay() // the first request has just been refused
	case err != nil:
		return mine, 0, err
	case kept.Request != request && !kept.Failed:
		return mine, 0, sluice.Errorf(sluice.Unprocessable, "this %s was used for another request; use a new one", headerIdempotencyKey)
	case kept.Status != 0:
		return kept, revision, nil
	case !kept.Failed && mine.Begun.Sub(kept.Begun) < abandonedAfter:
		return mine, 0, underWay()
	}
	if kept.Request == request {
		mine.Seed = kept.Seed
	}
	revision, err = s.opts.Answers.Put(ctx, key, mine, revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		err = underWay()
	}
	return mine, revision, err
}

func underWay() error {
	return sluice.Errorf(sluice.Conflict, "a request with this %s is in flight; retry shortly", headerIdempotencyKey)
}

// keep serves a request and stores its response.
func (s *Server) keep(c echo.Context, handle echo.HandlerFunc, key string, mine model.KeptAnswer, revision uint64) error {
	asked, res := c.Request(), c.Response()
	copied := &copying{ResponseWriter: res.Writer}
	res.Writer = copied
	lasting, cancel := context.WithTimeout(shutdown.Lasting(asked.Context()), keyedLimit)
	c.SetRequest(asked.WithContext(model.WithSeed(lasting, mine.Seed)))
	err := error(&panicked{})
	defer func() { // also after a panic of the handler
		cancel()
		c.SetRequest(asked)
		res.Writer = copied.ResponseWriter
		s.settle(asked.Context(), key, settled(mine, res, copied, err), revision)
	}()
	err = handle(c)
	return err
}

// settled returns the record of a request that was served. A request that was refused has none: its
// record is empty.
func settled(mine model.KeptAnswer, res *echo.Response, copied *copying, err error) model.KeptAnswer {
	status := res.Status
	if err != nil {
		status = httpkit.Status(httpkit.Public(err).Code)
	}
	switch mine.Failed = status >= http.StatusInternalServerError; {
	case mine.Failed:
		return mine
	case status >= http.StatusBadRequest:
		return model.KeptAnswer{}
	}
	mine.Begun, mine.Status, mine.Header, mine.Body = time.Now().UTC(), status, keptHeader(res.Header()), copied.body
	if copied.cut {
		mine.Status, mine.Body = http.StatusRequestEntityTooLarge, nil
	}
	return mine
}

// settle stores the record of a request that was served, or deletes it if it is empty.
func (s *Server) settle(ctx context.Context, key string, is model.KeptAnswer, revision uint64) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), keepPatience)
	defer cancel()
	var err error
	if is.Request != "" {
		_, err = s.opts.Answers.Put(ctx, key, is, revision)
	} else {
		err = s.opts.Answers.Delete(ctx, key, revision)
	}
	if err != nil {
		s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "response for an Idempotency-Key not saved", slog.Any("error", err))
	}
}

// keptHeader returns the headers of a response that describe its content.
func keptHeader(header http.Header) map[string][]string {
	kept := map[string][]string{}
	for _, name := range []string{echo.HeaderContentType, echo.HeaderLocation, "Etag"} {
		if values := header.Values(name); len(values) > 0 {
			kept[name] = values
		}
	}
	return kept
}

// replayAnswer sends a stored response with its original status, and the header
// Idempotent-Replayed. Code Conflict if the response was too large to be stored.
func replayAnswer(c echo.Context, kept *model.KeptAnswer) error {
	if kept.Status == http.StatusRequestEntityTooLarge {
		return sluice.Errorf(sluice.Conflict, "the request was completed; its response exceeds %d bytes and was not saved", maxKeptAnswer)
	}
	header := c.Response().Header()
	maps.Copy(header, kept.Header)
	header.Set(headerReplayed, "true")
	if len(kept.Body) == 0 {
		return c.NoContent(kept.Status)
	}
	return c.Blob(kept.Status, header.Get(echo.HeaderContentType), kept.Body)
}

// copying keeps a copy of the written body.
type copying struct {
	http.ResponseWriter

	body []byte
	cut  bool // the copy is incomplete
}

// Write writes, and copies up to the limit. It ignores that the caller has left.
func (w *copying) Write(p []byte) (int, error) {
	if w.cut = w.cut || len(w.body)+len(p) > maxKeptAnswer; !w.cut {
		w.body = append(w.body, p...)
	}
	_, _ = w.ResponseWriter.Write(p)
	return len(p), nil
}

// Unwrap is for http.ResponseController.
func (w *copying) Unwrap() http.ResponseWriter { return w.ResponseWriter }
