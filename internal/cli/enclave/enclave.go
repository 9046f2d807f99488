// Package enclave runs this program once more in a world of its own with a
// container engine of its own: new process, mount and network namespaces, a
// network with only a loopback device, an empty /run, and a dockerd with its own
// data root, exec root and socket. Nothing inside reaches an engine, a bridge or
// the firewall of the machine, and when the first process inside ends, however,
// the kernel ends everything else there.
//
// It needs Linux, root, and the dockerd of a distribution.
package enclave

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Install is how to get what is needed.
const Install = "apt-get install -y docker.io"

// stageEnv tells a process which part of the world it is: "init" for the first
// process of the namespaces, else the process namespace that the rest runs in.
const stageEnv = "STEADY_ENCLAVE"

// pidEnv tells the processes inside the first one's number on the machine.
const pidEnv = "STEADY_ENCLAVE_PID"

// base is the folder of sockets and locks, in memory and inside only.
const base = "/run/steady"

// ErrImpossible is why there can be no enclave on this machine.
var ErrImpossible = errors.New("no private engine can be started")

// Possible says why there can be no enclave here; nil if there can.
func Possible() error {
	if err := supported(); err != nil {
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: that needs root", ErrImpossible)
	}
	for _, name := range []string{"dockerd", "containerd", "runc", "iptables"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: %s is not installed", ErrImpossible, name)
		}
	}
	return nil
}
