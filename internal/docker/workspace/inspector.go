package workspace

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/daemon"
)

// How long what was read is trusted: while events are heard, and without.
const (
	sweep   = time.Minute
	unheard = time.Second
)

// Inspector remembers what the engine showed, so that a look at many workspaces
// takes one call. Events take back what they are about; each container is read
// again once a minute all the same, a share of them with each look, so that no
// look pays for all.
type Inspector struct {
	engine Engine
	now    func() time.Time

	mu         sync.Mutex
	hears      bool
	tick       uint64            // counts what was taken back
	bumped     map[string]uint64 // the tick at which a container was
	others     uint64            // and everything else
	containers map[string]*inspected
	images     map[string]*known[*image.InspectResponse] // nil value: not there
	networks   *known[map[string]string]
	volumes    *known[map[string]bool]
	facts      *known[facts]
	swept      time.Time // up to when the shares of looks were read
}

type inspected struct {
	at  time.Time
	got *container.InspectResponse
	sum daemon.Sum
}

type known[T any] struct {
	at  time.Time
	got T
}

// facts are what an engine is.
type facts struct {
	api    string
	noSwap bool
	rules  diff.WorkspaceRules
}

// NewInspector makes one that knows nothing.
func NewInspector(e Engine, now func() time.Time) *Inspector {
	return &Inspector{engine: e, now: now, bumped: map[string]uint64{},
		containers: map[string]*inspected{}, images: map[string]*known[*image.InspectResponse]{}}
}

// Hear takes back what an event is about.
func (i *Inspector) Hear(e daemon.Event) {
	if e.Subject == daemon.Container && !matters(e.Action) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tick++
	switch e.Subject {
	case daemon.Container:
		i.drop(e.ID)
	case daemon.Network:
		i.drop(e.Container)
		if e.Container == "" {
			i.networks, i.others = nil, i.tick
		}
	case daemon.Volume:
		if e.Container == "" {
			i.volumes, i.others = nil, i.tick
		}
	case daemon.Image:
		clear(i.images)
		i.others = i.tick
	case daemon.Resync:
		i.hears = true
		clear(i.containers)
		clear(i.images)
		clear(i.bumped)
		i.networks, i.volumes, i.facts = nil, nil, nil
		i.others = i.tick
	}
}

func (i *Inspector) drop(id string) {
	if id != "" {
		delete(i.containers, id)
		i.bumped[id] = i.tick
	}
}

func (i *Inspector) trusted(at time.Time) bool {
	age := i.now().Sub(at)
	return age >= 0 && (age < unheard || i.hears && age < sweep)
}

// container reads a container, or answers from memory where the listing agrees;
// without one it is read.
func (i *Inspector) container(ctx context.Context, id string, listed *container.Summary) (*container.InspectResponse, error) {
	i.mu.Lock()
	have, tick := i.containers[id], i.tick
	if listed != nil && i.knows(have, listed) {
		i.mu.Unlock()
		return have.got, nil
	}
	i.mu.Unlock()
	at := i.now()
	var known daemon.Sum
	if have != nil {
		known = have.sum
	}
	got, sum, err := i.engine.ContainerInspectAnew(ctx, id, known)
	switch {
	case err != nil:
		return nil, err
	case got == nil, have != nil && reflect.DeepEqual(have.got, got):
		got = have.got // also for who compares pointers
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.bumped[got.ID] <= tick && i.others <= tick {
		i.containers[got.ID] = &inspected{at, got, sum}
	}
	return got, nil
}

// knows reports whether what is remembered of a container will do. Mu is held.
func (i *Inspector) knows(have *inspected, listed *container.Summary) bool {
	return have != nil && i.trusted(have.at) && agree(listed, have.got)
}

// inspections is how many containers are inspected at once.
const inspections = 4

// refresh inspects those of the listed containers that memory does not answer
// for, and the next of the sweep, some at once. Who looks at one meets its error.
func (i *Inspector) refresh(ctx context.Context, listed []*container.Summary) {
	i.mu.Lock()
	var stale, rest []*container.Summary
	for _, s := range listed {
		if i.knows(i.containers[s.ID], s) {
			rest = append(rest, s)
		} else {
			stale = append(stale, s)
		}
	}
	stale = append(stale, i.share(rest)...)
	i.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(inspections)
	for _, s := range stale {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			_, err := i.container(ctx, s.ID, nil)
			return err
		})
	}
	_ = g.Wait() // as said
}

