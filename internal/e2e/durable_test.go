package e2e_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const durableAt = "/streams/default"

// text says that a request's body is text.
func text() []string { return []string{"Content-Type", "text/plain"} }

// What is appended is an event on the path like any other; each message of JSON is one.
func TestStream_AppendsAreDelivered(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	subscribe(t, s.api, wish(hook.URL, `"pattern":"/v1/stream/**"`, `"policy":{"ordering":"all"}`))
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/v1/stream/notes", "first", text()...)
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/v1/stream/notes", "second", text()...)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/v1/stream/facts", "[]")
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/v1/stream/facts", `[{"n":1},[2],"three"]`)
	requests := hook.Wait(5)
	var got []string
	for _, r := range requests {
		ev := parse(t, r)
		require.Equal(t, sluice.DefaultType, ev.Type)
		require.Equal(t, "root", ev.Extensions[sluice.AuthID], "who appended it is in it")
		got = append(got, ev.Path+" "+string(ev.Data))
	}
	require.Equal(t, []string{
		"/v1/stream/notes first", "/v1/stream/notes second",
		`/v1/stream/facts {"n":1}`, "/v1/stream/facts [2]", `/v1/stream/facts "three"`,
	}, got)
}

// The events of a path are a stream, of JSON if the first one is; a waiting reader gets them.
func TestStream_PublishedEventsAreRead(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	js := dial(t, s.at.NATS)
	publish := func(data string) {
		_, err := js.Publish(t.Context(), jsNames(t).EventsPrefix()+"default.plain.facts", []byte(data))
		require.NoError(t, err)
	}
	const at = durableAt + "/plain/facts"
	s.must(t, http.StatusNotFound, "GET "+at, "")
	publish(`{"a":1}`)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/plain/facts","type":"t","data":[2]}`)
	publish("no JSON")
	page := s.must(t, http.StatusOK, "GET "+at, "")
	require.Equal(t, "application/json", page.header.Get("Content-Type"))
	require.Equal(t, `[{"a":1},[2],"no JSON"]`, page.text)
	require.Equal(t, "true", page.header.Get("Stream-Up-To-Date"))

	s.must(t, http.StatusOK, "PUT "+at, "")
	s.must(t, http.StatusConflict, "PUT "+at, "", text()...)
	s.must(t, http.StatusNoContent, "POST "+at, `4`)
	publish(`5`)
	page = s.must(t, http.StatusOK, "GET "+at+"?offset="+page.header.Get("Stream-Next-Offset"), "")
	require.Equal(t, `[4,5]`, page.text)

	var waiting sync.WaitGroup
	waiting.Go(func() {
		r := s.call(t, "GET "+at+"?live=long-poll&offset="+page.header.Get("Stream-Next-Offset"), "")
		if r.status != http.StatusOK || r.text != "[6]" {
			t.Errorf("%d %s", r.status, r.text)
		}
	})
	publish(`6`)
	waiting.Wait()

	s.must(t, http.StatusNoContent, "DELETE "+at, "")
	s.must(t, http.StatusNotFound, "GET "+at, "")
	page = s.must(t, http.StatusOK, "GET /v1/namespaces/default/events?pattern=/plain/**", "")
	require.Len(t, page.field(t, "events"), 6, "the events stay in the log")
	publish(`7`)
	require.Equal(t, `[7]`, s.must(t, http.StatusOK, "GET "+at, "").text, "the path is used again")
}

// What is larger than a message of NATS is several events, stored in one piece.
func TestStream_LargeAppendIsContiguous(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const at = durableAt + "/large"
	var b strings.Builder
	for i := 0; b.Len() < 10<<20-16; i++ {
		b.WriteString(strconv.Itoa(i) + "ä")
	}
	s.must(t, http.StatusCreated, "PUT "+at, "", text()...)
	s.must(t, http.StatusNoContent, "POST "+at, b.String(), text()...)
	var got strings.Builder
	for offset := "-1"; ; {
		r := s.must(t, http.StatusOK, "GET "+at+"?offset="+offset, "")
		got.WriteString(r.text)
		offset = r.header.Get("Stream-Next-Offset")
		if r.header.Get("Stream-Up-To-Date") != "" {
			break
		}
	}
	require.Equal(t, sha256.Sum256([]byte(b.String())), sha256.Sum256([]byte(got.String())), "%d of %d bytes", got.Len(), b.Len())
	s.must(t, http.StatusRequestEntityTooLarge, "POST "+at, strings.Repeat("x", 10<<20+1), text()...)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/json", "")
	s.must(t, http.StatusRequestEntityTooLarge, "POST "+durableAt+"/json", `"`+strings.Repeat("x", 2<<20)+`"`)
}

