package endpoint_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-46, S0-49, S1-116, register C06.
func TestSend_AnswerDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	location := map[string]string{"Location": "https://other.example/new?token=secret"}
	tests := []struct {
		name    string
		answer  hooktest.Answer
		outcome sluice.Outcome
		error   string
	}{
		{"200", hooktest.Answer{}, sluice.Delivered, ""},
		{"201 with a body", hooktest.Answer{Status: 201, Body: "ok"}, sluice.Delivered, ""},
		{"204", hooktest.Answer{Status: 204}, sluice.Delivered, ""},
		{"299", hooktest.Answer{Status: 299}, sluice.Delivered, ""},
		{"101", hooktest.Answer{Status: 101, Header: map[string]string{"Connection": "Upgrade", "Upgrade": "x"}}, sluice.Failed, "status 101"},
		{"301", hooktest.Answer{Status: 301, Header: location}, sluice.Failed, "redirect to https://other.example/new not followed"},
		{"302", hooktest.Answer{Status: 302, Header: map[string]string{"Location": "http://169.254.169.254/"}}, sluice.Failed, "redirect to http://169.254.169.254/ not followed"},
		{"307", hooktest.Answer{Status: 307, Header: location}, sluice.Failed, "redirect to https://other.example/new not followed"},
		{"308 without location", hooktest.Answer{Status: 308}, sluice.Failed, "status 308"},
		{"304", hooktest.Answer{Status: 304}, sluice.Failed, "status 304"},
		{"400", hooktest.Answer{Status: 400}, sluice.Failed, "status 400"},
		{"401", hooktest.Answer{Status: 401}, sluice.Failed, "status 401"},
		{"404", hooktest.Answer{Status: 404}, sluice.Failed, "status 404"},
		{"410", hooktest.Answer{Status: 410}, sluice.Gone, "status 410"},
		{"410 cut in its body", hooktest.Answer{Status: 410, Body: "long gone", Cut: true}, sluice.Gone, "status 410"},
		{"429", hooktest.Answer{Status: 429}, sluice.Failed, "status 429"},
		{"500", hooktest.Answer{Status: 500}, sluice.Failed, "status 500"},
		{"503", hooktest.Answer{Status: 503}, sluice.Failed, "status 503"},
		{"599", hooktest.Answer{Status: 599}, sluice.Failed, "status 599"},
		{"closed without an answer", hooktest.Answer{Cut: true}, sluice.Failed, "connection closed before the response was complete"},
		{"closed in the body of a 200", hooktest.Answer{Body: "abcdef", Cut: true}, sluice.Failed, "connection closed before the response was complete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, server := send(t, tt.answer)
			require.Equal(t, tt.outcome, a.Outcome)
			require.Equal(t, tt.error, a.Error)
			require.Len(t, server.Requests(), 1)
		})
	}
}

func TestSend_ReportsRequestAndAnswer(t *testing.T) {
	t.Parallel()
	before := time.Now()
	a, server := send(t, hooktest.Answer{Status: 500, Body: "the disk is full"})
	request := server.Wait(1)[0]
	hash := sha256.Sum256(request.Body)

	require.Equal(t, "POST", request.Method)
	require.Equal(t, "/hook?k=v", request.Path)
	require.WithinRange(t, a.StartedAt, before, request.At)
	require.Positive(t, a.Duration)
	a.StartedAt, a.Duration = time.Time{}, 0
	require.Equal(t, sluice.Attempt{
		Subscription: "sub-1", EventID: "evt-1", Seq: 12, Path: "/maps/7", Type: "map.updated", Number: 3,
		Outcome: sluice.Failed, Status: 500, Error: "status 500", Response: "the disk is full", PayloadHash: hex.EncodeToString(hash[:]),
	}, a)
}

func TestExcerpt_IsShortAndValidUTF8(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		strings.Repeat("é", 1000), "a" + strings.Repeat("é", 1000), strings.Repeat("a\xff", 1000), strings.Repeat("x", 1<<20), "\xff\xfe",
		strings.Repeat("x", 1023) + "€",
	} {
		a, _ := send(t, hooktest.Answer{Status: 500, Body: body})
		require.LessOrEqual(t, len(a.Response), 1024)
		require.NotEmpty(t, a.Response)
		require.True(t, utf8.ValidString(a.Response))
	}
	a, _ := send(t, hooktest.Answer{Body: "thank you"})
	require.Empty(t, a.Response)
}

