package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Record keeps the documents of the moment when a container was made or changed in
// place: what was asked for and what the engine showed. Forms are not kept: they
// are computed again by whatever version reads them, so that a newer agent
// compares like with like and replaces nothing. No value of the host's secret store
// is in it.
type Record struct {
	Version int             `json:"version"` // of the record's own layout
	ID      string          `json:"id"`      // of the container; the record says nothing of another one
	Spec    json.RawMessage `json:"spec"`
	Inputs  json.RawMessage `json:"inputs"`
	Object  json.RawMessage `json:"object"` // the inspect document, trimmed
	// Env is digests of what was taken out of the object's environment.
	Env map[string]string `json:"env,omitempty"`
}

const recordVersion = 1

// RecordWorkspace keeps a container as it was asked for and as it is seen now.
func RecordWorkspace(d *spec.Deployment, in Inputs, c *container.InspectResponse) (Record, error) {
	in.Wanted = d
	out := Record{Version: recordVersion, ID: c.ID}
	var trimmed container.InspectResponse
	trimmed, out.Env = trim(c, &in)
	if c.HostConfig != nil {
		asked := *c.HostConfig // one that does not run yet has no policy
		asked.RestartPolicy = restartPolicy(&d.Workspace)
		trimmed.HostConfig = &asked
	}
	in.Image = trimImage(in.Image)
	for _, x := range []struct {
		from any
		to   *json.RawMessage
	}{{d, &out.Spec}, {in, &out.Inputs}, {trimmed, &out.Object}} {
		b, err := json.Marshal(x.from)
		if err != nil {
			return Record{}, fmt.Errorf("record of container %s: %w", c.ID, err)
		}
		*x.to = b
	}
	return out, nil
}

// Restart is the restart policy of the container while it runs: the one it was made with, or without a record the
// one of d.
func (r *Record) Restart(d *spec.Deployment) container.RestartPolicy {
	var made spec.Deployment
	if r != nil && json.Unmarshal(r.Spec, &made) == nil {
		d = &made
	}
	return restartPolicy(&d.Workspace)
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
	names := secretNames(cfg.Labels, in)
	cfg.Env = nil
	for _, line := range c.Config.Env {
		k, v, _ := strings.Cut(line, "=")
		if slices.Contains(names, k) || secret.Likely(k, v) {
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
		return nil, fmt.Errorf("record of container %s: it has layout %d and this agent reads %d: without it, what differs has an unknown cause", r.ID, r.Version, recordVersion)
	}
	var in Inputs
	var d spec.Deployment
	var c container.InspectResponse
	if err := errors.Join(json.Unmarshal(r.Inputs, &in), json.Unmarshal(r.Spec, &d), json.Unmarshal(r.Object, &c)); err != nil {
		return nil, fmt.Errorf("record of container %s: %w: without it, what differs has an unknown cause", r.ID, err)
	}
	in.Digest, in.Wanted = digest, &d
	want, err := Workspace(&d, in)
	if err != nil {
		return nil, fmt.Errorf("record of container %s: %w", r.ID, err)
	}
	seen := Observed(&c, in)
	for k, sum := range r.Env {
		seen["env/"+k] = sum
	}
	return &diff.Baseline{Desired: want, Observed: seen}, nil
}

// Compare does all at once for a container: both forms, the baseline if the
// record is of this very container, and the rules. A record that cannot be read
// is as good as none; the error stands beside the result.
func Compare(d *spec.Deployment, in Inputs, c *container.InspectResponse, rec *Record, rules diff.WorkspaceRules) ([]diff.Difference, error) {
	in.Wanted = d
	want, err := Workspace(d, in)
	if err != nil {
		return nil, err
	}
	var base *diff.Baseline
	var unread error
	if rec != nil && rec.ID == c.ID {
		base, unread = Baseline(*rec, in.Digest)
	}
	seen := Observed(c, in)
	ds := diff.Compare(want, seen, base, rules)
	exclusive(ds, seen)
	return ds, unread
}

// CompareMade compares what never changes, such as a network, by the declaration that
// it was made from, as its label has it, so that nothing which an engine fills in or
// spells otherwise counts. A label of another version, or put there by hand, is none.
func CompareMade[S any](want *S, form func(*S) diff.Form, seen diff.Form, label string, rules diff.Rules) []diff.Difference {
	var base *diff.Baseline
	var made S
	if json.Unmarshal([]byte(label), &made) == nil {
		base = &diff.Baseline{Desired: form(&made), Observed: seen}
	}
	return diff.Compare(form(want), seen, base, rules)
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
