package wakesuite

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	"github.com/stretchr/testify/require"
)

// Codes of refused callbacks.
const (
	invalidRequest = "INVALID_REQUEST"
	tokenInvalid   = "TOKEN_INVALID"
	alreadyClaimed = "ALREADY_CLAIMED"
	invalidOffset  = "INVALID_OFFSET"
	staleEpoch     = "STALE_EPOCH"
	consumerGone   = "CONSUMER_GONE"
)

// cursor is the processed position of a stream.
type cursor struct {
	Path   string `json:"path"`
	Offset string `json:"offset"`
}

// notice is a notice's body.
type notice struct {
	ConsumerID  string   `json:"consumer_id"`
	Epoch       int64    `json:"epoch"`
	WakeID      string   `json:"wake_id"`
	Primary     string   `json:"primary_stream"`
	Streams     []cursor `json:"streams"`
	TriggeredBy []string `json:"triggered_by"`
	Callback    string   `json:"callback"`
	Token       string   `json:"token"`

	request *request
}

// outcome is the answer to a callback. OK, Token and Streams are of a success, Error of a refusal.
type outcome struct {
	reply

	OK      bool     `json:"ok"`
	Token   string   `json:"token"`
	Streams []cursor `json:"streams"`
	Error   struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// offset returns the processed position of a stream, and whether the consumer is subscribed to it.
func offset(streams []cursor, path string) (string, bool) {
	for _, s := range streams {
		if s.Path == path {
			return s.Offset, true
		}
	}
	return "", false
}

// bearer returns the header value for a token.
func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// tryCallback sends a body to a notice's callback URL, with a token. It checks nothing, and can be
// called by any goroutine.
func (w *world) tryCallback(ctx context.Context, n notice, token, body string) (outcome, error) {
	r, err := w.try(ctx, "POST "+n.Callback, body, "Authorization", bearer(token))
	if err != nil {
		return outcome{}, err
	}
	o := outcome{reply: r}
	return o, json.Unmarshal(r.body, &o)
}

// raw sends a body as a callback of a notice, with a token, and checks that the answer is complete.
// A refusal is no failure of the test.
func (w *world) raw(n notice, token, body string) outcome {
	w.t.Helper()
	o, err := w.tryCallback(w.t.Context(), n, token, body)
	require.NoError(w.t, err, "%s", o.reply)
	if o.status == http.StatusOK {
		require.True(w.t, o.OK, "%s", o.reply)
		require.NotEmpty(w.t, o.Token, "%s", o.reply)
		require.NotNil(w.t, o.Streams, "%s", o.reply)
		return o
	}
	require.False(w.t, o.OK, "%s", o.reply)
	require.NotEmpty(w.t, o.Error.Code, "%s", o.reply)
	require.NotEmpty(w.t, o.Error.Message, "%s", o.reply)
	return o
}

// bodyOf returns a callback of a notice; it has the notice's epoch unless the fields have one.
func bodyOf(n notice, f fields) string {
	all := fields{"epoch": n.Epoch}
	maps.Copy(all, f)
	return encode(all)
}

// callback sends a callback of a notice.
func (w *world) callback(n notice, f fields) outcome {
	w.t.Helper()
	return w.raw(n, n.Token, bodyOf(n, f))
}

// report sends a callback that must succeed.
func (w *world) report(n notice, f fields) outcome {
	w.t.Helper()
	o := w.callback(n, f)
	require.Equal(w.t, http.StatusOK, o.status, "%s", o.reply)
	return o
}

// refuse checks the refusal of a callback.
func (w *world) refuse(o outcome, status int, code string) {
	w.t.Helper()
	require.Equal(w.t, status, o.status, "%s", o.reply)
	require.Equal(w.t, code, o.Error.Code, "%s", o.reply)
}

// claim returns the fields of the first callback, with more of them.
func claim(n notice, more fields) fields {
	all := fields{"wake_id": n.WakeID}
	maps.Copy(all, more)
	return all
}

// acked is the acknowledgement of one offset.
func acked(path, at string) []cursor { return []cursor{{Path: path, Offset: at}} }

// shows checks a consumer's position in its answer. The order does not matter, and there must be no
// other stream.
func (w *world) shows(streams []cursor, want ...cursor) {
	w.t.Helper()
	require.ElementsMatch(w.t, want, streams)
}

// scene is a consumer that was woken once, by the first event of its stream. No callback has
// claimed its first notice yet.
type scene struct {
	*world

	hook  *receiver
	sub   subscription
	path  string // its primary stream
	tail  string // the offset of its event
	first notice
}

// wake makes a scene with a scripted receiver. A test can have one scene, because its names are
// fixed.
func (w *world) wake(says script) scene {
	w.t.Helper()
	s := scene{world: w, hook: w.receive("hook", says), path: w.path("tasks/1")}
	s.sub = w.subscribe(w.path("tasks/*"), s.hook)
	w.create(s.path, "[]")
	s.tail = w.append(s.path, "1")
	s.first = s.hook.notice(1)
	return s
}

// rest claims the wake, acknowledges its event and reports done. The consumer is idle afterwards,
// unless more is pending.
func (s scene) rest() outcome {
	s.t.Helper()
	return s.report(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail), "done": true}))
}
