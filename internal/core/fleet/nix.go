package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// The critical names of a bundle with a Nix system, and of one with modes of its own.
const (
	CriticalNix      = "nix"
	CriticalNixModes = "nixModes"
)

// Defaults of a Nix system, which are those of NixOS.
const (
	DefaultNixProfile = "/nix/var/nix/profiles/system"
	DefaultNixRunning = "/run/current-system"
	DefaultNixBooted  = "/run/booted-system"
	DefaultNixBoot    = "/boot"
	// DefaultNixReboot is the exit code with which switch-to-configuration of NixOS
	// says that the new init cannot take over until a reboot.
	DefaultNixReboot = 100
	// DefaultNixTimeout bounds a switch that declares none.
	DefaultNixTimeout = 5 * clock.Minute
	// MaxNixTimeout bounds what a system may ask for.
	MaxNixTimeout = clock.Hour
	// MaxGenerations bounds how many generations are kept.
	MaxGenerations = 1000
)

// NixMode is how a system is put into effect.
type NixMode string

// The modes. An empty one is NixAuto.
const (
	// NixAuto switches, and stages for the next boot what cannot be switched while the system runs.
	NixAuto NixMode = "auto"
	// NixSwitch switches, and fails where that cannot be done while the system runs.
	NixSwitch NixMode = "switch"
	// NixBoot always stages for the next boot.
	NixBoot NixMode = "boot"
)

// NixModes lists them, the default first.
var NixModes = []NixMode{NixAuto, NixSwitch, NixBoot}

// KernelChange says what follows where another kernel or another part that only a boot starts
// was booted than the system that was switched to has.
type KernelChange string

// What may follow. An empty one is ReportKernel.
const (
	ReportKernel KernelChange = "report"
	RebootKernel KernelChange = "reboot"
)

// KernelChanges lists them, the default first.
var KernelChanges = []KernelChange{ReportKernel, RebootKernel}

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
	// Paths is a Closure: the server has each path's archive. It is nil where Closure is not.
	// It is not critical: who does not know it looks for the same path in other caches.
	Paths *spec.Blob `json:"paths,omitempty"`
	// Running is a link that the switch and the boot point at what runs; nothing is
	// concluded where there is no such link.
	Running string `json:"running"`
	// Reboot are the exit codes that mean staged, needs a reboot.
	Reboot  []int          `json:"reboot"`
	Timeout clock.Duration `json:"timeout"` // of a switch, up to MaxNixTimeout

	Mode           NixMode      `json:"mode,omitempty"`
	OnKernelChange KernelChange `json:"onKernelChange,omitempty"`
	// KeepGenerations is how many of the newest generations of the profile are kept; 0: all.
	KeepGenerations int `json:"keepGenerations,omitempty"`
	// Booted is a link to the system that was booted, and Boot the folder that the boot loader
	// copies kernels to; empty are DefaultNixBooted and DefaultNixBoot. Nothing is concluded
	// where either is not there.
	Booted string `json:"booted,omitempty"`
	Boot   string `json:"boot,omitempty"`
}

// BootedLink is where the link to the booted system is.
func (n *Nix) BootedLink() string { return cmp.Or(n.Booted, DefaultNixBooted) }

// BootFolder is where the boot loader has its kernels.
func (n *Nix) BootFolder() string { return cmp.Or(n.Boot, DefaultNixBoot) }

// OwnModes reports whether an agent that passes over modes would do something else.
func (n *Nix) OwnModes() bool {
	return n.Mode == NixSwitch || n.Mode == NixBoot || n.OnKernelChange == RebootKernel
}

// blobs lists the content that travels with the system. The archives of Paths are not among
// it: a host takes those that its store lacks.
func (n *Nix) blobs() (out []spec.Blob) {
	for _, b := range []*spec.Blob{n.Closure, n.Paths} {
		if b != nil {
			out = append(out, *b)
		}
	}
	return out
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
	for _, p := range []struct{ field, value string }{{"profile", n.Profile}, {"path", n.Path}, {"running", n.Running},
		{"booted", n.BootedLink()}, {"boot", n.BootFolder()}} {
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
	if n.Paths != nil && (n.Closure != nil || n.Paths.Digest == "" || n.Paths.Size <= 0 || n.Paths.Size > MaxClosure) {
		return "closure", fmt.Errorf("the list of store paths is empty, beyond %d bytes or beside a closure: expected one of them", int64(MaxClosure))
	}
	if n.Timeout <= 0 || n.Timeout > MaxNixTimeout {
		return "timeout", fmt.Errorf("timeout is %s: expected more than 0s and at most %s", n.Timeout, MaxNixTimeout)
	}
	for _, c := range n.Reboot {
		if c < 1 || c > 255 {
			return "rebootExitCodes", fmt.Errorf("exit code %d cannot ask for a reboot: expected 1 to 255", c)
		}
	}
	return checkModes(n)
}

func checkModes(n *Nix) (field string, err error) {
	switch {
	case n.Mode != "" && !slices.Contains(NixModes, n.Mode):
		return "mode", fmt.Errorf("mode is %q: expected %s", n.Mode, anyOf(NixModes))
	case n.OnKernelChange != "" && !slices.Contains(KernelChanges, n.OnKernelChange):
		return "onKernelChange", fmt.Errorf("onKernelChange is %q: expected %s", n.OnKernelChange, anyOf(KernelChanges))
	case n.Mode == NixBoot && n.OnKernelChange == ReportKernel:
		return "onKernelChange", fmt.Errorf("onKernelChange is report beside mode boot, which waits for a reboot whatever changed: expected no onKernelChange")
	case n.KeepGenerations < 0 || n.KeepGenerations > MaxGenerations:
		return "keepGenerations", fmt.Errorf("keepGenerations is %d: expected 1 to %d, or 0 to keep all", n.KeepGenerations, MaxGenerations)
	}
	return "", nil
}

func anyOf[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
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
