package endpoint

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const maxURL = 2048

// checkURL parses a URL and returns an error if its text rules out a request. It does not resolve
// names. It permits only one spelling of each address, because resolvers and URL parsers disagree
// about the others. Codes: InvalidRequest, InsecureURL, BlockedAddress. The caller owns the result.
func (s *Sender) checkURL(raw string) (*url.URL, error) {
	if err := checkText(raw); err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "the URL is malformed; write https://host/path")
	}
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, sluice.Errorf(sluice.InsecureURL, "the URL has the scheme %q; use https", u.Scheme)
	case u.Opaque != "" || host == "":
		return nil, sluice.Errorf(sluice.InvalidRequest, "the URL has no host; write https://host/path")
	case u.User != nil:
		return nil, sluice.Errorf(sluice.InvalidRequest, "the URL contains a user or password; remove them, requests are signed instead")
	}
	if err := checkPort(u); err != nil {
		return nil, err
	}
	if err := checkSpelling(u.Host, host); err != nil {
		return nil, err
	}
	return u, s.checkReach(u.Scheme, host)
}

func checkText(raw string) error {
	switch {
	case raw == "":
		return sluice.Errorf(sluice.InvalidRequest, "the URL is missing")
	case len(raw) > maxURL:
		return sluice.Errorf(sluice.InvalidRequest, "the URL is longer than %d bytes", maxURL)
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }):
		return sluice.Errorf(sluice.InvalidRequest, "the URL has spaces, backslashes or characters outside ASCII; encode them (a host as xn--…)")
	case strings.Contains(raw, "#"):
		return sluice.Errorf(sluice.InvalidRequest, "the URL has a fragment, which is never sent; remove it")
	}
	return nil
}

func checkPort(u *url.URL) error {
	port := u.Port()
	if port == "" && !strings.HasSuffix(u.Host, ":") {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' {
		return sluice.Errorf(sluice.InvalidRequest, "the URL has the port %q; use 1 to 65535", port)
	}
	return nil
}

// checkSpelling returns an error unless host is an address in its usual form or a DNS name.
func checkSpelling(hostport, host string) error {
	addr, err := netip.ParseAddr(host)
	bracketed := strings.HasPrefix(hostport, "[")
	switch {
	case err == nil && addr.Zone() == "" && !addr.Is4In6() && bracketed == addr.Is6():
		return nil
	case err == nil, bracketed, endsInNumber(host):
		return sluice.Errorf(sluice.BlockedAddress, "host %q is an unusual spelling of an address; write 192.0.2.1 or [2001:db8::1]", host)
	case len(host) > 253:
		return sluice.Errorf(sluice.InvalidRequest, "host is longer than 253 bytes")
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInName) {
			return sluice.Errorf(sluice.InvalidRequest, "host %q is not a DNS name: labels of letters, digits, - and _, without a trailing dot", host)
		}
	}
	return nil
}

// endsInNumber distinguishes an address from a name by the rule of the WHATWG URL standard. For one
// resolver or another, 2130706433, 0x7f.1, 0177.0.0.1, 127.1 and 1.2.3.4. are addresses.
func endsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// checkReach returns an error unless the scheme may be used with the host (register C20).
func (s *Sender) checkReach(scheme, host string) error {
	local := isLocalName(host)
	if addr, err := netip.ParseAddr(host); err == nil {
		local = addr.IsLoopback()
	}
	switch {
	case scheme == "http" && !local && s.opts.AllowLoopback:
		return sluice.Errorf(sluice.InsecureURL, "the URL is http; use https (http is allowed to this machine only, such as http://127.0.0.1:9000/hook)")
	case scheme == "http" && !local:
		return sluice.Errorf(sluice.InsecureURL, "the URL is http; use https")
	case scheme == "http" && !s.opts.AllowLoopback:
		return sluice.Errorf(sluice.InsecureURL, "the URL is http; use https, or allow webhooks.allow_insecure_loopback for development")
	case isLocalName(host) && !s.opts.AllowLoopback:
		return sluice.Errorf(sluice.BlockedAddress, "host %q is this machine; use a public host", host)
	}
	return nil
}
