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
	// A silent connection counts as lost after this time; a server sends something every 15 s.
	feedSilence = 90 * time.Second
	feedAgain   = 100 * time.Millisecond
	feedMost    = 5 * time.Second
)

// FeedQuery selects the events of a feed; all fields are optional.
type FeedQuery struct {
	Pattern  sluice.Pattern
	Types    []string
	Sources  []string
	Subjects []string // subjects of an event, or subjects related to it
	Labels   map[string][]string
	CEL      string
	// A sequence, an event ID or "-1" (the start), exclusive; an RFC 3339 time; LastPerPath;
	// default: new events only.
	Since string
	// FeedItem.Incarnation of the log that Since is of: code WindowExceeded if the log is another
	// one by now; default: the present one.
	Incarnation string
	Projection  string // sluice.ProjectionFull, …; default: the summary if the catalogue defines one
	Buffer      int    // number of events that the reader may lag behind

	CoalesceLabels []string      // within a window, events with equal values of these labels are merged
	CoalesceWindow time.Duration // default 100 ms
	CoalesceFirst  bool          // keep the first event of a window instead of the last
}

// FeedItem is one item of a feed: an event, or a notification about the feed.
type FeedItem struct {
	Event     *sluice.Event
	Seq       uint64 // the highest sequence that the event stands for
	Coalesced int    // number of events that it stands for

	Subscribed  *uint64  // a connection was opened; the last sequence at that time
	Incarnation string   // with Subscribed: the ID of the log, or of the copy of a mirror
	Lagged      *FeedLag // events were missed
	Away        error    // the connection was lost; the feed reconnects and resumes

	// Of the feed of a mirror: an entry, a range that it lacks, or how far it has come after a step.
	Mirrored *sluice.MirroredItem
	Gap      *sluice.MirrorGap
	Synced   *sluice.MirrorSynced

	Resume string // Since of a query that resumes after this item
}

// FeedLag describes the events that a slow reader missed, or that are lost to damage.
type FeedLag struct {
	Missed  int    `json:"missed_count"`         // frames dropped between the previous and the next event
	Oldest  uint64 `json:"oldest_available_seq"` // sequence of the next event
	Current uint64 `json:"current_seq"`          // sequence of the last event

	// Unreadable is the range of the events that are lost because the files of the log are damaged;
	// Missed is their number on all paths, at most, and Oldest the sequence after them. nil: the
	// reader was too slow.
	Unreadable *sluice.Gap `json:"unreadable,omitempty"`
}

// FeedTicket opens feeds of a namespace where no token can be sent, such as in a page's
// EventSource.
type FeedTicket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
	// URL of a feed, including the ticket; query parameters can be appended with "&".
	URL string `json:"url"`
}

// FeedTicket returns a ticket that opens feeds of a namespace on behalf of the client's principal.
// It is valid for ttl, from 1 s to 1 h, or for a minute if ttl is 0, and is a secret until it
// expires.
func (c *Client) FeedTicket(ctx context.Context, namespace string, ttl time.Duration) (FeedTicket, error) {
	body := map[string]sluice.Duration{}
	if ttl != 0 {
		body["ttl"] = sluice.Duration(ttl)
	}
	return send[FeedTicket](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "feed", "tickets")}, body)
}

// Feed yields the stored events of a namespace after a position, in log order, and then new events
// as they arrive, each once. A lost connection is reopened for as long as ctx lasts, after the last
// yielded event; the first connection is retried as often as other calls. With coalescing labels,
// an event may then be repeated. An error is the last item: that of ctx, or a refusal of the
// server, with code WindowExceeded if events after the position are no longer stored, or if the log
// is another one than before: the namespace was recreated or restored.
func (c *Client) Feed(ctx context.Context, namespace string, q FeedQuery) iter.Seq2[FeedItem, error] {
	if q.Since == LastPerPath {
		return c.fromState(ctx, namespace, q)
	}
	return func(yield func(FeedItem, error) bool) {
		c.follow(ctx, feeding{client: c, path: join(namespaces, namespace, "feed"), query: q.params(), resume: q.Since, yield: yield})
	}
}

