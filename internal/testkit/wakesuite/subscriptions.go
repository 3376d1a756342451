package wakesuite

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/stretchr/testify/require"
)

// subscriptionTests cover creating, showing and deleting subscriptions.
func subscriptionTests() []test {
	return []test{
		{"a subscription is made by PUT of its pattern with its id", "S1-03 S1-05 S1-06 S1-07 S1-08 S1-09 S1-106 S1-107", quick, madeByPut},
		{"a description may be left out", "S1-09 S1-106", quick, withoutDescription},
		{"the same wish again is answered 200 without the secret", "S1-08 S1-108", quick, sameWish},
		{"the same wish twenty times at once makes one subscription", "S1-08 S1-108", quick, sameWishAtOnce},
		{"another configuration under the same id is a conflict and changes nothing", "S1-04 S1-109", quick, otherWish},
		{"a description is a part of the configuration", "S1-04 S1-09 S1-109", quick, otherDescription},
		{"a conflict is reported before the URL is validated", "S1-109 S1-143", quick, conflictFirst},
		{"a subscription is got by its id, with its pattern or with two stars", "S1-08 S1-112", quick, gotByID},
		{"a subscription is not found by another pattern or another id", "S1-112", quick, notFound},
		{"subscriptions are listed by their pattern", "S1-08 S1-110", quick, listedByPattern},
		{"all subscriptions are listed by two stars", "S1-08 S1-111", quick, listedAll},
		{"only its own pattern deletes a subscription, and only once", "S1-113", quick, deletedOnce},
		{"who is deleted and made again is notified at its new URL, signed with its new secret", "S1-04 S1-08 S1-113 S1-114", quick, madeAgain},
		{"an escaped star in a pattern is a star", "S1-25", quick, escapedStar},
	}
}

func (w *world) shown(r reply) subscription {
	w.t.Helper()
	require.NotContains(w.t, string(r.body), "webhook_secret", "the secret is shown once")
	return decode[subscription](w, r.body)
}

func madeByPut(w *world) {
	pattern, id := w.path("*"), w.id("made")
	hook := w.ok("hook")
	r := w.ask(pattern, id, encode(fields{"webhook": hook.url(), "description": "what it is for"}))
	require.Equal(w.t, http.StatusCreated, r.status, "%s", r)
	sub := decode[subscription](w, r.body)
	require.NotEmpty(w.t, sub.Secret)
	sub.Secret = ""
	require.Equal(w.t, subscription{ID: id, Pattern: pattern, Webhook: hook.url(), Description: "what it is for"}, sub)
}

func withoutDescription(w *world) {
	r := w.ask(w.path("*"), w.id("bare"), wish(w.ok("hook").url()))
	require.Equal(w.t, http.StatusCreated, r.status, "%s", r)
	require.Empty(w.t, decode[subscription](w, r.body).Description)
}

func sameWish(w *world) {
	pattern, id := w.path("*"), w.id("same")
	body := encode(fields{"webhook": w.ok("hook").url(), "description": "d"})
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, body).status)
	for range 2 {
		r := w.must(http.StatusOK, "PUT "+w.one(pattern, id), body)
		require.Equal(w.t, id, w.shown(r).ID)
	}
}

func sameWishAtOnce(w *world) {
	pattern, id, body := w.path("*"), w.id("same"), wish(w.ok("hook").url())
	w.forgetLater(pattern, id)
	replies := w.atOnce(20, func(ctx context.Context, _ int) (reply, error) {
		for {
			r, err := w.try(ctx, "PUT "+w.one(pattern, id), body)
			if err != nil || r.status != http.StatusServiceUnavailable { // 503: the server is overloaded
				return r, err
			}
		}
	})
	var secrets []string
	for _, r := range replies {
		require.Contains(w.t, []int{http.StatusCreated, http.StatusOK}, r.status, "%s", r)
		if r.status == http.StatusCreated {
			secrets = append(secrets, decode[subscription](w, r.body).Secret)
			continue
		}
		w.shown(r)
	}
	require.Len(w.t, secrets, 1, "one of them made it")
}

