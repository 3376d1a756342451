package endpoint_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-22, S1-143, S4-59, S4-61, S4-77, register C20.
func TestCheck_RefusesHostileURLs(t *testing.T) {
	t.Parallel()
	const insecure, blocked, invalid = sluice.InsecureURL, sluice.BlockedAddress, sluice.InvalidRequest
	tests := []struct {
		url  string
		want sluice.Code
	}{
		{"http://hook.example/", insecure},
		{"HTTP://hook.example/", insecure},
		{"http://localhost/", insecure},
		{"http://127.0.0.1:8080/", insecure},
		{"http://[::1]/", insecure},
		{"http://10.0.0.1/", insecure},
		{"ftp://hook.example/", insecure},
		{"file:///etc/passwd", insecure},
		{"gopher://hook.example/", insecure},
		{"unix:///var/run/docker.sock", insecure},
		{"javascript:alert(1)", insecure},
		{"data:text/plain,x", insecure},
		{"ws://hook.example/", insecure},
		{"//hook.example/", insecure},
		{"hook.example/hook", insecure},
		{"/hook", insecure},

		{"", invalid},
		{"https://", invalid},
		{"https:///hook", invalid},
		{"https:hook.example", invalid},
		{"https://:443/", invalid},
		{"https://?x", invalid},
		{"https://user@hook.example/", invalid},
		{"https://user:password@hook.example/", invalid},
		{"https://@hook.example/", invalid},
		{"https://hook.example@10.0.0.1/", invalid},
		{"https://hook.example/#part", invalid},
		{"https://hook.example/#", invalid},
		{"https://hook.example#@10.0.0.1/", invalid},
		{"https://hook.example:0/", invalid},
		{"https://hook.example:65536/", invalid},
		{"https://hook.example:99999999999/", invalid},
		{"https://hook.example:0443/", invalid},
		{"https://hook.example:-1/", invalid},
		{"https://hook.example:https/", invalid},
		{"https://hook.example:/", invalid},
		{"https://hook.example\\@10.0.0.1/", invalid},
		{"https:\\\\hook.example/", invalid},
		{" https://hook.example/", invalid},
		{"https://hook.example/a b", invalid},
		{"https://hook.example/\r\nHost: other", invalid},
		{"https://hook.example/\x00", invalid},
		{"https://hook.example./", invalid},
		{"https://hook..example/", invalid},
		{"https://.example/", invalid},
		{"https://hook!.example/", invalid},
		{"https://hook,example/", invalid},
		{"https://" + strings.Repeat("a", 64) + ".example/", invalid},
		{"https://" + strings.Repeat("a.", 130) + "example/", invalid},
		{"https://hook.example/" + strings.Repeat("a", 2048), invalid},
		{"https://bücher.example/", invalid},
		{"https://１２７.0.0.1/", invalid},
		{"https://127。0。0。1/", invalid},
		{"https://ⓛocalhost/", invalid},
		{"https://%6c%6f%63alhost/", invalid},
		{"https://%31%32%37.0.0.1/", invalid},
		{"https://[::1/", invalid},
		{"https://[::1]x/", invalid},
		{"https://[hook.example]/", invalid},
		{"https://::1/", invalid},
		{"https://[]/", invalid},

		{"https://localhost/", blocked},
		{"https://LOCALHOST:8443/", blocked},
		{"https://a.localhost/", blocked},
		{"https://127.0.0.1/", blocked},
		{"https://127.255.255.254/", blocked},
		{"https://2130706433/", blocked},
		{"https://0x7f000001/", blocked},
		{"https://0x7f.0.0.1/", blocked},
		{"https://0X7F.1/", blocked},
		{"https://017700000001/", blocked},
		{"https://0177.0.0.1/", blocked},
		{"https://127.1/", blocked},
		{"https://127.0.1/", blocked},
		{"https://0/", blocked},
		{"https://127.0.0.1./", blocked},
		{"https://127.0.0.01/", blocked},
		{"https://8.8.8.8.8/", blocked},
		{"https://hook.example.1/", blocked},
		{"https://0.0.0.0/", blocked},
		{"https://0.1.2.3/", blocked},
		{"https://10.1.2.3/", blocked},
		{"https://172.16.0.1/", blocked},
		{"https://172.31.255.255/", blocked},
		{"https://192.168.1.1/", blocked},
		{"https://100.64.0.1/", blocked},
		{"https://100.100.100.200/", blocked},
		{"https://169.254.169.254/latest/meta-data/", blocked},
		{"https://168.63.129.16/", blocked},
		{"https://192.0.0.192/", blocked},
		{"https://192.0.2.1/", blocked},
		{"https://198.18.0.1/", blocked},
		{"https://198.51.100.1/", blocked},
		{"https://203.0.113.1/", blocked},
		{"https://224.0.0.1/", blocked},
		{"https://240.0.0.1/", blocked},
		{"https://255.255.255.255/", blocked},
		{"https://[::]/", blocked},
		{"https://[::1]:443/", blocked},
		{"https://[0:0:0:0:0:0:0:1]/", blocked},
		{"https://[::ffff:127.0.0.1]/", blocked},
		{"https://[::ffff:7f00:1]/", blocked},
		{"https://[::ffff:8.8.8.8]/", blocked},
		{"https://[::127.0.0.1]/", blocked},
		{"https://[fd00:ec2::254]/", blocked},
		{"https://[fc00::1]/", blocked},
		{"https://[fe80::1]/", blocked},
		{"https://[fe80::1%25eth0]/", blocked},
		{"https://[2606:4700::1%25eth0]/", blocked},
		{"https://[fec0::1]/", blocked},
		{"https://[ff02::1]/", blocked},
		{"https://[2002:7f00:1::]/", blocked},
		{"https://[64:ff9b::7f00:1]/", blocked},
		{"https://[64:ff9b::8.8.8.8]/", blocked},
		{"https://[64:ff9b:1::1]/", blocked},
		{"https://[2001::1]/", blocked},
		{"https://[2001:db8::1]/", blocked},
		{"https://[100::1]/", blocked},
		{"https://[3fff::1]/", blocked},
	}
	var dns names
	s := sender(t, endpoint.Options{Resolver: dns.resolver()})
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			t.Parallel()
			err := s.Check(t.Context(), sluice.Endpoint{URL: tt.url})
			requireCode(t, tt.want, err)
			a := s.Send(t.Context(), subscription(tt.url), event(), 1)
			require.NotEqual(t, sluice.Delivered, a.Outcome)
			require.NotEmpty(t, a.Error)
		})
	}
}

