package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/sockettest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Buffers and segments of readers, in bytes: one who reads nothing is noticed soon. Segments are those of a network: those of
// the loopback interface are larger than a small window, and Linux then sends the next one only when its timer says so, which
// doubles each time.
const smallReceive, smallSegment = 32 << 10, 1400

// glance is what a test looks at of a frame, over any wire.
type glance struct {
	began  *uint64 // it acknowledges: the last sequence then
	seq    uint64  // of an event
	id     string  // of the event
	path   string  // of the event
	lag    *client.FeedLag
	resume string // behind which to go on
}

// place is a server as its readers know it.
type place struct{ url, token string }

// at returns where a running server is.
func (s *running) place() place { return place{s.at.HTTP, s.token} }

// wire reads one connection of a feed. It returns when the connection is over, or each returns false, which is no error.
type wire struct {
	name string
	read func(ctx context.Context, at place, query url.Values, resume string, each func(glance) bool) error
}

// wires returns the ways to read a feed.
func wires() []wire {
	return []wire{{"server-sent events", readEvents}, {"WebSocket", readSocket}, {"Go client", readClient}}
}

// ownHTTP returns a client with connections of its own and small buffers, and what closes those that are idle.
func ownHTTP() (*http.Client, func()) {
	dialer := &net.Dialer{Control: func(_, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) {
			failed = hooktest.TakeLittle(fd, smallReceive, smallSegment)
		})
		return errors.Join(err, failed)
	}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	return &http.Client{Transport: transport}, transport.CloseIdleConnections
}

// wireFrame is a frame as it comes over the wire, as far as a test looks at it.
type wireFrame struct {
	Subscribed bool   `json:"subscribed"`
	Current    uint64 `json:"current_seq"`
	Seq        uint64 `json:"seq"`
	Resume     uint64 `json:"resume"`
	Event      *struct {
		ID   string `json:"id"`
		Path string `json:"path"`
	} `json:"event"`
	Lagged    *client.FeedLag `json:"lagged"`
	Error     *sluice.Error   `json:"error"`
	Heartbeat *struct {
		Seq uint64 `json:"seq"`
	} `json:"heartbeat"`
}

// look reads a frame; resume is where to go on behind it as the wire says, or empty.
func look(text []byte, resume string) (g glance, err error) {
	var f wireFrame
	if err := json.Unmarshal(text, &f); err != nil {
		return g, err
	}
	switch g = (glance{resume: resume, lag: f.Lagged}); {
	case f.Error != nil:
		return g, f.Error
	case f.Subscribed:
		g.began = &f.Current
	case f.Heartbeat != nil:
		g.resume = strconv.FormatUint(f.Heartbeat.Seq, 10)
	case f.Event != nil:
		g.seq, g.id, g.path = f.Seq, f.Event.ID, f.Event.Path
		behind := f.Seq
		if f.Resume > 0 {
			behind = f.Resume
		}
		g.resume = strconv.FormatUint(behind, 10)
		if resume != "" && g.resume != resume {
			return g, fmt.Errorf("the event %d has the id %s", f.Seq, resume)
		}
	}
	return g, nil
}

// refusal is the error of an answer that is no feed, or of there being none.
func refusal(resp *http.Response, err error) error {
	switch {
	case resp == nil:
		return err
	case resp.StatusCode == http.StatusServiceUnavailable:
		return sluice.Errorf(sluice.Unavailable, "the server responded %s", resp.Status)
	}
	return fmt.Errorf("the server responded %s", resp.Status)
}

// readEvents reads server-sent events as a browser does: it comes back with Last-Event-ID.
func readEvents(ctx context.Context, at place, query url.Values, resume string, each func(glance) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url+feedAt+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+at.token)
	if resume != "" {
		req.Header.Set("Last-Event-ID", resume)
	}
	api, idle := ownHTTP()
	defer idle()
	resp, err := api.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, nil)
	}
	lines := bufio.NewReaderSize(resp.Body, 16<<10)
	for id := ""; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			g, err := look([]byte(value), id)
			if err != nil || !each(g) {
				return err
			}
			id = ""
		}
	}
}

// readSocket reads a WebSocket, and comes back with since.
func readSocket(ctx context.Context, at place, query url.Values, resume string, each func(glance) bool) error {
	target := at.url + feedAt + "?" + query.Encode()
	if resume != "" {
		target += "&since=" + resume
	}
	api, idle := ownHTTP()
	defer idle()
	conn, resp, err := sockettest.Dial(ctx, api, target, http.Header{"Authorization": {"Bearer " + at.token}})
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close() // its status is what counts
		}
		return refusal(resp, err)
	}
	defer conn.CloseNow()
	for {
		text, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		g, err := look(text, "")
		if err != nil || !each(g) {
			return err
		}
	}
}

// readClient reads with the Go client, which comes back by itself until ctx ends.
func readClient(ctx context.Context, at place, query url.Values, resume string, each func(glance) bool) error {
	api := client.New(at.url, at.token)
	var idle func()
	api.HTTP, idle = ownHTTP()
	defer idle()
	for item, err := range api.Feed(ctx, "default", queryOf(query, resume)) {
		if err != nil {
			return err
		}
		if item.Away != nil {
			continue
		}
		g := glance{began: item.Subscribed, seq: item.Seq, lag: item.Lagged, resume: item.Resume}
		if item.Event != nil {
			g.id, g.path = item.Event.ID, string(item.Event.Path)
		}
		if !each(g) {
			return nil
		}
	}
	return nil
}

// queryOf returns the query of the Go client that is the same as that of a URL.
func queryOf(query url.Values, resume string) client.FeedQuery {
	q := client.FeedQuery{
		Pattern: sluice.Pattern(query.Get("pattern")), CEL: query.Get("cel"), Projection: query.Get("projection"), Since: resume,
		Sources: query["sources"],
	}
	q.Buffer, _ = strconv.Atoi(query.Get("buffer")) // 0 if there is none
	if types := query.Get("types"); types != "" {
		q.Types = strings.Split(types, ",")
	}
	for _, label := range query["labels"] {
		name, value, _ := strings.Cut(label, "=")
		if q.Labels == nil {
			q.Labels = map[string][]string{}
		}
		q.Labels[name] = append(q.Labels[name], value)
	}
	return q
}
