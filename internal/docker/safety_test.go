package docker_test

import (
	"fmt"
	"strings"
	"testing"

	mobyc "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// thing is something on the engine that is not this host's: its labels are some
// of this host's, and its name is near one of them, but not all is right.
type thing struct {
	kind, name string
	labels     map[string]string
	runs       bool
}

// leftBehind reports whether all labels agree with each other and with the name:
// something of this host that was declared before under the name on the label.
func (x *thing) leftBehind(w *world, kind string) bool {
	l := x.labels
	if l[convert.LabelOwner] != w.owner.ID() || l[convert.LabelKind] != kind || l[convert.LabelName] == "" {
		return false
	}
	title := l[convert.LabelTitle]
	if x.kind != "container" {
		return x.name == title
	}
	return l[convert.LabelReplica] == "1" && (x.name == title || x.name == title+".1.new" || x.name == title+".1.old")
}

// things draws what others may have: labels that are right, wrong and missing, on
// names that this host uses, would use, and does not.
func things(w *world) *rapid.Generator[[]thing] {
	return rapid.Custom(func(t *rapid.T) []thing {
		var out []thing
		used := map[string]bool{}
		for range rapid.IntRange(3, 6).Draw(t, "things") {
			x := thing{kind: rapid.SampledFrom([]string{"container", "container", "network", "volume", "image"}).Draw(t, "kind"),
				runs: rapid.Bool().Draw(t, "runs"), labels: map[string]string{}}
			kind := map[string]string{"container": "workspace"}[x.kind]
			if kind == "" {
				kind = x.kind
			}
			of := rapid.SampledFrom([]string{"web", "back", "data", "made"}).Draw(t, "of")
			suffix := rapid.SampledFrom([]string{"", ".1.new", ".1.old", ".2.old", ".x", "-1"}).Draw(t, "suffix")
			x.name = w.owner.Title(of) + suffix
			if used[x.kind+x.name] {
				continue
			}
			used[x.kind+x.name] = true
			right := map[string]string{convert.LabelOwner: w.owner.ID(), convert.LabelKind: kind, convert.LabelName: of,
				convert.LabelTitle: w.owner.Title(of), convert.LabelReplica: "1"}
			for _, l := range []string{convert.LabelOwner, convert.LabelKind, convert.LabelName, convert.LabelTitle, convert.LabelReplica} {
				switch rapid.SampledFrom([]string{"right", "right", "wrong", "missing"}).Draw(t, l) {
				case "right":
					x.labels[l] = right[l]
				case "wrong":
					x.labels[l] = rapid.SampledFrom([]string{"", "other", right[l] + "x"}).Draw(t, "value of "+l)
				default:
				}
			}
			// At least one of those that say whose it is has to be wrong.
			if x.labels[convert.LabelOwner] == right[convert.LabelOwner] && x.labels[convert.LabelKind] == kind && x.labels[convert.LabelName] == of {
				x.labels[rapid.SampledFrom([]string{convert.LabelOwner, convert.LabelKind, convert.LabelName}).Draw(t, "spoilt")] = "other"
			}
			if x.leftBehind(w, kind) {
				x.labels[rapid.SampledFrom([]string{convert.LabelOwner, convert.LabelKind}).Draw(t, "spoilt too")] = "other"
			}
			out = append(out, x)
		}
		return out
	})
}

// put makes a thing on the engine.
func (w *world) put(x thing) {
	w.t.Helper()
	var err error
	switch x.kind {
	case "container":
		var made client.ContainerCreateResult
		made, err = w.api.ContainerCreate(w.ctx, client.ContainerCreateOptions{Name: x.name, Config: configOf(w, x.labels),
			HostConfig: &mobyc.HostConfig{RestartPolicy: mobyc.RestartPolicy{Name: "no"}}})
		if err == nil && x.runs {
			_, err = w.api.ContainerStart(w.ctx, made.ID, client.ContainerStartOptions{})
		}
	case "network":
		_, err = w.api.NetworkCreate(w.ctx, x.name, client.NetworkCreateOptions{Labels: x.labels})
	case "volume":
		_, err = w.api.VolumeCreate(w.ctx, client.VolumeCreateOptions{Name: x.name, Labels: x.labels})
	case "image":
		lines := "FROM " + dockertest.BusyboxRef + "\n"
		for k, v := range x.labels {
			lines += fmt.Sprintf("LABEL %s=%q\n", k, v)
		}
		var r client.ImageBuildResult
		r, err = w.api.ImageBuild(w.ctx, dockertest.BuildContext(w.t, map[string]string{"Dockerfile": lines}), client.ImageBuildOptions{Tags: []string{x.name + ":1"}, Remove: true})
		if err == nil {
			err = drain(r.Body)
		}
	}
	if err != nil {
		w.t.Fatalf("%s %s: %v", x.kind, x.name, err)
	}
}

// asIs is the engine's own words on a thing.
func (w *world) asIs(x thing) string {
	w.t.Helper()
	var raw []byte
	var err error
	switch x.kind {
	case "container":
		var r client.ContainerInspectResult
		r, err = w.api.ContainerInspect(w.ctx, x.name, client.ContainerInspectOptions{})
		raw = r.Raw
	case "network":
		var r client.NetworkInspectResult
		r, err = w.api.NetworkInspect(w.ctx, x.name, client.NetworkInspectOptions{})
		raw = r.Raw
	case "volume":
		var r client.VolumeInspectResult
		r, err = w.api.VolumeInspect(w.ctx, x.name, client.VolumeInspectOptions{})
		raw = r.Raw
	case "image":
		var r client.ImageInspectResult
		r, err = w.api.ImageInspect(w.ctx, x.name+":1")
		raw = []byte(r.ID + strings.Join(r.RepoTags, " "))
	}
	if err != nil {
		return "gone: " + err.Error()
	}
	return string(raw)
}

// TestS35WhatOthersHaveIsLeftAlone: things of any kind with any mixture of this
// host's labels and names, but not all of what makes them this host's, are byte
// for byte as they were after a deployment, a replacement, the removal of
// everything and a prune.
func TestS35WhatOthersHaveIsLeftAlone(t *testing.T) {
	for seed := range stories(t, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cfg.Volumes = true
			there := things(w).Example(seed)
			before := make([]string, len(there))
			for i, x := range there {
				w.put(x)
				before[i] = w.asIs(x)
			}
			check := func(when string) {
				t.Helper()
				for i, x := range there {
					if now := w.asIs(x); now != before[i] {
						t.Errorf("S35: after %s %s %s with labels %v is not as it was:\n%s\n%s", when, x.kind, x.name, x.labels, before[i], now)
					}
				}
			}
			w.start()
			for version := range 3 {
				s := outside()
				s.Workspaces[0].Env = []spec.Env{{Name: "V", Value: fmt.Sprint(version)}}
				if version == 2 {
					s = spec.Set{}
				}
				w.declare(s)
				w.rested()
				check(fmt.Sprint("declaration ", version))
			}
			var said strings.Builder
			w.until("the prune fails", func() (bool, string) {
				err := w.a.host.Prune(w.ctx, false, &said) // engines trip over two removals at once of images of one parent
				return err == nil, fmt.Sprint(err)
			})
			check("a prune that said " + said.String())
		})
	}
}

