package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	feedSilence = 90 * time.Second // after which a connection is taken for dead: a server says something every 15 s
	feedAgain   = 100 * time.Millisecond
	feedMost    = 5 * time.Second
)

// FeedQuery says what a feed is to show; everything is optional.
type FeedQuery struct {
	Pattern    sluice.Pattern
	Types      []string
	Sources    []string
	Subjects   []string // of an event, or among those that it is related to
	Labels     map[string][]string
	CEL        string
	Since      string // behind this: a sequence, an event's id, "-1" (the beginning) or an RFC 3339 time; from LastPerPath on; what comes from now on if empty
	Projection string // sluice.ProjectionFull, …; the summary where the catalogue has one if empty
	Buffer     int    // how many events the reader may be behind before it misses some

	CoalesceLabels []string      // events with the same values of these are one within a window
	CoalesceWindow time.Duration // the server's default is 100 ms
	CoalesceFirst  bool          // the first of them, not the last
}

// FeedItem is one thing that a feed tells: an event, or one of the others.
type FeedItem struct {
	Event     *sluice.Event
	Seq       uint64 // the highest that the event stands for
	Coalesced int    // how many events it stands for

	Subscribed *uint64  // a connection was made; the last sequence then
	Lagged     *FeedLag // events were missed
	Away       error    // the connection was lost; it is made again, and the feed goes on where it was

	Resume string // Since of a query that goes on behind this item
}

// FeedLag says what a reader missed that was too slow.
type FeedLag struct {
	Missed  int    `json:"missed_count"`         // what it would have been sent between the event before and the next
	Oldest  uint64 `json:"oldest_available_seq"` // of the next
	Current uint64 `json:"current_seq"`          // of the last that there is
}

// FeedTicket opens feeds of a namespace where no token can be sent, such as in a page's EventSource.
type FeedTicket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
	URL       string    `json:"url"` // of a feed, with the ticket; "&" and more of a query may follow
}

// FeedTicket returns a ticket with which feeds of a namespace are opened as the client's token would; for so long, from 1 s to
// 1 h, or for a minute if ttl is 0. It is a secret until it expires.
func (c *Client) FeedTicket(ctx context.Context, namespace string, ttl time.Duration) (FeedTicket, error) {
	body := map[string]sluice.Duration{}
	if ttl != 0 {
		body["ttl"] = sluice.Duration(ttl)
	}
	return send[FeedTicket](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "feed", "tickets")}, body)
}

// Feed yields the events of a namespace behind a place, in the order of the log, and then as they come, each once.
// A connection that is lost, or a server that goes away, is asked again for as long as ctx lasts, behind what was
// yielded last; the first time, as often as other calls are repeated. With labels to coalesce by, an event may come again then.
// An error is the last that is yielded: that of ctx, or one of a server that refuses, with code WindowExceeded
// if what lies behind the place is no longer kept.
func (c *Client) Feed(ctx context.Context, namespace string, q FeedQuery) iter.Seq2[FeedItem, error] {
	if q.Since == LastPerPath {
		return c.fromState(ctx, namespace, q)
	}
	return func(yield func(FeedItem, error) bool) {
		f := feeding{client: c, path: join(namespaces, namespace, "feed"), query: q.params(), resume: q.Since, yield: yield}
		wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(feedAgain), backoff.WithMultiplier(2),
			backoff.WithMaxInterval(feedMost), backoff.WithMaxElapsedTime(0))
		for tries := uint64(0); ; tries++ {
			was := f.connected
			err := f.connect(ctx)
			switch {
			case f.stopped:
				return
			case ctx.Err() != nil:
				yield(FeedItem{}, fmt.Errorf("feed: %w", context.Cause(ctx)))
				return
			case !f.mayAgain(err), f.connected == 0 && tries >= c.Retries:
				yield(FeedItem{}, err)
				return
			}
			if f.connected > was {
				wait.Reset()
				if !yield(FeedItem{Away: err, Resume: f.resume}, nil) {
					return
				}
			}
			pause(ctx, wait.NextBackOff())
		}
	}
}

