package e2e_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
)

// wakeNotice is what a webhook of the Durable Streams protocol is sent.
type wakeNotice struct {
	Subscription string `json:"subscription_id"`
	Wake         string `json:"wake_id"`
	Generation   int    `json:"generation"`
	Streams      []struct {
		Path    string `json:"path"`
		Link    string `json:"link_type"`
		Acked   string `json:"acked_offset"`
		Tail    string `json:"tail_offset"`
		Pending bool   `json:"has_pending"`
	} `json:"streams"`
	Callback string `json:"callback_url"`
	Token    string `json:"callback_token"`
}

func noticeOf(t *testing.T, r hooktest.Request) (n wakeNotice) {
	t.Helper()
	require.NoError(t, json.Unmarshal(r.Body, &n))
	return n
}

// say is what a webhook calls back with that has done all it was told of.
func (n wakeNotice) say() string {
	acks := []string{}
	for _, s := range n.Streams {
		acks = append(acks, fmt.Sprintf(`{"stream":%q,"offset":%q}`, s.Path, s.Tail))
	}
	return fmt.Sprintf(`{"wake_id":%q,"generation":%d,"acks":[%s],"done":true}`, n.Wake, n.Generation, strings.Join(acks, ","))
}

func wakeOf(url, more string) string {
	return `{"type":"webhook","webhook":{"url":"` + url + `"},"pattern":"agents/*"` + more + `}`
}

// A notice is signed with a key that is published where the subscription says, and names streams below the root at which
// the subscription is.
func TestStreamSub_NoticeIsSignedAndCallsBack(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	const at = "/streams/default/v1/stream"
	made := s.must(t, http.StatusCreated, "PUT "+at+"/__ds/subscriptions/a%2Fb", wakeOf(hook.URL, ""))
	require.Equal(t, "a/b", made.field(t, "id"))
	require.Nil(t, made.field(t, "wake_stream"))
	require.InDelta(t, 30000, made.field(t, "lease_ttl_ms"), 0)
	require.Equal(t, "active", made.field(t, "status"))
	s.must(t, http.StatusOK, "PUT "+at+"/__ds/subscriptions/a%2Fb", wakeOf(hook.URL, ""))
	s.must(t, http.StatusConflict, "PUT "+at+"/__ds/subscriptions/a%2Fb", wakeOf(hook.URL, `,"description":"x"`))
	s.must(t, http.StatusNotFound, "GET /streams/default/__ds/subscriptions/a%2Fb", "") // another root

	s.must(t, http.StatusCreated, "PUT /streams/default/agents/elsewhere", `1`)
	s.must(t, http.StatusCreated, "PUT "+at+"/agents/empty", ``)
	s.must(t, http.StatusCreated, "PUT "+at+"/agents/7", `1`)
	request := hook.Wait(1)[0]
	n := noticeOf(t, request)
	require.Equal(t, "a/b", n.Subscription)
	require.Len(t, n.Streams, 1)
	require.Equal(t, "agents/7", n.Streams[0].Path)
	require.Equal(t, "glob", n.Streams[0].Link)
	require.True(t, n.Streams[0].Pending)
	require.Equal(t, s.at.HTTP+at+"/__ds/subscriptions/a%2Fb/callback", n.Callback)

	var signed, kid, signature string
	for part := range strings.SplitSeq(request.Header.Get("Webhook-Signature"), ",") {
		name, value, _ := strings.Cut(part, "=")
		*map[string]*string{"t": &signed, "kid": &kid, "ed25519": &signature}[name] = value
	}
	set := s.must(t, http.StatusOK, "GET "+at+"/__ds/jwks.json", "", "Authorization", "")
	require.Equal(t, "application/jwk-set+json", set.header.Get("Content-Type"))
	key, ok := set.field(t, "keys").([]any)[0].(map[string]any)
	require.True(t, ok)
	require.Equal(t, kid, key["kid"])
	public, err := base64.RawURLEncoding.DecodeString(key["x"].(string))
	require.NoError(t, err)
	sum, err := base64.RawURLEncoding.DecodeString(signature)
	require.NoError(t, err)
	require.True(t, ed25519.Verify(public, append([]byte(signed+"."), request.Body...), sum))

	call := strings.TrimPrefix(n.Callback, s.at.HTTP)
	for token, code := range map[string]string{"": "TOKEN_INVALID", s.token: "TOKEN_INVALID", n.Token[:len(n.Token)-4]: "TOKEN_INVALID"} {
		r := s.must(t, http.StatusUnauthorized, "POST "+call, n.say(), as(token)...)
		require.Equal(t, code, r.field(t, "error.code"))
	}
	s.must(t, http.StatusBadRequest, "POST "+strings.Replace(call, "/callback", "/ack", 1), n.say(), as(n.Token)...)
	r := s.must(t, http.StatusConflict, "POST "+call, strings.Replace(n.say(), n.Streams[0].Tail, "0000000000000900_0000000000000000", 1), as(n.Token)...)
	require.Equal(t, "INVALID_OFFSET", r.field(t, "error.code"))
	r = s.must(t, http.StatusOK, "POST "+call, n.say(), as(n.Token)...)
	require.JSONEq(t, `{"ok":true,"next_wake":false}`, r.text)
	r = s.must(t, http.StatusConflict, "POST "+call, n.say(), as(n.Token)...)
	require.JSONEq(t, `{"error":{"code":"FENCED","message":"the wake has ended or was superseded, or wake_id and generation do not match the notice or claim"}}`, r.text)
	s.must(t, http.StatusNoContent, "DELETE "+at+"/__ds/subscriptions/a%2Fb", "")
	r = s.must(t, http.StatusNotFound, "POST "+call, n.say(), as(n.Token)...)
	require.Equal(t, "SUBSCRIPTION_NOT_FOUND", r.field(t, "error.code"))
}

