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

	"github.com/sluice-io/sluice/internal/registry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// body returns the request's body. Code TooLarge, or InvalidRequest if it did not come whole.
func body(c echo.Context) ([]byte, error) {
	data, err := readAll(c.Request().Body, c.Request().ContentLength)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "the body did not arrive whole")
	}
	return data, nil
}

// readAll is io.ReadAll for a body whose length may be known, -1 if not. It doubles its buffer up to that length: a
// request that announces a long body and sends nothing gets no memory for it.
func readAll(from io.Reader, length int64) ([]byte, error) {
	data := make([]byte, 0, 512)
	for {
		if len(data) == cap(data) {
			size := 2 * cap(data)
			if length >= int64(len(data)) {
				size = int(min(int64(size), length+1)) // the last byte is for the end to be seen
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

// bind reads the request's body into target; nothing is as good as {}.
func bind(c echo.Context, target any) error {
	data, err := jsonBody(c)
	if err != nil || len(data) == 0 {
		return err
	}
	return registry.Decode(data, target)
}

// eventOf returns the event that the request's path names, whatever characters its id has.
func eventOf(c echo.Context) (string, error) { return paramOf(c, "event") }

// paramOf returns a part of the request's path, whatever characters it has.
func paramOf(c echo.Context, name string) (string, error) {
	value := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return value, nil // the server has decoded it
	}
	value, err := url.PathUnescape(value)
	if err != nil {
		return "", sluice.Errorf(sluice.InvalidRequest, "the address has a percent sign that encodes nothing")
	}
	return value, nil
}

// onlyParams returns an error (InvalidRequest) if the query has a parameter that is not known:
// one that is ignored would be taken for one that is obeyed.
func onlyParams(c echo.Context, known ...string) error {
	for name, values := range c.QueryParams() {
		if !slices.Contains(known, name) {
			return sluice.Errorf(sluice.InvalidRequest, "query parameter %q is unknown; known are %s", name, strings.Join(known, ", ")).With("field", name)
		}
		if len(values) > 1 && !slices.Contains([]string{"types", "sources", "subjects", "labels"}, name) {
			return sluice.Errorf(sluice.InvalidRequest, "query parameter %q is there twice", name).With("field", name)
		}
	}
	return nil
}

// oneOf returns an error (InvalidRequest) unless the parameter is missing or one of the values.
func oneOf(c echo.Context, name string, values ...string) error {
	if got := c.QueryParam(name); got != "" && !slices.Contains(values, got) {
		return sluice.Errorf(sluice.InvalidRequest, "%s %q: use one of %s", name, got, strings.Join(values, ", ")).With("field", name)
	}
	return nil
}

// limit returns how many elements of a list are wanted.
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

// listCursor returns the place in a log from which a list goes on, 0 if it starts.
func listCursor(c echo.Context) (uint64, error) {
	text := c.QueryParam("cursor")
	if text == "" {
		return 0, nil
	}
	place, err := strconv.ParseUint(text, 10, 64)
	if err != nil || place == 0 {
		return 0, sluice.Errorf(sluice.InvalidRequest, "cursor %q is not one of this list; send next_cursor as it was given", text).With("field", "cursor")
	}
	return place, nil
}

// ifMatch returns the revision that the caller has in mind, 0 for any.
func ifMatch(c echo.Context) (uint64, error) {
	text := strings.TrimSpace(c.Request().Header.Get("If-Match"))
	if text == "" || text == "*" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(strings.Trim(strings.TrimPrefix(text, "W/"), `"`), 10, 64)
	if err != nil || revision == 0 {
		return 0, sluice.Errorf(sluice.InvalidRequest, "If-Match %q: send the ETag, which is the revision in quotes", text)
	}
	return revision, nil
}

// etag sets the header by which If-Match knows a revision.
func etag(c echo.Context, revision uint64) {
	c.Response().Header().Set("ETag", strconv.Quote(strconv.FormatUint(revision, 10)))
}
