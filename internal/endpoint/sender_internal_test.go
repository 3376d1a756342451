package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// secure returns a TLS endpoint that answers with the protocol it was spoken to, a Sender that may
// reach it, and a subscription to it.
func secure(t *testing.T) (*Sender, *sluice.Subscription, *x509.Certificate) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(r.Proto))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	s := New(Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(s.Close)
	sub := &sluice.Subscription{
		Endpoint: sluice.Endpoint{URL: server.URL},
		Policy:   sluice.Policy{Timeout: sluice.Duration(time.Minute)},
		Secrets:  []sluice.Secret{{Value: "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="}},
	}
	return s, sub, server.Certificate()
}

func TestSender_SpeaksHTTP2OverTLS(t *testing.T) {
	t.Parallel()
	s, sub, certificate := secure(t)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	s.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	for range 3 {
		require.Equal(t, "HTTP/2.0", s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1).Response)
	}
}

// Attempts that share a connection do not fail because one of them took too long. One that is
// interrupted takes the connection with it: nothing else keeps what it holds from being sent.
func TestSender_InterruptionClosesASharedConnection(t *testing.T) { // S0-60, C43
	t.Parallel()
	entered, open := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-open:
		case <-r.Context().Done():
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	s, sub, _ := secure(t)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	sub.Endpoint.URL, sub.Policy.Timeout = server.URL, sluice.Duration(time.Minute)
	send := func(ctx context.Context, sub *sluice.Subscription) <-chan sluice.Attempt {
		ended := make(chan sluice.Attempt, 1)
		go func() { ended <- s.Send(ctx, sub, &sluice.Event{ID: "1"}, 1) }()
		<-entered
		return ended
	}
	first := send(t.Context(), sub) // the connection is there
	hasty := *sub
	hasty.Policy.Timeout = sluice.Duration(3 * time.Second)
	require.Equal(t, "timeout after 3s", (<-send(t.Context(), &hasty)).Error)
	select {
	case a := <-first:
		require.Fail(t, "it fails for another's timeout", a.Error)
	default:
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := send(ctx, sub)
	cancel()
	require.Equal(t, "interrupted", (<-interrupted).Error)
	require.Equal(t, sluice.Failed, (<-first).Outcome)
	close(open)
	require.Equal(t, sluice.Delivered, (<-send(t.Context(), sub)).Outcome, "the next one has a connection of its own")
}

func TestSender_RefusesUntrustedCertificates(t *testing.T) {
	t.Parallel()
	s, sub, certificate := secure(t)
	a := s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1)
	require.Equal(t, sluice.Failed, a.Outcome)
	require.Equal(t, "certificate rejected: certificate signed by unknown authority", a.Error)

	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	s.transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "other.example"}
	a = s.Send(t.Context(), sub, &sluice.Event{ID: "1"}, 1)
	require.Contains(t, a.Error, "certificate rejected: certificate is valid for")
}

func TestSender_IgnoresTheProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	require.Nil(t, s.transport.Proxy)
}

func FuzzURL(f *testing.F) {
	f.Add("https://hook.example:8443/a?b")
	f.Add("https://[::ffff:127.0.0.1%25x]:0x1/")
	f.Add("https://0x7f.1@a#b")
	s := New(Options{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := s.checkURL(raw)
		if err != nil {
			require.NotEqual(t, sluice.Internal, sluice.CodeOf(err))
			return
		}
		require.Equal(t, "https", u.Scheme)
		require.NotEmpty(t, u.Hostname())
		require.Nil(t, u.User)
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			require.Empty(t, addr.Zone())
		} else {
			require.False(t, endsInNumber(u.Hostname()))
		}
	})
}

// exchange is a transport in memory.
type exchange func(*http.Request) *http.Response

func (e exchange) RoundTrip(r *http.Request) (*http.Response, error) { return e(r), nil }

func TestTokens_DroppedClientHasItsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		issuer := exchange(func(r *http.Request) *http.Response {
			if id, _, _ := r.BasicAuth(); id == "slow" {
				<-answer
			}
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(`{"access_token":"a","token_type":"bearer"}`)),
			}
		})
		issued := newTokens(issuer, url.Parse, time.Now)
		issued.held.Resize(1)
		of := func(id string) {
			sub := &sluice.Subscription{Endpoint: sluice.Endpoint{Auth: &sluice.EndpointAuth{ClientID: id, TokenURL: "https://issuer.example/"}}}
			token, err := issued.of(t.Context(), sub, time.Now().Add(time.Minute))
			if err != nil || token == nil || token.AccessToken != "a" {
				t.Errorf("%s: %v, %v", id, token, err)
			}
		}
		go of("slow")
		synctest.Wait()
		of("other") // takes the only place of the cache
		go of("slow")
		synctest.Wait()
		close(answer)
		synctest.Wait()
	})
}
