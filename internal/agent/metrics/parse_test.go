package metrics

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
)

func TestParseStat(t *testing.T) {
	for in, want := range map[string]struct {
		t  cpuTimes
		ok bool
	}{
		"cpu  100 10 20 500 30 1 2 3 50 5\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n": {cpuTimes{136, 666, 2}, true},
		"cpu  1 2 3 4\n":    {cpuTimes{6, 10, 0}, true},
		"cpu  1 2 3\n":      {cpuTimes{}, false},
		"cpu  1 2 -3 4 5\n": {cpuTimes{}, false},
		"intr 1\n":          {cpuTimes{}, false},
		"":                  {cpuTimes{}, false},
	} {
		got, ok := parseStat([]byte(in))
		if ok != want.ok || ok && got != want.t {
			t.Errorf("%q: got %+v, %v", in, got, ok)
		}
	}
}

func TestParseSmallFiles(t *testing.T) {
	for in, want := range map[string]uint64{"0.15": 150, "12": 12000, "1.2345": 1234, "0.009": 9, "7.": 7000} {
		if got, ok := parseMilli([]byte(in)); !ok || got != want {
			t.Errorf("%q is %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", ".", ".5", "-1", "1.x", "1e3", "nan"} {
		if got, ok := parseMilli([]byte(in)); ok {
			t.Errorf("%q is taken for %d", in, got)
		}
	}
	m := parseMeminfo([]byte("MemTotal:       24684084 kB\nMemFree: 1 kB\nSwapTotal:             0 kB\n"))
	if *m.total != 24684084*1024 || *m.swapTotal != 0 || m.available != nil || m.swapFree != nil {
		t.Errorf("meminfo is %+v", m)
	}
	if n, ok := parseKeyed([]byte("total_inactive_file 4\ninactive_file 5\n"), "inactive_file"); !ok || n != 5 {
		t.Errorf("inactive_file is %d, %v", n, ok)
	}
	var seen []string
	parseNetDev([]byte("Inter-| Receive\n face |bytes\n eth0:1 2 3 4 5 6 7 8 9 10\nveth:1: 5 0 0 0 0 0 0 0 6\nbad: x\n"), func(l netLine) {
		seen = append(seen, fmt.Sprint(string(l.name), l.rx, l.tx))
	})
	if got := strings.Join(seen, ";"); got != "eth01 9;veth:15 6" {
		t.Errorf("interfaces are %s", got)
	}
	r, w := parseIOStat([]byte("8:0 rbytes=1 wbytes=2 rios=3\n8:16 \n253:0 rbytes=10 wbytes=20\n"))
	if r != 11 || w != 22 {
		t.Errorf("io.stat is %d, %d", r, w)
	}
	if _, _, counted := parseBlkio([]byte("Total 0\n")); counted {
		t.Error("a file without devices counts")
	}
	if g := parseCgroup([]byte("4:cpu,cpuacct:/a:b\n0::/x\nbad\n1:y\n")); len(g) != 2 || g[0] != (cgroupLine{"cpu,cpuacct", "/a:b"}) || g[1] != (cgroupLine{"", "/x"}) {
		t.Errorf("control groups are %v", g)
	}
	if m := parseMountinfo([]byte(`30 23 0:26 /a\040b /sys/fs/c\134d rw shared:9 - cgroup2 none rw,x` + "\n1 2 0:3 / / rw - ext4 /dev/a rw\n")); len(m) != 1 ||
		m[0] != (cgroupMount{v2: true, options: "rw,x", root: "/a b", point: `/sys/fs/c\d`}) {
		t.Errorf("mounts are %+v", m)
	}
}

// Whatever the counters do, a rate is in bounds or absent: never negative.
func TestRatesAreNeverNegative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, now := rapid.Uint64().Draw(t, "before"), rapid.Uint64().Draw(t, "now")
		interval := clock.Duration(rapid.Int64().Draw(t, "interval"))
		r := rate(before, now, interval)
		if (r == nil) != (now < before || interval <= 0) {
			t.Fatalf("the rate is %v", r)
		}
		if r != nil && (*r < 0 || *r > MaxInteger) {
			t.Fatalf("the rate is %d", *r)
		}
		a := cpuTimes{busy: rapid.Uint64().Draw(t, "busy"), total: rapid.Uint64().Draw(t, "total")}
		b := cpuTimes{busy: rapid.Uint64().Draw(t, "busy2"), total: rapid.Uint64().Draw(t, "total2")}
		share, ok := busyShare(a, b)
		if ok != (b.total > a.total) || share < 0 || share > 1000 {
			t.Fatalf("the share is %d, %v", share, ok)
		}
	})
	if r := rate(1_000_000, 3_000_000, clock.Second); *r != 2000 {
		t.Errorf("two busy CPUs are %d thousandths", *r)
	}
	if s, _ := busyShare(cpuTimes{busy: 100, total: 1000}, cpuTimes{busy: 150, total: 1200}); s != 250 {
		t.Errorf("a quarter is %d thousandths", s)
	}
	if addSat(math.MaxUint64, 1) != math.MaxUint64 || mulSat(1<<40, 1<<40) != math.MaxUint64 || mulSat(3, 4) != 12 {
		t.Error("numbers wrap around")
	}
}