// Two servers on one NATS: of what a producer sends to both, each append is stored once, and none behind the end.
func TestStream_ProducerBehindTwoServersIsStoredOnce(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "a password"})
	outside := func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = shared.ClientURL(), "sluice", "a password"
	}
	both := []*running{start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)}
	const at, appends = durableAt + "/p", 30
	both[0].must(t, http.StatusCreated, "PUT "+at, "", text()...)
	var all sync.WaitGroup
	var closing atomic.Int64
	for i := range 4 {
		s := both[i%2]
		all.Go(func() {
			for n := range appends {
				r := s.call(t, "POST "+at, fmt.Sprintf("%d,", n), append(text(), "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", strconv.Itoa(n))...)
				if r.status != http.StatusOK && r.status != http.StatusNoContent {
					t.Errorf("%d %s", r.status, r.text)
					return
				}
			}
			if r := s.call(t, "POST "+at, "end", append(text(), "Stream-Closed", "true")...); r.status == http.StatusNoContent {
				closing.Add(1)
			}
		})
	}
	all.Wait()
	var want strings.Builder
	for n := range appends {
		want.WriteString(strconv.Itoa(n) + ",")
	}
	page := both[1].must(t, http.StatusOK, "GET "+at, "")
	require.Equal(t, want.String()+"end", page.text)
	require.Equal(t, "true", page.header.Get("Stream-Closed"))
	require.EqualValues(t, 1, closing.Load(), "one of them closed it")
}

// kill -9 between appends: what was acknowledged is there once, and the producer goes on where it was.
func TestStream_SurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	c := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill() })
	s := &running{token: c.token(t)}
	s.at.HTTP = "http://" + c.http
	s.api = apiOf(t, s)
	const at = durableAt + "/k"
	s.must(t, http.StatusCreated, "PUT "+at, "", text()...)
	send := func(n int) reply {
		return s.call(t, "POST "+at, fmt.Sprintf("%d,", n), append(text(), "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", strconv.Itoa(n))...)
	}
	again := func() {
		c.kill(t)
		c.start(t)
		eventually(t, func() bool { return s.call(t, "GET /readyz", "").status == http.StatusOK }, "it is ready")
	}
	var want strings.Builder
	for round := range 3 {
		for i := range 5 {
			n := round*5 + i
			require.Equal(t, http.StatusOK, send(n).status)
			want.WriteString(strconv.Itoa(n) + ",")
		}
		again()
		require.Equal(t, http.StatusNoContent, send(round*5+4).status, "it is known to be there")
		require.Equal(t, http.StatusConflict, send(round*5+6).status)
	}
	s.must(t, http.StatusNoContent, "POST "+at, "", append(text(), "Stream-Closed", "true")...)
	again()
	page := s.must(t, http.StatusOK, "GET "+at, "")
	require.Equal(t, want.String(), page.text)
	require.Equal(t, "true", page.header.Get("Stream-Closed"))
	s.must(t, http.StatusConflict, "POST "+at, "x", text()...)
}