// rested waits until all has converged, or waits or failed for what others have.
func (w *world) rested() {
	w.t.Helper()
	w.until("no rest", func() (bool, string) {
		words, err := w.a.unsettled(w.ctx)
		w.ok(err)
		if words == "" {
			return true, ""
		}
		for _, r := range w.rows() {
			switch {
			case r.Phase == engine.Deleted, r.Phase == engine.Converged, r.Phase == engine.Failed, r.Ref.Kind == "layer":
			case strings.Contains(string(r.Reason.Code), "taken"), strings.Contains(string(r.Reason.Code), "foreign"),
				r.Reason.Code == "prerequisite-missing", r.Reason.Code == "children-pending":
			default:
				return false, fmt.Sprint(r.Ref, r.Phase, r.Reason)
			}
		}
		return true, ""
	})
}

// TestS37NothingThatIsStillDeclaredIsTouched: declarations follow each other
// faster than they are carried out, and only what the newest one leaves out goes:
// what all of them have keeps its container and its start, and no volume goes.
func TestS37NothingThatIsStillDeclaredIsTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	keep := w.several(1)
	keep.Volumes = []spec.Volume{{Name: "data"}}
	keep.Workspaces[0].Mounts = []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data"}}
	w.declare(keep)
	w.settled()
	w.run("w0", "sh", "-c", "echo kept >/data/f")
	type at struct{ id, started string }
	before := map[string]at{}
	for _, x := range keep.Workspaces {
		c := w.one(x.Name, true)
		before[x.Name] = at{c.ID, c.State.StartedAt}
	}
	var last spec.Set
	for i := range 8 {
		last = w.several(1)
		last.Volumes = keep.Volumes
		last.Workspaces[0].Mounts = keep.Workspaces[0].Mounts
		for j := range i % 4 {
			last.Workspaces = append(last.Workspaces, spec.Workspace{Name: fmt.Sprint("x", (i+j)%5), Image: "plain",
				Command: sleeper(fmt.Sprint("x", i/4)), Update: spec.Update{Monitor: 50}})
		}
		w.declare(last)
		w.rest(i % 5)
	}
	w.settled()
	w.right(last)
	for name, was := range before {
		if c := w.one(name, true); c.ID != was.id || c.State.StartedAt != was.started {
			t.Errorf("S37: %s was declared all the time and is not as it was", name)
		}
	}
	if got := w.run("w0", "cat", "/data/f"); got != "kept\n" {
		t.Errorf("data %q", got)
	}
	w.declare(spec.Set{})
	w.converged()
	if _, err := w.api.VolumeInspect(w.ctx, w.owner.Title("data"), client.VolumeInspectOptions{}); err != nil {
		t.Errorf("S37: a volume went although none may: %v", err)
	}
}

