package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/webhook"
)

const noticeSecret = "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="

const noticeBody = `{"consumer_id":"s:%2Fa%2Fb","epoch":7,"wake_id":"w_1","primary_stream":"/a/b","streams":[{"path":"/a/b","offset":"-1"}],` +
	`"triggered_by":["/a/b"],"callback":"https://sluice.example/callback/default/s:%2Fa%2Fb","token":"t"}`

func noticeRequest(body, signature string) *http.Request {
	header := http.Header{}
	header.Set(webhook.HeaderSignature, signature)
	return &http.Request{Method: http.MethodPost, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

// S1-46…53, S1-66…70.
func TestNotice_IsBelievedOnlyWhenSigned(t *testing.T) {
	t.Parallel()
	hook := webhook.Receiver{Secrets: []string{noticeSecret}}
	now := time.Now()
	n, err := hook.ReceiveNotice(noticeRequest(noticeBody, webhook.SignT(noticeSecret, now, []byte(noticeBody))))
	require.NoError(t, err)
	require.Equal(t, &webhook.Notice{
		ConsumerID: "s:%2Fa%2Fb", Epoch: 7, WakeID: "w_1", Primary: "/a/b", Streams: []webhook.StreamOffset{{Path: "/a/b", Offset: "-1"}}, TriggeredBy: []string{"/a/b"},
		Callback: "https://sluice.example/callback/default/s:%2Fa%2Fb", Token: "t",
	}, n)
	require.Empty(t, hook.Scheme, "the receiver stays as it is")

	for name, tt := range map[string]struct {
		body, signature string
		want            error
	}{
		"unsigned":                  {noticeBody, "", webhook.ErrUnsigned},
		"by another secret":         {noticeBody, webhook.SignT("another", now, []byte(noticeBody)), webhook.ErrSignature},
		"another body":              {noticeBody + " ", webhook.SignT(noticeSecret, now, []byte(noticeBody)), webhook.ErrSignature},
		"six minutes ago":           {noticeBody, webhook.SignT(noticeSecret, now.Add(-6*time.Minute), []byte(noticeBody)), webhook.ErrTimestamp},
		"no notice":                 {`{"epoch":1}`, webhook.SignT(noticeSecret, now, []byte(`{"epoch":1}`)), webhook.ErrMalformed},
		"larger than what is taken": {strings.Repeat(" ", 2<<20), "", webhook.ErrTooLarge},
	} {
		_, err := hook.ReceiveNotice(noticeRequest(tt.body, tt.signature))
		require.ErrorIs(t, err, tt.want, name)
	}
}

func TestNotice_ForeignBodyIsMalformed(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `null`, `[]`, `{`, `{}`, noticeBody + "x", `{"specversion":"1.0","id":"e","type":"t","source":"/s"}`,
		strings.Replace(noticeBody, `"epoch":7`, `"epoch":"7"`, 1), strings.Replace(noticeBody, `"epoch":7`, `"epoch":0`, 1),
		strings.Replace(noticeBody, "w_1", "", 1), strings.Replace(noticeBody, "callback", "recall", 1), strings.Replace(noticeBody, "consumer_id", "id", 1),
	} {
		_, err := webhook.ParseNotice([]byte(body))
		require.ErrorIs(t, err, webhook.ErrMalformed, body)
	}
}

// S1-15, S1-71, S1-82, S1-92: the address of a callback goes out as it is in the notice.
func TestCallback_PostsToTheNoticesAddressAndReadsTheAnswer(t *testing.T) {
	t.Parallel()
	n, err := webhook.ParseNotice([]byte(noticeBody))
	require.NoError(t, err)
	answer := `{"ok":true,"token":"u","streams":[{"path":"/a/b","offset":"5"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.RequestURI != "/callback/default/s:%2Fa%2Fb" || r.Header.Get("Authorization") != "Bearer t" || string(body) != `{"epoch":7,"wake_id":"w_1","done":true}` {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	n.Callback = strings.Replace(n.Callback, "https://sluice.example", server.URL, 1)
	call := func() (*webhook.Response, int, error) {
		req, err := n.Request(t.Context(), n.Token, webhook.Report{Epoch: n.Epoch, WakeID: n.WakeID, Done: true})
		require.NoError(t, err)
		resp, err := server.Client().Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		a, err := webhook.ReadResponse(resp)
		return a, resp.StatusCode, err
	}
	a, status, err := call()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, &webhook.Response{OK: true, Token: "u", Streams: []webhook.StreamOffset{{Path: "/a/b", Offset: "5"}}}, a)

	answer = `{"ok":false,"error":{"code":"STALE_EPOCH","message":"stop"}}`
	a, _, err = call()
	require.NoError(t, err)
	require.Equal(t, "STALE_EPOCH", a.Error.Code)
	answer = `<html>`
	_, _, err = call()
	require.ErrorIs(t, err, webhook.ErrMalformed)

	n.Callback = "://"
	_, err = n.Request(t.Context(), n.Token, webhook.Report{})
	require.Error(t, err)
}
