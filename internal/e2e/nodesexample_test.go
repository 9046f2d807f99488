package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// hundred is a multiple of a hundred from which on all ports of the example are free.
func hundred(t *testing.T) int {
	t.Helper()
	for range 200 {
		base := testkit.Ports(t, "tcp", 1)[0] / 100 * 100
		free := true
		for _, offset := range []int{0, 1, 2, 3, 4, 5, 10, 20, 21, 22} {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+offset))
			if free = free && err == nil; err == nil {
				testkit.Must(t, l.Close())
			}
		}
		for _, offset := range []int{50, 52} {
			l, err := net.ListenPacket("udp", fmt.Sprintf(":%d", base+offset))
			if free = free && err == nil; err == nil {
				testkit.Must(t, l.Close())
			}
		}
		if free {
			return base
		}
	}
	t.Fatal("no hundred ports are free")
	return 0
}

// TestExampleOfNodes runs the example as a new user does, and reads what it shows.
func TestExampleOfNodes(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.JanusGateway, testkit.CaddyServer, testkit.Curl)
	said := runExample(t, []string{fmt.Sprintf("BASE_PORT=%d", hundred(t))}, "nodes/run", "--once")
	inOrder(t, said,
		`Node media is unadopted`, `flow lobby is flow lobby now`, `(?m)^camera +not in effect`, `(?m)^site +pushed`, `(?m)^studio +pushed`, `hello from the site`,
		`mismatched`, `(?m)^changed by hand`, `--repush`, `hello from the site`, `flow site on node web differs in routes`, `resolved with repush`)
	if strings.Contains(said, "of-the-viewers") {
		t.Error("it shows a secret")
	}
}
