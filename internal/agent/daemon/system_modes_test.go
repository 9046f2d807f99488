package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

// nixos builds a toy whose switch and boot do what those of NixOS do: a switch points the link to
// what runs at it, and each of both leaves a line. Parts are made below it, NAME=CONTENT.
func (s *nixStore) nixos(version, script string, parts ...string) string {
	return s.systemOf(version, script+fmt.Sprintf("\nif [ \"$1\" = switch ]; then ln -sfn $(dirname $(dirname \"$0\")) %s; fi", s.link("running")), parts...)
}

func (s *nixStore) link(name string) string { return filepath.Join(s.dir, name) }

// boots points the links at what was booted.
func (s *nixStore) boots(path string) {
	for _, name := range []string{"running", "booted"} {
		testkit.Must(s.t, os.RemoveAll(s.link(name)))
		testkit.Must(s.t, os.Symlink(path, s.link(name)))
	}
}

func (s *nixStore) wants(path string, change func(*fleet.Nix)) *fleet.Nix {
	n := s.desired(path)
	n.Booted, n.Boot = s.link("booted"), s.link("esp")
	if change != nil {
		change(n)
	}
	return n
}

func (s *nixStore) packs(n *fleet.Nix) pack { return s.pack(n, nil) }

// rebooted has the machine boot a system once its reboot command ran.
func (b *box) rebooted(nix *nixStore, boot, path string, granted func() bool) {
	b.t.Helper()
	testkit.Eventually(b.t, "the reboot command", func() bool { return b.content("reboot") == "" && granted() })
	b.stop()
	b.clock.reboot(boot)
	nix.boots(path)
	testkit.Must(b.t, os.Remove(filepath.Join(b.root, "reboot")))
	b.start()
}

// TestNixModes: mode switch never stages, mode boot always does, and both say why.
func TestNixModes(t *testing.T) {
	nix := newNixStore(t)
	const inhibited = `if [ "$1" = switch ]; then echo "There are changes to critical components of the system:"; echo "Pre-switch check 'switchInhibitors' failed"; exit 1; fi`
	v0 := nix.nixos("v0", "", "kernel=k1", `switch-inhibitors={"dbus": "dbus"}`)
	refused := nix.nixos("v1", inhibited, "kernel=k1", `switch-inhibitors={"dbus": "dbus-broker"}`)
	v2 := nix.nixos("v2", "", "kernel=k2", "initrd=i2")
	b := newBox(t, newServer(t), "web-1").start()
	nix.boots(v0)
	zero := nix.packs(nix.wants(v0, nil))
	b.roll(single("web-1", 1, "r1", zero), "g1", zero)
	b.runs(zero)

	one := nix.packs(nix.wants(refused, func(n *fleet.Nix) { n.Mode = fleet.NixSwitch }))
	b.roll(single("web-1", 2, "r2", one), "g2", one)
	b.phase(host.Reverted)
	if m := b.agent.Status().Machine; !strings.Contains(m.Detail, "its mode is switch") || !strings.Contains(m.Detail, "switchInhibitors") {
		t.Errorf("cause %s: %s", m.Cause, m.Detail)
	}
	if log := b.content("switched"); strings.Contains(log, "v1 boot") {
		t.Errorf("mode switch staged it:\n%s", log)
	}

	two := nix.packs(nix.wants(refused, nil))
	b.roll(single("web-1", 3, "r3", two), "g3", two)
	b.phase(host.Deferred)
	if m := b.agent.Status().Machine; m.Detail != "dbus" {
		t.Errorf("waits for %q, expected what NixOS names", m.Detail)
	}

	// A second release while the first waits: what it goes back to is what ran.
	three := nix.packs(nix.wants(v2, func(n *fleet.Nix) { n.Mode = fleet.NixBoot }))
	b.roll(single("web-1", 4, "r4", three), "g4", three)
	testkit.Eventually(t, "the second is staged", func() bool {
		m := b.agent.Status().Machine
		return m.Phase == host.Deferred && m.Grant == "g4"
	})
	if m := b.agent.Status().Machine; m.Detail != "mode boot: kernel" || m.From != zero.digest {
		t.Errorf("waits for %q, goes back to %s", m.Detail, m.From)
	}
	if back := testkit.Value(filepath.EvalSymlinks(filepath.Join(b.state, "systems", "system.back")))(t); back != v0 {
		t.Errorf("the way back is %s, expected %s", back, v0)
	}
	if log := b.content("switched"); strings.Contains(log, "v2 switch") {
		t.Errorf("mode boot switched:\n%s", log)
	}
	nix.run("nix-env", "-p", nix.profile(), "--delete-generations", "old")
	nix.run("nix-store", "--gc")
	if _, err := os.Lstat(v0); err != nil {
		t.Fatal("what the host goes back to was collected:", err)
	}
	b.s.grant("boot-1", host.Reboot)
	b.rebooted(nix, "boot-2", v2, func() bool { return b.agent.Status().Machine.Reboot == "boot-1" })
	b.runs(three)
}

