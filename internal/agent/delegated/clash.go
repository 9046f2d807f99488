package delegated

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/imageref"
)

// claim is what a resource takes for itself on the host. A shared one does not
// mind others that share it.
type claim struct {
	by     container.ID
	shared bool
}

// clashes says why a set of one resource would take something that is a
// bundle's: a name on the engine, the name of an image, a port of the host, the
// host name of routes.
func (a *admission) clashes(s *container.Set) []string {
	var out []string
	ours := a.claims(s)
	for _, what := range slices.Sorted(maps.Keys(ours)) {
		if his, ok := a.taken[what]; ok && !(his.shared && ours[what].shared) {
			out = append(out, fmt.Sprintf("%s is of %s of the bundle", what, his.by))
		}
	}
	return out
}

// claims lists what the resources of a set take, in words.
func (a *admission) claims(s *container.Set) map[string]claim {
	out := map[string]claim{}
	take := func(what, kind, name string, shared bool) {
		c := claim{container.ID{Kind: kind, Name: name}, shared}
		if other, twice := out[what]; twice && !other.shared {
			c = other
		}
		out[what] = c
	}
	for i := range s.Networks {
		n := &s.Networks[i]
		take(fmt.Sprintf("network %q", n.EngineName(a.title)), container.KindNetwork, n.Name, false)
	}
	for i := range s.Volumes {
		v := &s.Volumes[i]
		take(fmt.Sprintf("volume %q", v.EngineName(a.title)), container.KindVolume, v.Name, false)
	}
	for i := range s.Images {
		im := &s.Images[i]
		// Who pulls what is missing changes nothing for others who pull it.
		shared := im.Pull != nil && im.Pull.Policy != container.PullAlways
		take(imageName(im.EngineRef(a.title)), container.KindImage, im.Name, shared)
		for _, ref := range im.Names() {
			take(imageName(ref), container.KindImage, im.Name, false)
		}
	}
	for i := range s.Snapshots {
		take(imageName(s.Snapshots[i].EngineRef(a.title)), container.KindSnapshot, s.Snapshots[i].Name, false)
	}
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		take(fmt.Sprintf("container %q", w.EngineName(a.title)), container.KindWorkspace, w.Name, false)
		for _, p := range w.Ports {
			if p.Fixed() {
				take(fmt.Sprintf("port %d/%s of the host", p.HostPort, cmp.Or(strings.ToLower(p.Protocol), "tcp")), container.KindWorkspace, w.Name, false)
			}
		}
	}
	for i := range s.Routes {
		r := s.Routes[i]
		r.Normalize()
		take(fmt.Sprintf("host name %q of routes", r.Host), container.KindRoute, r.Name, false)
	}
	return out
}

func imageName(ref string) string {
	if r, err := imageref.Parse(ref); err == nil {
		ref = r.String()
	}
	return fmt.Sprintf("image %q", ref)
}
