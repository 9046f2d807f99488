package fleetdir

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

const (
	driverNix  = "nix"
	driverExec = "exec"
	// defaultSystemName is the name of a part that declares none.
	defaultSystemName = "system"
	nixStoreDir       = "/nix/store"
)

// systemDecls takes one part for a list of one.
type systemDecls struct {
	parts []systemDecl
	one   bool
}

func (l *systemDecls) UnmarshalJSON(raw []byte) error {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '{' {
		l.parts, l.one = make([]systemDecl, 1), true
		return json.Unmarshal(raw, &l.parts[0])
	}
	return json.Unmarshal(raw, &l.parts)
}

type systemDecl struct {
	Name            string             `json:"name"`
	Activate        []string           `json:"activate"`
	Revert          []string           `json:"revert"`
	Check           []string           `json:"check"`
	Timeout         fleet.DurationText `json:"timeout"`
	Driver          string             `json:"driver"`
	Profile         string             `json:"profile"`
	Path            string             `json:"path"`
	Closure         string             `json:"closure"`
	Copy            bool               `json:"copy"`
	Running         string             `json:"running"`
	RebootExitCodes *[]int             `json:"rebootExitCodes"`
	Mode            fleet.NixMode      `json:"mode"`
	OnKernelChange  fleet.KernelChange `json:"onKernelChange"`
	KeepGenerations int                `json:"keepGenerations"`
	Booted          string             `json:"booted"`
	Boot            string             `json:"boot"`
}

// system reads the parts of the system: one of Nix at most, and steps.
func (l *bundleLoader) system(b *fleet.Bundle, decls systemDecls, blobs map[digest.Digest][]byte) {
	seen := map[string]bool{}
	for i := range decls.parts {
		d := &decls.parts[i]
		at := []string{"system"}
		if !decls.one {
			at = append(at, strconv.Itoa(i))
		}
		if d.Name == "" {
			d.Name = defaultSystemName
		}
		if seen[d.Name] {
			l.addf(at, "part %q of the system is named twice: expected each to have its own name", d.Name)
		}
		seen[d.Name] = true
		switch {
		case d.Driver == driverNix && b.Nix != nil:
			l.addf(at, "a second Nix system: expected one at most, a host runs one")
		case d.Driver == driverNix && len(b.Exec) > 0:
			l.addf(at, "the Nix system comes after a step: expected it first, steps run on the system that it makes")
		case d.Driver == driverNix:
			b.Nix = l.nix(at, d, blobs)
			b.NixModes = b.Nix.OwnModes()
		case d.Driver == driverExec:
			b.Exec = append(b.Exec, l.step(at, d))
			if d.Profile+d.Path+d.Closure+d.Running+string(d.Mode)+string(d.OnKernelChange)+d.Booted+d.Boot != "" || d.Copy || d.RebootExitCodes != nil || d.KeepGenerations != 0 {
				l.addf(at, "a step has no profile, path, closure, copy, running, rebootExitCodes, mode, onKernelChange, keepGenerations, booted and boot: expected name, activate, revert, check and timeout")
			}
		}
	}
}

func (l *bundleLoader) nix(at []string, d *systemDecl, blobs map[digest.Digest][]byte) *fleet.Nix {
	if !slices.Contains(fleet.NixModes, d.Mode) {
		d.Mode = "" // the schema has refused it
	}
	if !slices.Contains(fleet.KernelChanges, d.OnKernelChange) {
		d.OnKernelChange = ""
	}
	n := &fleet.Nix{
		Name: d.Name, Profile: orElse(d.Profile, fleet.DefaultNixProfile), Path: d.Path, Running: orElse(d.Running, fleet.DefaultNixRunning),
		Reboot: []int{fleet.DefaultNixReboot}, Timeout: d.Timeout.Or(fleet.DefaultNixTimeout),
		Mode: d.Mode, OnKernelChange: d.OnKernelChange, KeepGenerations: d.KeepGenerations, Booted: d.Booted, Boot: d.Boot,
	}
	if d.RebootExitCodes != nil {
		n.Reboot = append([]int{}, *d.RebootExitCodes...)
	}
	if len(d.Activate)+len(d.Revert)+len(d.Check) > 0 {
		l.addf(at, "a Nix system has no commands: expected path, closure, copy, profile, running, timeout, rebootExitCodes, mode, onKernelChange, keepGenerations, booted and boot")
	}
	field, err := fleet.CheckNix(n)
	switch {
	case d.Copy && d.Closure != "":
		l.addf(append(at, "copy"), "the system has both closure and copy: expected one of them")
	case d.Closure != "" && !l.isFolder(d.Closure):
		l.closure(at, d, n, blobs)
	case err != nil: // where its path is no store path nothing can be looked for
	case d.Copy:
		l.storePaths(append(at, "copy"), d, n, blobs)
	case d.Closure != "":
		l.storePaths(append(at, "closure"), d, n, blobs)
	}
	if err != nil {
		l.addf(append(at, field), "%v", err)
	} else if dir := path.Dir(d.Path); dir != nixStoreDir {
		p := l.doc.At(append(at, "path"), "path is in the store "+dir+": expected "+nixStoreDir+", unless the hosts keep their store elsewhere")
		p.IsWarning = true
		l.problems = append(l.problems, p)
	}
	return n
}

func (l *bundleLoader) isFolder(name string) bool {
	info, err := l.root.Stat(name)
	return err == nil && info.IsDir()
}

func (l *bundleLoader) closure(at []string, d *systemDecl, n *fleet.Nix, blobs map[digest.Digest][]byte) {
	content, err := l.root.ReadFile(d.Closure, MaxBlob)
	switch {
	case err != nil:
		l.addf(append(at, "closure"), "%v: expected the output of nix-store --export inside the bundle folder, a binary cache there (nix copy --to file://), or no closure where the hosts' substituters have the path", err)
		return
	case !bytes.Contains(content, []byte(d.Path)):
		l.addf(append(at, "closure"), "the closure does not have %s: expected the output of nix-store --export $(nix-store -qR PATH)", d.Path)
	}
	n.Closure = &spec.Blob{Digest: digest.Of(content), Size: int64(len(content))}
	blobs[n.Closure.Digest] = content
}

func orElse(s, otherwise string) string {
	if strings.TrimSpace(s) == "" {
		return otherwise
	}
	return s
}

func (l *bundleLoader) step(at []string, d *systemDecl) fleet.Exec {
	for _, c := range []struct {
		key  string
		argv []string
	}{{"activate", d.Activate}, {"revert", d.Revert}, {"check", d.Check}} {
		if len(c.argv) > 0 && c.argv[0] == "" {
			l.addf(append(at, c.key), "the command is empty: expected a program and its arguments")
		}
	}
	if len(d.Activate) == 0 {
		l.addf(at, "the step has no activate: expected a command")
	}
	if d.Timeout.Set && d.Timeout.Duration <= 0 {
		l.addf(append(at, "timeout"), "timeout is %s: expected more than 0s", d.Timeout.Duration)
	}
	return fleet.Exec{
		Name: d.Name, Activate: list(d.Activate), Revert: list(d.Revert), Check: list(d.Check),
		Timeout: d.Timeout.Or(DefaultStepTimeout),
	}
}
