package dockerapi

import (
	"context"
	"maps"
	"slices"

	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/diff"
)

// Image reads what a reference means; nil if the engine has no such image.
func (i *Inspector) Image(ctx context.Context, ref string) (*image.InspectResponse, error) {
	i.mu.Lock()
	have, tick := i.images[ref], i.tick
	if have != nil && have.got != nil && i.trusted(have.at) {
		i.mu.Unlock()
		return have.got, nil
	}
	i.mu.Unlock()
	k := &known[*image.InspectResponse]{at: i.now()}
	switch got, err := i.engine.ImageInspect(ctx, ref); {
	case NotFound(err):
	case err != nil:
		return nil, err
	default:
		k.got = &got
		if have != nil && have.got != nil && have.got.ID == got.ID {
			k.got = have.got // the same, also for who compares pointers
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.others <= tick {
		i.images[ref] = k
	}
	return k.got, nil
}

// Networks lists the IDs of networks by name. One that has all of need is taken
// from memory.
func (i *Inspector) Networks(ctx context.Context, need map[string]string) (map[string]string, error) {
	i.mu.Lock()
	have, tick := i.networks, i.tick
	if have != nil && i.trusted(have.at) && all(need, have.got) {
		i.mu.Unlock()
		return have.got, nil
	}
	i.mu.Unlock()
	at := i.now()
	list, err := i.engine.NetworkList(ctx, "")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b network.Summary) int { return b.Created.Compare(a.Created) })
	got := map[string]string{}
	for _, n := range list {
		got[n.Name] = n.ID // of two with one name the older one
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if have != nil && maps.Equal(have.got, got) {
		got = have.got
	}
	if i.others <= tick {
		i.networks = &known[map[string]string]{at, got}
	}
	return got, nil
}

func all[V any](need map[string]string, have map[string]V) bool {
	for _, title := range need {
		if _, ok := have[title]; !ok {
			return false
		}
	}
	return true
}

// Volumes lists the names of volumes, likewise.
func (i *Inspector) Volumes(ctx context.Context, need map[string]string) (map[string]bool, error) {
	i.mu.Lock()
	have, tick := i.volumes, i.tick
	if have != nil && i.trusted(have.at) && all(need, have.got) {
		i.mu.Unlock()
		return have.got, nil
	}
	i.mu.Unlock()
	at := i.now()
	list, err := i.engine.VolumeList(ctx)
	if err != nil {
		return nil, err
	}
	got := map[string]bool{}
	for _, v := range list {
		got[v.Name] = true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.others <= tick {
		i.volumes = &known[map[string]bool]{at, got}
	}
	return got, nil
}

// About reads what the engine is.
func (i *Inspector) About(ctx context.Context) (Facts, error) {
	i.mu.Lock()
	have := i.facts
	i.mu.Unlock()
	if have != nil && i.now().Sub(have.at) < sweep {
		return have.got, nil
	}
	at := i.now()
	v, err := i.engine.Version(ctx)
	if err != nil {
		return Facts{}, err
	}
	info, err := i.engine.Info(ctx)
	if err != nil {
		return Facts{}, err
	}
	cgroup := "host" // the default namespace mode of cgroups
	if info.CgroupVersion == "2" {
		cgroup = "private"
	}
	got := Facts{API: v.API, NoSwap: !info.Raw.SwapLimit, Rules: diff.WorkspaceRules{API: v.API, Runtime: info.DefaultRuntime,
		LogDriver: info.Raw.LoggingDriver, Cgroup: cgroup}}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.facts = &known[Facts]{at, got}
	return got, nil
}
