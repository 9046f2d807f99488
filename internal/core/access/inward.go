package access

import (
	"net/netip"
	"slices"
)

// metadata are addresses at which clouds give away a machine's credentials, beside the link-local one.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

var thisNetwork, broadcast = netip.MustParsePrefix("0.0.0.0/8"), netip.MustParseAddr("255.255.255.255")

// Inward reports whether an address, or one that stands for it, leads to this machine, to its link, or to where a cloud gives
// away its credentials. Own are the machine's other addresses.
func Inward(ip netip.Addr, own []netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || thisNetwork.Contains(ip) || ip == broadcast ||
		slices.Contains(metadata, ip) || slices.Contains(own, ip) {
		return true
	}
	return ip.Is6() && slices.ContainsFunc(embedded(ip.As16()), func(v4 netip.Addr) bool { return Inward(v4, own) })
}

// Forms of IPv6 that stand for an address of IPv4: compatible and translated ones (RFC 4291, RFC 2765), NAT64 (RFC 6052, RFC 8215),
// 6to4 (RFC 3056) and Teredo (RFC 4380).
var (
	compatible  = netip.MustParsePrefix("::/96")
	translated  = netip.MustParsePrefix("::ffff:0:0:0/96")
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local  = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour   = netip.MustParsePrefix("2002::/16")
	teredo      = netip.MustParsePrefix("2001::/32")
	isatap      = [4]byte{0, 0, 0x5e, 0xfe}
	localLength = [][4]int{{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}} // of prefixes of 48, 56, 64 and 96 bits
)

// embedded are the addresses of IPv4 that one of IPv6 may stand for.
func embedded(b [16]byte) (out []netip.Addr) {
	ip, last := netip.AddrFrom16(b), netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case compatible.Contains(ip), translated.Contains(ip), nat64.Contains(ip):
		out = append(out, last)
	case nat64Local.Contains(ip):
		for _, at := range localLength {
			out = append(out, netip.AddrFrom4([4]byte{b[at[0]], b[at[1]], b[at[2]], b[at[3]]}))
		}
	case sixToFour.Contains(ip):
		out = append(out, netip.AddrFrom4([4]byte(b[2:6])))
	case teredo.Contains(ip):
		out = append(out, netip.AddrFrom4([4]byte(b[4:8])), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	if marks := [4]byte(b[8:12]); marks == isatap || marks == [4]byte{2, 0, isatap[2], isatap[3]} {
		out = append(out, last)
	}
	return out
}
