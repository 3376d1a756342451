package live

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	feedStall    = 2 * time.Minute // a reader that accepts no data for this time is disconnected
	feedFarewell = 2 * time.Second // for the last frames when a feed ends
	feedPiece    = 16 << 10        // bytes per write, or one frame

	maxCoalesceLabels = 16

	headerLastEventID = "Last-Event-ID"
)

// getFeed streams a namespace's events, as server-sent events or over a WebSocket. A refused
// request gets an ordinary error response, because all checks precede the stream. It answers GET
// /v1/namespaces/{ns}/feed for callers that may read some path, with a token or a ticket. Events
// that the caller may not see are left out, also if access ends while it is open (S0-56). Codes
// NotFound; WindowExceeded; QuotaExceeded for too many feeds; Forbidden for a page of another
// origin without a ticket.
func (s *Handler) getFeed(c echo.Context) error {
	f, err := s.openFeed(c)
	if err != nil {
		return err
	}
	if isUpgrade(c.Request()) {
		return s.openSocket(c, f)
	}
	return s.openEvents(c, f)
}

// openFeed opens the requested feed. It is a separate function so that its variables do not stay on
// the stack of every feed.
func (s *Handler) openFeed(c echo.Context) (*feed.Feed, error) {
	if err := checkOrigin(c); err != nil {
		return nil, err
	}
	wish, err := feedWish(c)
	if err != nil {
		return nil, err
	}
	if s.needs.Feeds == nil {
		return nil, sluice.Errorf(sluice.Unavailable, "this server does not support feeds")
	}
	if wish.Since != "" {
		if err := s.needs.StartsAtShown(c, sluice.VerbRead, wish.Namespace, wish.Since); err != nil {
			return nil, err
		}
	}
	return s.needs.Feeds.Open(c.Request().Context(), wish)
}

// feedWish parses the parameters. Last-Event-ID takes precedence over since.
func feedWish(c echo.Context) (feed.Wish, error) {
	w := feed.Wish{
		Namespace: c.Param("ns"), Caller: httpkit.Caller(c),
		// A reconnecting browser repeats its first request.
		Since: cmp.Or(strings.TrimSpace(c.Request().Header.Get(headerLastEventID)), httpkit.PlaceParam(c, "since")),
		Log:   c.QueryParam("incarnation"),
	}
	var err error
	if w.Pattern, err = httpkit.PatternParam(c, "pattern"); err != nil {
		return w, err
	}
	if w.Since == string(sluice.StartLastPerPath) {
		return w, sluice.Errorf(sluice.InvalidRequest, "since %q: read the state with the same pattern and filter, and then the feed since its seq", w.Since).With("field", "since")
	}
	if w.Since != "" {
		if _, err := sluice.ParseCursor(w.Since); err != nil {
			return w, httpkit.InField(err, "since")
		}
	}
	if w.Projection, err = feed.ParseProjection(c.QueryParam("projection")); err != nil {
		return w, err
	}
	if text := c.QueryParam("buffer"); text != "" {
		if w.Buffer, err = strconv.Atoi(text); err != nil || w.Buffer < 1 {
			return w, sluice.Errorf(sluice.InvalidRequest, "buffer %q: use a number of events, at least 1", text).With("field", "buffer")
		}
	}
	if w.Filter, err = httpkit.Filter(c); err != nil {
		return w, err
	}
	w.Coalesce, err = feedCoalesce(c)
	return w, err
}

// coalesceRequest is the JSON form of the coalescing settings.
type coalesceRequest struct {
	Labels   []string `json:"labels"`
	WindowMS *int64   `json:"window_ms"`
	Keep     string   `json:"keep"`
}