// S1-116.
func TestSend_TimeoutCoversTheWholeAttempt(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]hooktest.Answer{
		"hangs":           {Hang: true},
		"drips its body":  {Drip: 20 * time.Millisecond, Body: strings.Repeat("x", 1000)},
		"drips a failure": {Status: 500, Drip: 20 * time.Millisecond, Body: strings.Repeat("x", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return answer })
			sub := subscription(server.URL)
			sub.Policy.Timeout = sluice.Duration(200 * time.Millisecond)
			a := local(t).Send(t.Context(), sub, event(), 1)
			require.Equal(t, sluice.Failed, a.Outcome)
			require.Contains(t, []string{"timeout after 200ms", "status 500"}, a.Error)
			require.Contains(t, []sluice.FailureClass{sluice.FailTimeout, sluice.FailServer}, a.Failure())
			require.GreaterOrEqual(t, a.Duration.Std(), 200*time.Millisecond)
			require.Less(t, a.Duration.Std(), 30*time.Second)
		})
	}
}

func TestSend_ReportsItsInterruption(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Hang: true} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, attempts := local(t), make(chan sluice.Attempt, 1)
	go func() { attempts <- s.Send(ctx, subscription(server.URL), event(), 1) }()
	server.Wait(1)
	cancel()
	a := <-attempts
	require.Equal(t, sluice.Failed, a.Outcome)
	require.Equal(t, "interrupted", a.Error)
}

func TestSend_DoesNotReadHugeAnswers(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 500} {
		a, _ := send(t, hooktest.Answer{Status: status, Body: strings.Repeat("x", 32<<20)})
		require.Equal(t, status, a.Status)
		require.Less(t, a.Duration.Std(), 30*time.Second)
	}
}

// Retry-After on 429 and 503.
func TestRetryAfter_ReadsBothForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name   string
		status int
		value  string
		want   time.Duration
	}{
		{"seconds", 429, "120", 2 * time.Minute},
		{"seconds of a 503", 503, "1", time.Second},
		{"a date", 503, "Thu, 02 Jan 2025 03:05:05 GMT", time.Minute},
		{"a date that is over", 429, "Thu, 02 Jan 2025 03:00:00 GMT", 0},
		{"a date far away", 429, "Thu, 02 Jan 9999 03:00:00 GMT", 365 * 24 * time.Hour},
		{"too many seconds", 429, "4294967295", 365 * 24 * time.Hour},
		{"far too many seconds", 429, "99999999999999999999", 0},
		{"negative", 429, "-5", 0},
		{"words", 429, "soon", 0},
		{"another status", 500, "120", 0},
		{"a success", 200, "120", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := hooktest.New(t, func(hooktest.Request) hooktest.Answer {
				return hooktest.Answer{Status: tt.status, Header: map[string]string{"Retry-After": tt.value}}
			})
			s := sender(t, endpoint.Options{AllowLoopback: true, Now: func() time.Time { return now }})
			require.Equal(t, tt.want, s.Send(t.Context(), subscription(server.URL), event(), 1).RetryAfter)
		})
	}
}

func TestConnection_IsReused(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Status: 200 + 300*(r.Number%2), Body: strings.Repeat("x", 20<<10)}
	})
	s, sub := local(t), subscription(server.URL)
	for range 10 {
		s.Send(t.Context(), sub, event(), 1)
	}
	for _, r := range server.Wait(10) {
		require.Equal(t, server.Requests()[0].RemoteAddr, r.RemoteAddr)
	}
}

// A name may have another address by now, and what its old one answers does not matter then: a
// retry ends its connection.
func TestConnection_EndsAtARetry(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: 503} })
	s, sub := local(t), subscription(server.URL)
	seen := map[string]bool{}
	for i := range 4 {
		s.Send(t.Context(), sub, event(), i+1)
		seen[server.Wait(i + 1)[i].RemoteAddr] = true
	}
	require.Len(t, seen, 3, "the first retry still takes the connection of the first attempt")
}

// A request may have been acted upon: only its retry timetable says when it goes again.
func TestSend_SendsARequestOnce(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, func(r hooktest.Request) hooktest.Answer { return hooktest.Answer{Cut: r.Number > 1} })
	s, sub := local(t), subscription(server.URL)
	require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, event(), 1).Outcome)
	require.Equal(t, sluice.Failed, s.Send(t.Context(), sub, event(), 2).Outcome)
	require.Len(t, server.Requests(), 2)
}

