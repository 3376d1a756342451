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

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Answers keeps for a day what requests with an Idempotency-Key were answered.
type Answers interface {
	// Get returns what is kept under a key, and its revision. Code NotFound.
	Get(ctx context.Context, key string) (sluice.KeptAnswer, uint64, error)
	// Put keeps an answer and returns its revision. Code Conflict unless the stored revision is the given one, 0 for none.
	Put(ctx context.Context, key string, kept sluice.KeptAnswer, revision uint64) (uint64, error)
	// Delete forgets what is kept under a key. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, key string, revision uint64) error
}

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"

	maxIdempotencyKey = 255             // bytes
	maxKeptAnswer     = 256 << 10       // bytes of a body
	abandonedAfter    = 5 * time.Minute // longer than any request takes: its replica died
	keepPatience      = 5 * time.Second // for the store, when there is an answer
)

// once serves a POST with an Idempotency-Key once: for a day, the same request of the same caller has the first one's answer.
// Errors are not kept: whoever sends the request again tries again.
func (s *Server) once(c echo.Context, handle echo.HandlerFunc) error {
	given := c.Request().Header.Values(headerIdempotencyKey)
	if len(given) == 0 || c.Request().Method != http.MethodPost || !strings.HasPrefix(c.Path(), "/v1/") {
		return handle(c)
	}
	if s.opts.Answers == nil {
		return sluice.Errorf(sluice.Unavailable, "this server keeps no answers; leave %s out", headerIdempotencyKey)
	}
	if len(given) > 1 || given[0] == "" || len(given[0]) > maxIdempotencyKey || strings.ContainsFunc(given[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return sluice.Errorf(sluice.InvalidRequest, "%s: send it once, with 1 to %d printable characters such as a UUID", headerIdempotencyKey, maxIdempotencyKey)
	}
	request, err := hashRequest(c)
	if err != nil {
		return err
	}
	key := answerKey(c, given[0])
	revision, kept, err := s.reserve(c.Request().Context(), key, request)
	switch {
	case lacksRoom(err): // what adds to a full store was refused already: this frees room, or takes rights away
		s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelWarn, "the store is too full to keep the answer to an Idempotency-Key", slog.Any("error", err))
		return handle(c)
	case err != nil:
		return err
	}
	if kept != nil {
		return replayAnswer(c, kept)
	}
	return s.keep(c, handle, key, request, revision)
}

// answerKey returns the key of an answer: of whoever asks, by grant because names can be given to anybody, and what for.
func answerKey(c echo.Context, given string) string {
	who := caller(c)
	return hashOf(string(who.Principal), who.Grant, c.Request().URL.EscapedPath(), c.Request().URL.RawQuery, given)
}

// hashRequest returns a hash of what a request says, and leaves its body to be read again.
func hashRequest(c echo.Context) (string, error) {
	data, err := body(c)
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

func hashOf(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// reserve notes that a request is under way, or returns what it was answered before. Codes Unprocessable if the key was used for
// another request; Conflict while the first one is under way.
func (s *Server) reserve(ctx context.Context, key, request string) (uint64, *sluice.KeptAnswer, error) {
	now := time.Now().UTC()
	revision, err := s.opts.Answers.Put(ctx, key, sluice.KeptAnswer{Request: request, Begun: now}, 0)
	if sluice.CodeOf(err) != sluice.Conflict {
		return revision, nil, err
	}
	kept, revision, err := s.opts.Answers.Get(ctx, key)
	switch {
	case sluice.CodeOf(err) == sluice.NotFound:
		return 0, nil, underWay() // it has just failed
	case err != nil:
		return 0, nil, err
	case kept.Request != request:
		return 0, nil, sluice.Errorf(sluice.Unprocessable, "this %s was used for another request; use a new one", headerIdempotencyKey)
	case kept.Status != 0:
		return 0, &kept, nil
	case now.Sub(kept.Begun) < abandonedAfter:
		return 0, nil, underWay()
	}
	revision, err = s.opts.Answers.Put(ctx, key, sluice.KeptAnswer{Request: request, Begun: now}, revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		err = underWay()
	}
	return revision, nil, err
}

func underWay() error {
	return sluice.Errorf(sluice.Conflict, "a request with this %s is under way; try again in a moment", headerIdempotencyKey)
}

// keep serves a request and keeps its answer.
func (s *Server) keep(c echo.Context, handle echo.HandlerFunc, key, request string, revision uint64) error {
	res := c.Response()
	copied := &copying{ResponseWriter: res.Writer}
	res.Writer = copied
	done := false
	defer func() { // a handler that panics leaves nothing behind, either
		res.Writer = copied.ResponseWriter
		ctx, cancel := context.WithTimeout(shutdown.Lasting(c.Request().Context()), keepPatience)
		defer cancel()
		var err error
		if done {
			kept := sluice.KeptAnswer{Request: request, Begun: time.Now().UTC(), Status: res.Status, Header: keptHeader(res.Header()), Body: copied.body}
			if copied.cut {
				kept.Status, kept.Body = http.StatusRequestEntityTooLarge, nil
			}
			_, err = s.opts.Answers.Put(ctx, key, kept, revision)
		} else {
			err = s.opts.Answers.Delete(ctx, key, revision)
		}
		if err != nil {
			s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the answer to an Idempotency-Key is not kept", slog.Any("error", err))
		}
	}()
	err := handle(c)
	done = err == nil && res.Status < http.StatusBadRequest
	return err
}

// keptHeader returns what of an answer's header is about its content.
func keptHeader(header http.Header) map[string][]string {
	kept := map[string][]string{}
	for _, name := range []string{echo.HeaderContentType, echo.HeaderLocation, "Etag"} {
		if values := header.Values(name); len(values) > 0 {
			kept[name] = values
		}
	}
	return kept
}

func replayAnswer(c echo.Context, kept *sluice.KeptAnswer) error {
	if kept.Status == http.StatusRequestEntityTooLarge {
		return sluice.Errorf(sluice.Conflict, "this request was served; its answer has more than %d bytes and was not kept", maxKeptAnswer)
	}
	header := c.Response().Header()
	maps.Copy(header, kept.Header)
	header.Set(headerReplayed, "true")
	if len(kept.Body) == 0 {
		return c.NoContent(kept.Status)
	}
	return c.Blob(kept.Status, header.Get(echo.HeaderContentType), kept.Body)
}

// copying keeps a copy of the body that is written.
type copying struct {
	http.ResponseWriter

	body []byte
	cut  bool // it is longer
}

// Write writes, and keeps what there is room for.
func (w *copying) Write(p []byte) (int, error) {
	if w.cut = w.cut || len(w.body)+len(p) > maxKeptAnswer; !w.cut {
		w.body = append(w.body, p...)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *copying) Unwrap() http.ResponseWriter { return w.ResponseWriter }