// A control path is never a stream, with its control segment at any place and in any spelling.
func TestStreamSub_ControlPathsAreNoStreams(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, path := range []string{"/__ds", "/__ds/x", "/__ds/subscriptions/x/y", "/a/__ds/x", "/a/__ds", "/%5F%5Fds/x", "/a/%5f_ds/subscriptions/x"} {
		for _, method := range []string{"PUT", "POST", "GET", "DELETE"} {
			r := s.call(t, method+" /streams/default"+path, `1`)
			require.Equal(t, http.StatusNotFound, r.status, "%s %s: %s", method, path, r.text)
		}
	}
	s.must(t, http.StatusNoContent, "OPTIONS /streams/default/v1/__ds/subscriptions/x", "", "Authorization", "")
	for body, code := range map[string]string{
		`{`: "INVALID_REQUEST", `{"type":1}`: "INVALID_REQUEST", `{"type":"mail"}`: "INVALID_REQUEST", ``: "INVALID_REQUEST",
		`{"type":"webhook","pattern":"a","webhook":{"url":"http://10.0.0.1/"}}`:                     "WEBHOOK_URL_REJECTED",
		`{"type":"webhook","pattern":"a","webhook":{"url":"not a url"}}`:                            "WEBHOOK_URL_REJECTED",
		`{"type":"webhook","pattern":"a","webhook":{"url":"https://[::1%25x]/"}}`:                   "WEBHOOK_URL_REJECTED",
		`{"type":"webhook","streams":["__ds/x"],"webhook":{"url":"https://x.example/"}}`:            "INVALID_REQUEST",
		`{"type":"webhook","pattern":"a","lease_ttl_ms":999,"webhook":{"url":"https://x.example"}}`: "INVALID_REQUEST",
	} {
		r := s.must(t, http.StatusBadRequest, "PUT /streams/default/__ds/subscriptions/x", body)
		require.Equal(t, code, r.field(t, "error.code"), body)
	}
}

// The holder of a revoked grant is told of nothing any more, and the subscription goes.
func TestStreamSub_EndsWithItsGrant(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	g := s.grant(t, "user:ann", "path:default/agents/**", "subscribe")
	const one = "/streams/default/__ds/subscriptions/ann"
	s.must(t, http.StatusCreated, "PUT "+one, wakeOf(hook.URL, ""), as(g.token)...)
	s.must(t, http.StatusForbidden, "PUT "+one+"2", strings.Replace(wakeOf(hook.URL, ""), "agents/*", "**", 1), as(g.token)...)
	s.must(t, http.StatusForbidden, "POST "+one+"/streams", `{"streams":["other/x"]}`, as(g.token)...)
	s.must(t, http.StatusForbidden, "PUT "+one+"2", `{"type":"pull-wake","pattern":"agents/*","wake_stream":"agents/pool"}`, as(g.token)...)
	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	s.must(t, http.StatusCreated, "PUT /streams/default/agents/7", `1`)
	eventually(t, func() bool { return s.call(t, "GET "+one, "").status == http.StatusNotFound }, "it is removed")
	require.Empty(t, hook.Requests())
	book := s.must(t, http.StatusOK, "GET /v1/audit?action=stream_subscription.*", "").text
	require.Contains(t, book, `"action":"stream_subscription.create"`)
	require.Contains(t, book, `"action":"stream_subscription.delete"`)
}

