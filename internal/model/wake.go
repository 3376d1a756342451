package model

import (
	"net/url"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// WakeConsumerID returns S1's consumer id: the subscription's, a colon, and the percent-encoded path (S1-12).
func WakeConsumerID(subscription string, path sluice.Path) string {
	return subscription + ":" + url.PathEscape(string(path))
}

// ParseWakeConsumerID is the inverse of WakeConsumerID. ok is false for an invalid ID.
func ParseWakeConsumerID(id string) (subscription string, path sluice.Path, ok bool) {
	subscription, escaped, _ := strings.Cut(id, ":")
	text, err := url.PathUnescape(escaped)
	if err == nil {
		path, err = sluice.ParsePath(text)
	}
	return subscription, path, err == nil
}

// WakeAnswer is the response to a successful callback (S1-82).
type WakeAnswer struct {
	Token string `json:"token"` // token of the next callback (S1-83)
	// Streams that the consumer follows now; a consumer without streams is removed (S1-84).
	Streams []WakeAcked `json:"streams"`
}

// WakeAcked is a stream and its acknowledged offset (S1-50).
type WakeAcked struct {
	Path   sluice.Path `json:"path"`
	Offset string      `json:"offset"`
}

// WakeQuery selects wake consumers of a subscription, in the order of their paths.
type WakeQuery struct {
	State sluice.WakeState // "": all states but removed
	After string           // Next of the previous page
	Limit int
}

// WakePage is a page of a subscription's wake consumers.
type WakePage struct {
	Consumers []sluice.WakeConsumer
	Next      string                   // value for After; "": last page
	Counts    map[sluice.WakeState]int // number of consumers in each state, across all pages
}
