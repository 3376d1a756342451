package endpoint_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const clientSecret = "hunter-of-clients"

// client returns a subscription whose requests have a token.
func client(hook, tokenURL string) *sluice.Subscription {
	sub := subscription(hook)
	sub.Endpoint.Auth = &sluice.EndpointAuth{Type: sluice.AuthOAuth2, TokenURL: tokenURL, ClientID: "app", Scopes: []string{"a", "b"}, Audience: "hooks"}
	sub.Credentials.ClientSecret = clientSecret
	return sub
}

// clock is a time that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// Issue 18, item 10.
func TestOAuth2_TokenIsFetchedOnceAndReplaced(t *testing.T) {
	t.Parallel()
	var issued, status atomic.Int64
	issuer := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Header: map[string]string{"Content-Type": "application/json"}, Body: fmt.Sprintf(`{"access_token":"token-%d","token_type":"bearer","expires_in":3600}`, issued.Add(1))}
	})
	status.Store(http.StatusNoContent)
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Status: int(status.Load()), Body: "you sent " + r.Header.Get("Authorization")}
	})
	var at clock
	s := sender(t, endpoint.Options{AllowLoopback: true, Now: at.now})
	sub := client(hook.URL, issuer.URL+"/token")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if a := s.Send(t.Context(), sub, event(), 1); a.Outcome != sluice.Delivered {
				t.Error(a.Error)
			}
		})
	}
	wg.Wait()
	for _, r := range hook.Wait(16) {
		require.Equal(t, "Bearer token-1", r.Header.Get("Authorization"))
		require.NotEmpty(t, r.Header.Get("Webhook-Signature"))
	}
	asked := issuer.Requests()
	require.Len(t, asked, 1, "one request for all")
	require.Equal(t, "Basic "+base64.StdEncoding.EncodeToString([]byte("app:"+clientSecret)), asked[0].Header.Get("Authorization"))
	form, err := url.ParseQuery(string(asked[0].Body))
	require.NoError(t, err)
	require.Equal(t, url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"hooks"}}, form)

	other := client(hook.URL, issuer.URL+"/token")
	other.Credentials.ClientSecret = "another secret"
	require.Equal(t, sluice.Delivered, s.Send(t.Context(), other, event(), 1).Outcome)
	require.Equal(t, "Bearer token-2", hook.Wait(17)[16].Header.Get("Authorization"), "clients share none")

	at.advance(10 * time.Second)
	status.Store(http.StatusUnauthorized)
	a := s.Send(t.Context(), sub, event(), 1)
	require.Equal(t, sluice.Failed, a.Outcome)
	require.Equal(t, "you sent Bearer ***", a.Response, "the endpoint's answer has no token")
	require.Equal(t, "Bearer token-1", hook.Wait(18)[17].Header.Get("Authorization"))
	status.Store(http.StatusNoContent)
	require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, event(), 2).Outcome)
	require.Equal(t, "Bearer token-3", hook.Wait(19)[18].Header.Get("Authorization"), "another one after 401")
	status.Store(http.StatusUnauthorized)
	for n := range 3 {
		require.Equal(t, sluice.Failed, s.Send(t.Context(), sub, event(), 3+n).Outcome)
	}
	require.EqualValues(t, 3, issued.Load(), "not for each 401")
	status.Store(http.StatusNoContent)
	at.advance(time.Hour - 20*time.Second)
	require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, event(), 7).Outcome)
	require.EqualValues(t, 4, issued.Load(), "before the end of the last one")
}

func TestOAuth2_FailureIsAnAttemptThatFailed(t *testing.T) {
	t.Parallel()
	inJSON := map[string]string{"Content-Type": "application/json"}
	hook := hooktest.New(t, nil)
	issuer := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		switch r.Path {
		case "/refuses":
			return hooktest.Answer{Status: http.StatusUnauthorized, Header: inJSON, Body: `{"error":"invalid_client","error_description":"no client with ` + clientSecret + ` in ` + base64.StdEncoding.EncodeToString([]byte("app:"+clientSecret)) + `"}`}
		case "/moved":
			return hooktest.Answer{Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": "/refuses"}}
		case "/nothing":
			return hooktest.Answer{Header: inJSON, Body: `{}`}
		case "/splits":
			return hooktest.Answer{Header: inJSON, Body: `{"access_token":"a\r\nx: y"}`}
		}
		return hooktest.Answer{Hang: true}
	})
	dns := &names{}
	dns.set("inside.example", "10.0.0.1")
	now := time.Now() // it stands still: the next attempt comes at once
	s := sender(t, endpoint.Options{AllowLoopback: true, Resolver: dns.resolver(), Now: func() time.Time { return now }})
	for address, want := range map[string]string{
		issuer.URL + "/refuses":        "no access token: " + issuer.URL + "/*** responded with status 401 invalid_client no client with *** in ***",
		issuer.URL + "/moved":          "no access token: " + issuer.URL + "/*** responded with status 307",
		issuer.URL + "/nothing":        "no access token from " + issuer.URL + "/***: the response has no valid token",
		issuer.URL + "/splits":         "no access token from " + issuer.URL + "/***: the response has no valid token",
		issuer.URL + "/hangs":          "no access token from " + issuer.URL + "/***: timeout after 1s",
		"https://inside.example/token": "no access token from https://inside.example/***: address 10.0.0.1 is private",
		"http://192.0.2.1/token":       "no access token from http://192.0.2.1/***: the URL is http; use https (http is allowed to this machine only, such as http://127.0.0.1:9000/hook)",
	} {
		sub := client(hook.URL, address)
		if strings.HasSuffix(address, "/hangs") {
			sub.Policy.Timeout = sluice.Duration(time.Second)
		}
		a := s.Send(t.Context(), sub, event(), 1)
		require.Equal(t, sluice.Failed, a.Outcome, address)
		require.Equal(t, want, a.Error, address)
		require.Empty(t, a.Dead)
	}
	require.Empty(t, hook.Requests(), "nothing is sent without a token")
	before := len(issuer.Requests())
	require.Equal(t, sluice.Failed, s.Send(t.Context(), client(hook.URL, issuer.URL+"/refuses"), event(), 2).Outcome)
	require.Len(t, issuer.Requests(), before, "the next attempt does not ask at once")
}

func TestOAuth2_TokenURLIsCheckedAsAnEndpoint(t *testing.T) {
	t.Parallel()
	s := sender(t, endpoint.Options{})
	for address, code := range map[string]sluice.Code{
		"https://127.0.0.1/t": sluice.BlockedAddress, "http://192.0.2.1/t": sluice.InsecureURL, "https://u:p@a.example/t": sluice.InvalidRequest, "https://8.8.8.8/t": "",
	} {
		e := client("https://8.8.8.8/", address).Endpoint
		err := s.Check(t.Context(), e)
		requireCode(t, code, err)
		if code != "" {
			require.ErrorContains(t, err, "endpoint.auth.token_url: ")
		}
	}
}
