package convert

import (
	"cmp"
	"maps"

	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Volume is the normal form of a declared volume with its name on the engine.
// An external one has none: there is nothing to compare.
func Volume(v *spec.Volume, name string, in Inputs) diff.Form {
	return ObservedVolume(&volume.Volume{Name: name, Driver: cmp.Or(v.Driver, "local"), Options: v.Options, Labels: v.Labels}, in)
}

// ObservedVolume is the normal form of a volume as an engine shows it.
func ObservedVolume(v *volume.Volume, in Inputs) diff.Form {
	f := diff.Form{"name": v.Name, "driver": v.Driver}
	pairs(f, "option", v.Options, &in)
	labels(f, v.Labels, &in)
	return f
}

// CreateVolume writes the request that makes a volume; own are the agent's
// labels. The engine gives back one that exists as it is: compare it.
func CreateVolume(v *spec.Volume, name string, own map[string]string) client.VolumeCreateOptions {
	return client.VolumeCreateOptions{Name: name, Driver: cmp.Or(v.Driver, "local"), DriverOpts: maps.Clone(v.Options), Labels: merged(v.Labels, own)}
}
