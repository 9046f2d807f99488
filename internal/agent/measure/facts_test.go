package measure

import (
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
)

// machine is a root folder; files replace or, when empty, remove some of it.
func machine(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"proc/stat":                               "cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\ncpu10 1 2 3\nintr 5\n",
		"proc/meminfo":                            "MemTotal:       16384 kB\nMemFree:        77 kB\n",
		"proc/sys/kernel/osrelease":               "6.1.0-18-amd64\n",
		"etc/os-release":                          "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"sys/bus/pci/devices/0000:00:00.0/class":  "0x060000\n",
		"sys/bus/pci/devices/0000:00:00.0/vendor": "0x8086\n",
		"sys/bus/pci/devices/0000:00:00.0/device": "0x1237\n",
	}
	maps.Copy(all, files)
	out := fstest.MapFS{}
	for name, content := range all {
		if content != "" {
			out[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return out
}

// onBus is a device at an address.
func onBus(address, class, vendor, device string) map[string]string {
	at := "sys/bus/pci/devices/" + address
	return map[string]string{at + "/class": class + "\n", at + "/vendor": vendor + "\n", at + "/device": device + "\n"}
}

func join(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func TestFactsOfAMachine(t *testing.T) {
	plain := event.HostFacts{CPUs: 3, Memory: 16 << 20, Arch: runtime.GOARCH, OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64"}
	with := func(f func(*event.HostFacts)) event.HostFacts { w := plain; f(&w); return w }
	has := func(gpus ...event.GPU) event.HostFacts { return with(func(f *event.HostFacts) { f.GPUs = gpus }) }
	var many []map[string]string
	for i := range event.MaxGPUs + 3 {
		many = append(many, onBus("0000:"+string(rune('a'+i))+"0:00.0", "0x030200", "0x10de", "0x1eb8"))
	}
	for what, c := range map[string]struct {
		files map[string]string
		want  event.HostFacts
	}{
		"no GPU": {nil, plain},
		"no bus": {map[string]string{"sys/bus/pci/devices/0000:00:00.0/class": "", "sys/bus/pci/devices/0000:00:00.0/vendor": "",
			"sys/bus/pci/devices/0000:00:00.0/device": ""}, plain},
		"NVIDIA with its driver": {join(onBus("0000:3b:00.0", "0x030200", "0x10de", "0x1eb8"),
			map[string]string{"proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: \t\t Tesla T4\nIRQ:   \t\t 71\n"}),
			has(event.GPU{Vendor: "nvidia", Model: "Tesla T4"})},
		"AMD with its driver": {join(onBus("0000:c1:00.0", "0x038000", "0x1002", "0x740f"), map[string]string{
			"sys/bus/pci/devices/0000:c1:00.0/mem_info_vram_total": "68702699520\n", "sys/bus/pci/devices/0000:c1:00.0/product_name": "AMD INSTINCT MI210\n"}),
			has(event.GPU{Vendor: "amd", Model: "AMD INSTINCT MI210", Memory: 68702699520})},
		"without drivers, in the order of their addresses": {join(onBus("0000:81:00.0", "0x030000", "0x1a03", "0x2000"), onBus("0000:02:00.0", "0x030000", "0x8086", "0x56c0")),
			has(event.GPU{Vendor: "intel", Model: "0x56c0"}, event.GPU{Vendor: "0x1a03", Model: "0x2000"})},
		"one that cannot be read": {join(onBus("0000:81:00.0", "0x030000", "0x1a03", "0x2000"), map[string]string{"sys/bus/pci/devices/0000:81:00.0/device": ""}), plain},
		"more than an event takes": {join(many...), has(func() (out []event.GPU) {
			for range event.MaxGPUs {
				out = append(out, event.GPU{Vendor: "nvidia", Model: "0x1eb8"})
			}
			return out
		}()...)},
		"no name of the system":  {map[string]string{"etc/os-release": ""}, with(func(f *event.HostFacts) { f.OS = "" })},
		"its name elsewhere":     {map[string]string{"etc/os-release": "", "usr/lib/os-release": "PRETTY_NAME=Alpine\n"}, with(func(f *event.HostFacts) { f.OS = "Alpine" })},
		"no release of a kernel": {map[string]string{"proc/sys/kernel/osrelease": ""}, with(func(f *event.HostFacts) { f.Kernel = "" })},
		"a text that is too long": {map[string]string{"proc/sys/kernel/osrelease": strings.Repeat("ä", 40) + "\n"},
			with(func(f *event.HostFacts) { f.Kernel = strings.Repeat("ä", 32) })},
	} {
		got, err := Facts(machine(c.files))
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", what, err, d)
		}
	}
}

// What must be known of a machine and cannot be read is an error: it is not of no CPU.
func TestFactsAreWholeOrAnError(t *testing.T) {
	for what, files := range map[string]map[string]string{
		"no stat":        {"proc/stat": ""},
		"no CPU":         {"proc/stat": "cpu  1 2 3\n"},
		"no meminfo":     {"proc/meminfo": ""},
		"no memory":      {"proc/meminfo": "MemFree: 77 kB\n"},
		"too much of it": {"proc/meminfo": "MemTotal: 99999999999999999999 kB\n"},
	} {
		if f, err := Facts(machine(files)); err == nil {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

// TestFactsCanBeReported: whatever the files of a machine say, the server takes the event.
func TestFactsCanBeReported(t *testing.T) {
	text := rapid.StringN(1, 300, 300)
	rapid.Check(t, func(t *rapid.T) {
		files := onBus("0000:3b:00.0", "0x030200", "0x10de", "0x1eb8")
		for _, name := range []string{"proc/sys/kernel/osrelease", "etc/os-release", "sys/bus/pci/devices/0000:3b:00.0/vendor", "sys/bus/pci/devices/0000:3b:00.0/device",
			"sys/bus/pci/devices/0000:3b:00.0/product_name", "sys/bus/pci/devices/0000:3b:00.0/mem_info_vram_total"} {
			if v := text.Draw(t, name); rapid.Bool().Draw(t, "garbled") {
				files[name] = v
			}
		}
		files["etc/os-release"] = "PRETTY_NAME=" + files["etc/os-release"]
		f, err := Facts(machine(files))
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.NewEntry(1, event.HostSubject("h"), f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := event.Decode(e)
		if err != nil || got.(event.HostFacts).Check() != nil || !got.(event.HostFacts).Equal(f) {
			t.Fatalf("%+v is read as %+v, %v", f, got, err)
		}
	})
}

func TestFactsOfThisMachine(t *testing.T) {
	root := os.DirFS("/")
	f := testkit.Value(Facts(root))(t)
	if f.CPUs < 1 || f.Memory < 1<<20 || f.Kernel == "" || f.Check() != nil {
		t.Errorf("this machine is %+v", f)
	}
	c := New(Options{})
	defer c.Close()
	if n, err := c.DiskSize(t.TempDir()); n <= 0 || err != nil {
		t.Errorf("the disk has %d bytes, %v", n, err)
	}
}
