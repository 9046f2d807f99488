package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// toy makes a system in a store of its own: NAME=CONTENT is a file, NAME@PATH a link into the store.
type toy struct {
	t     *testing.T
	store string
	n     int
}

func (s *toy) add(name string, parts ...string) string {
	s.n++
	path := filepath.Join(s.store, fmt.Sprintf("%032d-%s", s.n, name))
	testkit.Must(s.t, os.MkdirAll(path, 0o755))
	for _, p := range parts {
		if file, to, link := strings.Cut(p, "@"); link {
			testkit.Must(s.t, os.MkdirAll(filepath.Dir(filepath.Join(path, file)), 0o755))
			testkit.Must(s.t, os.Symlink(to, filepath.Join(path, file)))
			continue
		}
		file, content, _ := strings.Cut(p, "=")
		testkit.Must(s.t, os.MkdirAll(filepath.Dir(filepath.Join(path, file)), 0o755))
		testkit.Must(s.t, os.WriteFile(filepath.Join(path, file), []byte(content), 0o644))
	}
	return path
}

func newToy(t *testing.T) *toy {
	return &toy{t: t, store: filepath.Join(testkit.Value(filepath.EvalSymlinks(t.TempDir()))(t), "store")}
}

// TestPendingBoot: what only a boot brings into effect, by each way in which systems have it.
func TestPendingBoot(t *testing.T) {
	s := newToy(t)
	linux, again, newer := s.add("linux-6.6", "bzImage=k1"), s.add("linux-6.6", "bzImage=k1"), s.add("linux-6.12", "bzImage=k2")
	old, rebuilt, next := s.add("systemd-257.1"), s.add("systemd-257.1"), s.add("systemd-258")
	mods, others := s.add("linux-6.6-modules", "lib/x=1"), s.add("linux-6.12-modules", "lib/x=1")
	bus, broker := s.add("unit-dbus.service", "dbus.service=1"), s.add("unit-dbus-broker.service", "dbus-broker.service=1")
	const unit = "etc/systemd/system/dbus.service"
	base := []string{"kernel@" + linux + "/bzImage", "systemd@" + old, "kernel-modules@" + mods, "kernel-params=quiet", "init-interface-version=2",
		unit + "@" + bus + "/dbus.service", `switch-inhibitors={"udev":"1","only":"1"}`}
	with := func(changed ...string) string {
		parts := append([]string{}, base...)
		for _, c := range changed {
			name := c[:strings.IndexAny(c, "@=")]
			for i := range parts {
				if strings.HasPrefix(parts[i], name+"@") || strings.HasPrefix(parts[i], name+"=") {
					parts[i] = c
				}
			}
		}
		return s.add("nixos", parts...)
	}
	link := filepath.Join(s.store, "booted")
	testkit.Must(t, os.Symlink(with(), link))
	for want, system := range map[string]string{
		"":                    with("kernel@"+again+"/bzImage", "systemd@"+rebuilt),
		"kernel":              with("kernel@" + newer + "/bzImage"),
		"kernel-modules":      with("kernel-modules@" + others),
		"kernel-params":       with("kernel-params=quiet splash"),
		"init":                with("init-interface-version=3"),
		"systemd":             with("systemd@" + next),
		"dbus":                with(unit + "@" + broker + "/dbus-broker.service"),
		"udev":                with(`switch-inhibitors={"udev":"2","new":"1"}`),
		"kernel init systemd": with("kernel@"+newer+"/bzImage", "init-interface-version=3", "systemd@"+next),
	} {
		if got := strings.Join(pendingBoot(link, system), " "); got != want {
			t.Errorf("pending %q, expected %q", got, want)
		}
	}
	if got := pendingBoot(link, s.add("bare")); got != nil {
		t.Errorf("of a system without parts %q", got)
	}
	if got := pendingBoot(filepath.Join(s.store, "none"), with("kernel-params=x")); got != nil {
		t.Errorf("without a booted system %q", got)
	}
}

