package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/sockettest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const feedAt = "/v1/namespaces/default/feed"

// shown is a frame of a feed, as it came over the wire.
type shown struct {
	ID string `json:"-"` // of the server-sent event

	Subscribed bool          `json:"subscribed"`
	Current    uint64        `json:"current_seq"`
	Seq        uint64        `json:"seq"`
	Event      *sluice.Event `json:"event"`
	Coalesced  int           `json:"coalesced"`
	Resume     uint64        `json:"resume"`
	Lagged     *struct {
		Missed  int    `json:"missed_count"`
		Oldest  uint64 `json:"oldest_available_seq"`
		Current uint64 `json:"current_seq"`

		Unreadable *sluice.Gap `json:"unreadable"`
	} `json:"lagged"`
	Error *struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	} `json:"error"`
	Heartbeat *struct {
		Seq uint64 `json:"seq"`
	} `json:"heartbeat"`
}

// feedReader reads a feed.
type feedReader struct {
	t    *testing.T
	next func() (shown, error)
	stop func()
}

// feed opens a feed as curl does, and reads the acknowledgement.
func (s *running) feed(t *testing.T, query string, headers ...string) (*feedReader, shown) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at.HTTP+feedAt+"?"+query, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.api.HTTP.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	lines := bufio.NewReader(resp.Body)
	r := &feedReader{t: t, stop: cancel, next: func() (f shown, err error) {
		for id := ""; ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return f, err
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			switch value = strings.TrimPrefix(value, " "); {
			case name == "id":
				id = value
			case name == "" && value == "heartbeat":
				f.Heartbeat = &struct {
					Seq uint64 `json:"seq"`
				}{}
				f.Heartbeat.Seq, err = strconv.ParseUint(id, 10, 64)
				return f, err
			case name == "data":
				err := json.Unmarshal([]byte(value), &f)
				f.ID = id
				return f, err
			}
		}
	}}
	return r, r.acknowledged()
}

// socket opens a feed over a WebSocket, and reads the acknowledgement.
func (s *running) socket(t *testing.T, query string, headers ...string) (*feedReader, shown) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	header := http.Header{"Authorization": {"Bearer " + s.token}}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	conn, _, err := sockettest.Dial(ctx, s.api.HTTP, s.at.HTTP+feedAt+"?"+query, header) //nolint:bodyclose // it is the connection's
	require.NoError(t, err)
	t.Cleanup(conn.CloseNow)
	r := &feedReader{t: t, stop: cancel, next: func() (f shown, err error) {
		text, err := conn.Read(ctx)
		if err != nil {
			return f, err
		}
		return f, json.Unmarshal(text, &f)
	}}
	return r, r.acknowledged()
}

func (r *feedReader) acknowledged() shown {
	r.t.Helper()
	f, err := r.next()
	require.NoError(r.t, err)
	require.True(r.t, f.Subscribed, "the first frame acknowledges")
	return f
}

// frame returns the next frame that is no heartbeat.
func (r *feedReader) frame() shown {
	r.t.Helper()
	for {
		f, err := r.next()
		require.NoError(r.t, err)
		if f.Heartbeat == nil {
			return f
		}
	}
}

// events returns the data of the next events.
func (r *feedReader) events(count int) (data []string) {
	r.t.Helper()
	for range count {
		f := r.frame()
		require.NotNil(r.t, f.Event, "%+v", f)
		require.Equal(r.t, f.Seq, f.Event.Seq)
		data = append(data, string(f.Event.Data))
	}
	return data
}

// S2-84, S2-123…129, S2-136…138: a feed acknowledges, shows what came before if that is asked for, and goes on.
func TestFeed_AcknowledgesReplaysAndContinuesLive(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for name, open := range map[string]func(query string) (*feedReader, shown){
		"server-sent events": func(query string) (*feedReader, shown) { return s.feed(t, query) },
		"WebSocket":          func(query string) (*feedReader, shown) { return s.socket(t, query) },
	} {
		id := func(n int) string { return fmt.Sprintf("%s-%d", strings.ReplaceAll(name, " ", "-"), n) }
		publish := func(n int) sluice.Stored {
			stored, err := s.api.Publish(t.Context(), "default", sluice.Event{ID: id(n), Path: "/a/b", Type: "t", Data: fmt.Appendf(nil, "{\n \"n\": %d}", n)})
			require.NoError(t, err)
			return stored[0]
		}
		first := publish(1)
		publish(2)
		last := publish(3)

		for _, since := range []string{strconv.FormatUint(first.Seq, 10), id(1)} {
			r, ack := open("since=" + url.QueryEscape(since))
			require.Equal(t, last.Seq, ack.Current, name)
			for n := 2; n <= 3; n++ {
				f := r.frame()
				require.Equal(t, id(n), f.Event.ID, name)
				require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, n), string(f.Event.Data), "a line break in the data ends nothing")
			}
			r.stop()
		}
		live, _ := open("")
		replayed, _ := open("since=" + strconv.FormatUint(last.Seq-1, 10))
		publish(4)
		require.Equal(t, id(4), live.frame().Event.ID, "without since nothing comes from before")
		require.Equal(t, id(3), replayed.frame().Event.ID)
		require.Equal(t, id(4), replayed.frame().Event.ID)
	}
	s.must(t, http.StatusNotFound, "GET "+feedAt+"?since=no-such-event", "")
	s.must(t, http.StatusBadRequest, "GET "+feedAt+"?unknown=1", "")
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/none/feed", "")
}