// atOnce makes n concurrent calls and returns the answers. They are in the order of the calls'
// numbers.
func (w *world) atOnce(n int, act func(ctx context.Context, i int) (reply, error)) []reply {
	w.t.Helper()
	replies, errs := make([]reply, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { replies[i], errs[i] = act(w.t.Context(), i) })
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(w.t, err)
	}
	return replies
}

func otherWish(w *world) {
	pattern, id := w.path("*"), w.id("other")
	hook := w.ok("hook")
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(hook.url())).status)
	w.must(http.StatusConflict, "PUT "+w.one(pattern, id), wish(hook.url()+"/elsewhere"))
	w.must(http.StatusConflict, "PUT "+w.one(w.path("**"), id), wish(hook.url()))
	r := w.must(http.StatusOK, "GET "+w.one(pattern, id), "")
	require.Equal(w.t, subscription{ID: id, Pattern: pattern, Webhook: hook.url()}, w.shown(r))
}

func otherDescription(w *world) {
	pattern, id, hook := w.path("*"), w.id("described"), w.ok("hook")
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, encode(fields{"webhook": hook.url(), "description": "one"})).status)
	w.must(http.StatusConflict, "PUT "+w.one(pattern, id), encode(fields{"webhook": hook.url(), "description": "two"}))
	w.must(http.StatusConflict, "PUT "+w.one(pattern, id), wish(hook.url()))
	require.Equal(w.t, "one", w.shown(w.must(http.StatusOK, "GET "+w.one(pattern, id), "")).Description)
}

func conflictFirst(w *world) {
	pattern, id := w.path("*"), w.id("conflict")
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(w.ok("hook").url())).status)
	w.must(http.StatusConflict, "PUT "+w.one(pattern, id), wish("https://10.0.0.1/hook"))
	w.must(http.StatusConflict, "PUT "+w.one(pattern, id), wish("not a url"))
}

func gotByID(w *world) {
	pattern, id, hook := w.path("agents/*"), w.id("got"), w.ok("hook")
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, encode(fields{"webhook": hook.url(), "description": "d"})).status)
	want := subscription{ID: id, Pattern: pattern, Webhook: hook.url(), Description: "d"}
	require.Equal(w.t, want, w.shown(w.must(http.StatusOK, "GET "+w.one("/**", id), "")))
	require.Equal(w.t, want, w.shown(w.must(http.StatusOK, "GET "+w.one(pattern, id), "")))
}

func notFound(w *world) {
	pattern, id := w.path("agents/*"), w.id("hidden")
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(w.ok("hook").url())).status)
	w.must(http.StatusNotFound, "GET "+w.one(w.path("agents/**"), id), "")
	w.must(http.StatusNotFound, "GET "+w.one(w.path("others/*"), id), "")
	w.must(http.StatusNotFound, "GET "+w.one("/**", w.id("unknown")), "")
	w.must(http.StatusNotFound, "GET "+w.one(pattern, w.id("unknown")), "")
}

// list returns the ids in an answer that lists subscriptions.
func (w *world) list(pattern string) map[string]subscription {
	w.t.Helper()
	r := w.must(http.StatusOK, "GET "+w.at(pattern)+"?subscriptions", "")
	w.shown(r)
	all := decode[struct {
		Subscriptions json.RawMessage `json:"subscriptions"`
	}](w, r.body)
	require.Equal(w.t, "[", string(all.Subscriptions[:1]), "%s", r)
	found := map[string]subscription{}
	for _, s := range decode[[]subscription](w, all.Subscriptions) {
		require.NotContains(w.t, found, s.ID, "listed twice")
		found[s.ID] = s
	}
	return found
}

