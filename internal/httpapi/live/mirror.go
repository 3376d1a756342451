package live

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Mirrors follows mirrors.
type Mirrors interface {
	// Get returns a mirror. Code SubscriptionMissing.
	Get(ctx context.Context, id string) (sluice.Mirror, error)
	// End returns how far a mirror has synced.
	End(ctx context.Context, m *sluice.Mirror) (model.MirrorEnd, error)
	// Follow calls each for the changes of a mirror after a cursor and then for new ones, until
	// each returns an error, ctx ends or the store fails.
	Follow(ctx context.Context, m *sluice.Mirror, after uint64, each func(model.MirrorChange) error) error
}

// Limits of readers of mirrors, each of which has a JetStream consumer of its own.
const (
	mostMirrorFeeds = 1000
	mirrorHeartbeat = 15 * time.Second
)

// MirrorRoute is the route of the feed of a mirror.
const MirrorRoute = "/v1/namespaces/:ns/items/feed"

// getMirrorFeed streams the entries of a mirror in the order of their last change, and then further
// changes. Entries have the label of the namespace, so the caller must have the right to read the
// whole namespace. It answers GET /v1/namespaces/{ns}/items/feed. Codes SubscriptionMissing;
// WindowExceeded if the mirror was begun anew; QuotaExceeded for too many readers.
func (s *Handler) getMirrorFeed(c echo.Context) error {
	v, err := s.openMirror(c)
	if err != nil {
		return err
	}
	if isUpgrade(c.Request()) {
		return s.openSocket(c, v)
	}
	return s.openEvents(c, v)
}

// openMirror returns a view that is counted until its Close. The route has checked access, and the
// view checks it again while it runs.
func (s *Handler) openMirror(c echo.Context) (*mirrorView, error) {
	if err := checkOrigin(c); err != nil {
		return nil, err
	}
	v, err := s.findMirror(c)
	if err != nil {
		return nil, err
	}
	if err := v.begin(c); err != nil {
		return nil, err
	}
	return v, s.admit(v)
}

// findMirror returns a view of the mirror that a request names.
func (s *Handler) findMirror(c echo.Context) (*mirrorView, error) {
	if s.needs.Mirrors == nil {
		return nil, sluice.Errorf(sluice.Unavailable, "this server has no mirrors")
	}
	v := &mirrorView{needs: &s.needs, who: httpkit.Caller(c), prefix: c.QueryParam("path_prefix")}
	id := c.QueryParam("subscription")
	if id == "" {
		return nil, sluice.Errorf(sluice.InvalidRequest, "subscription is missing: name a mirror").With("field", "subscription")
	}
	var err error
	if v.mirror, err = s.needs.Mirrors.Get(c.Request().Context(), id); err == nil && v.mirror.Namespace != c.Param("ns") {
		err = sluice.Errorf(sluice.SubscriptionMissing, "no mirror with this id, or not visible to you")
	}
	return v, err
}

// admit counts a view until it is closed. Code QuotaExceeded if there are too many.
func (s *Handler) admit(v *mirrorView) error {
	if s.mirrors.Add(1) > mostMirrorFeeds {
		s.mirrors.Add(-1)
		return sluice.Errorf(sluice.QuotaExceeded, "the server has %d readers of mirrors, the limit; retry later", mostMirrorFeeds)
	}
	v.open = &s.mirrors
	return nil
}

// mirrorView is a feed of a mirror.
type mirrorView struct {
	needs       *Deps
	who         sluice.Caller
	mirror      sluice.Mirror
	prefix      string
	current     uint64 // cursor of the last change when the view was opened
	after       uint64
	incarnation string // of the copy that the mirror had then; mirrorStream: of its log
	text        []byte // of the frame that is being sent
	open        *atomic.Int64
}

// copyOf returns the incarnation of a copy: "<log>.<begun>". The same log has another copy after it
// lost its end, and after a restore from a backup. "" if nothing was synced yet.
func copyOf(log string, begun uint64) string {
	if log == "" {
		return ""
	}
	return fmt.Sprintf("%s.%016x", log, begun)
}

// begin determines how far the mirror has synced, and where the feed begins. Code WindowExceeded if
// the reader has another copy.
func (v *mirrorView) begin(c echo.Context) error {
	at, err := v.needs.Mirrors.End(c.Request().Context(), &v.mirror)
	if err != nil {
		return err
	}
	v.current, v.incarnation = at.Cursor, copyOf(at.Incarnation, at.Begun)
	known := c.QueryParam("incarnation")
	if known != "" && known != v.incarnation {
		return v.anew(v.incarnation)
	}
	v.after = v.current
	text := strings.TrimSpace(c.Request().Header.Get(headerLastEventID)) // a reconnecting browser repeats its first request
	if text == "" {
		text = c.QueryParam("after")
	}
	if text == "" {
		return nil
	}
	if v.after, err = strconv.ParseUint(text, 10, 64); err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "after %q: use the cursor of an entry, or 0 for all", text).With("field", "after")
	}
	if known != "" && v.after > v.current { // the copy lost its last changes
		return v.anew(v.incarnation)
	}
	v.after = min(v.after, v.current)
	return nil
}

