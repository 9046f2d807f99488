package access

import (
	"net/netip"
	"testing"
)

// TestInward: whatever form an address has that leads to this machine or its link, it is found; others are left alone.
func TestInward(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")}
	for _, inward := range []string{
		"127.0.0.1", "127.8.7.6", "0.0.0.0", "0.1.2.3", "255.255.255.255", "169.254.169.254", "224.0.0.1", "100.100.100.200", "168.63.129.16", "192.0.2.10",
		"::", "::1", "fe80::1", "fe80::1%eth0", "ff02::1", "fd00:ec2::254", "2001:db8::10",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:192.0.2.10", "::127.0.0.1", "::169.254.169.254", "::ffff:0:127.0.0.1",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::192.0.2.10", "64:ff9b:1::127.0.0.1", "64:ff9b:1:7f00:0:100::", "64:ff9b:1:ab7f:0:1::", "64:ff9b:1:abcd:7f:0:100:0",
		"2002:7f00:1::", "2002:7f00:1::5", "2002:a9fe:a9fe::1", "2002:c000:20a::", "2001:0:7f00:1::1", "2001:0:808:808::80ff:fffe", "2001:0:808:808:0:0:5601:5601",
		"fd12::5efe:127.0.0.1", "fd12::200:5efe:169.254.169.254",
	} {
		if !Inward(netip.MustParseAddr(inward), own) {
			t.Errorf("%s leads nowhere near", inward)
		}
	}
	for _, outward := range []string{"8.8.8.8", "10.0.0.1", "192.168.1.1", "192.0.2.11", "2001:4860:4860::8888", "fd12::1", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7", "::ffff:10.0.0.1", "2001:db8::11"} {
		if Inward(netip.MustParseAddr(outward), own) {
			t.Errorf("%s is refused", outward)
		}
	}
}

// TestNetwork: of IPv6 a network counts, of IPv4 an address, however it is written.
func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{ // order-free: each by itself
		"192.0.2.1:5": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::",
		"[2001:db8:1:2::9%eth0]:7": "2001:db8:1:2::", "[::1]:7": "::1", "[fe80::1%eth0]:7": "fe80::",
	} {
		if got := Network(remote); got.String() != want {
			t.Errorf("%s is of %s, expected %s", remote, got, want)
		}
	}
	if Network("pipe").IsValid() {
		t.Error("what is no address has a network")
	}
}