// TestRoomForALoader: what is copied already needs no room, by its name or its content, and a loader that
// is bounded makes room for what comes.
func TestRoomForALoader(t *testing.T) {
	s := newToy(t)
	profile := filepath.Join(s.store, "profiles", "system")
	testkit.Must(t, os.MkdirAll(filepath.Dir(profile), 0o755))
	esp := t.TempDir()
	write := func(name, content string) {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(esp, name)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(esp, name), []byte(content), 0o644))
	}
	system := func(n int, kernel, initrd string) string {
		k, i := s.add("linux", "bzImage="+kernel), s.add("initrd", "initrd="+initrd)
		path := s.add("nixos", "kernel@"+k+"/bzImage", "initrd@"+i+"/initrd")
		if n > 0 {
			testkit.Must(t, os.Symlink(path, generationLink(profile, n)))
			write("EFI/nixos/"+filepath.Base(k)+"-bzImage.efi", kernel)
			write("EFI/nixos/"+filepath.Base(i)+"-initrd.efi", initrd+" and its secrets")
			write(fmt.Sprintf("loader/entries/nixos-generation-%d.conf", n), "")
		}
		return path
	}
	room := func(path string) (need, first int64) {
		l := loader{entries: filepath.Join(esp, "loader/entries")}
		if !l.read(filepath.Join(esp, "EFI/nixos")) {
			t.Fatal("the folder of copies is not there")
		}
		l.dir = esp
		n := &fleet.Nix{Path: path, Profile: profile}
		r := testkit.Value(l.room(n))(t)
		if r == nil {
			return 0, 0
		}
		return r.Need, l.removedFirst(n, testkit.Value(generationsOf(profile))(t))
	}
	one, _ := system(1, "kernel-one", "initrd-one"), system(2, "kernel-two", "initrd-two")
	if need, _ := room(one); need != 0 {
		t.Errorf("%d bytes for what is copied by name", need)
	}
	if need, first := room(system(0, "kernel-one", "new")); need != 3 || first != 0 {
		t.Errorf("%d bytes for a new initrd with a kernel of known content, %d are freed", need, first)
	}
	testkit.Must(t, os.Remove(filepath.Join(esp, "loader/entries/nixos-generation-1.conf")))
	if need, first := room(system(0, "another", "new")); need != 10 || first == 0 {
		t.Errorf("%d bytes for a new system, %d are freed by a loader with one entry for two generations", need, first)
	}
	testkit.Must(t, os.Remove(generationLink(profile, 1)))
	if _, first := room(system(0, "another", "new")); first != int64(len("kernel-one")+len("initrd-one and its secrets")) {
		t.Errorf("%d bytes are freed of a generation that is gone", first)
	}
}

func TestSizesOfNix(t *testing.T) {
	for words, want := range map[string]int64{"1.50 MiB unpacked": 3 << 19, "2 GiB unpacked": 2 << 30, "0.00 MiB unpacked": 0, "": 0, "x": 0, "7 apples": 0} {
		if got := sizeOf(words); got != want {
			t.Errorf("%q is %d, expected %d", words, got, want)
		}
	}
}