// C11: a browser that comes back says in Last-Event-ID what it has, and repeats its first request.
func TestFeed_ResumesBehindLastEventID(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/a", 1, 3)
	r, _ := s.feed(t, "since=-1")
	require.Equal(t, []string{`{"n":1}`}, r.events(1))
	id := r.frame().ID
	r.stop()
	require.Equal(t, "2", id)
	again, _ := s.feed(t, "since=-1", "Last-Event-ID", id)
	require.Equal(t, []string{`{"n":3}`}, again.events(1))
}

// C11, S2-138: what is no longer kept is refused, with both sequences, before anything is sent.
func TestFeed_RefusesExpiredPlacesBeforeSending(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/a", 1, 5)
	log, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	require.NoError(t, log.Purge(t.Context(), jetstream.WithPurgeSequence(4)))
	for _, how := range [][]string{{"since=1"}, {"", "Last-Event-ID", "2"}, {"since=1", "Connection", "Upgrade", "Upgrade", "websocket"}} {
		got := s.must(t, http.StatusGone, "GET "+feedAt+"?"+how[0], "", how[1:]...)
		require.Equal(t, "replay_window_exceeded", got.field(t, "error.code"))
		require.InDelta(t, 4, got.field(t, "error.details.oldest_available_seq"), 0)
		require.InDelta(t, 5, got.field(t, "error.details.current_seq"), 0)
	}
	r, _ := s.feed(t, "since=3")
	require.Equal(t, []string{`{"n":4}`, `{"n":5}`}, r.events(2))
}

