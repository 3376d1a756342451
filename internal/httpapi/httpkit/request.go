package httpkit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Body returns the request's body. Codes TooLarge; InvalidRequest if the body is incomplete; those
// of Recheck's check.
func Body(c echo.Context) ([]byte, error) {
	data, err := readAll(c.Request().Body, c.Request().ContentLength)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || Refused(err) {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "the body is incomplete")
	}
	return data, nil
}

// readAll is io.ReadAll for a body with a known length; -1 is an unknown one. The buffer doubles up
// to that length, so a request that announces a long body and sends nothing costs no memory.
func readAll(from io.Reader, length int64) ([]byte, error) {
	data := make([]byte, 0, 512)
	for {
		if len(data) == cap(data) {
			size := 2 * cap(data)
			if length >= int64(len(data)) {
				size = int(min(int64(size), length+1)) // the extra byte detects the end
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return data, err
		}
	}
}

// JSONBody returns the request's body, which must be unambiguous JSON or empty.
func JSONBody(c echo.Context) ([]byte, error) {
	data, err := Body(c)
	if err != nil {
		return nil, err
	}
	return data, strictjson.Check(data)
}

// Bind parses the request's body into target; an empty body is {}.
func Bind(c echo.Context, target any) error {
	data, err := JSONBody(c)
	if err != nil || len(data) == 0 {
		return err
	}
	return strictjson.Decode(data, target)
}

// Param returns a parameter of the request's path, percent-decoded. Its value may have any
// characters.
func Param(c echo.Context, name string) (string, error) {
	value := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return value, nil // already decoded by the server
	}
	value, err := url.PathUnescape(value)
	if err != nil {
		return "", sluice.Errorf(sluice.InvalidRequest, "the URL has an invalid percent-encoding")
	}
	return value, nil
}

// OneOf returns an error (InvalidRequest) unless the parameter is absent or one of the values.
func OneOf(c echo.Context, name string, values ...string) error {
	if got := c.QueryParam(name); got != "" && !slices.Contains(values, got) {
		return sluice.Errorf(sluice.InvalidRequest, "%s %q: use one of %s", name, got, strings.Join(values, ", ")).With("field", name)
	}
	return nil
}

// InField returns an error with the field or parameter of the request that it is about.
func InField(err error, name string) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return e.With("field", name)
	}
	return err
}

// PatternParam returns a pattern in the query; "" if the parameter is missing.
func PatternParam(c echo.Context, name string) (sluice.Pattern, error) {
	text := c.QueryParam(name)
	if text == "" {
		return "", nil
	}
	p, err := sluice.ParsePattern(text)
	return p, InField(err, name)
}

// IfMatch returns the revision in If-Match, 0 for any.
func IfMatch(c echo.Context) (uint64, error) {
	text := strings.TrimSpace(c.Request().Header.Get("If-Match"))
	if text == "" || text == "*" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(strings.Trim(strings.TrimPrefix(text, "W/"), `"`), 10, 64)
	if err != nil || revision == 0 {
		return 0, sluice.Errorf(sluice.InvalidRequest, "If-Match %q: send the ETag, the revision in quotes", text)
	}
	return revision, nil
}

// SetETag sets the ETag header to a revision.
func SetETag(c echo.Context, revision uint64) {
	c.Response().Header().Set("ETag", strconv.Quote(strconv.FormatUint(revision, 10)))
}

// Bearer returns the request's bearer token, "" if it has none.
func Bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Caller returns the request's caller.
func Caller(c echo.Context) sluice.Caller { return model.CallerFrom(c.Request().Context()) }

// By returns the caller's principal, for the ledger.
func By(c echo.Context) string { return string(Caller(c).Principal) }

// Preflight sets the methods and headers that pages of other origins may use. Browsers cache them
// for a day.
func Preflight(c echo.Context, methods string, headers ...string) {
	h := c.Response().Header()
	h.Set(echo.HeaderAccessControlAllowMethods, methods)
	h.Set(echo.HeaderAccessControlAllowHeaders, strings.ToLower(strings.Join(headers, ", ")))
	h.Set(echo.HeaderAccessControlMaxAge, "86400")
}

// PlaceParam returns a parameter that is a position in a log or a time. It converts an age such as
// 10m or 7d to a time.
func PlaceParam(c echo.Context, name string) string {
	return sluice.Ago(c.QueryParam(name), time.Now())
}

// maxWait limits how long a request waits for events.
const maxWait = 30 * time.Second

// Wait returns how long a request waits for news; 0: not at all.
func Wait(c echo.Context) (time.Duration, error) {
	text := c.QueryParam("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, sluice.Errorf(sluice.InvalidRequest, "wait %q: use a duration up to %s", text, maxWait).With("field", "wait")
	}
	return wait, nil
}

// TimeParam returns a time in the query; zero if the parameter is missing.
func TimeParam(c echo.Context, name string) (time.Time, error) {
	text := PlaceParam(c, name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, sluice.Errorf(sluice.InvalidRequest, "%s %q: use an RFC 3339 time such as 2026-01-31T12:00:00Z, or an age such as 10m or 7d", name, text).With("field", name)
	}
	return at, nil
}