// share is the part of known containers that is due since the last look, those
// first that were read first: of all of them within a sweep, each is read once.
// Mu is held.
func (i *Inspector) share(known []*container.Summary) []*container.Summary {
	now := i.now()
	since := now.Sub(i.swept)
	if i.swept.IsZero() || !i.hears || since < 0 || since >= sweep {
		i.swept = now // whatever was read before is too old by itself
		return nil
	}
	n := time.Duration(len(known))
	due := n * since / sweep
	if due == 0 {
		return nil
	}
	i.swept = i.swept.Add(due * sweep / n)
	slices.SortFunc(known, func(a, b *container.Summary) int { return i.containers[a.ID].at.Compare(i.containers[b.ID].at) })
	return known[:due]
}

// agree reports whether a listing shows what was inspected.
func agree(s *container.Summary, c *container.InspectResponse) bool {
	if c.State == nil || s.State != c.State.Status || s.ImageID != c.Image || !slices.Contains(s.Names, c.Name) {
		return false
	}
	if h := c.State.Health; h != nil && s.State == container.StateRunning && !strings.Contains(s.Status, "("+healthWords(h.Status)+")") {
		return false
	}
	if s.NetworkSettings == nil || c.NetworkSettings == nil || len(s.NetworkSettings.Networks) != len(c.NetworkSettings.Networks) {
		return false
	}
	for name, e := range s.NetworkSettings.Networks {
		other := c.NetworkSettings.Networks[name]
		if other == nil || e == nil || e.NetworkID != other.NetworkID || e.IPAddress != other.IPAddress {
			return false
		}
	}
	return true
}

// healthWords are how a listing shows a result of the healthcheck.
func healthWords(h container.HealthStatus) string {
	if h == container.Starting {
		return "health: starting"
	}
	return string(h)
}

// keep forgets containers that are not listed any more.
func (i *Inspector) keep(ids map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.containers, func(id string, _ *inspected) bool { return !ids[id] })
	maps.DeleteFunc(i.bumped, func(id string, _ uint64) bool { return !ids[id] })
}

// image reads what a reference means; nil if the engine has no such image.
func (i *Inspector) image(ctx context.Context, ref string) (*image.InspectResponse, error) {
	i.mu.Lock()
	have, tick := i.images[ref], i.tick
	if have != nil && have.got != nil && i.trusted(have.at) {
		i.mu.Unlock()
		return have.got, nil
	}
	i.mu.Unlock()
	k := &known[*image.InspectResponse]{at: i.now()}
	switch got, err := i.engine.ImageInspect(ctx, ref); {
	case daemon.NotFound(err):
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

// network lists the IDs of networks by name. One that has all of need is taken
// from memory.
func (i *Inspector) network(ctx context.Context, need map[string]string) (map[string]string, error) {
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

// volume lists the names of volumes, likewise.
func (i *Inspector) volume(ctx context.Context, need map[string]string) (map[string]bool, error) {
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

// about reads what the engine is.
func (i *Inspector) about(ctx context.Context) (facts, error) {
	i.mu.Lock()
	have := i.facts
	i.mu.Unlock()
	if have != nil && i.now().Sub(have.at) < sweep {
		return have.got, nil
	}
	at := i.now()
	v, err := i.engine.Version(ctx)
	if err != nil {
		return facts{}, err
	}
	info, err := i.engine.Info(ctx)
	if err != nil {
		return facts{}, err
	}
	cgroup := "host" // the default namespace mode of cgroups
	if info.CgroupVersion == "2" {
		cgroup = "private"
	}
	got := facts{api: v.API, noSwap: !info.Raw.SwapLimit, rules: diff.WorkspaceRules{API: v.API, Runtime: info.DefaultRuntime,
		LogDriver: info.Raw.LoggingDriver, Cgroup: cgroup}}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.facts = &known[facts]{at, got}
	return got, nil
}
