package release

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/compose"
)

// paths compares what relative paths of services are with what they were in the release before. A path that was
// storage and becomes files, or the other way, leaves data behind: that is refused unless bundle.yaml lists it.
func (b *builder) paths() (out []Problem) {
	if b.o.Previous == nil {
		return nil
	}
	before := b.o.Previous.Previous()
	type change struct {
		bundle string
		was    digest.Digest
	}
	seen := map[change]bool{}
	for _, host := range slices.Sorted(maps.Keys(b.src.Declaration.Hosts)) {
		c := change{b.src.Declaration.Hosts[host].Bundle, before.Roster.Hosts[host].Bundle}
		if c.was == "" || seen[c] {
			continue
		}
		seen[c] = true
		for _, p := range b.src.Bundles[c.bundle].Paths {
			if problem, changed := changedPath(p, before.Bundles[c.was].Containers, before.Version); changed {
				out = append(out, problem)
			}
		}
	}
	return out
}

// changedPath words that a path was something else in a bundle of a release of before.
func changedPath(p compose.Path, was *spec.Set, version uint64) (Problem, bool) {
	if was == nil || was.Workspace(p.Workspace) == nil {
		return Problem{}, false
	}
	w, out := was.Workspace(p.Workspace), p.At
	volume := slices.IndexFunc(w.Mounts, func(m spec.Mount) bool { return m.Type == spec.MountVolume && path.Clean(m.Target) == p.Target })
	files := slices.ContainsFunc(w.Contents, func(c spec.Content) bool { return path.Clean(c.Target) == p.Target })
	switch {
	case p.Kind == compose.Files && volume >= 0:
		out.Message = fmt.Sprintf("%q was storage of service %q in version %d, the volume %q, and becomes files of the bundle: the data stays in the volume, and the service does not see it",
			p.Name, p.Workspace, version, w.Mounts[volume].Source)
	case p.Kind == compose.Storage && files:
		out.Message = fmt.Sprintf("%q was files of the bundle for service %q in version %d, and becomes storage, a volume: the service sees what the volume has, and neither the files nor what it wrote in them",
			p.Name, p.Workspace, version)
	default:
		return out, false
	}
	out.IsWarning = p.Said
	if !p.Said {
		out.Message += fmt.Sprintf(": expected paths: {%s: %s} in bundle.yaml to keep it, or paths: {%s: %s} where that is meant", p.Name, other(p.Kind), p.Name, p.Kind)
	}
	return out, true
}

func other(k compose.PathKind) compose.PathKind {
	if k == compose.Files {
		return compose.Storage
	}
	return compose.Files
}
