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

// Notice is what a request of a subscription of mode wake says: of which streams there is something that was not
// acknowledged, and where to report (S1-46…53). Read the streams from the offsets, then call back.
type Notice struct {
	ConsumerID  string         `json:"consumer_id"`
	Epoch       uint64         `json:"epoch"`   // higher with every wake
	WakeID      string         `json:"wake_id"` // the same in every attempt at one wake
	Primary     string         `json:"primary_stream"`
	Streams     []StreamOffset `json:"streams"`      // all that the consumer follows
	TriggeredBy []string       `json:"triggered_by"` // those of them that have news
	Callback    string         `json:"callback"`     // to be used as it is: its %2F must stay
	Token       string         `json:"token"`        // for the first callback
}

// StreamOffset is a stream and the last offset of it that was processed; "-1": none was.
type StreamOffset struct {
	Path   string `json:"path"`
	Offset string `json:"offset"`
}

// Report is what a worker reports in a callback. Even one with nothing but the epoch keeps the wake alive.
type Report struct {
	Epoch       uint64         `json:"epoch"`             // the notice's
	WakeID      string         `json:"wake_id,omitempty"` // the notice's, in the first callback
	Acks        []StreamOffset `json:"acks,omitempty"`
	Subscribe   []string       `json:"subscribe,omitempty"`
	Unsubscribe []string       `json:"unsubscribe,omitempty"`
	Done        bool           `json:"done,omitempty"`
}

// Answer is what a callback is answered.
type Answer struct {
	OK      bool           `json:"ok"`
	Token   string         `json:"token"`   // for the next callback; with TOKEN_EXPIRED for the same one again
	Streams []StreamOffset `json:"streams"` // that the consumer follows now
	Error   struct {
		Code    string `json:"code"` // STALE_EPOCH, ALREADY_CLAIMED and CONSUMER_GONE mean: stop
		Message string `json:"message"`
	} `json:"error"`
}

// ParseNotice returns what the body of a notice says. It believes everything: verify first, or call
// Receiver.ReceiveNotice, which does both. ErrMalformed if it is none.
func ParseNotice(body []byte) (*Notice, error) {
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil || n.ConsumerID == "" || n.Epoch == 0 || n.WakeID == "" || n.Callback == "" {
		return nil, ErrMalformed
	}
	return &n, nil
}

// ReceiveNotice is Receive for a subscription of mode wake, whose scheme is TSHA256 unless the receiver names another.
// A 2xx says that somebody works on it; with the body {"done":true}, that all of it is done.
func (r *Receiver) ReceiveNotice(req *http.Request) (*Notice, error) {
	of := *r
	of.Scheme = cmp.Or(r.Scheme, TSHA256)
	body, err := of.verified(req)
	if err != nil {
		return nil, err
	}
	return ParseNotice(body)
}

// Request returns the request of a callback: with the notice's token, or that of the answer before.
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

// maxAnswer bounds the answer to a callback.
const maxAnswer = 4 << 20

// ReadAnswer reads the answer to a callback, whatever its status is. ErrMalformed if it is not a server's.
func ReadAnswer(resp *http.Response) (*Answer, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("webhook: read the answer: %w", err)
	}
	var a Answer
	if json.Unmarshal(body, &a) != nil || !a.OK && a.Error.Code == "" {
		return nil, ErrMalformed
	}
	return &a, nil
}