// TestNothingIsLeftOfACreateThatIsNoLongerWanted: what is taken back while the
// engine makes it is not believed to be gone before the engine has answered.
func TestNothingIsLeftOfACreateThatIsNoLongerWanted(t *testing.T) {
	for path, kind := range map[string]string{"/containers/create": spec.KindWorkspace, "/networks/create": spec.KindNetwork} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.d.Proxy()
			w.cfg.Socket = p.Socket()
			asked, answer := make(chan struct{}, 16), make(chan struct{})
			p.Before(func(r dockertest.Request) dockertest.Outcome {
				if r.Path == path {
					asked <- struct{}{}
					<-answer
				}
				return dockertest.Pass
			})
			w.start()
			s := w.several(1)
			s.Networks, s.Workspaces = s.Networks[:1], s.Workspaces[:1]
			w.declare(s)
			<-asked
			w.declare(spec.Set{})
			w.until("the removal is not asked for", func() (bool, string) {
				r := w.row(kind, "w0")
				return r.Delete, string(r.Phase)
			})
			for range 5 { // turns of others, meanwhile
				w.a.loop.Enqueue(engine.Ref{Kind: kind, ID: "w0"}, engine.Cause{Trigger: engine.TriggerOperator})
				w.idle()
			}
			if r := w.row(kind, "w0"); r.Phase.Terminal() {
				t.Errorf("%s while the engine makes it", r.Phase)
			}
			close(answer)
			w.converged()
			w.right(spec.Set{})
			if _, err := w.api.NetworkInspect(w.ctx, w.owner.Title("w0"), client.NetworkInspectOptions{}); err == nil {
				t.Error("the network is left over")
			}
		})
	}
}
