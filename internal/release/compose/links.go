package compose

import (
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// links gives the service its own names for others. On networks every service has
// its plain name anyway; on the engine's own bridge there are no names but links.
func (l *load) links(w *spec.Workspace, s *types.ServiceConfig) {
	bridge := s.NetworkMode == "bridge" || s.NetworkMode == "default"
	at := []string{"services", s.Name, "links"}
	if len(s.Links) > 0 && s.NetworkMode != "" && !bridge {
		l.addf(at, "links under network_mode %q: expected networks, or network_mode bridge", s.NetworkMode)
		return
	}
	for _, link := range s.Links {
		target, alias, ok := strings.Cut(link, ":")
		if !ok {
			alias = target
		}
		target = l.names.of("services", target)
		other, known := l.project.Services[target]
		switch {
		case !known:
			l.addf(at, "link to %q, which is not declared: expected a service", target)
			continue
		case bridge && (other.NetworkMode != "bridge" && other.NetworkMode != "default" || len(l.replicasOf(target)) != 1):
			l.addf(at, "link to %q, which is not on the engine's own bridge or has several replicas: expected one replica with network_mode bridge", target)
			continue
		case !bridge && !slices.ContainsFunc(slices.Collect(maps.Keys(s.Networks)), func(n string) bool { _, on := other.Networks[n]; return on }):
			l.addf(at, "link to %q, which is on none of the networks of %q: expected one network of both", target, s.Name)
			continue
		case !bridge && alias == target:
			continue
		}
		w.Links = append(w.Links, spec.Link{Target: target, Alias: alias})
	}
}

// ownContainer finds the service whose container a reference names: by its
// container_name, or as docker compose would name it.
func (l *load) ownContainer(name string) (service string, ok bool) {
	for key, s := range l.project.Services {
		written := l.names.back("services", key)
		if s.ContainerName == name || name == l.projectName()+"-"+written+"-1" || name == l.env[projectVariable]+"-"+written+"-1" {
			return key, true
		}
	}
	return "", false
}
