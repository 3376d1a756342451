package wakesuite

import (
	"maps"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// callbackTests cover the checks of a callback, their order, and its answer.
func callbackTests() []test {
	return []test{
		{"a callback that succeeds answers ok, a token and all streams", "S1-71 S1-82 S1-83 S1-84 S1-103 S1-132", quick, answersAll},
		{"a callback that is no JSON or has no epoch is refused", "S1-72 S1-85 S1-92", quick, malformed},
		{"a callback of nobody is gone", "S1-91 S1-127", quick, ofNobody},
		{"callbacks are checked in one order", "S1-85 S1-87 S1-88 S1-90 S1-91 S1-92", quick, order},
		{"a callback that is sent again answers the same and does nothing more", "S1-79", quick, sentAgain},
		{"done that is sent again after the consumer was woken is an epoch too old", "S1-79 S1-90", quick, doneSentAgain},
		{"a callback that is refused does nothing of what it asks", "S1-80 S1-88 S1-89 S1-90", quick, nothingOfIt},
		{"a callback does everything that it asks at once", "S1-73 S1-74 S1-75 S1-76 S1-77 S1-80", quick, everythingAtOnce},
	}
}

func answersAll(w *world) {
	s := w.wake(always(answer{}))
	o := w.report(s.first, claim(s.first, nil))
	w.shows(o.Streams, cursor{s.path, nothing})
	require.True(w.t, strings.HasPrefix(o.header.Get("Content-Type"), "application/json"), o.header.Get("Content-Type"))
	n := s.first
	for range 5 {
		n.Token = o.Token
		o = w.report(n, nil)
	}
	w.report(s.first, fields{"acks": acked(s.path, s.tail), "done": true})
}

func malformed(w *world) {
	s := w.wake(always(answer{}))
	for _, body := range []string{
		"", "{", "no JSON", "[]", "7", "null", "{}", `{"wake_id":"` + s.first.WakeID + `"}`, `{"epoch":null}`, `{"epoch":"1"}`, `{"epoch":1.5}`,
		`{"epoch":1,"acks":7}`, `{"epoch":1,"acks":["x"]}`, `{"epoch":1,"subscribe":"x"}`, `{"epoch":1,"done":"yes"}`, `{"epoch":1}{`,
	} {
		o := w.raw(s.first, s.first.Token, body)
		require.Equal(w.t, http.StatusBadRequest, o.status, "%s: %s", body, o.reply)
		require.Equal(w.t, invalidRequest, o.Error.Code, body)
	}
	w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
}

// elsewhere returns the notice with the callback URL of another consumer, which does not exist.
func (s scene) elsewhere() notice {
	n := s.first
	n.Callback = strings.Replace(n.Callback, n.ConsumerID, s.sub.ID+":%2F"+s.name+"%2Fnobody", 1)
	return n
}

func ofNobody(w *world) {
	s := w.wake(always(answer{}))
	w.refuse(w.callback(s.elsewhere(), nil), http.StatusGone, consumerGone)
	n := s.first
	n.Callback = strings.Replace(n.Callback, n.ConsumerID, w.id("unknown")+":%2Fx", 1)
	w.refuse(w.callback(n, nil), http.StatusGone, consumerGone)
}

// The server checks in this order: bearer present, consumer known, token valid, JSON with an epoch,
// epoch, wake_id; then the request itself. It checks the token before the body, because
// unauthenticated bodies would cost memory.
func order(w *world) {
	s := w.wake(always(answer{}))
	here, gone, good := s.first, s.elsewhere(), s.first.Token
	wrong := fields{"epoch": 99, "wake_id": "w_another", "acks": acked("/no", "x")}
	for _, x := range []struct {
		name   string
		at     notice
		token  string
		body   string
		status int
		code   string
	}{
		{"no bearer, no JSON, no consumer", gone, "", "{", http.StatusUnauthorized, tokenInvalid},
		{"no bearer", here, "", bodyOf(here, nil), http.StatusUnauthorized, tokenInvalid},
		{"no JSON, no consumer, no token", gone, "nonsense", "{", http.StatusGone, consumerGone},
		{"no JSON, no consumer, a token of another", gone, good, "{", http.StatusGone, consumerGone},
		{"no JSON, no token", here, "nonsense", "{", http.StatusUnauthorized, tokenInvalid},
		{"no epoch, no token", here, "nonsense", "{}", http.StatusUnauthorized, tokenInvalid},
		{"no JSON", here, good, "{", http.StatusBadRequest, invalidRequest},
		{"no epoch", here, good, "{}", http.StatusBadRequest, invalidRequest},
		{"no consumer, no token", gone, "nonsense", encode(wrong), http.StatusGone, consumerGone},
		{"no consumer, a token of another", gone, good, encode(wrong), http.StatusGone, consumerGone},
		{"no token, no epoch of it", here, "nonsense", encode(wrong), http.StatusUnauthorized, tokenInvalid},
		{"another epoch, another wake", here, good, encode(wrong), http.StatusConflict, staleEpoch},
		{"another wake, no offset", here, good, bodyOf(here, fields{"wake_id": "w_another", "acks": acked("/no", "x")}), http.StatusConflict, alreadyClaimed},
		{"no offset", here, good, bodyOf(here, fields{"wake_id": here.WakeID, "acks": acked("/no", "x")}), http.StatusConflict, invalidOffset},
	} {
		o := w.raw(x.at, x.token, x.body)
		require.Equal(w.t, x.status, o.status, "%s: %s", x.name, o.reply)
		require.Equal(w.t, x.code, o.Error.Code, x.name)
	}
}

// everything returns a callback with all kinds of requests, and the resulting subscribed streams.
func (s scene) everything() (fields, []cursor) {
	s.t.Helper()
	old, other := s.world.path("old"), s.world.path("other")
	s.report(s.first, claim(s.first, fields{"subscribe": []string{old}}))
	return claim(s.first, fields{
		"acks": acked(s.path, s.tail), "subscribe": []string{other}, "unsubscribe": []string{old}, "done": true,
	}), []cursor{{s.path, s.tail}, {other, nothing}}
}

func sentAgain(w *world) {
	s := w.wake(always(answer{}))
	f, want := s.everything()
	for range 3 {
		w.shows(w.report(s.first, f).Streams, want...)
	}
	s.hook.stays(1, aMoment)
	w.append(s.path, "2")
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	w.shows(n.Streams, want...)
}

func doneSentAgain(w *world) {
	s := w.wake(always(answer{}))
	w.append(s.path, "2")
	f := claim(s.first, fields{"acks": acked(s.path, s.tail), "done": true})
	w.report(s.first, f)
	n := s.hook.notice(2)
	w.refuse(w.callback(s.first, f), http.StatusConflict, staleEpoch)
	w.shows(w.report(n, claim(n, nil)).Streams, cursor{s.path, s.tail})
	s.hook.stays(2, aMoment)
}

func nothingOfIt(w *world) {
	s := w.wake(always(answer{}))
	f, _ := s.everything()
	before := []cursor{{s.path, nothing}, {w.path("old"), nothing}}
	for code, wrong := range map[string]fields{
		invalidOffset:  {"acks": []cursor{{s.path, s.tail}, {s.path, bump(s.tail)}}},
		alreadyClaimed: {"wake_id": "w_another"},
		staleEpoch:     {"epoch": s.first.Epoch + 1},
		invalidRequest: {"acks": 7},
	} {
		all := maps.Clone(f)
		maps.Copy(all, wrong)
		o := w.callback(s.first, all)
		require.Equal(w.t, code, o.Error.Code, "%s", o.reply)
		w.shows(w.report(s.first, nil).Streams, before...)
	}
	o := w.callback(s.first, claim(s.first, fields{"acks": []cursor{{s.path, s.tail}, {w.path("never"), s.tail}}, "subscribe": []string{w.path("other")}}))
	w.refuse(o, http.StatusConflict, invalidOffset)
	w.shows(w.report(s.first, nil).Streams, before...)
	w.append(s.path, "2")
	s.hook.stays(1, aMoment) // nothing was done
}

func everythingAtOnce(w *world) {
	s := w.wake(always(answer{}))
	f, want := s.everything()
	w.shows(w.report(s.first, f).Streams, want...)
	w.create(w.path("old"), "[1]")
	s.hook.stays(1, aMoment)
	w.create(w.path("other"), "[1]")
	n := s.hook.notice(2)
	w.shows(n.Streams, want...)
	require.Equal(w.t, []string{w.path("other")}, n.TriggeredBy)
}