func TestCheck_AdmitsUsualURLs(t *testing.T) {
	t.Parallel()
	var dns names
	dns.set("hook.example", "93.184.216.34", "2606:2800:220:1::1")
	s := sender(t, endpoint.Options{Resolver: dns.resolver()})
	for _, url := range []string{
		"https://hook.example", "https://hook.example/", "https://hook.example:8443/a/b?c=d%20e&f", "HTTPS://Hook.Example/",
		"https://unknown.example/", "https://8.8.8.8/", "https://[2606:4700:4700::1111]:443/", "https://xn--bcher-kva.example/",
		"https://under_score.example/", "https://1password.example/", "https://hook.example/%C3%A9",
	} {
		require.NoError(t, s.Check(t.Context(), sluice.Endpoint{URL: url}), url)
	}
}

// Register C20.
func TestCheck_LoopbackNeedsPermission(t *testing.T) {
	t.Parallel()
	var dns names
	dns.set("inside.example", "127.0.0.1")
	dns.set("lan.example", "10.1.2.3")
	s := sender(t, endpoint.Options{AllowLoopback: true, Resolver: dns.resolver()})
	for _, url := range []string{
		"http://localhost:3000/hook", "http://LocalHost/", "http://127.0.0.1:1/", "http://127.9.9.9/", "http://[::1]:3000/",
		"https://localhost/", "https://127.0.0.1/", "https://inside.example/",
	} {
		require.NoError(t, s.Check(t.Context(), sluice.Endpoint{URL: url}), url)
	}
	for _, url := range []string{"http://hook.example/", "http://inside.example/", "http://10.0.0.1/", "http://0.0.0.0/", "http://localhost.example/"} {
		requireCode(t, sluice.InsecureURL, s.Check(t.Context(), sluice.Endpoint{URL: url}))
	}
	for _, url := range []string{"https://10.0.0.1/", "https://lan.example/", "https://[::ffff:127.0.0.1]/", "http://127.1/", "http://[::ffff:127.0.0.1]/"} {
		requireCode(t, sluice.BlockedAddress, s.Check(t.Context(), sluice.Endpoint{URL: url}))
	}
}

