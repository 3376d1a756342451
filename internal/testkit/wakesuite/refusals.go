package wakesuite

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

// refusalTests cover refused subscriptions.
func refusalTests() []test {
	return []test{
		{"unsafe webhook URLs are refused and nothing is stored", "S1-143 S1-144 S1-145", quick, unsafeURLs},
		{"what is no wish is refused and nothing is stored", "S1-106", quick, noWish},
		{"a redirect leads nowhere", "S1-116 S1-144", quick, redirectLeadsNowhere},
	}
}

// refused checks that a request is refused, and that its id is then free.
func (w *world) refused(pattern, id, body string) {
	w.t.Helper()
	r := w.send("PUT "+w.one(pattern, id), body)
	require.GreaterOrEqual(w.t, r.status, http.StatusBadRequest, "%s: %s", body, r)
	require.Less(w.t, r.status, http.StatusInternalServerError, "%s: %s", body, r)
	w.must(http.StatusNotFound, "GET "+w.one("/**", id), "")
	require.Empty(w.t, w.list(pattern))
}

func unsafeURLs(w *world) {
	pattern, id := w.path("*"), w.id("unsafe")
	for _, url := range []string{
		"http://example.com/hook", "ftp://example.com/hook", "not a url", "", "/hook", "https://", "javascript:alert(1)",
		"https://10.0.0.1/hook", "https://172.16.0.1/hook", "https://192.168.1.1/hook", "http://10.0.0.1/hook",
		"https://169.254.169.254/latest/meta-data", "http://169.254.169.254/latest/meta-data", "https://169.254.1.1/",
		"https://[fd00:ec2::254]/", "https://[::ffff:169.254.169.254]/", "https://[::ffff:10.0.0.1]/", "https://[fe80::1]/", "https://0.0.0.0/",
	} {
		w.refused(pattern, id, wish(url))
	}
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(w.ok("hook").url())).status, "the id is free")
}

func noWish(w *world) {
	pattern, id := w.path("*"), w.id("wrong")
	for _, body := range []string{"", "{", "[]", `"text"`, "{}", `{"description":"no webhook"}`, `{"webhook":7}`, `{"webhook":null}`} {
		w.refused(pattern, id, body)
	}
	hook := w.ok("hook")
	r := w.send("PUT "+w.at(pattern)+"?subscription=", wish(hook.url()))
	require.Equal(w.t, http.StatusBadRequest/100, r.status/100, "an empty id: %s", r)
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(hook.url())).status, "the id is free")
}

// A redirect is an answer that is not 2xx: nothing is sent to its target, and the notice is sent
// again.
func redirectLeadsNowhere(w *world) {
	elsewhere := w.ok("elsewhere")
	s := w.wake(inTurn(
		answer{status: http.StatusTemporaryRedirect, location: elsewhere.url()},
		answer{status: http.StatusFound, location: elsewhere.url()}, done()))
	s.hook.wait(3)
	require.Equal(w.t, s.first.WakeID, s.hook.notice(3).WakeID)
	s.hook.stays(3, aMoment)
	require.Empty(w.t, elsewhere.all())
}
