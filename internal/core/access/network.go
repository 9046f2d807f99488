package access

import "net/netip"

// Network is where HOST:PORT is, as bounds by address count it: of IPv6 the network of 64 bits that one
// customer has. It is the zero Addr of what is no such address.
func Network(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		p, _ := a.Prefix(64) // a has as many bits
		return p.Addr()
	}
	return a
}
