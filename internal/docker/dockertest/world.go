package dockertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/steadyfleet/steady/internal/sandbox"
	"github.com/steadyfleet/steady/internal/testkit"
)

// base is the folder of engines and registries. It is in memory and exists
// inside the namespaces only.
const base = "/run/dockertest"

// nameServer is an address of the machine for the engines to ask for names.
const nameServer = "10.255.255.53"

var world = sandbox.World{Env: "STEADY_DOCKERTEST", Prepare: prepare}

// outside is why this process is not inside namespaces of its own.
var outside = errNotCalled

// Here is what a test needs that has an engine of this package: root, namespaces, and what engines are made of.
var Here = func() testkit.Component {
	c := testkit.Engine
	c.Probe = func() error {
		if errors.Is(outside, errNotCalled) {
			return nil // a fault of the package, which ends the test
		}
		return outside
	}
	return c
}()

var errNotCalled = errors.New("call dockertest.Main from the TestMain of this package")

// Main runs the tests inside and ends the process.
func Main(m interface{ Run() int }) { os.Exit(Run(m)) }

// Run runs the tests inside and gives the exit code. Without root or without an
// engine it runs them as they are, and those that need one are left out.
func Run(m interface{ Run() int }) int {
	if world.Inside() != 0 {
		outside = nil
		return m.Run()
	}
	if outside = testkit.Engine.Missing(); outside != nil {
		return m.Run() // Here is missing
	}
	code, err := world.Enter()
	if err != nil {
		outside = err
		return m.Run()
	}
	if world.First() {
		sweepCgroups()
	}
	return code
}

// prepare lets the engines of one world work beside each other.
func prepare() error {
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	// An engine that finds forwarding off turns it on and drops what its own
	// rules do not name, which is all that private engines forward.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let containers reach each other: %w", err)
	}
	if err := busybox("ip", "addr", "add", nameServer+"/32", "dev", "lo"); err != nil {
		return err
	}
	return unknownNames()
}

// unknownNames answers every question of the engines for a name with "no such
// name". Without an answer a container waits for many seconds.
func unknownNames() error {
	con, err := net.ListenPacket("udp4", nameServer+":53")
	if err != nil {
		return fmt.Errorf("serve names: %w", err)
	}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := con.ReadFrom(buf)
			if err != nil {
				return
			}
			if n < 12 {
				continue
			}
			answer := append([]byte(nil), buf[:n]...)
			copy(answer[2:], []byte{0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0}) // a response, NXDOMAIN, one question, no records
			end := 12
			for end < n && answer[end] != 0 {
				end += int(answer[end]) + 1
			}
			_, _ = con.WriteTo(answer[:min(end+5, n)], from) // it asks again
		}
	}()
	return nil
}

// sweepCgroups removes the empty control groups of containers that were killed
// with their engine. Control groups are the machine's, not the namespace's.
func sweepCgroups() {
	containers, _ := filepath.Glob(base + "/*/data/containers/*") // the pattern is right
	for _, c := range containers {
		groups, _ := filepath.Glob("/sys/fs/cgroup/*/docker/" + filepath.Base(c))
		groups = append(groups, "/sys/fs/cgroup/docker/"+filepath.Base(c))
		for _, g := range groups {
			if err := os.Remove(g); err != nil && !os.IsNotExist(err) && !strings.Contains(err.Error(), "not a directory") {
				fmt.Fprintln(os.Stderr, "dockertest: leave an empty control group behind:", err)
			}
		}
	}
}
