package network

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestPoolsStayAwayFromTheHost(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00:1::/64")}
	for subnet, ok := range map[string]bool{
		"10.2.0.0/16": true, "10.1.2.0/24": false, "10.0.0.0/8": false, "0.0.0.0/1": false, "169.254.0.0/16": false,
		"192.168.7.0/24": true, "fd00:1::/80": false, "fd00:2::/64": true, "nonsense": false,
	} {
		if err := overlap([]spec.Pool{{Subnet: subnet}}, own); (err == nil) != ok {
			t.Errorf("%s: %v", subnet, err)
		}
	}
	if err := checkOverlap(&spec.Network{Pools: []spec.Pool{{Subnet: "127.0.0.0/8"}}, Apart: true}); err == nil {
		t.Error("a pool over the host's own loopback is taken")
	}
	if err := checkOverlap(&spec.Network{Pools: []spec.Pool{{Subnet: "127.0.0.0/8"}}}); err != nil {
		t.Errorf("a bundle's network is held to the managed layer's bounds: %v", err)
	}
}

// TestRoutesOfTheHostAreRead reads the kernel's tables of this machine.
func TestRoutesOfTheHostAreRead(t *testing.T) {
	if p, ok := route4(strings.Fields("eth0 0001A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0")); !ok || p.String() != "192.168.1.0/24" {
		t.Errorf("route is %s, %t", p, ok)
	}
	if p, ok := route6(strings.Fields("fd000001000000000000000000000000 40 00 0 00000000000000000000000000000000 0 0 0 0 eth0")); !ok || p.String() != "fd00:1::/64" {
		t.Errorf("route is %s, %t", p, ok)
	}
	got, err := hostNetworks()
	if err != nil || len(got) == 0 {
		t.Fatalf("%v, %v", got, err)
	}
	raw := testkit.Value(os.ReadFile("/proc/net/route"))(t)
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 7 && fields[0] != "Iface" {
			if _, ok := route4(fields); !ok {
				t.Errorf("not read: %s", line)
			}
		}
	}
}
