package wakesuite

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

// tokenTests cover the token of a callback.
func tokenTests() []test {
	return []test{
		{"a callback without a token is refused", "S1-71 S1-87 S1-105", quick, noToken},
		{"a token that was not given or was changed is refused, and the answer has none", "S1-87 S1-102 S1-147", quick, forged},
		{"a token counts for its consumer alone", "S1-104 S1-148", quick, anothersToken},
		{"a token counts for its epoch alone", "S1-104 S1-148", quick, oldToken},
		{"every token that was given counts while its epoch lasts", "S1-83 S1-103 S1-132", quick, everyToken},
		{"a token of a subscription that was deleted and made again does not count", "S1-114 S1-148", quick, formerToken},
	}
}

func (w *world) noTokenIn(o outcome) {
	w.t.Helper()
	w.refuse(o, http.StatusUnauthorized, tokenInvalid)
	require.Empty(w.t, o.Token, "who shows a wrong one gets none")
}

func noToken(w *world) {
	s := w.wake(always(answer{}))
	n := s.first
	for _, header := range []string{"", "Basic " + n.Token, n.Token, "Bearer", "Bearer "} {
		r := w.send("POST "+n.Callback, bodyOf(n, claim(n, fields{"acks": acked(s.path, s.tail)})), "Authorization", header)
		require.Equal(w.t, http.StatusUnauthorized, r.status, "%q: %s", header, r)
		require.Equal(w.t, tokenInvalid, decode[outcome](w, r.body).Error.Code)
	}
	r := w.send("POST "+n.Callback+"?token="+n.Token, bodyOf(n, nil), "Authorization", "")
	require.Equal(w.t, http.StatusUnauthorized, r.status, "a token in the URL does not count: %s", r)
	w.shows(w.report(n, claim(n, nil)).Streams, cursor{s.path, nothing})
}

func forged(w *world) {
	s := w.wake(always(answer{}))
	token := s.first.Token
	flip := func(i int) string {
		changed := []byte(token)
		if changed[i] == 'A' {
			changed[i] = 'B'
		} else {
			changed[i] = 'A'
		}
		return string(changed)
	}
	tokens := []string{"nonsense", "eyJhbGciOiJub25lIn0.e30.", token + "x", token[:len(token)-2], token[1:], token + "." + token}
	for i := 0; i < len(token)-1; i += 7 {
		tokens = append(tokens, flip(i))
	}
	body := bodyOf(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail)}))
	for _, forged := range tokens {
		w.noTokenIn(w.raw(s.first, forged, body))
	}
	w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
}

func anothersToken(w *world) {
	path, one, two := w.path("a"), w.ok("one"), w.ok("two")
	w.subscribe(w.path("*"), one)
	w.subscribe(w.path("*"), two)
	w.create(path, "[1]")
	a, b := one.notice(1), two.notice(1)
	w.create(w.path("b"), "[1]")
	c := one.notice(2)
	for _, from := range []notice{b, c} {
		w.noTokenIn(w.raw(a, from.Token, bodyOf(a, claim(a, nil))))
		w.noTokenIn(w.raw(from, a.Token, bodyOf(from, claim(from, nil))))
	}
	for _, n := range []notice{a, b, c} {
		w.report(n, claim(n, nil))
	}
}

func oldToken(w *world) {
	s := w.wake(always(answer{}))
	first := s.rest()
	w.append(s.path, "2")
	n := s.hook.notice(2)
	for _, token := range []string{s.first.Token, first.Token} {
		o := w.raw(n, token, bodyOf(n, claim(n, fields{"done": true})))
		require.Contains(w.t, []int{http.StatusUnauthorized, http.StatusConflict}, o.status, "%s", o.reply)
		require.Contains(w.t, []string{tokenInvalid, staleEpoch}, o.Error.Code)
	}
	w.report(n, claim(n, nil))
}

func everyToken(w *world) {
	s := w.wake(always(answer{}))
	tokens := []string{s.first.Token}
	for range 5 {
		tokens = append(tokens, w.report(s.first, claim(s.first, nil)).Token)
	}
	for _, token := range tokens {
		o := w.raw(s.first, token, bodyOf(s.first, nil))
		require.Equal(w.t, http.StatusOK, o.status, "%s", o.reply)
	}
}

func formerToken(w *world) {
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, nil))
	w.must(http.StatusNoContent, "DELETE "+w.one(s.sub.Pattern, s.sub.ID), "")
	w.subscribe(s.sub.Pattern, s.hook)
	o := w.callback(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail), "done": true}))
	require.Contains(w.t, []string{tokenInvalid, staleEpoch, consumerGone}, o.Error.Code, "before anybody is woken: %s", o.reply)
	w.append(s.path, "2")
	n := s.hook.notice(2)
	require.Equal(w.t, s.first.ConsumerID, n.ConsumerID)
	require.Greater(w.t, n.Epoch, s.first.Epoch)
	for _, epoch := range []int64{s.first.Epoch, n.Epoch} {
		o = w.callback(s.first, fields{"epoch": epoch, "wake_id": n.WakeID, "acks": acked(s.path, s.tail), "done": true})
		require.Contains(w.t, []string{tokenInvalid, staleEpoch, consumerGone}, o.Error.Code, "%s", o.reply)
	}
	w.report(n, claim(n, nil))
}
