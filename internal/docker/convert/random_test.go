package convert_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

var named = dockertest.Names{Images: []string{"plain", "rich"}, Networks: []string{"back", "far", "front"}, Volumes: []string{"data", "logs"}, Secrets: []string{"db", "tls"}}

// TestS36RandomSpecs makes containers of random specs on a real engine: neither
// the spec nor the same said otherwise differs, with and without baseline, and
// another spec's difference is cured by a container of that one.
func TestS36RandomSpecs(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := dockertest.Workspace(workspace().Name, named).Draw(rt, "spec")
		respelled := respell(rt, s)
		id, err := w.try(t.Context(), s)
		if id != "" {
			defer func() {
				testkit.Value(w.api.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}))(rt)
			}()
		}
		testkit.Must(rt, err)
		c := w.inspect(t, id)
		rec, err := convert.RecordWorkspace(w.deployment(s), w.inputs(s), c)
		testkit.Must(rt, err)
		for _, base := range []*convert.Record{nil, &rec} {
			for name, x := range map[string]spec.Workspace{"the same": s, "respelled": respelled} {
				ds := testkit.Value(convert.Compare(w.deployment(x), w.inputs(x), c, base, w.rules()))(rt)
				for _, d := range ds {
					rt.Errorf("%s, baseline %v: %s", name, base != nil, d.Show())
				}
			}
		}
		other := dockertest.Workspace(s.Name, named).Draw(rt, "another spec")
		want, err := convert.Workspace(w.deployment(s), w.inputs(s))
		testkit.Must(rt, err)
		wanted, err := convert.Workspace(w.deployment(other), w.inputs(other))
		testkit.Must(rt, err)
		ds, err := convert.Compare(w.deployment(other), w.inputs(other), c, &rec, w.rules())
		testkit.Must(rt, err)
		seen := fieldsOf(ds)
		for _, d := range ds {
			if d.Cause != diff.Declared {
				rt.Errorf("nobody changed it outside: %s", d.Show())
			}
		}
		for _, d := range diff.Compare(wanted, want, nil, w.rules()) {
			if seen[d.Field] == "" && d.Desired != w.rules().Default(d.Field) && d.Desired != convert.Observed(c, w.inputs(s))[d.Field] {
				rt.Errorf("the specs differ, and the container does not: %s", d.Show())
			}
		}
	})
}

// respell says the same in another way: sets in another order, defaults said
// aloud, other spellings.
func respell(t *rapid.T, w spec.Workspace) spec.Workspace {
	shuffle(t, &w.Env)
	shuffle(t, &w.Ports)
	shuffle(t, &w.Expose)
	shuffle(t, &w.Mounts)
	shuffle(t, &w.DNSOptions)
	shuffle(t, &w.ExtraHosts)
	shuffle(t, &w.GroupAdd)
	shuffle(t, &w.Networks)
	for i := range w.Networks {
		a := slices.Clone(w.Networks[i].Aliases)
		w.Networks[i].Aliases = append(a, w.Name)
	}
	w.Labels = maps.Clone(w.Labels)
	for _, list := range []*[]string{&w.Security.CapAdd, &w.Security.CapDrop} {
		shuffle(t, list)
		for i, c := range *list {
			(*list)[i] = "CAP_" + strings.TrimPrefix(strings.ToUpper(c), "CAP_")
		}
	}
	w.Restart.Policy = cmp.Or(w.Restart.Policy, "no")
	w.ShmSize = cmp.Or(w.ShmSize, 64<<20)
	w.Namespaces.IPC = cmp.Or(w.Namespaces.IPC, "private")
	w.Runtime = cmp.Or(w.Runtime, "runc")
	if w.StopGrace == nil {
		grace := 10 * clock.Second
		w.StopGrace = &grace
	}
	if w.Limits.Memory != 0 {
		w.Limits.MemorySwap = cmp.Or(w.Limits.MemorySwap, 2*w.Limits.Memory)
	}
	if len(w.Security.Options) > 0 {
		w.Security.Options = []string{"no-new-privileges"}
	}
	if len(w.Networks) == 0 {
		w.NetworkMode = cmp.Or(w.NetworkMode, "bridge")
	}
	return w
}

func shuffle[T any](t *rapid.T, list *[]T) {
	if len(*list) > 1 {
		*list = rapid.Permutation(*list).Draw(t, "order")
	} else {
		*list = slices.Clone(*list)
	}
}
