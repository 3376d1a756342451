// Package client knows the HTTP API of a Sluice server from outside: its paths, bodies and
// errors, as typed calls in the words of package sluice.
//
// Every error of a server is a *sluice.Error with the server's code and, in its details, the
// "request_id" by which the server's log knows the request. No answer at all is code
// Unavailable. Calls that can be repeated without harm — everything but making a
// subscription without an idempotency key, rotating a secret, issuing or renewing a grant, testing, and
// appending to a stream without a producer —
// are repeated a few times when the server refuses the connection or answers 503.
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

// Client calls one server. It is safe for concurrent use while nobody changes it.
type Client struct {
	// HTTP makes the requests; a client without a timeout of its own, because every call has
	// a context.
	HTTP *http.Client
	// Retries bounds how often a call is repeated; waits go 100 ms, 200 ms, … with jitter; 4.
	Retries uint64

	base  string
	token string
}

// New returns a client of the server at baseURL ("http://127.0.0.1:8080") that shows the token;
// an empty one is not shown. It makes no request.
func New(baseURL, token string) *Client {
	return &Client{HTTP: &http.Client{}, Retries: 4, base: strings.TrimRight(baseURL, "/"), token: token}
}

// maxResponse bounds what a server can make a client read.
const maxResponse = 64 << 20

// call is one request and what is expected of it.
type call struct {
	method string
	path   string
	query  url.Values
	media  string // of the body; "application/json" if empty
	header map[string]string
	body   []byte
	once   bool // repeating it could do harm
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes the request, repeats it where that is harmless, and decodes the answer into target
// unless that is nil. An error comes with the status and headers of its answer, if there was one.
func (c *Client) do(ctx context.Context, req call, target any) (answer, error) {
	var got answer
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
		return answer{}, fmt.Errorf("%s %s: the answer is not the JSON that is expected: %w", req.method, req.path, err)
	}
	return got, nil
}

// transient reports whether the server may well answer soon: it is not there (yet) or says so.
func transient(status int, err error) bool {
	return status == http.StatusServiceUnavailable || errors.Is(err, syscall.ECONNREFUSED)
}

// try makes the request once. The answer to an error has its status and headers, 0 and none if there was none.
func (c *Client) try(ctx context.Context, req call) (answer, error) {
	if strings.HasSuffix(req.path, "/") || strings.Contains(req.path, "//") {
		return answer{}, sluice.Errorf(sluice.InvalidRequest, "a name is empty; say which one")
	}
	target := c.base + req.path
	if len(req.query) > 0 {
		target += "?" + req.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, req.method, target, bytes.NewReader(req.body))
	if err != nil {
		return answer{}, sluice.Errorf(sluice.InvalidRequest, "%q is not the address of a server: %v", c.base, err)
	}
	if req.body != nil {
		r.Header.Set("Content-Type", req.media)
	}
	for name, value := range req.header {
		r.Header.Set(name, value)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return answer{}, noAnswer(ctx, c.base, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return answer{}, noAnswer(ctx, c.base, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return answer{status: resp.StatusCode, header: resp.Header}, readError(resp, body)
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

func noAnswer(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", base, context.Cause(ctx))
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "no answer from %s", base), err)
}

// readError reads the server's error; what is none (a proxy's page, say) gets the code of its status.
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
		return sluice.Errorf(codeOf(resp.StatusCode), "the server answered %s", resp.Status)
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
