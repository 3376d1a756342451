package httpkit

import "net/netip"

// SourceOf returns the network that counts as one client.
func SourceOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // unknown addresses share one source
	}
	return prefix
}