func FuzzParseHost(f *testing.F) {
	f.Add([]byte("cpu  100 10 20 500 30 1 2 3 50 5\ncpu0 1 1 1 1\n"))
	f.Add([]byte("MemTotal:       24684084 kB\n"))
	f.Add([]byte(" 254 0 vda 45998 16498 2643490 9646 7609028 757253 129870064 938954 0 1 1\n"))
	f.Add([]byte("  eth0: 217646812 13539 0 0 0 0 0 0 1361237 14414 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parseStat(b); ok && (s.busy > s.total || s.cpus < 0) {
			t.Errorf("times are %+v", s)
		}
		m := parseMeminfo(b)
		for _, v := range []*int64{m.total, m.available, m.swapTotal, m.swapFree} {
			if v != nil && (*v < 0 || *v > MaxInteger) {
				t.Errorf("memory is %d", *v)
			}
		}
		parseNetDev(b, func(l netLine) {
			if len(l.name) == 0 {
				t.Error("an interface without a name")
			}
		})
		parseDiskstats(b, func(name []byte, _, _ uint64) {
			if len(name) == 0 {
				t.Error("a disk without a name")
			}
		})
		parseMilli(b)
	})
}

func FuzzParseDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x18\x00\x04self\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseDirents(b, func(name []byte) {
			if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 {
				t.Errorf("the name is %q", name)
			}
		})
	})
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("4:cpu,cpuacct:/docker/"+fixtureID+"/x\n0::/../a\n"), fixtureID)
	f.Add([]byte("30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"), "")
	f.Add([]byte("8:0 Read 4096\n8:0 rbytes=1 wbytes=2\ninactive_file 5\n"), "inactive_file")
	f.Fuzz(func(t *testing.T, b []byte, id string) {
		h := under(append(parseMountinfo(b), cgroupMount{v2: true, root: "/", point: "/sys/fs/cgroup"}), "/root/sys")
		groups := parseCgroup(b)
		hidden(groups)
		for _, p := range h.locate(groups, id) {
			if p.dir != "" && !strings.HasPrefix(p.dir, "/root/sys/") {
				t.Errorf("%q leads out of /sys", p.dir)
			}
		}
		parseKeyed(b, id)
		parseBlkio(b)
		parseIOStat(b)
		if n, ok := parseLimit(b); ok && n >= 1<<62 {
			t.Errorf("the limit is %d", n)
		}
	})
}

func FuzzParseGPU(f *testing.F) {
	f.Add([]byte("GPU-1, Tesla T4, 12, 15360, 15000, 360, 41, 26.55, 535.104.05\n"))
	f.Add([]byte("GPU-1, A, [N/A], [N/A], , [Not Supported], -3, 1.2345, \n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseGPUs(b)
		if bad := (Sample{GPUs: list}).Check(); bad != nil {
			t.Error(bad)
		}
		if err != nil && text(err.Error()) == "" {
			t.Error("an error without words")
		}
	})
}
