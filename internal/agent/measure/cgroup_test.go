package measure

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

func TestGroupsWithoutDevicesCountNothing(t *testing.T) {
	root := tree(t, "common", "v1-cgroupfs")
	put(t, root+"/sys/fs/cgroup/blkio/docker/"+fixtureID+"/blkio.throttle.io_service_bytes_recursive", "Total 0\n")
	s := fixtureCollector(t, root).Collect(t.Context(), 1, Input{Targets: []Target{{Name: "web", PID: 4242, ContainerID: fixtureID}}})
	if len(s.Workspaces) != 1 || s.Workspaces[0].IOReadBytes != nil || s.Workspaces[0].MemBytes == nil {
		t.Errorf("got %+v", s)
	}
}

func TestKeyed(t *testing.T) {
	if n := keyed("total_inactive_file 4\ninactive_file 5\n", "inactive_file"); n == nil || *n != 5 {
		t.Errorf("inactive_file is %v", n)
	}
}

// Whatever a process says of its groups, what is read lies below the /sys that was given.
func FuzzLocate(f *testing.F) {
	f.Add("cpu,cpuacct", "/docker/"+fixtureID+"/x", "/", `/sys/fs/c\134d`, fixtureID)
	f.Add("", "/../a", `/a\040b`, "/sys/fs/cgroup", "")
	f.Fuzz(func(t *testing.T, controllers, path, mountRoot, point, id string) {
		g := procfs.Cgroup{Path: path}
		if controllers != "" {
			g.Controllers = strings.Split(controllers, ",")
		}
		kind := "cgroup2"
		if controllers != "" {
			kind = "cgroup"
		}
		options := map[string]string{}
		for _, c := range g.Controllers {
			options[c] = ""
		}
		m := mountsUnder([]*procfs.MountInfo{{FSType: kind, Root: mountRoot, MountPoint: point, SuperOptions: options},
			{FSType: "cgroup2", Root: "/", MountPoint: "/sys/fs/cgroup"}}, "/root/sys")
		groups := []procfs.Cgroup{g}
		if _, err := m.find(slices.Clone(groups), id); err != nil && (names(groups, id) || hidden(groups)) {
			t.Errorf("the process is of the container, or hidden: %v", err)
		}
		for _, p := range m.locate(groups, id) {
			if p.dir != "" && !strings.HasPrefix(p.dir, "/root/sys/") {
				t.Errorf("%q leads out of /sys", p.dir)
			}
		}
	})
}