// anew returns the error for a reader of another copy than the mirror has now.
func (v *mirrorView) anew(incarnation string) error {
	return sluice.Errorf(sluice.WindowExceeded, "the mirror was begun anew; drop its entries and read from after=0").With("incarnation", incarnation)
}

func (v *mirrorView) Current() uint64     { return v.current }
func (v *mirrorView) Since() uint64       { return v.after }
func (v *mirrorView) Incarnation() string { return v.incarnation }
func (v *mirrorView) Close()              { v.open.Add(-1) }

// Rendered returns nil: no two readers send the same bytes.
func (*mirrorView) Rendered(feed.Frame) []byte { return nil }

// AppendFrame appends the frame that is being sent.
func (v *mirrorView) AppendFrame(b []byte, frame feed.Frame) []byte {
	if frame.Idle {
		return append(strconv.AppendUint(append(b, `{"heartbeat":{"seq":`...), frame.Resume, 10), "}}"...)
	}
	return append(b, v.text...)
}

// allowed returns an error unless the caller may read the whole namespace.
func (v *mirrorView) allowed() error {
	if v.who.Unbounded() {
		return nil
	}
	return v.needs.Rights.Index.Require(v.who, sluice.VerbRead, authz.Target{Namespace: v.mirror.Namespace}, time.Now())
}

// Run sends frames until ctx ends or the feed ends. It calls hurry at the end, so that a blocked
// reader does not delay it.
func (v *mirrorView) Run(ctx context.Context, send func([]feed.Frame) error, hurry func()) error {
	ctx, end := context.WithCancelCause(ctx)
	changes, ended := make(chan model.MirrorChange), make(chan struct{}, 2)
	hurried := make(chan struct{})
	context.AfterFunc(ctx, func() {
		hurry()
		close(hurried)
	})
	go func() {
		end(v.needs.Mirrors.Follow(ctx, &v.mirror, v.after, func(change model.MirrorChange) error {
			select {
			case changes <- change:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}))
		ended <- struct{}{}
	}()
	go func() {
		end(v.guard(ctx))
		ended <- struct{}{}
	}()
	end(v.serve(ctx, changes, send))
	<-ended
	<-ended
	<-hurried
	return context.Cause(ctx)
}

// guard returns the reason when the caller loses access, the mirror is deleted or ctx ends.
func (v *mirrorView) guard(ctx context.Context) error {
	beat := time.NewTicker(mirrorHeartbeat)
	defer beat.Stop()
	for {
		var changed <-chan struct{}
		if v.needs.Rights.Index != nil {
			_, changed = v.needs.Rights.Index.Applied()
		}
		if err := v.allowed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-beat.C:
			if _, err := v.needs.Mirrors.Get(ctx, v.mirror.ID); sluice.CodeOf(err) == sluice.SubscriptionMissing {
				return err
			}
		}
	}
}

// serve sends changes until one cannot be sent or ctx ends.
func (v *mirrorView) serve(ctx context.Context, changes <-chan model.MirrorChange, send func([]feed.Frame) error) error {
	reached := v.after
	beat := time.NewTimer(mirrorHeartbeat)
	defer beat.Stop()
	for {
		frame := feed.Frame{Idle: true, Resume: reached}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beat.C:
		case change := <-changes:
			reached = change.Cursor
			wanted, err := v.take(&change)
			if err != nil {
				return err
			}
			if !wanted {
				continue
			}
			frame = feed.Frame{Seq: reached, Resume: reached, Count: 1}
		}
		if err := v.allowed(); err != nil {
			return err
		}
		if err := send([]feed.Frame{frame}); err != nil {
			return err
		}
		beat.Reset(mirrorHeartbeat)
	}
}

// take makes the frame's text of a change, and reports whether the feed wants the change.
func (v *mirrorView) take(change *model.MirrorChange) (wanted bool, err error) {
	if change.Item != nil && !strings.HasPrefix(string(change.Item.Change.Event.Path), v.prefix) {
		return false, nil
	}
	if is := change.Synced; is != nil {
		is.Incarnation = copyOf(is.Incarnation, change.Begun)
		if v.incarnation != "" && is.Incarnation != v.incarnation {
			return false, v.anew(is.Incarnation)
		}
		v.incarnation = is.Incarnation
	}
	v.text, err = change.AppendJSON(v.text[:0])
	return err == nil, err
}

// knowsMirrors requires the verb read on the whole namespace in the URL.
func (s *Handler) knowsMirrors(c echo.Context) error {
	return s.needs.Rights.Require(c, sluice.VerbRead, authz.Target{Namespace: c.Param("ns")})
}

func (s *Handler) mirrorRoutes() []httpkit.Route {
	return []httpkit.Route{
		httpkit.On(http.MethodGet, MirrorRoute, s.knowsMirrors, s.getMirrorFeed, "subscription", "after", "path_prefix", "incarnation"),
		httpkit.On(http.MethodGet, MirrorStreamRoute, s.knowsMirrors, s.getMirrorStream, "subscription", "offset", "live", "cursor"),
		httpkit.On(http.MethodHead, MirrorStreamRoute, s.knowsMirrors, s.headMirrorStream, "subscription"),
	}
}