func listedByPattern(w *world) {
	hook := w.ok("hook")
	patterns := map[string]string{w.id("a"): w.path("x/*"), w.id("b"): w.path("x/*"), w.id("c"): w.path("x/**"), w.id("d"): w.path("x/y")}
	for id, pattern := range patterns {
		require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(hook.url())).status)
	}
	require.Equal(w.t, map[string]subscription{
		w.id("a"): {ID: w.id("a"), Pattern: w.path("x/*"), Webhook: hook.url()},
		w.id("b"): {ID: w.id("b"), Pattern: w.path("x/*"), Webhook: hook.url()},
	}, w.list(w.path("x/*")))
	require.Len(w.t, w.list(w.path("x/**")), 1)
	require.Empty(w.t, w.list(w.path("z/*")))
}

func listedAll(w *world) {
	hook := w.ok("hook")
	patterns := map[string]string{w.id("a"): w.path("x/*"), w.id("b"): w.path("**"), w.id("c"): w.path("x")}
	for id, pattern := range patterns {
		require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(hook.url())).status)
	}
	all := w.list("/**")
	for id, pattern := range patterns {
		require.Equal(w.t, subscription{ID: id, Pattern: pattern, Webhook: hook.url()}, all[id])
	}
}

func deletedOnce(w *world) {
	pattern, id := w.path("agents/*"), w.id("deleted")
	require.Equal(w.t, http.StatusCreated, w.ask(pattern, id, wish(w.ok("hook").url())).status)
	for _, other := range []string{w.path("agents/**"), w.path("others/*"), "/**"} {
		w.must(http.StatusNotFound, "DELETE "+w.one(other, id), "")
	}
	w.must(http.StatusNotFound, "DELETE "+w.one(pattern, w.id("unknown")), "")
	w.must(http.StatusOK, "GET "+w.one(pattern, id), "")
	require.Empty(w.t, w.must(http.StatusNoContent, "DELETE "+w.one(pattern, id), "").body)
	w.must(http.StatusNotFound, "GET "+w.one(pattern, id), "")
	w.must(http.StatusNotFound, "DELETE "+w.one(pattern, id), "")
	require.Empty(w.t, w.list(pattern))
}

func madeAgain(w *world) {
	pattern, id, path := w.path("*"), w.id("again"), w.path("a")
	hooks := []*receiver{w.receive("old", always(done())), w.receive("new", always(done()))}
	var secrets []string
	for i, hook := range hooks {
		r := w.ask(pattern, id, wish(hook.url()))
		require.Equal(w.t, http.StatusCreated, r.status, "%s", r)
		sub := decode[subscription](w, r.body)
		hook.know(sub)
		secrets = append(secrets, sub.Secret)
		if i == 0 {
			w.create(path, "[1]")
		} else {
			w.append(path, "2")
		}
		hook.notice(1)
		w.must(http.StatusNoContent, "DELETE "+w.one(pattern, id), "")
	}
	require.NotEqual(w.t, secrets[0], secrets[1])
	hooks[0].stays(1, aMoment)
	require.Len(w.t, hooks[1].all(), 1)
}

func escapedStar(w *world) {
	id, hook := w.id("escaped"), w.ok("hook")
	plain, escaped := w.path("e/*"), w.server.Base+w.path("e/%2A")+"?subscription="+w.id("escaped")
	w.forgetLater(plain, id)
	r := w.must(http.StatusCreated, "PUT "+escaped, wish(hook.url()))
	sub := decode[subscription](w, r.body)
	hook.know(sub)
	require.Equal(w.t, plain, sub.Pattern)
	w.must(http.StatusOK, "PUT "+w.one(plain, id), wish(hook.url()))
	w.must(http.StatusOK, "GET "+escaped, "")
	require.Contains(w.t, w.list(plain), id)
	w.create(w.path("e/f"), "[1]")
	require.Equal(w.t, w.path("e/f"), hook.notice(1).Primary)
	w.must(http.StatusNoContent, "DELETE "+escaped, "")
	w.must(http.StatusNotFound, "GET "+w.one(plain, id), "")
}