// Without a token only the namespaces that were opened are served, and an absent subscription is hidden.
func TestStreamSub_AnonymousCallersNeedAnOpenNamespace(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Durable.Anonymous = []string{"open"} })
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/open", `{}`)
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Body: `{"done":true}`} })
	anonymous := []string{"Authorization", ""}
	const one = "/streams/open/__ds/subscriptions/x"
	s.must(t, http.StatusUnauthorized, "PUT /streams/default/__ds/subscriptions/x", wakeOf(hook.URL, ""), anonymous...)
	s.must(t, http.StatusCreated, "PUT "+one, wakeOf(hook.URL, ""), anonymous...)
	s.must(t, http.StatusUnauthorized, "PUT "+one+"2", strings.Replace(wakeOf(hook.URL, ""), "agents/*", "_sys/*", 1), anonymous...)
	s.must(t, http.StatusCreated, "PUT "+one+"3", wakeOf(hook.URL, "")) // root's
	s.must(t, http.StatusNotFound, "GET "+one+"3", "", anonymous...)
	s.must(t, http.StatusNotFound, "DELETE "+one+"3", "", anonymous...)
	s.must(t, http.StatusNoContent, "DELETE "+one+"3", "")
	s.must(t, http.StatusCreated, "PUT /streams/open/agents/7", `1`, anonymous...)
	tail := noticeOf(t, hook.Wait(1)[0]).Streams[0].Tail
	eventually(t, func() bool {
		return strings.Contains(s.must(t, http.StatusOK, "GET "+one, "", anonymous...).text, tail)
	}, "it is done")
	s.must(t, http.StatusOK, "PUT /v1/namespaces/open", `{"label":{"level":"INTERNAL"}}`)
	s.must(t, http.StatusCreated, "PUT /streams/open/agents/8", `1`)
	eventually(t, func() bool { return s.call(t, "GET "+one, "").status == http.StatusNotFound }, "a label ends it")
	require.Len(t, hook.Requests(), 1)
}

// Kill -9 in the middle of a wake: the wake goes on, under the same name, and its token counts.
func TestStreamSub_KilledServerLosesNoWake(t *testing.T) {
	t.Parallel()
	c := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill(); _ = c.proc.Wait() })
	open := make(chan struct{})
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Number == 1 {
			return hooktest.Answer{Until: open}
		}
		return hooktest.Answer{}
	})
	t.Cleanup(func() { close(open) })
	s := c.running(t)
	const one = "/streams/default/__ds/subscriptions/x"
	s.must(t, http.StatusCreated, "PUT "+one, wakeOf(hook.URL, `,"lease_ttl_ms":600000`))
	s.must(t, http.StatusCreated, "PUT /streams/default/agents/7", `1`)
	first := noticeOf(t, hook.Wait(1)[0])
	c.kill(t)
	c.start(t)
	s = c.running(t)
	waitFor(t, hook, 2)
	second := noticeOf(t, hook.Requests()[1])
	require.Equal(t, first.Wake, second.Wake)
	require.Equal(t, first.Generation, second.Generation)
	r := s.must(t, http.StatusOK, "POST "+one+"/callback", first.say(), as(first.Token)...)
	require.JSONEq(t, `{"ok":true,"next_wake":false}`, r.text, "the token that was given before the kill")
	s.must(t, http.StatusConflict, "POST "+one+"/callback", second.say(), as(second.Token)...)
}

// running returns how a child is called.
func (c *child) running(t *testing.T) *running {
	t.Helper()
	s := &running{token: c.token(t)}
	s.at.HTTP = "http://" + c.http
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.api = client.New(s.at.HTTP, s.token)
	s.api.HTTP = &http.Client{Transport: transport}
	return s
}

// Two servers on one NATS: one of them sends, either takes what is called back.
func TestStreamSub_ServersShareTheWork(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "a password"})
	outside := func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = shared.ClientURL(), "sluice", "a password"
	}
	one, two := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	hook := hooktest.New(t, nil)
	const subs = 8
	for i := range subs {
		one.must(t, http.StatusCreated, fmt.Sprintf("PUT /streams/default/__ds/subscriptions/s%d", i), wakeOf(hook.URL, `,"lease_ttl_ms":600000`))
	}
	told := func(generation int) map[string]wakeNotice { // by subscription: a server that takes over a lease may repeat a notice
		all := map[string]wakeNotice{}
		for _, r := range hook.Requests() {
			if n := noticeOf(t, r); n.Generation >= generation {
				all[n.Subscription] = n
			}
		}
		return all
	}
	one.must(t, http.StatusCreated, "PUT /streams/default/agents/7", `1`)
	within(t, 2*patience, func() bool { return len(told(1)) == subs }, "each is told")
	for _, n := range told(1) {
		path := n.Callback[strings.Index(n.Callback, "/streams/"):]
		two.must(t, http.StatusOK, "POST "+path, n.say(), as(n.Token)...)
	}
	one.stop(t)
	two.must(t, http.StatusNoContent, "POST /streams/default/agents/7", `2`)
	within(t, 2*patience, func() bool { return len(told(2)) == subs }, "each is told again")
}
