package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Bounds of a batch of subscriptions.
const (
	maxSubscriptions = 1000             // of one request
	batchWidth       = 16               // concurrent items; few, so that other requests do not wait long
	batchLimit       = 60 * time.Second // after which no item is begun; an answer may take two minutes
)

// Statuses of an item of a batch.
const (
	itemCreated = "created"
	itemExists  = "exists"
	itemError   = "error"
)

// batchResult is the result of an item of a batch.
type batchResult struct {
	Index  int    `json:"index"`
	Status string `json:"status"`
	ID     string `json:"id,omitempty"`     // none for an item that failed, or a dry run that would generate it
	Secret string `json:"secret,omitempty"` // only of a subscription that was just created

	Error *httpkit.FailureError `json:"error,omitempty"`
}

// batchCounts ends the response to a batch.
type batchCounts struct {
	Created int `json:"created"`
	Exists  int `json:"exists"`
	Failed  int `json:"failed"`
}

func (n *batchCounts) add(status string) {
	switch status {
	case itemCreated:
		n.Created++
	case itemExists:
		n.Exists++
	default:
		n.Failed++
	}
}

// createSubscriptions creates each subscription of a batch as createSubscription does,
// independently of the others. It sends the results in the order of the items, each as soon as all
// results before it are known, so it does not hold the response in memory. It answers POST
// /v1/subscriptions/batch with 200, also if items fail. A repetition without an Idempotency-Key
// returns the existing ones without their secrets, so a lost response loses secrets. Code
// QuotaExceeded if the caller has a batch in progress.
func (s *Server) createSubscriptions(c echo.Context) error {
	dry, err := isDryRun(c)
	if err != nil {
		return err
	}
	leave, err := s.enterBatch(c)
	if err != nil {
		return err
	}
	defer leave()
	data, err := httpkit.Body(c)
	if err != nil {
		return err
	}
	items, err := batchItems(c.Request().Header.Get(echo.HeaderContentType), data)
	if err != nil {
		return err
	}
	b := batch{s: s, registry: s.opts.Registry.ForBatch(), who: httpkit.Caller(c), by: httpkit.By(c), until: time.Now().Add(batchLimit), last: map[string]chan struct{}{}}
	do := b.create
	if dry {
		do = b.try(b.registry.NewTrial())
	}
	return b.answer(c, items, do)
}

func isDryRun(c echo.Context) (bool, error) {
	return c.QueryParam("dry_run") == "true", httpkit.OneOf(c, "dry_run", "true", "false")
}

// enterBatch starts a batch of the caller, which ends with leave. Code QuotaExceeded if the accountable
// principal has one in progress; operators are not limited.
func (s *Server) enterBatch(c echo.Context) (leave func(), err error) {
	who := httpkit.Caller(c)
	if who.Unbounded() || s.opts.Access == nil {
		return func() {}, nil
	}
	return s.batches.enter(s.opts.Access.Answers(who, "", time.Now()), "batch")
}

// batchItems returns the items of a body: the elements of an array, or the lines of NDJSON, as parts of the
// body. Code InvalidRequest for none or too many.
func batchItems(contentType string, body []byte) ([]json.RawMessage, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = ""
	}
	var items []json.RawMessage
	switch media {
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		items, err = lines(body)
	default:
		items, err = jsonarray.Split(body, maxSubscriptions)
	}
	switch {
	case errors.Is(err, jsonarray.ErrTooMany) || err == nil && len(items) == 0:
		return nil, sluice.Errorf(sluice.InvalidRequest, "batch: use 1 to %d subscriptions; send the others in further batches", maxSubscriptions)
	case err != nil:
		return nil, sluice.Errorf(sluice.InvalidRequest, "write a JSON array of subscriptions, or one in each line with the content type application/x-ndjson")
	}
	return items, nil
}

// lines returns the lines that are not empty. Error ErrTooMany.
func lines(body []byte) (items []json.RawMessage, err error) {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(items) == maxSubscriptions {
			return nil, jsonarray.ErrTooMany
		}
		items = append(items, line)
	}
	return items, nil
}

// batch is a batch in progress.
type batch struct {
	s        *Server
	registry *subscription.Registry
	who      sluice.Caller
	by       string
	until    time.Time

	last map[string]chan struct{} // closed once the last item with an ID or key is done
}

// work creates the subscription of an item, or checks it in a dry run. It runs concurrently with
// the work of other items.
type work func(ctx context.Context, req *subscription.Request) (settle, error)

// settle makes the result of an item. Calls are in the order of the items.
type settle func(ctx context.Context) (batchResult, error)

// create creates the subscription of an item.
func (b *batch) create(ctx context.Context, req *subscription.Request) (settle, error) {
	sub, created, err := b.registry.Create(ctx, req, b.by)
	if err != nil {
		return nil, err
	}
	result := batchResult{Status: itemExists, ID: sub.ID}
	if created {
		result.Status, result.Secret = itemCreated, sub.Endpoint.Secret
	}
	return func(context.Context) (batchResult, error) { return result, nil }, nil
}

