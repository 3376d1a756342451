package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// MirrorStreamRoute is the route of a mirror as a read-only Durable Stream.
const MirrorStreamRoute = "/v1/namespaces/:ns/items/stream"

// Limits of a page, the same as for other streams.
const (
	mirrorPageBytes = 1 << 20
	mirrorPageItems = 1000
	mirrorPatience  = 30 * time.Second // for a read that does not wait for changes
)

// mirrorStream is a read of a mirror as a stream. Its messages are the entries in the order of
// their last change; each entry occurs once, with its last change.
type mirrorStream struct {
	*mirrorView
	dstreams.ReadQuery

	begun uint64 // names the copy that the offsets belong to
	page  durable.Page
	size  int // of its messages, in bytes
}

// errEnough ends following once the page is complete.
var errEnough = errors.New("the page is read")

// getMirrorStream answers GET /v1/namespaces/{ns}/items/stream, with the offsets and the live modes
// of a Durable Stream. An offset names its copy: WindowExceeded for one of an earlier copy.
func (s *Handler) getMirrorStream(c echo.Context) error {
	r, err := s.findMirrorStream(c)
	if err != nil {
		return err
	}
	if err := s.admit(r.mirrorView); err != nil {
		return err
	}
	defer r.Close()
	ctx, cancel := s.needs.UntilEnd(c.Request().Context())
	defer cancel()
	if r.Live == dstreams.EventStream {
		return r.sendEvents(ctx, c)
	}
	wait := mirrorPatience
	if r.Live == dstreams.LongPoll {
		wait = s.needs.LongPoll
	}
	ctx, end := context.WithTimeout(ctx, wait)
	defer end()
	err = r.read(ctx)
	if err = cmp.Or(authz.Lost(ctx), err); err != nil {
		return err
	}
	dstreams.SetPage(c, r.page, r.offset())
	if r.Live == dstreams.LongPoll {
		dstreams.SetCursor(c, r.Cursor)
		if len(r.page.Messages) == 0 {
			return c.NoContent(http.StatusNoContent)
		}
	}
	return c.Blob(http.StatusOK, durable.JSONType, durable.Join(r.page.Messages, durable.JSONType))
}

// headMirrorStream answers HEAD with the offset of the end and the incarnation.
func (s *Handler) headMirrorStream(c echo.Context) error {
	r, err := s.findMirrorStream(c)
	if err != nil {
		return err
	}
	r.page.Next = r.current
	dstreams.SetPage(c, durable.Page{}, r.offset())
	dstreams.SetIncarnation(c, r.incarnation)
	c.Response().Header().Set(echo.HeaderContentType, durable.JSONType)
	return c.NoContent(http.StatusOK)
}

// findMirrorStream returns the requested read, positioned at its start.
func (s *Handler) findMirrorStream(c echo.Context) (*mirrorStream, error) {
	q, err := dstreams.Query(c)
	if err != nil {
		return nil, err
	}
	v, err := s.findMirror(c)
	if err != nil {
		return nil, err
	}
	at, err := s.needs.Mirrors.End(c.Request().Context(), &v.mirror)
	if err != nil {
		return nil, err
	}
	v.current, v.incarnation = at.Cursor, at.Incarnation
	r := &mirrorStream{mirrorView: v, ReadQuery: q, begun: at.Begun}
	r.page.ContentType = durable.JSONType
	return r, r.start()
}

// start positions the read at its offset. Code WindowExceeded if the offset belongs to another copy
// than the mirror has now.
func (r *mirrorStream) start() error {
	switch r.Offset {
	case durable.FromBeginning:
	case durable.FromNow:
		r.page.Next = r.current
	default:
		after, begun, err := parseMirrorOffset(r.Offset)
		if err != nil {
			return err
		}
		if after > 0 && (begun != r.begun || after > r.current) {
			return r.replaced()
		}
		r.page.Next = after
	}
	r.page.UpToDate = r.page.Next == r.current
	return nil
}

// replaced returns the error for an offset of another copy, with the present incarnation.
func (r *mirrorStream) replaced() error {
	return sluice.Errorf(sluice.WindowExceeded, "the mirror was begun anew; drop its entries and read from offset=-1").With("incarnation", r.incarnation)
}

