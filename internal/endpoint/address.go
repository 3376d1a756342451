package endpoint

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// lookup limits how long Check waits for DNS.
const lookup = 2 * time.Second

// guard decides which addresses are allowed. It is not changed after newGuard, and safe for
// concurrent use.
type guard struct {
	resolver *net.Resolver
	public   *ssrf.Guardian // permits all addresses that are routed on the internet, and the allowed ones
	dialer   *net.Dialer
	loopback *net.Dialer // for local names, which may use http:// and so must not lead to another host
}

// blockedError is the error for an address that is not allowed. Its text is shown to users.
type blockedError struct {
	addr netip.Addr
	kind string
}

func (e *blockedError) Error() string { return fmt.Sprintf("address %s is %s", e.addr, e.kind) }

func newGuard(opts Options) *guard {
	var v4, v6 []netip.Prefix
	allowed := opts.AllowCIDRs
	if opts.AllowLoopback {
		allowed = append([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, allowed...)
	}
	for _, prefix := range allowed {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
			continue
		}
		v6 = append(v6, prefix)
	}
	g := &guard{resolver: opts.Resolver}
	azure := netip.MustParsePrefix("168.63.129.16/32") // the metadata service of Azure has an address that looks public
	g.public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azure),
		ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	g.dialer = &net.Dialer{Timeout: setUp, Resolver: opts.Resolver, ControlContext: g.control}
	g.loopback = &net.Dialer{Timeout: setUp, Resolver: opts.Resolver, ControlContext: controlLoopback}
	return g
}

// dial connects to an allowed address. For a local name it dials only loopback addresses: if the
// resolver gave localhost a public address, that host would otherwise get a request in clear text.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	if isLocalName(host) {
		return g.loopback.DialContext(ctx, network, address)
	}
	return g.dialer.DialContext(ctx, network, address)
}

// control checks each address after its resolution and before the connection to it.
func (g *guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	addr, err := parseDialled(network, address)
	if err != nil {
		return err
	}
	return g.check(addr)
}

func controlLoopback(_ context.Context, network, address string, _ syscall.RawConn) error {
	addr, err := parseDialled(network, address)
	if err == nil && !addr.IsLoopback() {
		err = &blockedError{addr: addr, kind: "not loopback"}
	}
	return err
}

func parseDialled(network, address string) (netip.Addr, error) {
	if network != "tcp4" && network != "tcp6" {
		return netip.Addr{}, fmt.Errorf("network %s is not allowed", network)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("dialled address %q: %w", address, err)
	}
	return ap.Addr().Unmap(), nil
}

// check returns a *blockedError unless addr is allowed. Package ssrf knows the special-purpose
// registries of IANA. It denies all IPv6 addresses outside 2000::/3, and so mapped, NAT64, unique
// local and link-local ones, and also those of 6to4 and Teredo.
func (g *guard) check(addr netip.Addr) error {
	if g.public.SafeAddr(addr) != nil {
		return &blockedError{addr: addr, kind: kind(addr)}
	}
	return nil
}

// checkHost returns code BlockedAddress if host is, or resolves to, an address that check refuses.
// One refused address of several is enough, because any of them may be dialled. It asks DNS for at
// most lookup, and returns nil if DNS fails or is too slow.
func (g *guard) checkHost(ctx context.Context, host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return blocked(g.check(addr))
	}
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil // DNS may know the name later; then the dialler checks the address
	}
	for _, addr := range addrs {
		if err := blocked(g.check(addr.Unmap())); err != nil {
			return err
		}
	}
	return nil
}

func blocked(err error) error {
	if err == nil {
		return nil
	}
	return sluice.Errorf(sluice.BlockedAddress, "%s; use a public address, or have the operator allow it in webhooks.allow_cidrs", err)
}

// isLocalName reports whether RFC 6761 reserves the name host for this host.
func isLocalName(host string) bool {
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// kind describes, for users, why an address is not allowed. The last case includes the
// special-purpose registries that package net has no method for.
func kind(addr netip.Addr) string {
	switch addr = addr.Unmap(); {
	case addr.IsLoopback():
		return "loopback"
	case addr.IsPrivate():
		return "private"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case addr.IsMulticast():
		return "multicast"
	case addr.IsUnspecified():
		return "unspecified"
	default:
		return "not public"
	}
}