// follow yields the items of a feed, over as many connections as it takes.
func (c *Client) follow(ctx context.Context, f feeding) {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(feedAgain), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(feedMost), backoff.WithMaxElapsedTime(0))
	for tries := uint64(0); ; tries++ {
		was := f.connected
		err := f.connect(ctx)
		switch {
		case f.stopped:
			return
		case ctx.Err() != nil:
			f.yield(FeedItem{}, fmt.Errorf("feed: %w", context.Cause(ctx)))
			return
		case !f.mayAgain(err), f.connected == 0 && tries >= c.Retries:
			f.yield(FeedItem{}, err)
			return
		}
		if f.connected > was {
			wait.Reset()
			if !f.yield(FeedItem{Away: err, Resume: f.resume}, nil) {
				return
			}
		}
		pause(ctx, wait.NextBackOff())
	}
}

// mayAgain reports whether reconnecting may succeed. After a lost connection, the server may still
// count the old one against its limit.
func (f *feeding) mayAgain(err error) bool {
	code := sluice.CodeOf(err)
	return code == sluice.Unavailable || code == sluice.QuotaExceeded && f.connected > 0
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (q FeedQuery) params() url.Values {
	query := params("pattern", string(q.Pattern), "types", strings.Join(q.Types, ","), "cel", q.CEL, "projection", q.Projection,
		"incarnation", q.Incarnation, "buffer", number(q.Buffer), "coalesce_labels", strings.Join(q.CoalesceLabels, ","))
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

// feeding is the state of a feed while it is read.
type feeding struct {
	client    *Client
	path      string
	query     url.Values
	resume    string // position to resume after
	connected int    // number of connections so far
	stopped   bool   // the consumer stopped iterating
	yield     func(FeedItem, error) bool
}

// connect reads one connection to its end and returns the reason: code Unavailable if a new
// connection may help.
func (f *feeding) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(feedSilence, func() { cancel(sluice.Errorf(sluice.Unavailable, "the server was silent for %s", feedSilence)) })
	defer silent.Stop()
	body, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // the body has been read; the error does not matter
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
		case "": // end of an event, or a comment: nothing to yield
			f.resume = id
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "the feed from %s was interrupted", f.client.base), cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// wholeLines is bufio.ScanLines, except that it drops an incomplete last line of a broken
// connection.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if bytes.IndexByte(data, '\n') < 0 {
		return 0, nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// open sends the request and returns the response body.
func (f *feeding) open(ctx context.Context) (io.ReadCloser, error) {
	c := f.client
	target := c.base + f.path
	if len(f.query) > 0 {
		target += "?" + f.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "%q is not a server URL: %v", c.base, err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if f.resume != "" {
		req.Header.Set("Last-Event-ID", f.resume)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return nil, noResponse(ctx, c.base, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }() // the body has been read; the error does not matter
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return nil, noResponse(ctx, c.base, err)
	}
	return nil, readError(resp, body)
}

// take yields a frame. A frame of an unknown kind only advances the position.
func (f *feeding) take(text, id string) error {
	var frame struct {
		Subscribed bool          `json:"subscribed"`
		Log        string        `json:"incarnation"`
		Current    uint64        `json:"current_seq"`
		Seq        uint64        `json:"seq"`
		Event      *sluice.Event `json:"event"`
		Coalesced  int           `json:"coalesced"`
		Lagged     *FeedLag      `json:"lagged"`
		Error      *sluice.Error `json:"error"`

		Item   *sluice.MirroredItem `json:"item"`
		Gap    *sluice.MirrorGap    `json:"gap"`
		Synced *sluice.MirrorSynced `json:"synced"`
	}
	if err := json.Unmarshal([]byte(text), &frame); err != nil {
		return fmt.Errorf("GET %s: a frame does not have the expected JSON structure: %w", f.path, err)
	}
	item := FeedItem{Event: frame.Event, Seq: frame.Seq, Lagged: frame.Lagged, Resume: id, Mirrored: frame.Item, Gap: frame.Gap, Synced: frame.Synced}
	switch {
	case frame.Error != nil:
		return frame.Error
	case frame.Subscribed:
		f.connected++
		item.Subscribed, item.Incarnation = &frame.Current, frame.Log
		if frame.Log != "" {
			f.query.Set("incarnation", frame.Log) // the place to resume after is one of this log
		}
	case frame.Event != nil:
		item.Coalesced = max(1, frame.Coalesced)
	case frame.Lagged == nil && frame.Item == nil && frame.Gap == nil && frame.Synced == nil:
		return nil
	}
	f.stopped = !f.yield(item, nil)
	return nil
}