// kill -9 while several producers append: each goes on with what was not answered, and all is there once and in order.
func TestStream_ProducersSurviveAKilledServer(t *testing.T) {
	t.Parallel()
	c := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill() })
	s := &running{token: c.token(t)}
	s.at.HTTP = "http://" + c.http
	s.api = apiOf(t, s)
	const at, producers = durableAt + "/kp", 4
	s.must(t, http.StatusCreated, "PUT "+at, "", text()...)
	var all [producers]resuming
	for i := range all {
		all[i].s, all[i].at, all[i].id = s, at, strconv.Itoa(i)
	}
	const rounds, each = 3, 60
	for round := range rounds {
		var working sync.WaitGroup
		for i := range all {
			working.Go(func() { all[i].upTo(t, int64(round+1)*each) })
		}
		if round < rounds-1 {
			eventually(t, func() bool { return all[0].next.Load() > int64(round)*each+each/2 }, "half of them are stored")
			c.kill(t)
		}
		working.Wait()
		if round < rounds-1 {
			c.start(t)
			eventually(t, func() bool { return s.call(t, "GET /readyz", "").status == http.StatusOK }, "it is ready")
		}
	}
	var got [producers][]string
	for item := range strings.SplitSeq(strings.TrimSuffix(s.must(t, http.StatusOK, "GET "+at, "").text, ","), ",") {
		p, n, _ := strings.Cut(item, ":")
		i, err := strconv.Atoi(p)
		require.NoError(t, err)
		got[i] = append(got[i], n)
	}
	for p := range producers {
		require.Len(t, got[p], rounds*each)
		for n := range got[p] {
			require.Equal(t, strconv.Itoa(n), got[p][n], "producer %d", p)
		}
	}
}

// resuming is a producer that goes on with what was not answered.
type resuming struct {
	s      *running
	at, id string
	next   atomic.Int64
}

// upTo appends until so many are stored, or the server is gone.
func (p *resuming) upTo(t *testing.T, end int64) {
	t.Helper()
	for p.next.Load() < end {
		n := p.next.Load()
		h := append(text(), "Producer-Id", p.id, "Producer-Epoch", "0", "Producer-Seq", strconv.FormatInt(n, 10))
		status, err := p.s.send(t, p.at, fmt.Sprintf("%s:%d,", p.id, n), h)
		if err != nil {
			return // whether it is stored, the next try finds out
		}
		if status != http.StatusOK && status != http.StatusNoContent {
			t.Errorf("producer %s, %d: %d", p.id, n, status)
			return
		}
		p.next.Add(1)
	}
}

// Without a token only those namespaces have streams that the operator opened, and those not any more if a label or a
// list says otherwise.
func TestStream_AnonymousCallersNeedAnOpenNamespace(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Durable.Anonymous = []string{"open"} })
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/open", `{}`)
	bare := func(line string) int { return s.call(t, line, "1", "Authorization", "").status }
	require.Equal(t, http.StatusCreated, bare("PUT /streams/open/a"))
	require.Equal(t, http.StatusNoContent, bare("POST /streams/open/a"))
	require.Equal(t, http.StatusOK, bare("GET /streams/open/a"))
	require.Equal(t, http.StatusUnauthorized, bare("GET /streams/open/_sys/server"))
	require.Equal(t, http.StatusUnauthorized, bare("PUT "+durableAt+"/a"))
	require.Equal(t, http.StatusUnauthorized, bare("GET /v1/namespaces/open/events"))
	require.Equal(t, http.StatusUnauthorized, s.call(t, "GET /streams/open/a", "", "Authorization", "Bearer nonsense").status)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/open/events",
		`{"specversion":"1.0","id":"x","source":"/x","path":"/a","type":"t","data":3,"`+sluice.AttributeClassification+`":"SECRET"}`,
		"Content-Type", "application/cloudevents+json")
	require.Equal(t, "[1,1]", s.call(t, "GET /streams/open/a", "", "Authorization", "").text, "a labelled event is hidden from anonymous callers")
	s.must(t, http.StatusOK, "PUT /v1/namespaces/open", `{"label":{"level":"SECRET"}}`)
	require.Equal(t, http.StatusUnauthorized, bare("GET /streams/open/a"))
}

// What is erased is not in any stream, nor in what was forked from it.
func TestErase_EventIsInNoStream(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const at = durableAt + "/erased"
	s.must(t, http.StatusCreated, "PUT "+at, "secret", text()...)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/fork", "", append(text(), "Stream-Forked-From", "/erased")...)
	require.Equal(t, "secret", s.must(t, http.StatusOK, "GET "+durableAt+"/fork", "").text)
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/tombstones", `{"path":"/erased"}`)
	require.Empty(t, s.must(t, http.StatusOK, "GET "+at, "").text)
	require.Empty(t, s.must(t, http.StatusOK, "GET "+durableAt+"/fork", "").text)
}

