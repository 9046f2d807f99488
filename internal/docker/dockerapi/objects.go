package dockerapi

import (
	"context"
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
	k := &cached[*image.InspectResponse]{at: i.now()}
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

// Networks lists the IDs of networks by name. A listing that has all of need is taken
// from memory.
func (i *Inspector) Networks(ctx context.Context, need map[string]string) (map[string]string, error) {
	return recall(i, &i.networks, need, func() (map[string]string, error) {
		list, err := i.engine.NetworkList(ctx, "")
		slices.SortFunc(list, func(a, b network.Summary) int { return b.Created.Compare(a.Created) })
		got := map[string]string{}
		for _, n := range list {
			got[n.Name] = n.ID // of two with one name the older one
		}
		return got, err
	})
}

// Volumes lists the names of volumes, likewise.
func (i *Inspector) Volumes(ctx context.Context, need map[string]string) (map[string]bool, error) {
	return recall(i, &i.volumes, need, func() (map[string]bool, error) {
		list, err := i.engine.VolumeList(ctx)
		got := map[string]bool{}
		for _, v := range list {
			got[v.Name] = true
		}
		return got, err
	})
}

// recall gives the listing in a slot where that will do, and else reads it. It is
// remembered unless an event came meanwhile.
func recall[V any](i *Inspector, slot **cached[map[string]V], need map[string]string, read func() (map[string]V, error)) (map[string]V, error) {
	i.mu.Lock()
	have, tick := *slot, i.tick
	enough := have != nil && i.trusted(have.at)
	for _, title := range need {
		if enough {
			_, enough = have.got[title]
		}
	}
	i.mu.Unlock()
	if enough {
		return have.got, nil
	}
	at := i.now()
	got, err := read()
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.others <= tick {
		*slot = &cached[map[string]V]{at, got}
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
	got := Facts{API: v.API, NoSwap: !info.SwapLimit, Rules: diff.WorkspaceRules{API: v.API, Runtime: info.DefaultRuntime,
		LogDriver: info.LoggingDriver, Cgroup: cgroup}}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.facts = &cached[Facts]{at, got}
	return got, nil
}
