package wakesuite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	patience = 3 * time.Minute // how long a test waits for an expected event
	aMoment  = 2 * time.Second // how long a test checks that an event does not come
)

// nothing is the offset before all events.
const nothing = "-1"

// world is the environment of one test: its paths and ids, and its client of the server. Its
// methods fail the test, so they are for its goroutine. try is the exception.
type world struct {
	t      *testing.T
	server Server
	http   *http.Client
	name   string
}

// path returns a path that no other test has.
func (w *world) path(rest string) string { return "/" + w.name + "/" + rest }

// at returns the URL of a path or a pattern.
func (w *world) at(path string) string {
	return w.server.Base + strings.ReplaceAll((&url.URL{Path: path}).EscapedPath(), "%2A", "*")
}

// reply is the server's answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.body) }

// try sends a request. Line is the method and the URL; headers alternate names and values. An empty
// value removes a header, for example the authorization.
func (w *world) try(ctx context.Context, line, body string, headers ...string) (reply, error) {
	method, target, _ := strings.Cut(line, " ")
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if w.server.Token != "" {
		req.Header.Set("Authorization", "Bearer "+w.server.Token)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Del(pair[0])
		if pair[1] != "" {
			req.Header.Set(pair[0], pair[1])
		}
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: data}, err
}

// send is try for a request that must be answered. It retries after a 503, as RFC 9110 permits
// clients, because the server's store may be slow on a busy machine. The server may therefore
// perform it twice; see insist.
func (w *world) send(line, body string, headers ...string) reply {
	w.t.Helper()
	return w.insist(func() {}, line, body, headers...)
}

// insist is send, but calls undo before each retry, to undo a possible effect of the request. The
// retries end after patience, with the 503 as the reply.
func (w *world) insist(undo func(), line, body string, headers ...string) reply {
	w.t.Helper()
	for began := time.Now(); ; undo() {
		r, err := w.try(w.t.Context(), line, body, headers...)
		require.NoError(w.t, err, line)
		if r.status != http.StatusServiceUnavailable || time.Since(began) > patience {
			return r
		}
		w.t.Logf("%s: %s", line, r)
		w.quiet(time.Second)
	}
}

// must is send with a required status.
func (w *world) must(status int, line, body string) reply {
	w.t.Helper()
	r := w.send(line, body)
	require.Equal(w.t, status, r.status, "%s: %s", line, r.body)
	return r
}

// create creates a JSON stream with messages, and returns its end offset. The path must be new: a
// retry deletes the stream first.
func (w *world) create(path, messages string) string {
	w.t.Helper()
	r := w.insist(func() { w.send("DELETE "+w.at(path), "") }, "PUT "+w.at(path), messages)
	require.Equal(w.t, http.StatusCreated, r.status, "%s", r.body)
	return r.header.Get("Stream-Next-Offset")
}

// append adds a message and returns its offset.
func (w *world) append(path, message string) string {
	w.t.Helper()
	r := w.must(http.StatusNoContent, "POST "+w.at(path), message)
	offset := r.header.Get("Stream-Next-Offset")
	require.NotEmpty(w.t, offset)
	return offset
}

// remove deletes a stream.
func (w *world) remove(path string) {
	w.t.Helper()
	w.must(http.StatusNoContent, "DELETE "+w.at(path), "")
}

// read returns the messages after an offset, and the offset of the last one. It returns one page.
func (w *world) read(path, offset string) ([]json.RawMessage, string) {
	w.t.Helper()
	r := w.must(http.StatusOK, "GET "+w.at(path)+"?offset="+url.QueryEscape(offset), "")
	var messages []json.RawMessage
	require.NoError(w.t, json.Unmarshal(r.body, &messages))
	return messages, r.header.Get("Stream-Next-Offset")
}

// subscription is a subscription as the server represents it.
type subscription struct {
	ID          string `json:"subscription_id"`
	Pattern     string `json:"pattern"`
	Webhook     string `json:"webhook"`
	Secret      string `json:"webhook_secret"`
	Description string `json:"description"`
}

// id returns an id of a subscription that no other test has.
func (w *world) id(rest string) string { return w.name + "-" + rest }

// one returns the URL of a subscription.
func (w *world) one(pattern, id string) string {
	return w.at(pattern) + "?subscription=" + url.QueryEscape(id)
}

// wish returns the body of a request for a subscription.
func wish(webhook string) string { return encode(fields{"webhook": webhook}) }

// ask requests a subscription, and deletes it when the test ends. The reply is of any status.
func (w *world) ask(pattern, id, body string) reply {
	w.t.Helper()
	w.forgetLater(pattern, id)
	return w.insist(func() { w.send("DELETE "+w.one(pattern, id), "") }, "PUT "+w.one(pattern, id), body)
}

// forgetLater deletes a subscription, if it exists, when the test has ended.
func (w *world) forgetLater(pattern, id string) {
	w.t.Helper()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), patience)
		defer cancel()
		if _, err := w.try(ctx, "DELETE "+w.one(pattern, id), ""); err != nil {
			w.t.Errorf("delete subscription %s: %v", id, err)
		}
	})
}

// subscribe creates a subscription with the receiver as its endpoint.
func (w *world) subscribe(pattern string, hook *receiver) subscription {
	w.t.Helper()
	r := w.ask(pattern, w.id(hook.name), wish(hook.url()))
	require.Equal(w.t, http.StatusCreated, r.status, "%s", r.body)
	sub := decode[subscription](w, r.body)
	require.NotEmpty(w.t, sub.Secret)
	hook.know(sub)
	return sub
}

// quiet waits for a time.
func (w *world) quiet(d time.Duration) {
	w.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.t.Context().Done():
	}
}

// until waits for a condition, and fails the test if the condition does not hold within the limit.
// ok is called in this goroutine, every 20 ms.
func (w *world) until(limit time.Duration, ok func() bool, what string, args ...any) {
	w.t.Helper()
	over := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-over:
			require.FailNow(w.t, "waited in vain: "+fmt.Sprintf(what, args...))
		}
	}
}

func number(n int) string { return strconv.Itoa(n) }

// fields is an object of JSON.
type fields map[string]any

func encode(f fields) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		panic(err) // of texts, numbers and lists of them
	}
	return b.String()
}

func decode[T any](w *world, data []byte) T {
	w.t.Helper()
	var v T
	require.NoError(w.t, json.Unmarshal(data, &v), "%s", data)
	return v
}
