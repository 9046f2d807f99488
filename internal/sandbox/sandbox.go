// Package sandbox runs this program once more in a world of its own with
// container engines of its own: new process, mount and network namespaces, a
// network with only a loopback device, an empty /run, and a dockerd with its own
// data root, exec root and socket. Nothing inside reaches an engine, a bridge or
// the firewall of the machine, and when the first process inside ends, however,
// the kernel ends everything else there.
//
// It needs root and the dockerd of a distribution. [Process], a child with
// a log that ends with this program, needs none of them.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Install is how to get what is needed.
const Install = "apt-get install -y docker.io"

// first is what the variable of a world holds in the first process of its namespaces.
const first = "init"

// World is one kind of sandbox. A world of another kind can be entered inside of it.
type World struct {
	// Env is the environment variable that tells a process which part of the world it is.
	Env string
	// Prepare, if any, is called in the first process once its namespaces have a
	// loopback device and a /run of their own. What it starts lives as long as they do.
	Prepare func() error
}

// Possible reports why there can be no sandbox with an engine here; nil if there can.
func Possible() error {
	if os.Geteuid() != 0 {
		return errors.New("a private engine needs root")
	}
	for _, name := range []string{"dockerd", "containerd", "runc", "iptables"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("a private engine needs %s, which is not installed", name)
		}
	}
	return nil
}

// First reports whether this process is the first one of a world, which has to call
// Enter and nothing else.
func (w World) First() bool { return os.Getenv(w.Env) == first && os.Getpid() == 1 }

// Inside is the number that the machine has for the first process of the world that
// this process runs in; 0 outside.
func (w World) Inside() int {
	name, number, _ := strings.Cut(os.Getenv(w.Env), " ")
	if name == "" || name != namespace() {
		return 0
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
}

// namespace names the process namespace of this process.
func namespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}
