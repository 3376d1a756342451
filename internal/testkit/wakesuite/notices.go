package wakesuite

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// noticeTests cover the causes of a wake.
func noticeTests() []test {
	return []test{
		{
			"a notice has every field",
			"S1-01 S1-12 S1-19 S1-45 S1-46 S1-47 S1-48 S1-49 S1-50 S1-51 S1-52 S1-53 S1-146", quick, everyField,
		},
		{"no data of events is in a notice", "S1-54", quick, noData},
		{"the callback URL has the consumer id percent-encoded, and is taken as it is", "S1-12 S1-13 S1-15 S1-52", quick, encodedID},
		{"ids and paths of unusual characters come back", "S1-13 S1-15", quick, unusualPaths},
		{"two subscriptions on a stream have consumers that know nothing of one another", "S1-11 S1-14", quick, twoSubscriptions},
		{"two streams of a subscription have consumers that know nothing of one another", "S1-11", quick, twoStreams},
	}
}

// signatureTests cover the signatures of notices.
func signatureTests() []test {
	return []test{
		{"every notice is signed over its raw body, every attempt anew", "S1-66 S1-67 S1-68 S1-70 S1-135 S1-141 S1-142", quick, signedAnew},
		{"subscriptions have secrets of their own", "S1-08 S1-68", quick, ownSecrets},
	}
}

func everyField(w *world) {
	s := w.wake(always(answer{}))
	req := s.first.request
	require.Equal(w.t, http.MethodPost, req.method)
	require.True(w.t, strings.HasPrefix(req.header.Get("Content-Type"), "application/json"), req.header.Get("Content-Type"))
	require.NotEmpty(w.t, req.header.Get("Webhook-Signature"))

	all := decode[map[string]json.RawMessage](w, req.body)
	for _, name := range []string{"consumer_id", "epoch", "wake_id", "primary_stream", "streams", "triggered_by", "callback", "token"} {
		require.Contains(w.t, all, name)
	}
	n := s.first
	require.Equal(w.t, s.sub.ID+":"+url.QueryEscape(s.path), n.ConsumerID)
	require.Equal(w.t, "1", string(all["epoch"]), "the first is the first")
	require.NotEmpty(w.t, n.WakeID)
	require.Equal(w.t, s.path, n.Primary)
	require.JSONEq(w.t, encode(fields{"streams": []cursor{{s.path, nothing}}}), `{"streams":`+string(all["streams"])+`}`)
	require.Equal(w.t, []string{s.path}, n.TriggeredBy)
	require.NotEmpty(w.t, n.Token)
	require.NotContains(w.t, n.Callback, n.Token, "the token is in no URL")
	at, err := url.Parse(n.Callback)
	require.NoError(w.t, err)
	require.True(w.t, at.IsAbs(), n.Callback)
	require.Empty(w.t, at.RawQuery, n.Callback)
}

func noData(w *world) {
	path, hook := w.path("secret"), w.ok("hook")
	w.subscribe(path, hook)
	w.create(path, `["do not tell 4711"]`)
	require.NotContains(w.t, string(hook.notice(1).request.body), "4711")
}

func encodedID(w *world) {
	s := w.wake(always(answer{}))
	_, raw, _ := strings.Cut(strings.TrimPrefix(s.first.Callback, "http://"), "/")
	require.Contains(w.t, raw, "/"+s.first.ConsumerID, "the id is one segment, as it is in consumer_id")
	require.Contains(w.t, raw, "%2F")
	require.NotContains(w.t, raw, s.path, "%2F is not decoded")
	s.rest()
}