// mayAgain reports whether another connection may do better. Where one was lost the server may count that still, and have no room.
func (f *feeding) mayAgain(err error) bool {
	code := sluice.CodeOf(err)
	return code == sluice.Unavailable || code == sluice.QuotaExceeded && f.connected > 0
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (q FeedQuery) params() url.Values {
	query := params("pattern", string(q.Pattern), "types", strings.Join(q.Types, ","), "cel", q.CEL, "projection", q.Projection,
		"buffer", number(q.Buffer), "coalesce_labels", strings.Join(q.CoalesceLabels, ","))
	for _, source := range q.Sources {
		query.Add("sources", source)
	}
	for _, subject := range q.Subjects {
		query.Add("subjects", subject)
	}
	for name, values := range q.Labels {
		for _, value := range values {
			query.Add("labels", name+"="+value)
		}
	}
	if q.CoalesceWindow > 0 {
		query.Set("coalesce_window_ms", strconv.FormatInt(max(1, q.CoalesceWindow.Milliseconds()), 10))
	}
	if q.CoalesceFirst {
		query.Set("coalesce_keep", "first")
	}
	return query
}

// feeding is a feed while it is read.
type feeding struct {
	client    *Client
	path      string
	query     url.Values
	resume    string // behind which it goes on
	connected int    // times
	stopped   bool   // nobody wants more
	yield     func(FeedItem, error) bool
}

// connect reads one connection to its end, and returns why it ended: code Unavailable if another may do better.
func (f *feeding) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(feedSilence, func() { cancel(sluice.Errorf(sluice.Unavailable, "the server was silent for %s", feedSilence)) })
	defer silent.Stop()
	body, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was only read
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxResponse)
	lines.Split(wholeLines)
	id := f.resume
	for lines.Scan() {
		silent.Reset(feedSilence)
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimPrefix(value, " "); name {
		case "id":
			id = value
		case "data":
			if err := f.take(value, id); err != nil || f.stopped {
				return err
			}
			f.resume = id
		case "": // the end of an event, or a comment: there was nothing to send
			f.resume = id
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "the feed from %s broke off", f.client.base), cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// wholeLines is bufio.ScanLines but for what is left of a line when the connection breaks in the middle of it: that is nothing.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if bytes.IndexByte(data, '\n') < 0 {
		return 0, nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// open makes the request. The answer is its body.
func (f *feeding) open(ctx context.Context) (io.ReadCloser, error) {
	c := f.client
	target := c.base + f.path
	if len(f.query) > 0 {
		target += "?" + f.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "%q is not the address of a server: %v", c.base, err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if f.resume != "" {
		req.Header.Set("Last-Event-ID", f.resume)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, noAnswer(ctx, c.base, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return nil, noAnswer(ctx, c.base, err)
	}
	return nil, readError(resp, body)
}

// take yields a frame. Of a kind that it does not know it takes the place in the log only.
func (f *feeding) take(text, id string) error {
	var frame struct {
		Subscribed bool          `json:"subscribed"`
		Current    uint64        `json:"current_seq"`
		Seq        uint64        `json:"seq"`
		Event      *sluice.Event `json:"event"`
		Coalesced  int           `json:"coalesced"`
		Lagged     *FeedLag      `json:"lagged"`
		Error      *sluice.Error `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &frame); err != nil {
		return fmt.Errorf("GET %s: a frame is not the JSON that is expected: %w", f.path, err)
	}
	item := FeedItem{Event: frame.Event, Seq: frame.Seq, Lagged: frame.Lagged, Resume: id}
	switch {
	case frame.Error != nil:
		return frame.Error
	case frame.Subscribed:
		f.connected++
		item.Subscribed = &frame.Current
	case frame.Event != nil:
		item.Coalesced = max(1, frame.Coalesced)
	case frame.Lagged == nil:
		return nil
	}
	f.stopped = !f.yield(item, nil)
	return nil
}