// offset returns the offset after the page. It names the copy, because sequences are meaningless in
// another copy. The offset of the start names none. It is three parts,
// "0000000000000042_0000000000000000_00000000000000a7": the position, the 0 of all offsets, and the
// copy.
func (r *mirrorStream) offset() string {
	text := durable.FormatOffset(r.page.Next)
	if r.page.Next == 0 {
		return text
	}
	return fmt.Sprintf("%s_%016x", text, r.begun)
}

// parseMirrorOffset is the inverse of offset. Code InvalidRequest.
func parseMirrorOffset(text string) (after, begun uint64, err error) {
	first := text
	if at := strings.LastIndexByte(text, '_'); strings.Count(text, "_") == 2 {
		first = text[:at]
		if begun, err = strconv.ParseUint(text[at+1:], 16, 64); err != nil {
			first = ""
		}
	}
	after, err = durable.ParseOffset(first)
	if err == nil && first == text && after > 0 {
		err = sluice.Errorf(sluice.InvalidRequest, "offset: use one from a response for this mirror, or -1, or now")
	}
	return after, begun, err
}

// read reads the next page. A long poll waits for entries; if ctx ends first, the page is empty.
func (r *mirrorStream) read(ctx context.Context) error {
	waits := r.Live == dstreams.LongPoll
	if r.page.UpToDate && !waits {
		return nil
	}
	err := r.follow(ctx, func() error {
		if waits && len(r.page.Messages) == 0 {
			return nil
		}
		return errEnough
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil && (waits || len(r.page.Messages) > 0) {
		return nil
	}
	if ctx.Err() != nil {
		return sluice.Errorf(sluice.Unavailable, "the mirror was not read in time; try again")
	}
	return err
}

// sendEvents sends pages as server-sent events.
func (r *mirrorStream) sendEvents(ctx context.Context, c echo.Context) error {
	ctx, end := context.WithTimeout(ctx, dstreams.EventStreamLife)
	defer end()
	control := http.NewResponseController(c.Response())
	defer control.SetWriteDeadline(time.Time{}) //nolint:errcheck // of the next request; on failure, the connection is gone
	dstreams.BeginEvents(c, durable.JSONType)
	send := func() (err error) {
		if err = control.SetWriteDeadline(time.Now().Add(mirrorPatience)); err == nil {
			r.Cursor, err = dstreams.SendPage(c, r.page, r.offset(), r.Cursor)
		}
		r.page.Messages, r.size = nil, 0
		return err
	}
	if r.page.UpToDate {
		if err := send(); err != nil {
			return dstreams.Gone(c, err)
		}
	}
	return dstreams.Gone(c, r.follow(ctx, send))
}

// follow adds changes to the page, and calls each when the page is full or up to date. It continues
// until each returns an error, the caller loses access, the mirror is begun anew or deleted, or ctx
// ends.
func (r *mirrorStream) follow(ctx context.Context, each func() error) error {
	ctx, end := context.WithCancelCause(ctx)
	guarded := make(chan struct{})
	go func() {
		defer close(guarded)
		end(r.guard(ctx))
	}()
	end(r.needs.Mirrors.Follow(ctx, &r.mirror, r.page.Next, func(change model.MirrorChange) error {
		err := r.add(&change)
		if err == nil && (r.page.UpToDate || r.size >= mirrorPageBytes || len(r.page.Messages) >= mirrorPageItems) {
			if err = r.allowed(); err == nil {
				err = each()
			}
		}
		if err != nil {
			end(err) // unchanged: the store would wrap it
		}
		return err
	}))
	<-guarded
	return context.Cause(ctx)
}

// add adds a change to the page. The last change of each step makes the page up to date.
func (r *mirrorStream) add(change *model.MirrorChange) error {
	r.page.Next, r.page.UpToDate = change.Cursor, change.Synced != nil
	if change.Synced != nil {
		if r.current > 0 && change.Begun != r.begun {
			r.incarnation = change.Synced.Incarnation
			return r.replaced()
		}
		r.current, r.begun = change.Cursor, change.Begun
	}
	if change.Item == nil {
		return nil
	}
	text, err := change.Item.MarshalJSON()
	r.page.Messages, r.size = append(r.page.Messages, text), r.size+len(text)
	return err
}
