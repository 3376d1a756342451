package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// Sender makes requests to endpoints.
type Sender interface {
	Post(ctx context.Context, url string, header http.Header, body []byte, timeout time.Duration) endpoint.Reply
}

// Wakes posts the notices of wake consumers, signed with their subscription's secret.
type Wakes struct{ Sender Sender }

var _ wake.Poster = Wakes{}

// Post signs a notice and makes an attempt to send it (S1-45, S1-66).
func (w Wakes) Post(ctx context.Context, sub *sluice.Subscription, l wake.Letter) (a sluice.Attempt, body []byte) {
	now := time.Now()
	hash := sha256.Sum256(l.Body)
	a = sluice.Attempt{
		Subscription: sub.ID, EventID: l.WakeID, Seq: l.Seq, Path: l.Path, Type: sluice.TypeNotice, Number: l.Number,
		StartedAt: now.UTC(), PayloadHash: hex.EncodeToString(hash[:]),
	}
	secrets := sub.LiveSecrets(now)
	if len(secrets) == 0 {
		a.Outcome, a.Error = sluice.Refused, "the subscription has no live secret"
		return a, nil
	}
	header := http.Header{}
	for name, value := range sub.Endpoint.Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", "application/json")
	header.Set(webhook.HeaderID, l.WakeID)
	header.Set(webhook.HeaderAttempt, strconv.Itoa(l.Number))
	header.Set(webhook.HeaderSignature, webhook.SignT(secrets[0], now, l.Body))
	reply := w.Sender.Post(ctx, sub.Endpoint.URL, header, l.Body, sub.Policy.Timeout.Std())
	a.Duration = sluice.Duration(time.Since(now))
	a.Outcome, a.Status, a.Error, a.Class = reply.Outcome, reply.Status, reply.Error, reply.Class
	a.Class = a.Failure()
	a.Verdict.Settled = a.Outcome == sluice.Delivered
	return a, reply.Body
}
