package system

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// What a switch cannot bring into effect: the kernel and all that only a boot starts. NixOS
// points a link at the system that was booted, and each system has its parts below fixed names.

// bootParts are what is compared, each by the way in which it is compared.
var bootParts = []struct {
	name, file string
	same       func(booted, target string) bool
}{
	{"kernel", "kernel", sameContent},
	{"initrd", "initrd", sameContent},
	{"kernel-modules", "kernel-modules", sameContent},
	{"kernel-params", "kernel-params", sameContent},
	{"init", "init-interface-version", sameContent},
	{"systemd", "systemd", sameVersion},
	{"dbus", "etc/systemd/system/dbus.service", sameUnit},
}

// PendingBoot names what was booted otherwise than a system that is in the store has it.
func PendingBoot(n *fleet.Nix) []string { return pendingBoot(n.BootedLink(), n.Path) }

// pendingBoot names what was booted otherwise than a system has it. Nothing is concluded of a
// part that either of them lacks, nor where the link to the booted system is missing.
func pendingBoot(link, system string) []string {
	booted, err := filepath.EvalSymlinks(link)
	if err != nil || booted == link || booted == system {
		return nil
	}
	var out []string
	for _, p := range bootParts {
		was, werr := filepath.EvalSymlinks(filepath.Join(booted, p.file))
		is, ierr := filepath.EvalSymlinks(filepath.Join(system, p.file))
		if werr == nil && ierr == nil && was != is && !p.same(was, is) {
			out = append(out, p.name)
		}
	}
	for _, name := range changedInhibitors(booted, system) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// sameContent compares files that were built anew. What is a folder is another one.
func sameContent(a, b string) bool {
	x, err := os.Open(a)
	if err != nil {
		return false
	}
	defer x.Close() //nolint:errcheck // only read
	y, err := os.Open(b)
	if err != nil {
		return false
	}
	defer y.Close() //nolint:errcheck // only read
	xi, xerr := x.Stat()
	yi, yerr := y.Stat()
	if xerr != nil || yerr != nil || !xi.Mode().IsRegular() || !yi.Mode().IsRegular() || xi.Size() != yi.Size() {
		return false
	}
	p, q := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, xerr := io.ReadFull(x, p)
		m, _ := io.ReadFull(y, q)
		if n != m || string(p[:n]) != string(q[:m]) {
			return false
		}
		if xerr != nil { // at the end of both
			return xerr == io.EOF || xerr == io.ErrUnexpectedEOF
		}
	}
}

var storeHash = regexp.MustCompile(`^[0-9abcdfghijklmnpqrsvwxyz]{32}-`)

// sameVersion compares store paths by name and version: a switch has systemd start itself anew
// where only its build changed.
func sameVersion(a, b string) bool {
	x, y := filepath.Base(a), filepath.Base(b)
	return storeHash.MatchString(x) && storeHash.MatchString(y) && storeHash.ReplaceAllString(x, "") == storeHash.ReplaceAllString(y, "")
}

// sameUnit compares what unit a name stands for.
func sameUnit(a, b string) bool { return filepath.Base(a) == filepath.Base(b) }

// changedInhibitors names what both systems declare as not to be switched while it runs, and
// differently, as the check of NixOS compares it.
func changedInhibitors(booted, system string) []string {
	was, is := inhibitors(booted), inhibitors(system)
	var out []string
	for name, value := range is {
		if before, both := was[name]; both && before != value {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func inhibitors(system string) map[string]string {
	raw, err := os.ReadFile(filepath.Join(system, "switch-inhibitors"))
	if err != nil {
		return nil
	}
	var named map[string]string
	if json.Unmarshal(raw, &named) != nil {
		return nil // a list without names, of older versions
	}
	out := map[string]string{}
	for name, value := range named {
		if name = Scrub(strings.ReplaceAll(name, "\n", " "), maxPart); name != "" {
			out[name] = value
		}
	}
	return out
}

// maxPart bounds the name of a part in bytes.
const maxPart = 64
