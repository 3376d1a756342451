package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// A worker whose subscription lost one of its streams learns nothing of that one any more: an acknowledgement beyond what it was
// told of counts as one of a stream without events, whether the stream has that or not.
func TestStreamSub_AckRevealsNothingOfLostStreams(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:boss", `{"tier":"admin"}`)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:ann", `{"tier":"read","pattern":"/**"}`)
	hook := hooktest.New(t, nil)
	g := s.grant(t, "user:ann", "scope:default", "subscribe")
	const at = "/streams/default/"
	s.must(t, http.StatusCreated, "PUT "+at+"agents/a", `0`)
	s.must(t, http.StatusCreated, "PUT "+at+"other/b", `0`)
	s.must(t, http.StatusCreated, "PUT "+at+"__ds/subscriptions/ann",
		`{"type":"webhook","webhook":{"url":"`+hook.URL+`"},"streams":["agents/a","other/b"],"lease_ttl_ms":600000}`, as(g.token)...)
	s.must(t, http.StatusNoContent, "POST "+at+"agents/a", `1`)
	n := noticeOf(t, hook.Wait(1)[0])
	call := func(status int, path, offset string) {
		t.Helper()
		body := fmt.Sprintf(`{"wake_id":%q,"generation":%d,"acks":[{"stream":%q,"offset":%q}]}`, n.Wake, n.Generation, path, offset)
		s.must(t, status, "POST "+strings.TrimPrefix(n.Callback, s.at.HTTP), body, as(n.Token)...)
	}
	end := func(path string) string {
		return s.must(t, http.StatusOK, "HEAD "+at+path, "").header.Get("Stream-Next-Offset")
	}
	s.must(t, http.StatusNoContent, "POST "+at+"other/b", `1`)
	call(http.StatusOK, "other/b", end("other/b"))
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:ann", `{"tier":"read","pattern":"/agents/**"}`)
	s.must(t, http.StatusNoContent, "POST "+at+"other/b", `2`)
	call(http.StatusOK, "other/b", end("other/b")) // as of a stream that is not there
	call(http.StatusConflict, "other/b", "0000000000009999_0000000000000000")
	s.must(t, http.StatusNoContent, "POST "+at+"agents/a", `2`)
	call(http.StatusOK, "agents/a", end("agents/a"))
}

// The token of a subscription that was deleted and made again under the same id is good for nothing: it is of another life,
// and the worker that shows it stops.
func TestStreamSub_TokenOfEarlierLife(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	const at, one = "/streams/default/", "/streams/default/__ds/subscriptions/again"
	s.must(t, http.StatusCreated, "PUT "+at+"jobs/a", `0`)
	made := func() {
		s.must(t, http.StatusCreated, "PUT "+one, `{"type":"webhook","webhook":{"url":"`+hook.URL+`"},"streams":["jobs/a"]}`)
	}
	made()
	s.must(t, http.StatusNoContent, "POST "+at+"jobs/a", `1`)
	old := noticeOf(t, hook.Wait(1)[0])
	s.must(t, http.StatusNoContent, "DELETE "+one, "")
	refused := func(want string) {
		t.Helper()
		for _, call := range []string{"callback", "ack", "release"} {
			r := s.must(t, http.StatusNotFound, "POST "+one+"/"+call, old.say(), as(old.Token)...)
			require.Equal(t, "SUBSCRIPTION_NOT_FOUND", r.field(t, "error.code"), "%s, %s", want, call)
		}
	}
	refused("deleted")
	made()
	refused("made again, not woken")
	s.must(t, http.StatusNoContent, "POST "+at+"jobs/a", `2`)
	next := noticeOf(t, hook.Wait(2)[1])
	require.Equal(t, old.Generation, next.Generation, "the generation alone does not tell them apart")
	refused("made again, woken")
	s.must(t, http.StatusOK, "POST "+one+"/callback", next.say(), as(next.Token)...)
}

// Issue 13, attack 10: a message whose own label the maker of a subscription is not cleared for wakes no worker, and neither its
// stream nor its place is told; what came before it is.
func TestStreamSub_RespectsTheLabelOfAnEvent(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	var notices atomic.Int32
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer {
		if notices.Add(1) == 1 {
			return hooktest.Answer{}
		}
		return hooktest.Answer{Body: `{"done":true}`}
	})
	g := s.grant(t, "user:ann", "scope:default", "subscribe read")
	const at, one = "/streams/default/", "/streams/default/__ds/subscriptions/ann"
	s.labelled(t, "/a/old", "h0", "SECRET", `0`)
	s.must(t, http.StatusCreated, "PUT "+one,
		`{"type":"webhook","webhook":{"url":"`+hook.URL+`"},"pattern":"a/*","streams":["a/old"],"lease_ttl_ms":600000}`, as(g.token)...)
	s.labelled(t, "/a/hidden", "h1", "SECRET", `1`)
	s.marked(t, "/a/mixed", "m1")
	n := noticeOf(t, hook.Wait(1)[0])
	require.Equal(t, []string{"a/mixed"}, pendingOf(t, hook.Requests()))
	require.NotContains(t, string(hook.Requests()[0].Body), "hidden")
	shown := s.must(t, http.StatusOK, "GET "+one, "", as(g.token)...)
	require.NotContains(t, shown.text, "hidden")
	streams, _ := shown.field(t, "streams").([]any)
	require.Len(t, streams, 2, shown.text)
	require.Equal(t, "0000000000000000_0000000000000000", streams[1].(map[string]any)["acked_offset"], "as of a stream that is not there")

	call := func(status int, body string) {
		t.Helper()
		s.must(t, status, "POST "+strings.TrimPrefix(n.Callback, s.at.HTTP), fmt.Sprintf(`{"wake_id":%q,"generation":%d,%s}`, n.Wake, n.Generation, body), as(n.Token)...)
	}
	ack := func(path string) string {
		end := s.must(t, http.StatusOK, "HEAD "+at+path, "").header.Get("Stream-Next-Offset")
		return fmt.Sprintf(`"acks":[{"stream":%q,"offset":%q}]`, path, end)
	}
	call(http.StatusOK, ack("a/hidden")) // as of streams that are not there
	call(http.StatusOK, ack("a/old"))
	require.Equal(t, shown.field(t, "streams"), s.must(t, http.StatusOK, "GET "+one, "", as(g.token)...).field(t, "streams"), "nothing is acknowledged")
	s.labelled(t, "/a/mixed", "h2", "SECRET", `2`)
	call(http.StatusOK, ack("a/mixed")) // readers are told where a stream ends
	call(http.StatusOK, `"done":true`)
	s.marked(t, "/a/mixed", "m2")
	s.labelled(t, "/a/mixed", "h3", "SECRET", `3`)
	s.marked(t, "/a/other", "m3")
	eventually(t, func() bool {
		told := fmt.Sprint(pendingOf(t, hook.Requests()[1:]))
		require.NotContains(t, told, "hidden")
		return strings.Contains(told, "a/mixed") && strings.Contains(told, "a/other")
	}, "what may be seen is told, though a message lies behind it that may not")
}

// pendingOf returns the streams that notices say have something new.
func pendingOf(t *testing.T, notices []hooktest.Request) (all []string) {
	t.Helper()
	for _, r := range notices {
		for _, stream := range noticeOf(t, r).Streams {
			if stream.Pending {
				all = append(all, stream.Path)
			}
		}
	}
	return all
}
