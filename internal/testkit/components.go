package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Component is what a test needs and a machine may lack.
type Component struct {
	Name string
	// Commands have to be there, each followed by the package of Debian that has it where its name is
	// another: "htpasswd:apache2-utils".
	Commands []string
	// Probe, if any, reports what else is missing and how to get it.
	Probe func() error
	Long  bool // it takes its time: the test is left out with -short
	// NotInCI is why CI cannot have it either: the test is left out there too.
	NotInCI string
}

// The components of the tests of this tree. A machine with Go and git alone has none of those with a command.
var (
	Git           = Component{Name: "git", Commands: []string{"git"}}
	Chromium      = Component{Name: "Chromium", Commands: []string{"chromium"}}
	JanusGateway  = Component{Name: "Janus", Commands: []string{"janus"}, Probe: func() error { _, err := janusModules(); return err }}
	CaddyServer   = Component{Name: "Caddy", Commands: []string{"caddy"}}
	KeaServer     = Component{Name: "Kea", Commands: []string{"kea-dhcp4:kea-dhcp4-server", "kea-ctrl-agent"}}
	NetconfServer = Component{Name: "netconfd", Commands: []string{"netconfd", "sshd:openssh-server"}} // neither service need run
	Strace        = Component{Name: "strace", Commands: []string{"strace"}}
	Swtpm         = Component{Name: "a TPM in software", Commands: []string{"swtpm"}}
	Promtool      = Component{Name: "promtool", Commands: []string{"promtool:prometheus"}}
	Nix           = Component{Name: "Nix", Commands: []string{"nix-env:nix-bin", "nix-store:nix-bin", "nix-instantiate:nix-bin", "nix-hash:nix-bin"}}
	Systemd       = Component{Name: "systemd", Commands: []string{"systemd-analyze:systemd"}}
	Nspawn        = Component{Name: "systemd-nspawn", Commands: []string{"systemd-nspawn:systemd-container", "nsenter:util-linux"}}
	Qemu          = Component{Name: "qemu", Commands: []string{"qemu-arm-static:qemu-user-static"}} // for programs of 32 bits
	Curl          = Component{Name: "curl", Commands: []string{"curl"}}
	Jq            = Component{Name: "jq", Commands: []string{"jq"}}
	PyYAML        = Component{Name: "PyYAML", Commands: []string{"python3"}, Probe: sync.OnceValue(pyYAML)}
	Engine        = Component{Name: "a container engine", Long: true, Probe: Root.Probe,
		Commands: []string{"dockerd:docker.io", "containerd", "runc", "iptables", "busybox:busybox-static", "ps:procps"}}
	Docker   = Component{Name: "docker", Commands: []string{"docker:docker.io"}} // in later distributions docker-cli has it
	Registry = Component{Name: "a registry of images", Commands: []string{"docker-registry", "htpasswd:apache2-utils"}}
	MediaMTX = Component{Name: "MediaMTX", Commands: []string{"mediamtx:"}, NotInCI: "no registry that it uses has it"}

	Root  = Component{Name: "root", Probe: root}
	Tmpfs = Component{Name: "a disk in memory", Probe: sync.OnceValue(tmpfs)}
	// ToxiproxyModule is what Toxiproxy is built of.
	ToxiproxyModule = Component{Name: "the module of Toxiproxy", Probe: sync.OnceValue(toxiproxyThere)}
	// History holds the commit of OtherVersion. An export or a shallow clone cannot have it, in CI either.
	History = Component{Name: "history", Commands: []string{"git"}, Probe: history, NotInCI: "its clone may be shallow"}
)

// Components are those that a command belongs to.
func Components() []Component {
	return []Component{Git, Chromium, JanusGateway, CaddyServer, KeaServer, NetconfServer, Strace, Swtpm, Promtool, Nix, Systemd, Nspawn, Qemu, Curl, Jq, PyYAML, Engine, Docker, Registry, MediaMTX}
}

// Hidden reports whether a run without components lacks this one: all that a command belongs to, except for
// git, by which the tree came.
func (c Component) Hidden() bool { return len(c.Commands) > 0 && !slices.Contains(c.Commands, "git") }

// Command splits one of Commands.
func Command(command string) (name string, packages []string) {
	name, of, other := strings.Cut(command, ":")
	if !other {
		of = name
	}
	return name, strings.Fields(of)
}

// Missing reports what is missing, and how to get it.
func (c Component) Missing() error {
	var lacks, install []string
	for _, command := range c.Commands {
		if name, packages := Command(command); Find(name) == "" {
			lacks, install = append(lacks, name), append(install, packages...)
		}
	}
	if len(lacks) > 0 {
		how := "apt-get install -y --no-install-recommends " + strings.Join(slices.Compact(install), " ")
		if len(install) == 0 {
			how = "put it on PATH (for CI, " + c.NotInCI + ")"
		}
		return fmt.Errorf("%s: %s not installed: %s", c.Name, strings.Join(lacks, ", "), how)
	}
	if c.Probe == nil {
		return nil
	}
	if err := c.Probe(); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// Find is the path of a command, "" for none. Daemons are found by people who have no sbin on their PATH.
func Find(name string) string {
	for _, at := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	return ""
}

func root() error {
	if os.Geteuid() != 0 {
		return errors.New("run the tests as root")
	}
	return nil
}

func tmpfs() error {
	dir, err := os.MkdirTemp("", "tmpfs")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mount: %w: run the tests as root with CAP_SYS_ADMIN", err)
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// janusModules are the two that a test's Janus loads, by their folders.
func pyYAML() error {
	if exec.Command("python3", "-c", "import yaml").Run() != nil {
		return errors.New("no PyYAML: apt-get install python3-yaml")
	}
	return nil
}

func janusModules() (map[string]string, error) {
	out := map[string]string{}
	for folder, name := range map[string]string{"plugins": "libjanus_streaming.so", "transports": "libjanus_http.so"} {
		found, _ := filepath.Glob("/usr/lib/*/janus/" + folder + "/" + name)
		if len(found) != 1 {
			return nil, fmt.Errorf("no %s: apt-get install janus", name)
		}
		out[folder] = found[0]
	}
	return out, nil
}

func toxiproxyThere() error {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.Dir}}", toxiproxyPackage)
	cmd.Dir = toxiproxyModule()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("(cd %s && go mod download): %w\n%s", cmd.Dir, err, out)
	}
	return nil
}
