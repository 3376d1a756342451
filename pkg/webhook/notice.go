package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Notice is the content of a request of a subscription of mode wake: the streams with
// unacknowledged events, and the callback URL (S1-46…53). Read the streams from the offsets, then
// call back.
type Notice struct {
	ConsumerID  string         `json:"consumer_id"`
	Epoch       uint64         `json:"epoch"`   // increases with every wake
	WakeID      string         `json:"wake_id"` // equal in every attempt of one wake
	Primary     string         `json:"primary_stream"`
	Streams     []StreamOffset `json:"streams"`      // all streams that the consumer follows
	TriggeredBy []string       `json:"triggered_by"` // the streams with new events
	Callback    string         `json:"callback"`     // use it unchanged, with its %2F
	Token       string         `json:"token"`        // token of the first callback
}

// StreamOffset is a stream and its last processed offset; "-1" if none.
type StreamOffset struct {
	Path   string `json:"path"`
	Offset string `json:"offset"`
}

// Report is the body of a callback. Even a report with only the epoch keeps the wake alive.
type Report struct {
	Epoch uint64 `json:"epoch"` // epoch of the notice
	// WakeID is the wake ID of the notice. Only the first callback needs it.
	WakeID      string         `json:"wake_id,omitempty"`
	Acks        []StreamOffset `json:"acks,omitempty"`
	Subscribe   []string       `json:"subscribe,omitempty"`
	Unsubscribe []string       `json:"unsubscribe,omitempty"`
	Done        bool           `json:"done,omitempty"`
}

// Response is the response to a callback.
type Response struct {
	OK bool `json:"ok"`
	// Token is the token for the next callback or, with TOKEN_EXPIRED, for repeating this one.
	Token   string         `json:"token"`
	Streams []StreamOffset `json:"streams"` // the streams that the consumer follows now
	Error   struct {
		Code    string `json:"code"` // STALE_EPOCH, ALREADY_CLAIMED and CONSUMER_GONE mean: stop
		Message string `json:"message"`
	} `json:"error"`
}

// ParseNotice parses the body of a notice. It does not authenticate the request: verify it first,
// or call Receiver.ReceiveNotice, which does both. It returns ErrMalformed if the body is not a
// notice.
func ParseNotice(body []byte) (*Notice, error) {
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil || n.ConsumerID == "" || n.Epoch == 0 || n.WakeID == "" || n.Callback == "" {
		return nil, ErrMalformed
	}
	return &n, nil
}

// ReceiveNotice is Receive for a subscription of mode wake; the default scheme is TSHA256. A 2xx
// response claims the wake for a worker; with the body {"done":true}, it reports that all work is
// done.
func (r *Receiver) ReceiveNotice(req *http.Request) (*Notice, error) {
	of := *r
	of.Scheme = cmp.Or(r.Scheme, TSHA256)
	body, err := of.verified(req)
	if err != nil {
		return nil, err
	}
	return ParseNotice(body)
}

// Request returns the request of a callback, with the token of the notice or of the previous
// response.
func (n *Notice) Request(ctx context.Context, token string, report Report) (*http.Request, error) {
	body, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("webhook: callback: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Callback, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("webhook: callback: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	return req, nil
}

// maxResponse limits the size of a response to a callback.
const maxResponse = 4 << 20

// ReadResponse reads the response to a callback, with any status. It returns ErrMalformed if it is
// not a response of a Sluice server.
func ReadResponse(resp *http.Response) (*Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("webhook: read the response: %w", err)
	}
	var a Response
	if json.Unmarshal(body, &a) != nil || !a.OK && a.Error.Code == "" {
		return nil, ErrMalformed
	}
	return &a, nil
}
