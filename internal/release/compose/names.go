package compose

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// renamed is, by section and name in the file, the name here: names on the engine
// are small letters and do not begin with a sign.
type renamed map[string]map[string]string

// of is the name here of a name in the file.
func (r renamed) of(section, name string) string {
	if to, ok := r[section][name]; ok {
		return to
	}
	return name
}

// back is the name in the file of a name here.
func (r renamed) back(section, name string) string {
	for from, to := range r[section] {
		if to == name {
			return from
		}
	}
	return name
}

// rename gives services, networks and volumes names that hosts take. Services keep
// what they were called as a further name on their networks.
func (l *load) rename() {
	p := l.project
	l.names = renamed{}
	disabled := p.DisabledServices
	p.Services = renameKeys(l, "services", p.Services)
	p.DisabledServices = renameKeys(l, "services", disabled)
	p.Networks = renameKeys(l, "networks", p.Networks)
	p.Volumes = renameKeys(l, "volumes", p.Volumes)
	if len(l.names) == 0 {
		return
	}
	for from, to := range l.names["volumes"] {
		if v := p.Volumes[to]; v.Name == l.projectName()+"_"+from {
			v.Name = l.projectName() + "_" + to
			p.Volumes[to] = v
		}
	}
	for from, to := range l.names["networks"] {
		if n := p.Networks[to]; n.Name == l.projectName()+"_"+from {
			n.Name = l.projectName() + "_" + to
			p.Networks[to] = n
		}
	}
	for _, services := range []types.Services{p.Services, p.DisabledServices} {
		for key, s := range services {
			l.renameIn(key, &s)
			services[key] = s
		}
	}
}

// renameIn has one service use the new names.
func (l *load) renameIn(key string, s *types.ServiceConfig) {
	networks := map[string]*types.ServiceNetworkConfig{}
	for name, n := range s.Networks {
		if written := l.names.back("services", key); written != key {
			one := types.ServiceNetworkConfig{}
			if n != nil {
				one = *n
			}
			one.Aliases = append(slices.Clone(one.Aliases), written)
			n = &one
		}
		networks[l.names.of("networks", name)] = n
	}
	if s.Name = key; s.Networks != nil {
		s.Networks = networks
	}
	depends := types.DependsOnConfig{}
	for name, d := range s.DependsOn {
		depends[l.names.of("services", name)] = d
	}
	if s.DependsOn != nil {
		s.DependsOn = depends
	}
	for i := range s.Volumes {
		if s.Volumes[i].Type == types.VolumeTypeVolume {
			s.Volumes[i].Source = l.names.of("volumes", s.Volumes[i].Source)
		}
	}
	for i, text := range s.VolumesFrom {
		name, mode, ok := strings.Cut(text, ":")
		if s.VolumesFrom[i] = l.names.of("services", name); ok {
			s.VolumesFrom[i] += ":" + mode
		}
	}
	for _, mode := range []*string{&s.NetworkMode, &s.Ipc, &s.Pid} {
		if name, ok := strings.CutPrefix(*mode, types.ServicePrefix); ok {
			*mode = types.ServicePrefix + l.names.of("services", name)
		}
	}
}

// hostName is a name as hosts take it, or itself, which is refused with the other names.
func hostName(written string) string {
	return cmp.Or(strings.TrimLeft(strings.ToLower(written), "._-"), written)
}

// renameKeys renames the entries of a section. Two that would be called the same are
// a problem.
func renameKeys[V any](l *load, section string, in map[string]V) map[string]V {
	out := map[string]V{}
	for _, from := range slices.Sorted(maps.Keys(in)) {
		written := from
		if section == "services" {
			written = cmp.Or(l.former[from], from)
		}
		to := l.o.Prefix + hostName(written)
		_, declared := in[to]
		_, given := out[to]
		if written != from && (given || declared && l.former[to] == "") {
			l.addf([]string{section, from, steadyKey, "workspace"}, "another service is workspace %q: expected the name that service %q had before", to, from)
		} else if to != from && declared && written == from {
			l.addf([]string{section, from}, "%q and %q differ in capitals or in signs in front alone: expected names that differ otherwise", from, to)
		}
		if given && to != from && written == from {
			l.addf([]string{section, from}, "%q is called like another one when written in small letters: expected names that differ otherwise", from)
		}
		if to != from {
			if l.names[section] == nil {
				l.names[section] = map[string]string{}
			}
			l.names[section][from] = to
		}
		out[to] = in[from]
	}
	return out
}
