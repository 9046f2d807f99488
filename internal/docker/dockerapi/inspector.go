package dockerapi

// This file remembers what an engine showed of containers, images, networks
// and volumes, so that a look at many workspaces takes one call.

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
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/api/types/volume"
	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/core/diff"
)

// How long what was read is trusted: while events are watched, and without.
const (
	sweep     = time.Minute
	unwatched = time.Second
)

// Engine is what an inspector reads.
type Inspected interface {
	Version(ctx context.Context) (Version, error)
	Info(ctx context.Context) (system.Info, error)
	ContainerInspectIfChanged(ctx context.Context, id string, known Sum) (*container.InspectResponse, Sum, error)
	ImageInspect(ctx context.Context, ref string) (image.InspectResponse, error)
	NetworkList(ctx context.Context, name string, labels ...string) ([]network.Summary, error)
	VolumeList(ctx context.Context, labels ...string) ([]volume.Volume, error)
}

// Inspector answers from memory where that will do. Events take back what they
// are about; each container is read again once a minute all the same, a share of
// them with each look, so that no look pays for all.
type Inspector struct {
	engine Inspected
	now    func() time.Time

	mu          sync.Mutex
	watching    bool
	tick        uint64            // counts what was taken back
	invalidated map[string]uint64 // the tick at which a container was
	others      uint64            // and everything else
	containers  map[string]*inspected
	images      map[string]*cached[*image.InspectResponse] // nil value: not there
	networks    *cached[map[string]string]
	volumes     *cached[map[string]bool]
	facts       *cached[Facts]
	swept       time.Time // up to when the shares of looks were read
}

type inspected struct {
	at  time.Time
	got *container.InspectResponse
	sum Sum
}

type cached[T any] struct {
	at  time.Time
	got T
}

// Facts are what an engine is.
type Facts struct {
	API    string
	NoSwap bool // it cannot limit swap
	Rules  diff.WorkspaceRules
}

// New makes one that knows nothing.
func NewInspector(e Inspected, now func() time.Time) *Inspector {
	return &Inspector{engine: e, now: now, invalidated: map[string]uint64{},
		containers: map[string]*inspected{}, images: map[string]*cached[*image.InspectResponse]{}}
}

// OnEvent takes back what an event is about.
func (i *Inspector) OnEvent(e Event) {
	if e.Subject == Container && !Matters(e.Action) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tick++
	switch e.Subject {
	case Container:
		i.invalidate(e.ID)
	case Network:
		i.invalidate(e.Container)
		if e.Container == "" {
			i.networks, i.others = nil, i.tick
		}
	case Volume:
		if e.Container == "" {
			i.volumes, i.others = nil, i.tick
		}
	case Image:
		clear(i.images)
		i.others = i.tick
	case Resync:
		i.watching = true
		clear(i.containers)
		clear(i.images)
		clear(i.invalidated)
		i.networks, i.volumes, i.facts = nil, nil, nil
		i.others = i.tick
	}
}

// Matters reports whether a container may be another after an event. Healthchecks
// alone make three of those that do not at each of their intervals.
func Matters(action string) bool {
	switch action {
	case "attach", "detach", "top", "resize", "copy", "export", "archive-path", "extract-to-dir", "commit":
		return false
	}
	return !strings.HasPrefix(action, "exec_")
}

func (i *Inspector) invalidate(id string) {
	if id != "" {
		delete(i.containers, id)
		i.invalidated[id] = i.tick
	}
}

func (i *Inspector) trusted(at time.Time) bool {
	age := i.now().Sub(at)
	return age >= 0 && (age < unwatched || i.watching && age < sweep)
}

// Container reads a container, or answers from memory where the listing agrees;
// without one it is read.
func (i *Inspector) Container(ctx context.Context, id string, listed *container.Summary) (*container.InspectResponse, error) {
	i.mu.Lock()
	have, tick := i.containers[id], i.tick
	if listed != nil && i.fresh(have, listed) {
		i.mu.Unlock()
		return have.got, nil
	}
	i.mu.Unlock()
	at := i.now()
	var known Sum
	if have != nil {
		known = have.sum
	}
	got, sum, err := i.engine.ContainerInspectIfChanged(ctx, id, known)
	switch {
	case err != nil:
		return nil, err
	case got == nil, have != nil && reflect.DeepEqual(have.got, got):
		got = have.got // also for who compares pointers
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.invalidated[got.ID] <= tick && i.others <= tick {
		i.containers[got.ID] = &inspected{at, got, sum}
	}
	return got, nil
}

// fresh reports whether what is remembered of a container will do. Mu is held.
func (i *Inspector) fresh(have *inspected, listed *container.Summary) bool {
	return have != nil && i.trusted(have.at) && agree(listed, have.got)
}

// inspections is how many containers are inspected at once.
const inspections = 4

// Refresh inspects those of the listed containers that memory does not answer
// for, and the next of the sweep, some at once. Who inspects one gets its error.
func (i *Inspector) Refresh(ctx context.Context, listed []*container.Summary) {
	i.mu.Lock()
	var stale, rest []*container.Summary
	for _, s := range listed {
		if i.fresh(i.containers[s.ID], s) {
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
			_, err := i.Container(ctx, s.ID, nil)
			return err
		})
	}
	_ = g.Wait() // as said
}

// share is the part of known containers that is due since the last check, those
// first that were read first: of all of them within a sweep, each is read once.
// Mu is held.
func (i *Inspector) share(known []*container.Summary) []*container.Summary {
	now := i.now()
	since := now.Sub(i.swept)
	if i.swept.IsZero() || !i.watching || since < 0 || since >= sweep {
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

// Keep forgets containers that are not listed any more.
func (i *Inspector) Keep(ids map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.containers, func(id string, _ *inspected) bool { return !ids[id] })
	maps.DeleteFunc(i.invalidated, func(id string, _ uint64) bool { return !ids[id] })
}