// S2-140, C19: what is filtered is so on replay and live, by every dimension.
func TestFeed_FiltersReplayAndLive(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/default/event-types/order.paid", `{"static_labels":{"team":"money"}}`)
	publish := func() {
		for i, e := range []string{
			`{"path":"/o/1","type":"order.paid","source":"/shop,1","data":{"region":"eu","total":5}}`,
			`{"path":"/o/2","type":"order.sent","source":"/shop","data":{"region":"us","total":50}}`,
			`{"path":"/x/3","type":"other","data":{"region":"eu","total":500}}`,
			`{"path":"/end","type":"end","source":"/shop,1","data":{"region":"eu","total":1000,"team":"money"}}`,
		} {
			s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", strings.Replace(e, "{", fmt.Sprintf(`{"id":"%d-%s",`, i, time.Now()), 1))
		}
	}
	publish()
	want := map[string]string{
		"types=order.*,end":                               "/o/1 /o/2 /end",
		"types=order.paid&types=end":                      "/o/1 /end",
		"sources=/shop,1":                                 "/o/1 /end",
		"labels=region=eu&cel=event.data.total%3E100":     "/x/3 /end",
		"labels=region=us&labels=region=eu&types=order.*": "/o/1 /o/2",
		"labels=team=money":                               "/o/1 /end",
		"pattern=/o/*":                                    "/o/1 /o/2",
		"pattern=/**&types=end":                           "/end",
	}
	readers := map[string]*feedReader{}
	for query, paths := range want {
		readers[query], _ = s.feed(t, query+"&since=-1")
		require.Equal(t, paths, readers[query].paths(len(strings.Fields(paths))), query)
	}
	publish()
	for query, paths := range want {
		require.Equal(t, paths, readers[query].paths(len(strings.Fields(paths))), query)
	}
	s.must(t, http.StatusBadRequest, "GET "+feedAt+"?cel=1%2B", "")
	s.must(t, http.StatusBadRequest, "GET "+feedAt+"?labels=region", "")
}

func (r *feedReader) paths(count int) string {
	r.t.Helper()
	var all []string
	for range count {
		all = append(all, string(r.frame().Event.Path))
	}
	return strings.Join(all, " ")
}

// C43, S0-57…64 for feeds: what the caller may not see is not there, and access that is lost ends the feed at once.
func TestFeed_EndsWithItsAccess(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	g := s.grant(t, "user:ann", "path:default/a/**", "read")
	r, _ := s.feed(t, "pattern=/**", as(g.token)...)
	idle, _ := s.feed(t, "pattern=/a/none", as(g.token)...)
	socket, _ := s.socket(t, "pattern=/a/none", as(g.token)...)
	put(t, s.api, "/b", 1, 1)
	put(t, s.api, "/a/x", 2, 2)
	require.Equal(t, []string{`{"n":2}`}, r.events(1))
	s.must(t, http.StatusForbidden, "GET "+feedAt+"?pattern=/b", "", as(g.token)...)
	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	put(t, s.api, "/a/x", 3, 3)
	for _, r := range []*feedReader{r, idle, socket} {
		f := r.frame()
		require.NotNil(t, f.Error, "%+v", f)
		require.Contains(t, []string{"forbidden", "not_found"}, f.Error.Code)
		require.Contains(t, f.Error.Message, "you lost access", "it says why")
		_, err := r.next()
		require.Error(t, err, "it is over")
	}
	s.must(t, http.StatusUnauthorized, "GET "+feedAt, "", as(g.token)...)
}

// drained reads the feed until it ends, and returns how far it has come.
func (r *feedReader) drained() *atomic.Uint64 {
	var reached atomic.Uint64
	go func() {
		for {
			f, err := r.next()
			if err != nil {
				return
			}
			if f.Lagged != nil {
				f.Seq = f.Lagged.Current
			}
			reached.Store(max(reached.Load(), f.Seq))
		}
	}()
	return &reached
}

// keepingLittle returns the server as a client sees it whose connections receive 64 KiB ahead of what is read. Without that the
// kernel may take up to 10 MB for a connection of the loopback address.
func (s *running) keepingLittle(t *testing.T) *running {
	t.Helper()
	var dialer net.Dialer
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn, conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	api := client.New(s.at.HTTP, s.token)
	api.HTTP = &http.Client{Transport: transport}
	return &running{api: api, at: s.at, dir: s.dir, token: s.token}
}

// S2-88…91, S2-93: a reader that takes nothing delays no other; it is told how many it missed, which is what lies between.
func TestFeed_SlowReaderLearnsTheExactGap(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Feed.Ring = 16 })
	slow, _ := s.keepingLittle(t).feed(t, "pattern=/large/*")
	fast, _ := s.feed(t, "pattern=/large/*&buffer=1000")
	reached := fast.drained()
	missed, last := publishLarge(t, s, 120)
	eventually(t, func() bool { return reached.Load() >= last }, "all have come to the feeds")
	seen := uint64(0)
	lags := 0
	for seen < last {
		f := slow.frame()
		if f.Lagged == nil {
			require.Greater(t, f.Seq, seen)
			seen = f.Seq
			delete(missed, f.Seq)
			continue
		}
		lags++
		between := 0
		for seq := range missed {
			if seq > seen && seq < f.Lagged.Oldest {
				between++
				delete(missed, seq)
			}
		}
		require.Equal(t, between, f.Lagged.Missed)
		require.LessOrEqual(t, f.Lagged.Oldest, f.Lagged.Current)
		next := slow.frame()
		require.Equal(t, f.Lagged.Oldest, next.Seq, "it goes on there")
		seen = next.Seq
		delete(missed, seen)
	}
	require.Empty(t, missed, "neither sent nor told")
	require.Positive(t, lags)
	metrics := s.must(t, http.StatusOK, "GET /metrics", "").text
	require.Regexp(t, `(?m)^sluice_feeds 2$`, metrics)
	require.Regexp(t, `(?m)^sluice_feed_missed_total [1-9]`, metrics)
}

// publishLarge publishes large events and small ones, and a last one, and returns the sequences of those below /large.
func publishLarge(t *testing.T, s *running, count int) (large map[uint64]bool, last uint64) {
	t.Helper()
	large = map[uint64]bool{}
	data := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	for i := range count + 1 {
		ev := sluice.Event{ID: strconv.Itoa(i), Path: sluice.Path([]string{"/large/a", "/large/b", "/small"}[i%3]), Type: "t", Data: data}
		if ev.Path == "/small" {
			ev.Data = []byte("1")
		}
		stored, err := s.api.Publish(t.Context(), "default", ev)
		require.NoError(t, err)
		if ev.Path != "/small" {
			last = stored[0].Seq
			large[last] = true
		}
	}
	return large, last
}
