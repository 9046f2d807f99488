package form

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/volume"

	core "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
)

// Record keeps the documents of the moment when a thing was made or changed in
// place: what was asked for and what the engine showed. Forms are not kept: they
// are computed again by whatever version reads them, so that a newer agent
// compares like with like and replaces nothing. No value of the host's secret store
// is in it.
type Record struct {
	Version int    `json:"version"` // of the record's own layout
	Kind    string `json:"kind"`
	// ID of the container or network, name of the volume. The record says nothing
	// of another one.
	ID     string          `json:"id"`
	Spec   json.RawMessage `json:"spec"`
	Inputs json.RawMessage `json:"inputs"`
	Object json.RawMessage `json:"object"` // the inspect document, trimmed
	// Env is digests of what was taken out of the object's environment.
	Env map[string]string `json:"env,omitempty"`
}

const recordVersion = 1

// RecordWorkspace keeps a container as it was asked for and as it is seen now.
func RecordWorkspace(d *core.Deployment, in Inputs, c *container.InspectResponse) (Record, error) {
	in.Wanted = d
	trimmed, env := trim(c, &in)
	in.Image = trimImage(in.Image)
	return record(core.KindWorkspace, c.ID, d, in, trimmed, env)
}

// RecordNetwork keeps a network likewise.
func RecordNetwork(n *core.Network, name string, in Inputs, seen *network.Inspect) (Record, error) {
	kept := *seen
	kept.Containers, kept.Services, kept.Status, kept.Peers = nil, nil, nil, nil
	in.Name = name
	return record(core.KindNetwork, seen.ID, n, in, kept, nil)
}

// RecordVolume keeps a volume likewise.
func RecordVolume(v *core.Volume, name string, in Inputs, seen *volume.Volume) (Record, error) {
	kept := *seen
	kept.Status, kept.UsageData = nil, nil
	in.Name = name
	return record(core.KindVolume, seen.Name, v, in, kept, nil)
}

func record(kind, id string, spec any, in Inputs, object any, env map[string]string) (Record, error) {
	out := Record{Version: recordVersion, Kind: kind, ID: id, Env: env}
	for _, x := range []struct {
		from any
		to   *json.RawMessage
	}{{spec, &out.Spec}, {in, &out.Inputs}, {object, &out.Object}} {
		b, err := json.Marshal(x.from)
		if err != nil {
			return Record{}, fmt.Errorf("record of %s %s: %w", kind, id, err)
		}
		*x.to = b
	}
	return out, nil
}

// trim leaves out what says nothing about the settings, and the values of
// secret variables.
func trim(c *container.InspectResponse, in *Inputs) (container.InspectResponse, map[string]string) {
	kept := container.InspectResponse{ID: c.ID, Name: c.Name, Image: c.Image, Platform: c.Platform, State: &container.State{},
		HostConfig: c.HostConfig, Mounts: c.Mounts, NetworkSettings: c.NetworkSettings}
	if c.Config == nil {
		return kept, nil
	}
	cfg, env := *c.Config, map[string]string{}
	secret := secretNames(cfg.Labels, in)
	cfg.Env = nil
	for _, line := range c.Config.Env {
		k, v, _ := strings.Cut(line, "=")
		if slices.Contains(secret, k) || Secretish(k, v) {
			env[k] = in.digest(v)
			continue
		}
		cfg.Env = append(cfg.Env, line)
	}
	kept.Config = &cfg
	return kept, env
}

func trimImage(i *image.InspectResponse) *image.InspectResponse {
	if i == nil {
		return nil
	}
	return &image.InspectResponse{ID: i.ID, Config: i.Config}
}

// Baseline computes both forms of a record with the code of now. Digest is the
// host's key; it computes what is digested of values that are no secrets of the
// store.
func Baseline(r Record, digest func(string) string) (*diff.Baseline, error) {
	if r.Version != recordVersion {
		return nil, fmt.Errorf("record of %s %s: it has layout %d and this agent reads %d: without it, what differs has an unknown cause", r.Kind, r.ID, r.Version, recordVersion)
	}
	var in Inputs
	if err := r.read(r.Inputs, &in); err != nil {
		return nil, err
	}
	in.Digest = digest
	switch r.Kind {
	case core.KindWorkspace:
		return r.workspace(in)
	case core.KindNetwork:
		var n core.Network
		var seen network.Inspect
		if err := r.both(&n, &seen); err != nil {
			return nil, err
		}
		return &diff.Baseline{Desired: Network(&n, in.Name, in), Observed: ObservedNetwork(&seen, in)}, nil
	case core.KindVolume:
		var v core.Volume
		var seen volume.Volume
		if err := r.both(&v, &seen); err != nil {
			return nil, err
		}
		return &diff.Baseline{Desired: Volume(&v, in.Name, in), Observed: ObservedVolume(&seen, in)}, nil
	}
	return nil, fmt.Errorf("record of %s %s: no such kind is recorded", r.Kind, r.ID)
}

func (r *Record) workspace(in Inputs) (*diff.Baseline, error) {
	var d core.Deployment
	var c container.InspectResponse
	if err := r.both(&d, &c); err != nil {
		return nil, err
	}
	in.Wanted = &d
	want, err := Workspace(&d, in)
	if err != nil {
		return nil, fmt.Errorf("record of %s %s: %w", r.Kind, r.ID, err)
	}
	seen := Observed(&c, in)
	for k, sum := range r.Env {
		seen["env/"+k] = sum
	}
	return &diff.Baseline{Desired: want, Observed: seen}, nil
}

func (r *Record) both(spec, object any) error {
	if err := r.read(r.Spec, spec); err != nil {
		return err
	}
	return r.read(r.Object, object)
}

func (r *Record) read(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("record of %s %s: %w: without it, what differs has an unknown cause", r.Kind, r.ID, err)
	}
	return nil
}

// Compare does all at once for a container: both forms, the baseline if the
// record is of this very container, and the rules. A record that cannot be read
// is as good as none; the error says so beside the result.
func Compare(d *core.Deployment, in Inputs, c *container.InspectResponse, rec *Record, rules diff.WorkspaceRules) ([]diff.Difference, error) {
	in.Wanted = d
	want, err := Workspace(d, in)
	if err != nil {
		return nil, err
	}
	var base *diff.Baseline
	var unread error
	if rec != nil && rec.Kind == core.KindWorkspace && rec.ID == c.ID {
		base, unread = Baseline(*rec, in.Digest)
	}
	seen := Observed(c, in)
	ds := diff.Compare(want, seen, base, rules)
	exclusive(ds, seen)
	return ds, unread
}

// exclusive has a container made anew that is to bound CPUs in the other of two
// ways: engines refuse to change to it, also where a default was said aloud.
func exclusive(ds []diff.Difference, seen diff.Form) {
	for i := range ds {
		other := ""
		switch ds[i].Field {
		case "limit/cpus":
			other = seen["limit/cpu-period"] + seen["limit/cpu-quota"]
		case "limit/cpu-period", "limit/cpu-quota":
			other = seen["limit/cpus"]
		}
		if other != "" && ds[i].Class == diff.InPlace {
			ds[i].Class, ds[i].Why = diff.Replace, "the engine does not change between CPUs and a period with a quota"
		}
	}
}

// SecretsOf lists the secrets that a deployment names, sorted.
func SecretsOf(d *core.Deployment) []string {
	names := map[string]bool{}
	for _, e := range d.Workspace.Env {
		names[e.Secret] = true
	}
	for _, c := range d.Workspace.Contents {
		names[c.Secret] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}
