package dstreams

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Modes of live reads.
const (
	LongPoll    = "long-poll"
	EventStream = "sse"
)

// EventStreamLife is the time after which a reader of server-sent events must reconnect.
const EventStreamLife = 60 * time.Second

// ReadQuery has the parameters of a read.
type ReadQuery struct {
	Offset string // durable.FromBeginning by default
	Live   string // "": do not wait
	Cursor string
}

// Query parses the parameters of a read. Code InvalidRequest.
func Query(c echo.Context) (ReadQuery, error) {
	query := c.QueryParams()
	q := ReadQuery{Offset: durable.FromBeginning, Live: query.Get("live"), Cursor: query.Get("cursor")}
	offsets := query["offset"]
	switch {
	case q.Live != "" && q.Live != LongPoll && q.Live != EventStream:
		return q, sluice.Errorf(sluice.InvalidRequest, "live: write long-poll or sse")
	case len(offsets) > 1:
		return q, sluice.Errorf(sluice.InvalidRequest, "offset: send it once")
	case len(offsets) == 1:
		q.Offset = offsets[0]
	case q.Live != "":
		return q, sluice.Errorf(sluice.InvalidRequest, "offset: live reads require an offset: -1 for the start, now for the end")
	}
	return q, nil
}

// SetPage sets the headers that describe a page, with the offset after it.
func SetPage(c echo.Context, page durable.Page, offset string) {
	h := c.Response().Header()
	h.Set(headerNextOffset, offset)
	if page.UpToDate {
		h.Set(headerUpToDate, "true")
	}
	if page.Ended() {
		h.Set(headerClosed, "true")
	}
	httpkit.SetUnreadable(c, page.Gaps)
}

// SetCursor sets the header with the cursor that follows the given one.
func SetCursor(c echo.Context, given string) {
	c.Response().Header().Set(headerCursor, durable.Cursor(given, time.Now()))
}

// SetIncarnation sets the header with the incarnation of the log that the offsets belong to.
func SetIncarnation(c echo.Context, id string) { c.Response().Header().Set(headerIncarnation, id) }

// BeginEvents begins the answer with server-sent events.
func BeginEvents(c echo.Context, contentType string) {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set(echo.HeaderCacheControl, "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if !durable.IsText(contentType) {
		h.Set(headerEncoding, "base64")
	}
	c.Response().WriteHeader(http.StatusOK)
}

// Gone returns the error that ended an event stream, for the log: the response has begun and cannot
// carry it. It returns nil if the client has disconnected or the stream ended as planned.
func Gone(c echo.Context, err error) error {
	if c.Request().Context().Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// SendPage sends a page's messages as one event, followed by an event with the offset after the
// page. It returns the next cursor.
func SendPage(c echo.Context, page durable.Page, offset, cursor string) (string, error) {
	if len(page.Messages) > 0 {
		if _, err := c.Response().Write(page.Text(func() []byte { return dataEvent(page) })); err != nil {
			return cursor, err
		}
	}
	if !page.Ended() {
		cursor = durable.Cursor(cursor, time.Now())
	}
	if _, err := c.Response().Write(controlEvent(page, offset, cursor)); err != nil {
		return cursor, err
	}
	return cursor, http.NewResponseController(c.Response()).Flush()
}

// controlEvent returns the event with the offset after a page.
func controlEvent(page durable.Page, offset, cursor string) []byte {
	b := make([]byte, 0, 160)
	b = append(b, "event: control\ndata:{\"streamNextOffset\":\""...)
	b = append(b, offset...)
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
