package dstreams

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// shownStreamSub is the public form of a subscription. Durations are in milliseconds. Pattern and
// wake_stream are null if there are none; streams is never null.
type shownStreamSub struct {
	ID           string         `json:"id"`
	Subscription string         `json:"subscription_id"`
	Type         streamsub.Kind `json:"type"`
	Pattern      *string        `json:"pattern"`
	Streams      []shownLink    `json:"streams"`
	Webhook      *shownTarget   `json:"webhook,omitempty"`
	WakeStream   *string        `json:"wake_stream"`
	LeaseTTL     int64          `json:"lease_ttl_ms"`
	CreatedAt    time.Time      `json:"created_at"`
	Status       string         `json:"status"`
	Description  string         `json:"description,omitempty"`
}

type shownLink struct {
	Path  string `json:"path"`
	Link  string `json:"link_type"`
	Acked string `json:"acked_offset"`
}

// shownTarget is the endpoint of a subscription. Signing names the algorithm, the key and the key
// set with which a receiver verifies notices.
type shownTarget struct {
	URL       string            `json:"url"`
	Signing   shownSigning      `json:"signing"`
	Handshake bool              `json:"handshake,omitempty"`
	Agreed    *sluice.Agreement `json:"agreed,omitempty"`
}

type shownSigning struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	JWKS      string `json:"jwks_url"`
}

// showStreamSub sends a subscription with the streams that its owner may see. The path of a
// webhook's URL is hidden from callers other than the owner and root.
func (s *Handler) showStreamSub(c echo.Context, status int, wake *streamsub.Subscription) error {
	links, err := s.opts.Subscriptions.Streams(c.Request().Context(), wake)
	if err != nil {
		return err
	}
	config := wake.Config
	shown := shownStreamSub{
		ID: wake.ID, Subscription: wake.ID, Type: config.Kind, Streams: []shownLink{}, LeaseTTL: config.Lease.Milliseconds(),
		CreatedAt: wake.CreatedAt, Status: "active", Description: config.Description,
	}
	if wake.Failed() {
		shown.Status = "failed"
	}
	if config.Pattern != "" {
		shown.Pattern = &config.Pattern
	}
	if config.WakeStream != "" {
		shown.WakeStream = &config.WakeStream
	}
	if config.Kind == streamsub.Webhook {
		address := config.URL
		if !httpkit.Caller(c).Unbounded() && !s.madeStreamSub(c, wake) { // see hideURL
			address = sluice.HideURL(address)
		}
		shown.Webhook = &shownTarget{
			URL: address, Handshake: config.Handshake, Agreed: wake.Agreed,
			Signing: shownSigning{"ed25519", s.opts.KeyID(), s.opts.Subscriptions.RootURL(wake.Key) + "/jwks.json"},
		}
	}
	for _, l := range links {
		shown.Streams = append(shown.Streams, shownLink{l.Path, l.Link(), durable.FormatOffset(l.Acked)})
	}
	return c.JSON(status, shown)
}

// controlFailure is the body of an error of a control request.
type controlFailure struct {
	Error controlError `json:"error"`
}

type controlError struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	Holder     string `json:"current_holder,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
}

// Refusal returns the error of a control request in the protocol's form, and its status;
// false for other requests. Errors of other packages get the code in capitals, such as FORBIDDEN.
func Refusal(c echo.Context, err error) (body any, status int, ok bool) {
	if r, ok := errors.AsType[*streamsub.Refusal](err); ok {
		return controlFailure{controlError{r.Code, r.Message, r.Holder, r.Generation}}, refusalStatus(r.Code), true
	}
	e := httpkit.Conceal(httpkit.Caller(c), httpkit.Public(err))
	return controlFailure{controlError{Code: strings.ToUpper(string(e.Code)), Message: e.Message}}, httpkit.Status(e.Code), isControl(c.Path())
}

// refusalStatus returns the HTTP status of a refusal.
func refusalStatus(code string) int {
	switch code {
	case streamsub.NotFound:
		return http.StatusNotFound
	case streamsub.TokenInvalid, streamsub.TokenExpired:
		return http.StatusUnauthorized
	case streamsub.Exists, streamsub.Fenced, streamsub.AlreadyClaimed, streamsub.NoPendingWork, streamsub.InvalidOffset:
		return http.StatusConflict
	}
	return http.StatusBadRequest
}