// feedCoalesce returns the coalescing settings, from single parameters or from one JSON parameter
// (register C31).
func feedCoalesce(c echo.Context) (feed.Coalesce, error) {
	var req coalesceRequest
	if text := c.QueryParam("coalesce"); text != "" {
		if strictjson.Check([]byte(text)) != nil || strictjson.Decode([]byte(text), &req) != nil {
			return feed.Coalesce{}, sluice.Errorf(sluice.InvalidRequest, `coalesce: write {"labels":["type"],"window_ms":100,"keep":"latest"}`).With("field", "coalesce")
		}
	}
	if text := c.QueryParam("coalesce_labels"); text != "" {
		req.Labels = httpkit.SplitTypes(text)
	}
	if text := c.QueryParam("coalesce_window_ms"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return feed.Coalesce{}, sluice.Errorf(sluice.InvalidRequest, "coalesce_window_ms %q: use milliseconds from 1 to 5000", text).With("field", "coalesce_window_ms")
		}
		req.WindowMS = &ms
	}
	req.Keep = cmp.Or(c.QueryParam("coalesce_keep"), req.Keep)
	return req.coalesce()
}

// coalesce returns the wish of a request. A window out of bounds is not refused; the nearest bound
// applies (C31).
func (r coalesceRequest) coalesce() (feed.Coalesce, error) {
	w := feed.Coalesce{Labels: r.Labels, Window: feed.DefaultWindow, First: r.Keep == "first"}
	if r.WindowMS != nil {
		ms := min(max(*r.WindowMS, feed.MinWindow.Milliseconds()), feed.MaxWindow.Milliseconds())
		w.Window = time.Duration(ms) * time.Millisecond
	}
	switch {
	case r.Keep != "" && r.Keep != "first" && r.Keep != "latest":
		return w, sluice.Errorf(sluice.InvalidRequest, "coalesce_keep %q: use latest or first", r.Keep).With("field", "coalesce_keep")
	case len(w.Labels) > maxCoalesceLabels:
		return w, sluice.Errorf(sluice.InvalidRequest, "coalesce_labels: use at most %d", maxCoalesceLabels).With("field", "coalesce_labels")
	case len(w.Labels) == 0 && (r.WindowMS != nil || r.Keep != ""):
		return w, sluice.Errorf(sluice.InvalidRequest, "coalesce_labels: name the labels by which to merge events").With("field", "coalesce_labels")
	}
	if slices.Contains(w.Labels, "") {
		return w, sluice.Errorf(sluice.InvalidRequest, "coalesce_labels: a name is empty").With("field", "coalesce_labels")
	}
	return w, nil
}

// acknowledgement is the first frame of a feed.
func acknowledgement(f view) []byte {
	b := append(strconv.AppendUint([]byte(`{"subscribed":true,"current_seq":`), f.Current(), 10), `,"incarnation":`...)
	return append(sluice.AppendString(b, f.Incarnation()), '}')
}

// stopping reports whether a feed ended because the server is shutting down. The feed or the server
// may be the first to notice.
func (s *Handler) stopping(ended error) bool {
	return s.needs.Stopping() || errors.Is(ended, feed.ErrStopping)
}

// feedEnd returns the error with which a feed ends, and the last frame for a reader that is still
// connected.
func (s *Handler) feedEnd(who sluice.Caller, namespace string, err error) (*sluice.Error, []byte) {
	if s.needs.Stopping() {
		err = feed.ErrStopping
	}
	e := httpkit.Conceal(who, httpkit.Public(err))
	if e.Code == sluice.Forbidden && !who.Unbounded() && s.needs.Rights.Index.Sees(who, namespace, time.Now()) != nil {
		e = httpkit.Public(authz.Concealed()) // it may no longer see the namespace
	}
	if e.Code == sluice.NotFound && !who.Unbounded() {
		e = sluice.Errorf(sluice.NotFound, "the feed has ended: its namespace was deleted, or you lost access")
	}
	said := httpkit.FailureError{Code: e.Code, Message: e.Message, Details: e.Details}
	if said.Details == nil {
		said.Details = map[string]any{}
	}
	text, failed := json.Marshal(map[string]httpkit.FailureError{"error": said})
	if failed != nil {
		return e, []byte(`{"error":{"code":"internal"}}`)
	}
	return e, text
}