// try returns the work of a dry run, which creates nothing.
func (b *batch) try(trial *subscription.Trial) work {
	return func(ctx context.Context, req *subscription.Request) (settle, error) {
		plan, err := trial.Check(ctx, req, b.by)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (batchResult, error) {
			created, err := trial.Add(ctx, plan)
			result := batchResult{Status: itemExists, ID: plan.ID()}
			if created {
				result.Status = itemCreated
			}
			return result, err
		}, nil
	}
}

// answer does the work of all items and sends their results. When the caller disconnects, no
// further item begins.
func (b *batch) answer(c echo.Context, items []json.RawMessage, do work) error {
	ctx := c.Request().Context()
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	c.Response().WriteHeader(http.StatusOK)
	to := json.NewEncoder(c.Response())
	if _, err := c.Response().Write([]byte(`{"results":[`)); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	var counts batchCounts
	err := inOrder(len(items), batchWidth, func(i int) func() pending { return b.begin(ctx, items[i], do) }, func(i int, p pending) error {
		result := b.end(ctx, i, p)
		counts.add(result.Status)
		if i > 0 {
			if _, err := c.Response().Write([]byte(",")); err != nil {
				return fmt.Errorf("answer: %w", err)
			}
		}
		return to.Encode(result) //nolint:gosec // the secret is shown once, to its creator
	})
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Response(), `],"created":%d,"exists":%d,"failed":%d}`+"\n", counts.Created, counts.Exists, counts.Failed)
	return err //nolint:wrapcheck // the client has disconnected
}

// pending is an item whose work is done and whose result is not settled yet.
type pending struct {
	settle settle
	err    error
}

// begin parses an item and returns its work, which may run concurrently with that of other items.
// The work waits for earlier items with the same ID or key, so the outcome is the same as if the
// items were processed one after another.
func (b *batch) begin(ctx context.Context, item json.RawMessage, do work) func() pending {
	req, err := parseItem(item)
	if err != nil {
		return func() pending { return pending{err: err} }
	}
	done := make(chan struct{})
	var earlier []chan struct{}
	for _, key := range req.Keys(b.by) {
		if other := b.last[key]; other != nil && other != done {
			earlier = append(earlier, other)
		}
		b.last[key] = done
	}
	return func() pending {
		defer close(done)
		for _, other := range earlier {
			<-other
		}
		return b.run(ctx, req, do)
	}
}

func parseItem(item json.RawMessage) (*subscription.Request, error) {
	if err := strictjson.Check(item); err != nil {
		return nil, err
	}
	return subscription.ParseRequest(item)
}

// run does an item, unless the batch should end.
func (b *batch) run(ctx context.Context, req *subscription.Request, do work) (p pending) {
	defer func() { // this goroutine has no other recover
		if value := recover(); value != nil {
			p.err = &panicked{value, debug.Stack()}
		}
	}()
	switch {
	case ctx.Err() != nil:
		return pending{err: context.Cause(ctx)}
	case b.s.stopping():
		return pending{err: sluice.Errorf(sluice.Unavailable, "the server stops; send this subscription again")}
	case time.Now().After(b.until):
		return pending{err: sluice.Errorf(sluice.Unavailable, "the batch took more than %s; send this subscription again", batchLimit)}
	}
	p.settle, p.err = do(ctx, req)
	return p
}

// end returns the result of an item, which fails with the error that its own request would have.
func (b *batch) end(ctx context.Context, i int, p pending) batchResult {
	result, err := batchResult{}, p.err
	if err == nil {
		result, err = p.settle(ctx)
	}
	if err == nil {
		result.Index = i
		return result
	}
	e := httpkit.Conceal(b.who, httpkit.Public(err))
	if e.Code == sluice.Internal && ctx.Err() == nil {
		b.s.opts.Logger.LogAttrs(ctx, slog.LevelError, "item of a batch", slog.Int("index", i), slog.Any("error", err))
	}
	failure := &httpkit.FailureError{Code: e.Code, Message: e.Message, Details: e.Details}
	if failure.Details == nil {
		failure.Details = map[string]any{}
	}
	return batchResult{Index: i, Status: itemError, Error: failure}
}

// inOrder calls begin for 0 to n-1, runs the returned functions concurrently, at most most at a
// time, and calls each with their results in that order. After an error of each, it waits for the
// functions that run, and returns the error.
func inOrder[T any](n, most int, begin func(int) func() T, each func(int, T) error) error {
	begun := make(chan chan T, most)
	next := 0
	one := func() {
		run, result := begin(next), make(chan T, 1)
		begun <- result
		go func() { result <- run() }()
		next++
	}
	for next < min(n, most) {
		one()
	}
	for i := range n {
		if err := each(i, <-<-begun); err != nil {
			for range next - i - 1 {
				<-<-begun
			}
			return err
		}
		if next < n {
			one()
		}
	}
	return nil
}
