package httpapi

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/live"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Access to the metrics without a token, for Options.
const (
	MetricsLoopback = "loopback" // clients on this machine, not through a proxy
	MetricsOpen     = "open"     // all clients
	MetricsToken    = "token"    // no clients
)

const hstsSeconds = 365 * 24 * 3600

// secured sets restrictive headers for browsers on every response. Routes that must permit more,
// such as caching, override them.
func (s *Server) secured() echo.HandlerFunc {
	always := http.Header{ // the responses share the values
		"Cross-Origin-Resource-Policy":   {"same-origin"},
		echo.HeaderCacheControl:          {"no-store"},
		echo.HeaderXContentTypeOptions:   {"nosniff"},
		echo.HeaderXFrameOptions:         {"DENY"},
		echo.HeaderContentSecurityPolicy: {"default-src 'none'; frame-ancestors 'none'"},
		echo.HeaderReferrerPolicy:        {"no-referrer"},
	}
	hsts := "max-age=" + strconv.Itoa(hstsSeconds)
	return func(c echo.Context) error {
		header := c.Response().Header()
		maps.Copy(header, always)
		if s.opts.TLS && c.Scheme() == "https" {
			header.Set(echo.HeaderStrictTransportSecurity, hsts)
		}
		if dstreams.IsStream(c.Request().URL.Path) || live.IsFeed(c.Path()) {
			dstreams.CrossOrigin(header)
		}
		return nil
	}
}

// addressOf returns how to determine a client's address: the peer of the connection or, behind
// trusted proxies, the address that they report.
func addressOf(proxies []netip.Prefix) echo.IPExtractor {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		p = p.Masked()
		trust = append(trust, echo.TrustIPRange(&net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

// metricsReader requires access to the metrics, which name namespaces and subscriptions.
func (s *Server) metricsReader(c echo.Context) error {
	if s.opts.MetricsFor == MetricsOpen || s.opts.MetricsFor == MetricsLoopback && isLocal(c.Request()) {
		return nil
	}
	who, err := s.identify(c)
	if err != nil {
		return sluice.Errorf(sluice.Unauthenticated, "metrics require the header Authorization: Bearer <token> with read access to everything; the setting http.metrics can open them")
	}
	c.SetRequest(c.Request().WithContext(model.WithCaller(c.Request().Context(), who)))
	return s.rights.Require(c, sluice.VerbRead, authz.Target{})
}

// isLocal reports whether a request comes from this machine, was not forwarded, and does not come
// from a web page: behind a proxy on this machine every client looks local, and a web page may be
// served under a name that resolves to this machine (DNS rebinding).
func isLocal(req *http.Request) bool {
	for _, name := range []string{"Forwarded", echo.HeaderXForwardedFor, echo.HeaderXRealIP, "Via", echo.HeaderOrigin} {
		if len(req.Header.Values(name)) > 0 {
			return false
		}
	}
	if !isLocalName(req.Host) {
		return false
	}
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// isLocalName reports whether the Host of a request, which may have a port, is a loopback address or localhost.
func isLocalName(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}
