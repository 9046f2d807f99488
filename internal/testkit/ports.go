package testkit

import (
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"
)

// Ports returns ports that nothing uses now, below those from which systems choose by
// themselves: connections of other tests do not take them meanwhile. Network is tcp or udp.
func Ports(t testing.TB, network string, n int) []int {
	t.Helper()
	var out []int
	for tries := 0; len(out) < n; tries++ {
		if tries > 20*n+1000 {
			t.Fatalf("no %d free ports of %s", n, network)
		}
		port := 10_000 + rand.IntN(20_000)
		if slices.Contains(out, port) {
			continue
		}
		address := ":" + strconv.Itoa(port)
		var c io.Closer
		var err error
		if network == "udp" {
			c, err = net.ListenPacket(network, address)
		} else {
			c, err = net.Listen(network, address)
		}
		if err == nil {
			_ = c.Close()
			out = append(out, port)
		}
	}
	return out
}
