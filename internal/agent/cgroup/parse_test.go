package cgroup

import (
	"strings"
	"testing"
)

const fixtureID = "0f3d6f0b1c9e4a7d8b2a5c6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2"

func TestParse(t *testing.T) {
	if n, ok := parseKeyed([]byte("total_inactive_file 4\ninactive_file 5\n"), "inactive_file"); !ok || n != 5 {
		t.Errorf("inactive_file is %d, %v", n, ok)
	}
	r, w := parseIOStat([]byte("8:0 rbytes=1 wbytes=2 rios=3\n8:16 \n253:0 rbytes=10 wbytes=20\n"))
	if r != 11 || w != 22 {
		t.Errorf("io.stat is %d, %d", r, w)
	}
	if _, _, counted := parseBlkio([]byte("Total 0\n")); counted {
		t.Error("a file without devices counts")
	}
	if g := parseLines([]byte("4:cpu,cpuacct:/a:b\n0::/x\nbad\n1:y\n")); len(g) != 2 || g[0] != (line{"cpu,cpuacct", "/a:b"}) || g[1] != (line{"", "/x"}) {
		t.Errorf("control groups are %v", g)
	}
	if m := parseMounts([]byte(`30 23 0:26 /a\040b /sys/fs/c\134d rw shared:9 - cgroup2 none rw,x` + "\n1 2 0:3 / / rw - ext4 /dev/a rw\n")); len(m) != 1 ||
		m[0] != (mount{v2: true, options: "rw,x", root: "/a b", point: `/sys/fs/c\d`}) {
		t.Errorf("mounts are %+v", m)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("4:cpu,cpuacct:/docker/"+fixtureID+"/x\n0::/../a\n"), fixtureID)
	f.Add([]byte("30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"), "")
	f.Add([]byte("8:0 Read 4096\n8:0 rbytes=1 wbytes=2\ninactive_file 5\n"), "inactive_file")
	f.Fuzz(func(t *testing.T, b []byte, id string) {
		h := under(append(parseMounts(b), mount{v2: true, root: "/", point: "/sys/fs/cgroup"}), "/root/sys")
		groups := parseLines(b)
		if _, err := ParseMounts(b, "/root/sys").Find(b, id); err != nil && (names(groups, id) || hidden(groups)) {
			t.Errorf("the process is of the container, or hidden: %v", err)
		}
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
