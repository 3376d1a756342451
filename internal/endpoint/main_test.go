package endpoint_test

import (
	"bytes"
	"crypto/ed25519"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	oldSecret = "whsec_b2xkLXNlY3JldC1vbGQtc2VjcmV0LW9sZC1zZWNyZXQ="
	newSecret = "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="
)

// sender returns a Sender that may reach this host, and ends with the test.
func sender(tb testing.TB, opts endpoint.Options) *endpoint.Sender {
	tb.Helper()
	s := endpoint.New(opts)
	tb.Cleanup(s.Close)
	return s
}

func local(tb testing.TB) *endpoint.Sender {
	tb.Helper()
	return sender(tb, endpoint.Options{AllowLoopback: true, Version: "1.2.3"})
}

func subscription(url string) *sluice.Subscription {
	return &sluice.Subscription{
		ID: "sub-1", Namespace: "acme", Mode: sluice.Push,
		Endpoint: sluice.Endpoint{URL: url},
		Policy:   sluice.Policy{Timeout: sluice.Duration(time.Minute)},
		Secrets:  []sluice.Secret{{Value: newSecret}},
	}
}

func event() *sluice.Event {
	at := time.Date(2025, 1, 2, 3, 4, 5, 600, time.UTC)
	return &sluice.Event{
		Namespace: "acme", Path: "/maps/7", Seq: 12, ID: "evt-1", Type: "map.updated", Source: "/shop",
		Time: at, Stored: at.Add(time.Second), Data: []byte(`{"a": 1,  "b":"<é> & \u2028"}`),
	}
}

// send makes one attempt against a scripted endpoint.
func send(t *testing.T, answer hooktest.Answer) (sluice.Attempt, *hooktest.Server) {
	t.Helper()
	server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return answer })
	return local(t).Send(t.Context(), subscription(server.URL+"/hook?k=v"), event(), 3), server
}

type ring struct{ key ed25519.PrivateKey }

func (r ring) SigningKeys() []webhook.SigningKey {
	return []webhook.SigningKey{{ID: "key-1", Key: r.key}}
}

func newRing() ring {
	return ring{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}
}

// names is a DNS server in memory. What a name means can change at any time; one without an
// address does not exist.
type names struct {
	mu    sync.Mutex
	addrs map[string][]string
}

func (n *names) set(host string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addrs == nil {
		n.addrs = map[string][]string{}
	}
	n.addrs[host+"."] = addrs
}

func (n *names) lookup(host string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addrs[strings.ToLower(host)]
}

func (n *names) resolver() *net.Resolver { return faulttest.Resolver(n.answer) }

func (n *names) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	addrs := n.lookup(q.Name.String())
	if len(addrs) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		addr := netip.MustParseAddr(a)
		head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		switch {
		case q.Type == dnsmessage.TypeA && addr.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case q.Type == dnsmessage.TypeAAAA && addr.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func requireCode(t *testing.T, want sluice.Code, err error) {
	t.Helper()
	require.Equal(t, want, sluice.CodeOf(err), "%v", err)
}

func headerOf(t *testing.T, server *hooktest.Server) http.Header {
	t.Helper()
	return server.Wait(1)[0].Header
}