// TestNixKernel: what was booted otherwise than the new system has it is a reboot under a grant where
// that is declared, and else no reason to wait.
func TestNixKernel(t *testing.T) {
	nix := newNixStore(t)
	v1, v2, v3 := nix.nixos("v1", "", "kernel=k1", "initrd=i", "kernel-params=quiet"), nix.nixos("v2", "", "kernel=k2", "initrd=i", "kernel-params=quiet"),
		nix.nixos("v3", "", "kernel=k2", "initrd=i", "kernel-params=quiet splash")
	srv := newServer(t)
	srv.facts = true
	b := newBox(t, srv, "web-1").start()
	nix.boots(v1)
	reports := nix.packs(nix.wants(v2, nil))
	b.roll(single("web-1", 1, "r1", reports), "g1", reports)
	b.runs(reports)
	testkit.Eventually(t, "the facts name the kernel", func() bool {
		all := reported[event.HostFacts](b.s)
		return len(all) > 0 && strings.Join(all[len(all)-1].NeedsReboot, " ") == "kernel"
	})
	reboots := nix.packs(nix.wants(v3, func(n *fleet.Nix) { n.OnKernelChange = fleet.RebootKernel }))
	b.roll(single("web-1", 2, "r2", reboots), "g2", reboots)
	b.phase(host.Deferred)
	if m := b.agent.Status().Machine; m.Detail != "kernel, kernel-params" {
		t.Errorf("waits for %q", m.Detail)
	}
	b.want("switched", "v2 switch\nv3 switch\n")
	b.s.grant("boot-1", host.Reboot)
	b.rebooted(nix, "boot-2", v3, func() bool { return b.agent.Status().Machine.Reboot == "boot-1" })
	b.runs(reboots)
	b.want("switched", "v2 switch\nv3 switch\n")
}

// TestNixUnitsFailed: a switch after which units failed is a failed release that says so.
func TestNixUnitsFailed(t *testing.T) {
	nix := newNixStore(t)
	b := newBox(t, newServer(t), "web-1").start()
	p := nix.packs(nix.wants(nix.nixos("v1", "echo 'warning: the following units failed: web.service'; exit 4"), nil))
	b.roll(single("web-1", 1, "r1", p), "g1", p)
	b.phase(host.Reverted)
	if m := b.agent.Status().Machine; !strings.Contains(m.Detail, "it was switched to, and units failed") || !strings.Contains(m.Detail, "web.service") {
		t.Errorf("cause %s: %s", m.Cause, m.Detail)
	}
}

// TestNixProfileMoved: a profile that somebody moved is moved back with the boot loader told of it, and
// without a switch or a grant, since nothing that runs is touched.
func TestNixProfileMoved(t *testing.T) {
	nix := newNixStore(t)
	v1, v2 := nix.nixos("v1", ""), nix.nixos("v2", `if [ "$1" = switch ] && [ -e "$STEADY_ROOT/refuse" ]; then exit 100; fi`)
	b := newBox(t, newServer(t), "web-1").start()
	for i, path := range []string{v1, v2} {
		p := nix.packs(nix.wants(path, nil))
		b.roll(single("web-1", uint64(i+1), fmt.Sprint("r", i), p), fmt.Sprint("g", i), p)
		b.runs(p)
	}
	testkit.Must(t, os.WriteFile(b.root+"/refuse", nil, 0o644))
	nix.run("nix-env", "-p", nix.profile(), "--switch-generation", "1")
	testkit.Eventually(t, "the profile is back, and the boot loader knows", func() bool {
		return b.content("switched") == "v1 switch\nv2 switch\nv2 boot\n"
	})
	if want := "system-2-link " + v2; nix.at() != want {
		t.Errorf("the profile is at %s, expected %s", nix.at(), want)
	}
	if n := reported[event.RepairNeeded](b.s); len(n) != 0 {
		t.Errorf("it asked for %+v", n)
	}
}

