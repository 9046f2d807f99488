package network

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// checkOverlap refuses pools that meet an address or a route of the host: the bridge of such a
// network would take the host's own traffic.
func checkOverlap(n *spec.Network) error {
	if !n.Apart {
		return nil
	}
	own, err := hostNetworks()
	if err != nil {
		return err
	}
	return overlap(n.Pools, own)
}

// overlap is pure: it compares pools with networks of the host.
func overlap(pools []spec.Pool, own []netip.Prefix) error {
	for _, pool := range pools {
		p, err := netip.ParsePrefix(pool.Subnet)
		if err != nil {
			return fmt.Errorf("subnet %q: %w", pool.Subnet, err)
		}
		for _, o := range own {
			if o.Overlaps(p.Masked()) {
				return fmt.Errorf("subnet %s meets %s, which this host has an address in or a route to: choose another, or none", p, o)
			}
		}
	}
	return nil
}

// hostNetworks lists the networks of the host's addresses and routes, but for routes to
// everywhere.
func hostNetworks() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("the host's addresses: %w", err)
	}
	var out []netip.Prefix
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Masked())
		}
	}
	for file, read := range map[string]func(fields []string) (netip.Prefix, bool){"/proc/net/route": route4, "/proc/net/ipv6_route": route6} {
		more, err := routes(file, read)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func routes(file string, read func([]string) (netip.Prefix, bool)) ([]netip.Prefix, error) {
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil, nil // a host without this family
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []netip.Prefix
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if p, ok := read(strings.Fields(lines.Text())); ok && p.Bits() > 0 {
			out = append(out, p.Masked())
		}
	}
	return out, lines.Err()
}

// route4 reads a line of /proc/net/route: interface, destination and, eighth, mask, in
// the byte order of the host.
func route4(fields []string) (p netip.Prefix, ok bool) {
	if len(fields) < 8 {
		return p, false
	}
	destination, err := strconv.ParseUint(fields[1], 16, 32)
	mask, err2 := strconv.ParseUint(fields[7], 16, 32)
	if err != nil || err2 != nil {
		return p, false
	}
	var a, m [4]byte
	binary.NativeEndian.PutUint32(a[:], uint32(destination))
	binary.NativeEndian.PutUint32(m[:], uint32(mask))
	bits, _ := net.IPMask(m[:]).Size()
	return netip.PrefixFrom(netip.AddrFrom4(a), bits), true
}

// route6 reads a line of /proc/net/ipv6_route: destination and length, in hexadecimal.
func route6(fields []string) (p netip.Prefix, ok bool) {
	if len(fields) < 10 {
		return p, false
	}
	raw, err := hex.DecodeString(fields[0])
	bits, err2 := strconv.ParseUint(fields[1], 16, 8)
	if err != nil || err2 != nil || len(raw) != 16 {
		return p, false
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte(raw)), int(bits)), true
}