func TestCheck_AllowedNetworksNeedHTTPS(t *testing.T) {
	t.Parallel()
	var dns names
	dns.set("lan.example", "10.1.2.3")
	dns.set("ula.example", "fd12::1")
	s := sender(t, endpoint.Options{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd12::/64")}, Resolver: dns.resolver(),
	})
	for _, url := range []string{"https://10.1.2.3/", "https://lan.example/", "https://[fd12::1]/", "https://ula.example/"} {
		require.NoError(t, s.Check(t.Context(), sluice.Endpoint{URL: url}), url)
	}
	requireCode(t, sluice.InsecureURL, s.Check(t.Context(), sluice.Endpoint{URL: "http://10.1.2.3/"}))
	for _, url := range []string{"https://10.2.0.1/", "https://[fd13::1]/", "https://127.0.0.1/"} {
		requireCode(t, sluice.BlockedAddress, s.Check(t.Context(), sluice.Endpoint{URL: url}))
	}
}

func TestCheck_RefusesNamesOfInternalAddresses(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fd00:ec2::254", "fe80::1", "64:ff9b::7f00:1", "2002:7f00:1::", "::ffff:10.0.0.1"} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			var dns names
			dns.set("inside.example", addr)
			dns.set("both.example", "93.184.216.34", addr)
			s := sender(t, endpoint.Options{Resolver: dns.resolver()})
			requireCode(t, sluice.BlockedAddress, s.Check(t.Context(), sluice.Endpoint{URL: "https://inside.example/"}))
			requireCode(t, sluice.BlockedAddress, s.Check(t.Context(), sluice.Endpoint{URL: "https://both.example/"}))
		})
	}
}

// S4-71, S4-72.
func TestCheck_RefusesReservedHeaders(t *testing.T) {
	t.Parallel()
	var dns names
	s := sender(t, endpoint.Options{Resolver: dns.resolver()})
	check := func(headers map[string]string) error {
		return s.Check(t.Context(), sluice.Endpoint{URL: "https://hook.example/", Headers: headers})
	}
	require.NoError(t, check(map[string]string{"x-env": "prod", "X-Tenant": "a b", "X-Empty": ""}))
	for _, name := range []string{
		"webhook-id", "Webhook-Anything", "CE-id", "ce-x", "Host", "content-length", "Content-Type", "content-encoding", "transfer-encoding",
		"Connection", "keep-alive", "upgrade", "te", "trailer", "expect", "Authorization", "proxy-authorization", "Proxy-Connection", "cookie",
		"set-cookie", "user-agent", "traceparent", "tracestate", "idempotency-key", "X-Idempotency-Key", "", "x y", "x:y", "x\r\ny", "ü", ":path",
		strings.Repeat("x", 129),
	} {
		requireCode(t, sluice.InvalidRequest, check(map[string]string{name: "v"}))
		requireCode(t, sluice.InvalidRequest, endpoint.CheckHeaderName(name))
	}
	for _, value := range []string{"a\r\nb: c", "a\x00", "\x7f", "é", " a", "a\t", strings.Repeat("x", 2049)} {
		requireCode(t, sluice.InvalidRequest, check(map[string]string{"x-env": value}))
	}
	requireCode(t, sluice.InvalidRequest, check(map[string]string{"x-env": "a", "X-Env": "b"}))
	many := map[string]string{}
	for i := range 33 {
		many["x-"+strings.Repeat("a", i+1)] = ""
	}
	requireCode(t, sluice.InvalidRequest, check(many))
	a := s.Send(t.Context(), withHeaders("https://hook.example/", map[string]string{"Cookie": "x"}), event(), 1)
	require.Equal(t, sluice.Refused, a.Outcome)
}

func withHeaders(url string, headers map[string]string) *sluice.Subscription {
	sub := subscription(url)
	sub.Endpoint.Headers = headers
	return sub
}
