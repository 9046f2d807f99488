package fleet

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// CriticalNix is the critical name of a bundle with a Nix system.
const CriticalNix = "nix"

// Defaults of a Nix system, which are those of NixOS.
const (
	DefaultNixProfile = "/nix/var/nix/profiles/system"
	DefaultNixRunning = "/run/current-system"
	// DefaultNixReboot is the exit code with which switch-to-configuration of NixOS
	// says that the new init cannot take over until a reboot.
	DefaultNixReboot = 100
	// DefaultNixTimeout bounds a switch that declares none.
	DefaultNixTimeout = 5 * clock.Minute
	// MaxNixTimeout bounds what a system may ask for.
	MaxNixTimeout = clock.Hour
)

// Nix is the system of a host as a generation of a Nix profile.
type Nix struct {
	Name    string `json:"name"`
	Profile string `json:"profile"` // absolute
	// Path is the store path that the profile is set to; its
	// bin/switch-to-configuration makes it run.
	Path string `json:"path"`
	// Closure is what nix-store --export made of the path and all that it needs; nil
	// where the host's own substituters have the path.
	Closure *spec.Blob `json:"closure,omitempty"`
	// Running is a link that the switch and the boot point at what runs; nothing is
	// concluded where there is no such link.
	Running string `json:"running"`
	// Reboot are the exit codes that mean staged, needs a reboot.
	Reboot  []int          `json:"reboot"`
	Timeout clock.Duration `json:"timeout"` // of a switch, up to MaxNixTimeout
}

// storePath has the alphabet of Nix's base 32. A store may be elsewhere than at
// /nix/store.
var storePath = regexp.MustCompile(`^(/[A-Za-z0-9+._-]+)+/[0-9abcdfghijklmnpqrsvwxyz]{32}-[A-Za-z0-9+._?=-]{1,211}$`)

// CheckNix reports the first thing that is wrong with a Nix system and the field
// that has it.
func CheckNix(n *Nix) (field string, err error) {
	if err := CheckName(n.Name); err != nil {
		return "name", err
	}
	for _, p := range []struct{ field, value string }{{"profile", n.Profile}, {"path", n.Path}, {"running", n.Running}} {
		if !absolute(p.value) {
			return p.field, fmt.Errorf("%s is %q: expected an absolute path without . or .. parts", p.field, p.value)
		}
	}
	if !storePath.MatchString(n.Path) {
		return "path", fmt.Errorf("path is %q: expected an exact store path such as /nix/store/<32 characters>-<name>", n.Path)
	}
	if n.Closure != nil && (n.Closure.Digest == "" || n.Closure.Size <= 0) {
		return "closure", fmt.Errorf("the closure is empty: expected the output of nix-store --export")
	}
	if n.Timeout <= 0 || n.Timeout > MaxNixTimeout {
		return "timeout", fmt.Errorf("timeout is %s: expected more than 0s and at most %s", n.Timeout, MaxNixTimeout)
	}
	for _, c := range n.Reboot {
		if c < 1 || c > 255 {
			return "rebootExitCodes", fmt.Errorf("exit code %d cannot ask for a reboot: expected 1 to 255", c)
		}
	}
	return "", nil
}

// absolute reports whether p is an absolute path in its shortest form.
func absolute(p string) bool {
	if len(p) < 2 || len(p) > 1024 || p[0] != '/' || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}