func unusualPaths(w *world) {
	hook := w.receive("hook", always(answer{}))
	w.subscribe(w.path("**"), hook)
	for i, rest := range []string{"a b", "ü", "a:b", "100%", "a%2Fb", "a+b", "a=b&c"} {
		path := w.path(rest)
		tail := w.create(path, "[1]")
		n := hook.notice(i + 1)
		require.Equal(w.t, path, n.Primary)
		_, enc, ok := strings.Cut(n.ConsumerID, ":")
		require.True(w.t, ok)
		require.NotContains(w.t, enc, "/")
		dec, err := url.PathUnescape(enc)
		require.NoError(w.t, err)
		require.Equal(w.t, path, dec, "the id tells the path")
		w.shows(w.report(n, claim(n, fields{"acks": acked(path, tail), "done": true})).Streams, cursor{path, tail})
	}
}

func twoSubscriptions(w *world) {
	path, one, two := w.path("shared"), w.ok("one"), w.ok("two")
	w.subscribe(path, one)
	w.subscribe(w.path("*"), two)
	tail := w.create(path, "[1]")
	a, b := one.notice(1), two.notice(1)
	require.NotEqual(w.t, a.ConsumerID, b.ConsumerID)
	require.NotEqual(w.t, a.WakeID, b.WakeID)
	require.NotEqual(w.t, a.Callback, b.Callback)
	w.report(a, claim(a, fields{"acks": acked(path, tail), "done": true}))
	w.shows(w.report(b, claim(b, nil)).Streams, cursor{path, nothing})
	last := w.append(path, "2")
	again := one.notice(2)
	require.EqualValues(w.t, 2, again.Epoch)
	w.shows(again.Streams, cursor{path, tail})
	w.shows(w.report(b, fields{"acks": acked(path, last), "done": true}).Streams, cursor{path, last})
	two.stays(1, aMoment)
	w.shows(w.report(again, claim(again, nil)).Streams, cursor{path, tail})
}

func twoStreams(w *world) {
	hook := w.ok("hook")
	w.subscribe(w.path("*"), hook)
	tail := w.create(w.path("a"), "[1]")
	a := hook.notice(1)
	w.report(a, claim(a, fields{"acks": acked(w.path("a"), tail), "done": true}))
	w.create(w.path("b"), "[1]")
	b := hook.notice(2)
	require.Equal(w.t, w.path("b"), b.Primary)
	require.EqualValues(w.t, 1, b.Epoch)
	require.NotEqual(w.t, a.WakeID, b.WakeID)
	w.append(w.path("a"), "2")
	again := hook.notice(3)
	require.Equal(w.t, a.ConsumerID, again.ConsumerID)
	require.EqualValues(w.t, 2, again.Epoch, "while the other is live")
	w.shows(w.report(b, claim(b, nil)).Streams, cursor{w.path("b"), nothing})
}

func signedAnew(w *world) {
	s := w.wake(inTurn(answer{status: http.StatusInternalServerError}, answer{status: http.StatusInternalServerError}, done()))
	last := int64(0)
	for i, req := range s.hook.wait(3) {
		require.Error(w.t, verify("whsec_another", req.header.Get("Webhook-Signature"), req.body, req.at))
		require.Error(w.t, verify(s.sub.Secret, req.header.Get("Webhook-Signature"), append([]byte(" "), req.body...), req.at))
		require.NoError(w.t, verify(s.sub.Secret, req.header.Get("Webhook-Signature"), req.body, req.at))
		stamp, _, _ := strings.Cut(strings.TrimPrefix(req.header.Get("Webhook-Signature"), "t="), ",")
		at := decode[int64](w, []byte(stamp))
		require.GreaterOrEqual(w.t, at, last, "attempt %d", i+1)
		require.LessOrEqual(w.t, req.at.Sub(time.Unix(at, 0)).Abs(), 5*time.Minute)
		last = at
	}
}

func ownSecrets(w *world) {
	path, one, two := w.path("x"), w.ok("one"), w.ok("two")
	a, b := w.subscribe(path, one), w.subscribe(path, two)
	require.NotEqual(w.t, a.Secret, b.Secret)
	w.create(path, "[1]")
	one.notice(1)
	req := two.notice(1).request
	require.Error(w.t, verify(a.Secret, req.header.Get("Webhook-Signature"), req.body, req.at))
}
