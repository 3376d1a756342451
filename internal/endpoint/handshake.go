package endpoint

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Headers of the handshake (CloudEvents, HTTP 1.1 Web Hooks for Event Delivery, "Abuse Protection").
const (
	requestOrigin = "WebHook-Request-Origin"
	requestRate   = "WebHook-Request-Rate"
	allowedOrigin = "WebHook-Allowed-Origin"
	allowedRate   = "WebHook-Allowed-Rate"
)

// unnamedOrigin is the origin of a server without a public URL.
const unnamedOrigin = "sluice"

// Handshake asks a subscription's endpoint to accept requests of this server, and returns its
// agreement. It sends an OPTIONS request with the endpoint's own headers, with the address checks
// of every attempt and the policy's timeout. Codes: those of Check; Unprocessable if the endpoint
// does not agree, or does not respond. Handshake does not change sub and stores nothing: the caller
// stores the agreement. RatePerMinute is 0 if the endpoint sets no limit.
//
//	OPTIONS /hook HTTP/1.1                    HTTP/1.1 204 No Content
//	WebHook-Request-Origin: events.example    WebHook-Allowed-Origin: events.example
//	WebHook-Request-Rate: 120                 WebHook-Allowed-Rate: 60
func (s *Sender) Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error) {
	timeout := cmp.Or(sub.Policy.Timeout.Std(), defaultTimeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l := line{parent: ctx}
	held, over := l.follow(limited)
	defer over()
	req, err := s.handshakeRequest(held, sub)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(timeout)
	token, err := s.authorize(limited, sub, req.Header, until)
	if err != nil {
		return nil, disagreed("%s", newMask(sub, nil).apply(noToken(ctx, sub, err, timeout)))
	}
	transport, err := s.ids.of(sub)
	if err != nil {
		return nil, err
	}
	res, err := cmp.Or(transport, s.transport).RoundTrip(req)
	if err != nil {
		if limited.Err() != nil {
			err = limited.Err()
		}
		return nil, disagreed("no response: %s", newMask(sub, token).apply(failure(ctx, err, timeout)))
	}
	defer func() { _ = res.Body.Close() }() // its body is not needed
	return s.agreement(res, req.Header.Get(requestOrigin))
}

func (s *Sender) handshakeRequest(ctx context.Context, sub *sluice.Subscription) (*http.Request, error) {
	req, err := s.postRequest(ctx, sub.Endpoint.URL, nil, 0)
	if err != nil {
		return nil, err
	}
	req = req.WithContext(ctx)
	req.Method = http.MethodOptions
	for name, value := range sub.Endpoint.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set(requestOrigin, s.origin())
	if rate := ratePerMinute(sub.Policy.Rate); rate > 0 {
		req.Header.Set(requestRate, strconv.Itoa(rate))
	}
	return req, nil
}

// origin returns the name of this server in handshakes. It is the host of the public URL without
// the port, or unnamedOrigin.
func (s *Sender) origin() string {
	u, err := url.Parse(s.opts.PublicURL)
	if err != nil {
		return unnamedOrigin
	}
	return cmp.Or(u.Hostname(), unnamedOrigin)
}

// ratePerMinute returns the maximum number of requests per minute that a rate permits; 0: any
// number.
func ratePerMinute(r sluice.Rate) int {
	rate := math.Inf(1)
	if r.PerSecond > 0 {
		rate = 60 * r.PerSecond
	}
	if r.PerMinute > 0 {
		rate = min(rate, r.PerMinute)
	}
	if rate > math.MaxInt32 {
		return 0
	}
	return max(1, int(rate))
}

// agreement returns the agreement in a response to OPTIONS, or an error if the endpoint does not
// agree.
func (s *Sender) agreement(res *http.Response, origin string) (*sluice.Agreement, error) {
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, disagreed("the response to OPTIONS was %d", res.StatusCode)
	}
	allowed := strings.TrimSpace(res.Header.Get(allowedOrigin))
	if allowed != "*" && !strings.EqualFold(allowed, origin) {
		return nil, disagreed("the response to OPTIONS must have the header %s: %s, or *", allowedOrigin, origin)
	}
	is := &sluice.Agreement{At: s.opts.Now().UTC()}
	rate := strings.TrimSpace(res.Header.Get(allowedRate))
	if rate == "" || rate == "*" {
		return is, nil
	}
	n, err := strconv.Atoi(rate)
	if err != nil || n <= 0 {
		return nil, disagreed("the header %s of the response must be a number of requests per minute above 0, or *", allowedRate)
	}
	is.RatePerMinute = n
	return is, nil
}

func disagreed(format string, args ...any) error {
	return sluice.Errorf(sluice.Unprocessable, "the endpoint did not agree to the handshake: "+format, args...).With("field", "endpoint.handshake")
}