// A follower of a stream as server-sent events gets every message once, the last with the end.
func TestStream_FollowerGetsEveryMessageOnce(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const at, n = durableAt + "/live", 200
	s.must(t, http.StatusCreated, "PUT "+at, "[]")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.at.HTTP+at+"?offset=-1&live=sse", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := s.api.HTTP.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range n {
			h := []string{}
			if i == n-1 {
				h = []string{"Stream-Closed", "true"}
			}
			if r := s.call(t, "POST "+at, strconv.Itoa(i), h...); r.status != http.StatusNoContent {
				t.Errorf("%d %s", r.status, r.text)
			}
		}
	})
	var got []string
	lines, event := bufio.NewScanner(resp.Body), ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data:"); ok && event == "data" {
			got = append(got, strings.Split(strings.Trim(data, "[]"), ",")...)
		}
	}
	require.NoError(t, lines.Err(), "the server ends it")
	writing.Wait()
	require.Len(t, got, n)
	for i := range n {
		require.Equal(t, strconv.Itoa(i), got[i])
	}
}

// apiOf returns a client of a server in another process.
func apiOf(t *testing.T, s *running) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	api := client.New(s.at.HTTP, s.token)
	api.HTTP = &http.Client{Transport: transport}
	return api
}

// An offset whose second half a client counted up (@durable-streams/y-durable-streams adds one to it) is read on from,
// by GET and by a fork; one that this server cannot have given out is refused, not answered with nothing.
func TestStream_OffsetWithSecondHalf(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const at = durableAt + "/counted"
	first := s.must(t, http.StatusCreated, "PUT "+at, "first,", text()...).header.Get("Stream-Next-Offset")
	end := s.must(t, http.StatusNoContent, "POST "+at, "second,", text()...).header.Get("Stream-Next-Offset")
	counted := func(offset string) string { return offset[:len(offset)-1] + "1" }
	for _, live := range []string{"", "&live=long-poll"} {
		r := s.must(t, http.StatusOK, "GET "+at+"?offset="+counted(first)+live, "")
		require.Equal(t, "second,", r.text, live)
		require.Equal(t, end, r.header.Get("Stream-Next-Offset"), live)
	}
	s.must(t, http.StatusCreated, "PUT "+at+"/fork", "", "Content-Type", "text/plain", "Stream-Forked-From", "/counted", "Stream-Fork-Offset", counted(first))
	require.Equal(t, "first,", s.must(t, http.StatusOK, "GET "+at+"/fork", "").text)
	for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
		for _, wrong := range []string{"9999999999999999_0000000000000000", "9999999999999999_9999999999999999", "1", end + "0", "1_1"} {
			s.must(t, http.StatusBadRequest, "GET "+at+"?offset="+wrong+live, "")
		}
	}
}

// One namespace's streams are at /v1/stream too, for clients that know an origin only: the same streams, and what is said
// of them there leads there.
func TestStream_AtRoot(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Durable.AtRoot = "default" })
	made := s.must(t, http.StatusCreated, "PUT /v1/stream/docs/a%20b", "one,", text()...)
	require.True(t, strings.HasSuffix(made.header.Get("Location"), "/v1/stream/docs/a%20b"), made.header.Get("Location"))
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/docs/a%20b", "two", text()...)
	require.Equal(t, "one,two", s.must(t, http.StatusOK, "GET /v1/stream/docs/a%20b?offset=-1", "").text)
	s.must(t, http.StatusCreated, "PUT /v1/stream/fork", "", append(text(), "Stream-Forked-From", "/v1/stream/docs/a b")...)
	require.Equal(t, "one,two", s.must(t, http.StatusOK, "GET "+durableAt+"/fork", "").text)
	s.must(t, http.StatusOK, "GET /v1/stream/__ds/jwks.json", "")
	s.must(t, http.StatusUnauthorized, "GET /v1/stream/fork", "", as("")...)

	other := start(t, t.TempDir(), nil)
	other.must(t, http.StatusNotFound, "PUT /v1/stream/docs/a", "one", text()...)
}