func TestSend_NeedsAConnection(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	require.NoError(t, listener.Close())
	server := hooktest.New(t, nil)
	plain := strings.TrimPrefix(server.URL, "http://")
	_, port, err := net.SplitHostPort(plain)
	require.NoError(t, err)

	var dns names
	dns.set("inside.example", "127.0.0.1")
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	tests := []struct {
		name string
		url  string
		opts endpoint.Options
		want string
		as   sluice.FailureClass
	}{
		{"refused", "http://" + closed, endpoint.Options{AllowLoopback: true}, "connection refused", sluice.FailRefused},
		{"unknown name", "https://nowhere.example/", endpoint.Options{}, "host nowhere.example not found", sluice.FailDNS},
		{"an address", "https://10.0.0.1/", endpoint.Options{}, "address 10.0.0.1 is private", sluice.FailUnsent},
		{"a metadata address", "https://169.254.169.254/", endpoint.Options{}, "address 169.254.169.254 is link-local", sluice.FailUnsent},
		{"a name that leads inside", "https://inside.example/", endpoint.Options{}, "address 127.0.0.1 is loopback", sluice.FailUnsent},
		{"no TLS", "https://" + plain, endpoint.Options{AllowLoopback: true}, "the endpoint does not speak TLS", sluice.FailTLS},
		{"no TLS behind an allowed name", "https://inside.example:" + port, endpoint.Options{AllowCIDRs: loopback}, "the endpoint does not speak TLS", sluice.FailTLS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.opts.Resolver = dns.resolver()
			a := sender(t, tt.opts).Send(t.Context(), subscription(tt.url), event(), 1)
			require.Equal(t, sluice.Failed, a.Outcome)
			require.Equal(t, tt.want, a.Error)
			require.Equal(t, tt.as, a.Failure())
			require.Zero(t, a.Status)
		})
	}
}

// S1-143: a name may mean something else once it was checked.
func TestDial_ChecksTheAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "0.0.0.0", "::"} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			var dns names
			dns.set("turncoat.example", "93.184.216.34")
			s := sender(t, endpoint.Options{Resolver: dns.resolver()})
			sub := subscription("https://turncoat.example/")
			require.NoError(t, s.Check(t.Context(), sub.Endpoint))
			dns.set("turncoat.example", addr)
			a := s.Send(t.Context(), sub, event(), 1)
			require.Equal(t, sluice.Failed, a.Outcome)
			require.Contains(t, a.Error, "address "+netip.MustParseAddr(addr).Unmap().String()+" is ")
		})
	}
}

func TestDial_HTTPLocalhostStaysOnLoopback(t *testing.T) {
	t.Parallel()
	var dns names
	dns.set("a.localhost", "93.184.216.34")
	s := sender(t, endpoint.Options{AllowLoopback: true, Resolver: dns.resolver()})
	a := s.Send(t.Context(), subscription("http://a.localhost/"), event(), 1)
	require.Equal(t, "address 93.184.216.34 is not loopback", a.Error)
}

// S4-63, S4-76.
func TestSend_RefusesImpossibleRequests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*sluice.Subscription, *sluice.Event)
	}{
		{"no secret", func(sub *sluice.Subscription, _ *sluice.Event) { sub.Secrets = nil }},
		{"only an expired secret", func(sub *sluice.Subscription, _ *sluice.Event) { sub.Secrets[0].ExpiresAt = time.Unix(1, 0) }},
		{"a secret that is no key", func(sub *sluice.Subscription, _ *sluice.Event) { sub.Secrets[0].Value = "not base64!" }},
		{"ed25519 without a key", func(sub *sluice.Subscription, _ *sluice.Event) {
			sub.Policy.Signature.Scheme = sluice.SchemeEd25519
		}},
		{"an unknown scheme", func(sub *sluice.Subscription, _ *sluice.Event) { sub.Policy.Signature.Scheme = "rot13" }},
		{"an unknown envelope", func(sub *sluice.Subscription, _ *sluice.Event) { sub.Policy.Envelope = "paper" }},
		{"a reserved header for the signature", func(sub *sluice.Subscription, _ *sluice.Event) {
			sub.Policy.Signature = sluice.Signature{Scheme: sluice.SchemeHeader, Name: "Authorization"}
		}},
		{"a content type that breaks the header", func(sub *sluice.Subscription, ev *sluice.Event) {
			sub.Policy.Envelope, ev.ContentType = sluice.EnvelopeRaw, "text/plain\r\nX-Evil: 1"
		}},
		{"data without canonical form", func(sub *sluice.Subscription, ev *sluice.Event) {
			sub.Policy.Envelope, ev.Data = sluice.EnvelopeAttempt, []byte(`{"a":1,"a":2}`)
		}},
		{"http", func(sub *sluice.Subscription, _ *sluice.Event) { sub.Endpoint.URL = "http://hook.example/" }},
		{"no id", func(_ *sluice.Subscription, ev *sluice.Event) { ev.ID = "" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := hooktest.New(t, nil)
			sub, ev := subscription(server.URL), event()
			tt.change(sub, ev)
			a := local(t).Send(t.Context(), sub, ev, 1)
			require.Equal(t, sluice.Refused, a.Outcome)
			require.NotEmpty(t, a.Error)
			require.NotContains(t, a.Error, newSecret)
			require.Empty(t, server.Requests())
		})
	}
}

func TestTrace_IsInjected(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, nil)
	s := sender(t, endpoint.Options{AllowLoopback: true, Trace: func(_ context.Context, h http.Header) { h.Set("traceparent", "00-1-2-01") }})
	require.Equal(t, sluice.Delivered, s.Send(t.Context(), subscription(server.URL), event(), 1).Outcome)
	require.Equal(t, "00-1-2-01", headerOf(t, server).Get("Traceparent"))
}