// TestDecideModes: what follows each end of a switch in each mode.
func TestDecideModes(t *testing.T) {
	const path, old = "/nix/store/00000000000000000000000000000000-new", "/nix/store/00000000000000000000000000000000-old"
	inhibits := "Pre-switch check 'switchInhibitors' failed"
	for name, c := range map[string]struct {
		mode   fleet.NixMode
		kernel fleet.KernelChange
		o      NixObserved
		want   string
	}{
		"auto begins with a switch": {"", "", NixObserved{Path: path, Running: old}, "start switch"},
		"boot begins with a boot":   {fleet.NixBoot, "", NixObserved{Path: path, Running: old}, "start boot"},
		"exit 100":                  {"", "", ended(path, ModeSwitch, 100, ""), "start boot"},
		"exit 100 in mode switch":   {fleet.NixSwitch, "", ended(path, ModeSwitch, 100, ""), "fail cannot-be-switched-while-it-runs"},
		"an inhibitor":              {fleet.NixAuto, "", ended(path, ModeSwitch, 1, inhibits), "start boot"},
		"an inhibitor, mode switch": {fleet.NixSwitch, "", ended(path, ModeSwitch, 1, inhibits), "fail cannot-be-switched-while-it-runs"},
		"another check":             {"", "", ended(path, ModeSwitch, 1, "Pre-switch check 'quota' failed"), "fail switch-failed"},
		"units failed":              {"", "", ended(path, ModeSwitch, 4, ""), "fail units-failed"},
		"a boot that ended":         {fleet.NixBoot, "", ended(path, ModeBoot, 0, ""), "stage mode boot"},
		"the kernel, reported":      {"", "", with(ended(path, ModeSwitch, 0, ""), func(o *NixObserved) { o.Running, o.Pending = path, []string{"kernel"} }), "converged"},
		"the kernel, rebooted for":  {"", fleet.RebootKernel, with(ended(path, ModeSwitch, 0, ""), func(o *NixObserved) { o.Running, o.Pending = path, []string{"kernel"} }), "stage kernel"},
		"and waited for": {"", fleet.RebootKernel, with(ended(path, ModeSwitch, 0, ""), func(o *NixObserved) {
			o.Running, o.Pending, o.Staged = path, []string{"kernel"}, true
		}), "wait kernel"},
		"after the reboot": {fleet.NixBoot, "", with(ended(path, ModeBoot, 0, ""), func(o *NixObserved) { o.Running, o.Boot = path, "b2" }), "converged"},
		"another boot":     {fleet.NixBoot, "", with(ended(path, ModeBoot, 0, ""), func(o *NixObserved) { o.Boot = "b2" }), "fail not-in-effect-after-reboot"},
		"old generations":  {"", "", with(ended(path, ModeSwitch, 0, ""), func(o *NixObserved) { o.Running, o.Surplus = path, []int{1, 2} }), "prune [1 2]"},
		"deleted once":     {"", "", with(ended(path, ModeSwitch, 0, ""), func(o *NixObserved) { o.Running, o.Surplus, o.Record.Pruned = path, []int{1}, "r" }), "converged"},
		"what was staged in mode boot is not switched to go back": {"", "", with(NixObserved{Begun: true, Boot: "b1", Path: path, Running: path},
			func(o *NixObserved) { o.Record = SwitchRecord{Path: path, Run: "r", Intact: true} }), "start boot"},
		"a switch that was cut off is not taken for whole": {"", "", with(NixObserved{Begun: true, Boot: "b1", Path: path, Running: path},
			func(o *NixObserved) { o.Record = SwitchRecord{Path: path, Run: "r"} }), "start switch"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &fleet.Nix{Name: "system", Profile: "/p", Path: path, Running: "/r", Reboot: []int{100}, Timeout: clock.Minute, Mode: c.mode, OnKernelChange: c.kernel, KeepGenerations: 1}
			c.o.Present = true
			if c.o.Boot == "" {
				c.o.Boot = "b1"
			}
			d := decideNix(engine.Resource[SystemDesired]{Generation: 1, Desired: SystemDesired{Nix: n, Run: "r"}}, c.o, 1000)
			if got := words(d); got != c.want {
				t.Errorf("decided %q, expected %q", got, c.want)
			}
		})
	}
}

func ended(path, mode string, exit int, tail string) NixObserved {
	return NixObserved{Begun: true, State: SwitchEnded, Exit: exit, Tail: tail, Path: path, Running: "/nix/store/00000000000000000000000000000000-old", Boot: "b1",
		Record: SwitchRecord{Seq: 1, Path: path, Mode: mode, Run: "r", Boot: "b1"}}
}

func with(o NixObserved, change func(*NixObserved)) NixObserved { change(&o); return o }

func words(d engine.Decision) string {
	switch a := d.Action().(type) {
	case Start:
		return "start " + a.Mode
	case Stage:
		return "stage " + a.Component
	case Prune:
		return fmt.Sprint("prune ", a.Generations)
	case nil:
	default:
		return a.ActionName()
	}
	switch d.Name() {
	case "fail":
		return "fail " + string(d.Reason().Code)
	case "wait":
		return "wait " + d.Reason().Message
	}
	return d.Name()
}
