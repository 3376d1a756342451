// Package client is a typed client of Sluice's HTTP API. It uses the types of package sluice.
//
// Every server error is a *sluice.Error with the server's code and, in its details, the
// "request_id" under which the server logs the request. A missing response has the code
// Unavailable. Calls are retried a few times if the server refuses the connection or returns 503,
// unless a retry could do harm: creating a subscription without an idempotency key, rotating a
// secret, issuing or renewing a grant, testing, syncing a mirror, and appending to a stream without a
// producer are not retried.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Client calls one server. It is safe for concurrent use as long as its fields are not changed.
type Client struct {
	// HTTP sends the requests. The default has no timeout, because every call takes a context.
	// Redirects are errors, unless it has a CheckRedirect.
	HTTP *http.Client
	// Retries is the maximum number of retries per call (default 4). The delays are 100 ms, 200 ms,
	// … with jitter.
	Retries uint64

	base  string
	token string
}

// New returns a client for the server at baseURL ("http://127.0.0.1:8080") that sends the token; an
// empty token is not sent. It makes no request.
func New(baseURL, token string) *Client {
	return &Client{HTTP: &http.Client{}, Retries: 4, base: strings.TrimRight(baseURL, "/"), token: token}
}

// maxResponse limits the size of a response that the client reads.
const maxResponse = 64 << 20

// call is one request and its expected response.
type call struct {
	method string
	path   string
	query  url.Values
	media  string // content type of the body; default "application/json"
	header map[string]string
	body   []byte
	once   bool // must not be retried
}

// response is the HTTP response to a request.
type response struct {
	status int
	header http.Header
	body   []byte
}

// do sends the request, retries it if that is harmless, and decodes the response into target unless
// that is nil. An error comes with the status and headers of the response, if any.
func (c *Client) do(ctx context.Context, req call, target any) (response, error) {
	var got response
	try := func() error {
		var err error
		got, err = c.try(ctx, req)
		if err != nil && (req.once || !transient(got.status, err)) {
			return backoff.Permanent(err)
		}
		return err
	}
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2))
	err := backoff.Retry(try, backoff.WithContext(backoff.WithMaxRetries(wait, c.Retries), ctx))
	if err != nil {
		return got, err
	}
	if target == nil || len(got.body) == 0 {
		return got, nil
	}
	if err := json.Unmarshal(got.body, target); err != nil {
		return response{}, fmt.Errorf("%s %s: the response does not have the expected JSON structure: %w", req.method, req.path, err)
	}
	return got, nil
}

// transient reports whether a retry may soon succeed: the server is unreachable or says so.
func transient(status int, err error) bool {
	return status == http.StatusServiceUnavailable || errors.Is(err, syscall.ECONNREFUSED)
}

// try sends the request once. With an error, it returns the status and headers of the response, or
// 0 and nil without a response.
func (c *Client) try(ctx context.Context, req call) (response, error) {
	resp, err := c.open(ctx, req, bytes.NewReader(req.body))
	if err != nil {
		return response{}, err
	}
	defer func() { _ = resp.Body.Close() }() // the body has been read; the error does not matter
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return response{}, noResponse(ctx, c.base, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return response{status: resp.StatusCode, header: resp.Header}, readError(resp, body)
	}
	return response{resp.StatusCode, resp.Header, body}, nil
}

// open sends the request with a body and returns the response as it begins.
func (c *Client) open(ctx context.Context, req call, body io.Reader) (*http.Response, error) {
	if strings.HasSuffix(req.path, "/") || strings.Contains(req.path, "//") {
		return nil, sluice.Errorf(sluice.InvalidRequest, "a name is empty; set it")
	}
	target := c.base + req.path
	if len(req.query) > 0 {
		target += "?" + req.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, req.method, target, body)
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "%q is not a server URL: %v", c.base, err)
	}
	if req.media != "" {
		r.Header.Set("Content-Type", req.media)
	}
	for name, value := range req.header {
		r.Header.Set(name, value)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.roundTrip(r)
	if err != nil {
		return nil, noResponse(ctx, c.base, err)
	}
	return resp, nil
}

// roundTrip sends the request. A redirect is a response: to follow it would turn a change into a GET that
// changes nothing and succeeds.
func (c *Client) roundTrip(r *http.Request) (*http.Response, error) {
	sender := *c.HTTP
	if sender.CheckRedirect == nil {
		sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return sender.Do(r)
}

func noResponse(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", base, context.Cause(ctx))
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "no response from %s", base), err)
}

// readError reads the server's error. Other bodies (such as a proxy's page) get the code of their
// status.
func readError(resp *http.Response, body []byte) *sluice.Error {
	var reply struct {
		Error struct {
			Code    sluice.Code    `json:"code"`
			Message string         `json:"message"`
			Details map[string]any `json:"details"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(body, &reply) != nil || reply.Error.Code == "" {
		e := sluice.Errorf(codeOf(resp.StatusCode), "the server responded %s", resp.Status)
		if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < http.StatusBadRequest {
			e.Message += fmt.Sprintf(": it redirects to %.300q", to)
		}
		return e
	}
	e := &sluice.Error{Code: reply.Error.Code, Message: reply.Error.Message, Details: reply.Error.Details}
	if reply.RequestID != "" {
		e = e.With("request_id", reply.RequestID)
	}
	return e
}

func codeOf(status int) sluice.Code {
	switch status {
	case http.StatusBadRequest:
		return sluice.InvalidRequest
	case http.StatusUnauthorized:
		return sluice.Unauthenticated
	case http.StatusForbidden:
		return sluice.Forbidden
	case http.StatusNotFound:
		return sluice.NotFound
	case http.StatusConflict:
		return sluice.Conflict
	case http.StatusGone:
		return sluice.StreamGone
	case http.StatusPreconditionFailed:
		return sluice.RevisionMismatch
	case http.StatusRequestEntityTooLarge:
		return sluice.TooLarge
	case http.StatusTooManyRequests:
		return sluice.QuotaExceeded
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return sluice.Unavailable
	default:
		return sluice.Internal
	}
}
