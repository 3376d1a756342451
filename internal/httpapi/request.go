package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// body returns the request's body. Code TooLarge, or InvalidRequest if it is incomplete.
func body(c echo.Context) ([]byte, error) {
	data, err := readAll(c.Request().Body, c.Request().ContentLength)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "the body is incomplete")
	}
	return data, nil
}

// readAll is io.ReadAll for a body with a known length, or -1. The buffer doubles up to that
// length: a request that announces a long body and sends nothing gets no memory for it.
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

// bind parses the request's body into target; an empty body is {}.
func bind(c echo.Context, target any) error {
	data, err := jsonBody(c)
	if err != nil || len(data) == 0 {
		return err
	}
	return subscription.Decode(data, target)
}

// eventOf returns the event in the request's path, with any characters in its ID.
func eventOf(c echo.Context) (string, error) { return paramOf(c, "event") }

// paramOf returns a parameter of the request's path, with any characters.
func paramOf(c echo.Context, name string) (string, error) {
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

// onlyParams returns an error (InvalidRequest) for an unknown query parameter, because ignoring it
// would be misleading.
func onlyParams(c echo.Context, known ...string) error {
	for name, values := range c.QueryParams() {
		if !slices.Contains(known, name) {
			return sluice.Errorf(sluice.InvalidRequest, "query parameter %q is unknown; valid parameters are %s", name, strings.Join(known, ", ")).With("field", name)
		}
		if len(values) > 1 && !slices.Contains([]string{"types", "sources", "subjects", "labels"}, name) {
			return sluice.Errorf(sluice.InvalidRequest, "query parameter %q is repeated", name).With("field", name)
		}
	}
	return nil
}

// oneOf returns an error (InvalidRequest) unless the parameter is absent or one of the values.
func oneOf(c echo.Context, name string, values ...string) error {
	if got := c.QueryParam(name); got != "" && !slices.Contains(values, got) {
		return sluice.Errorf(sluice.InvalidRequest, "%s %q: use one of %s", name, got, strings.Join(values, ", ")).With("field", name)
	}
	return nil
}

// limit returns the maximum number of elements of a list.
func limit(c echo.Context) (int, error) {
	text := c.QueryParam("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, sluice.Errorf(sluice.InvalidRequest, "limit %q: use 1 to %d", text, maxLimit).With("field", "limit")
	}
	return n, nil
}

// listCursor returns the position from which a list continues, 0 for the start.
func listCursor(c echo.Context) (uint64, error) {
	text := c.QueryParam("cursor")
	if text == "" {
		return 0, nil
	}
	place, err := strconv.ParseUint(text, 10, 64)
	if err != nil || place == 0 {
		return 0, sluice.Errorf(sluice.InvalidRequest, "cursor %q does not belong to this list; send next_cursor unchanged", text).With("field", "cursor")
	}
	return place, nil
}

// ifMatch returns the revision in If-Match, 0 for any.
func ifMatch(c echo.Context) (uint64, error) {
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

// etag sets the ETag header to a revision.
func etag(c echo.Context, revision uint64) {
	c.Response().Header().Set("ETag", strconv.Quote(strconv.FormatUint(revision, 10)))
}