// TestNixRepairNeedsAReboot: a repair whose switch needs a reboot gives its grant back, asks for the
// reboot, takes it under another grant, once, and is over when the system was booted.
func TestNixRepairNeedsAReboot(t *testing.T) {
	nix := newNixStore(t)
	v1, v2 := nix.nixos("v1", ""), nix.nixos("v2", `if [ "$1" = switch ] && [ -e "$STEADY_ROOT/refuse" ]; then exit 100; fi`)
	b := newBox(t, newServer(t), "web-1").start()
	for i, path := range []string{v1, v2} {
		p := nix.packs(nix.wants(path, nil))
		b.roll(single("web-1", uint64(i+1), fmt.Sprint("r", i), p), fmt.Sprint("g", i), p)
		b.runs(p)
	}
	testkit.Must(t, os.WriteFile(b.root+"/refuse", nil, 0o644))
	nix.boots(v1) // somebody switched by hand
	nix.run("nix-env", "-p", nix.profile(), "--switch-generation", "1")
	b.needed(1)
	b.s.grant("repair-1", host.Repair)
	if over := b.over(1)[0]; over.Grant != "repair-1" || !over.OK || over.Detail != "waits for a reboot: init" {
		t.Errorf("the first window ended with %+v", over)
	}
	b.needed(2)
	if n := reported[event.RepairNeeded](b.s)[1]; n.Reboot != "init" {
		t.Errorf("it asked for %+v", n)
	}
	if b.content("reboot") != gone {
		t.Fatal("it rebooted without a grant")
	}
	b.s.grant("repair-2", host.Repair)
	b.rebooted(nix, "boot-2", v2, func() bool { return true })
	if over := b.over(2)[1]; over.Grant != "repair-2" || !over.OK {
		t.Errorf("the second window ended with %+v", over)
	}
	if m := b.agent.Status().Machine; m.Phase != host.Converged {
		t.Errorf("the host is %s", m.Phase)
	}
	if b.content("reboot") != gone {
		t.Error("it rebooted twice")
	}
}

// TestNixKeepsGenerations deletes the oldest generations of the profile once a system is in effect, and
// none that may be needed.
func TestNixKeepsGenerations(t *testing.T) {
	nix := newNixStore(t)
	b := newBox(t, newServer(t), "web-1").start()
	var paths []string
	for i := range 5 {
		paths = append(paths, nix.nixos(fmt.Sprint("v", i), ""))
		if i == 0 {
			nix.boots(paths[0])
		}
		p := nix.packs(nix.wants(paths[i], func(n *fleet.Nix) {
			if i == 4 {
				n.KeepGenerations = 1
			}
		}))
		b.roll(single("web-1", uint64(i+1), fmt.Sprint("r", i), p), fmt.Sprint("g", i), p)
		b.runs(p)
	}
	var left []string
	for _, link := range testkit.Value(filepath.Glob(nix.profile() + "-*-link"))(t) {
		left = append(left, filepath.Base(link))
	}
	// 1 was booted, 4 is the way back, 5 runs.
	if got := strings.Join(left, " "); got != "system-1-link system-4-link system-5-link" {
		t.Errorf("kept %s", got)
	}
}

// TestNixFullBoot: a boot loader's folder without room for the new kernel declines the grant before
// anything is changed, and what is there already needs no room.
func TestNixFullBoot(t *testing.T) {
	testkit.Needs(t, testkit.Tmpfs)
	nix := newNixStore(t)
	esp := t.TempDir()
	testkit.Must(t, unix.Mount("tmpfs", esp, "tmpfs", 0, "size=3m"))
	t.Cleanup(func() { testkit.Must(t, unix.Unmount(esp, unix.MNT_DETACH)) })
	testkit.Must(t, os.MkdirAll(filepath.Join(esp, "EFI/nixos"), 0o755))
	big := nix.nixos("v1", "", "kernel=:3M", "initrd=i")
	b := newBox(t, newServer(t), "web-1").start()
	p := nix.packs(nix.wants(big, func(n *fleet.Nix) { n.Boot = esp }))
	b.roll(single("web-1", 1, "r1", p), "g1", p)
	testkit.Eventually(t, "the grant declined", func() bool { return len(reported[event.GrantDeclined](b.s)) > 0 })
	d := reported[event.GrantDeclined](b.s)[0]
	if !strings.Contains(d.Detail, filepath.Join(esp, "EFI/nixos")+" lacks ") || !strings.Contains(d.Detail, "nothing was changed") || !strings.HasPrefix(d.Detail, "disk-full") {
		t.Errorf("declined: %s", d.Detail)
	}
	b.want("switched", gone)
	small := nix.packs(nix.wants(nix.nixos("v2", "", "kernel=k", "initrd=i"), func(n *fleet.Nix) { n.Boot = esp }))
	b.roll(single("web-1", 2, "r2", small), "g2", small)
	b.runs(small)
}
