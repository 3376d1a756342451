package endpoint

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Body returns the body that a request of attempt a would have, for a program that gets it instead
// of a request, and the traceparent header; "" if there is no trace. It sets the hash of the body
// in a. Codes: Unprocessable; TooLarge. Unprocessable also means that the subscription has no live
// secret. Body checks no URL and signs no header.
func (s *Sender) Body(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, a *sluice.Attempt) (body []byte, traceparent string, err error) {
	d := draft{
		sub: sub, ev: s.project(sub, ev), number: a.Number, at: a.StartedAt, secrets: sub.LiveSecrets(a.StartedAt), rendered: &s.rendered, opts: &s.opts, header: http.Header{},
	}
	if len(d.secrets) == 0 {
		return nil, "", sluice.Errorf(sluice.Unprocessable, "the subscription has no live secret")
	}
	if s.opts.Trace != nil {
		s.opts.Trace(ctx, d.header)
	}
	if err := d.packWithin(s.opts.MaxBody); err != nil {
		return nil, "", err
	}
	if a.PayloadHash = d.hash; d.hash == "" {
		a.PayloadHash = hashOf(d.body)
	}
	return d.body, d.header.Get("Traceparent"), nil
}
