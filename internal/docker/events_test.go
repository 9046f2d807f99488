package docker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// outside is a set that every change by hand is made to.
func outside() spec.Set {
	s := spec.Set{
		Images:   []spec.Image{built("made", "1")},
		Networks: []spec.Network{{Name: "back"}, {Name: "front"}},
		Volumes:  []spec.Volume{{Name: "data"}, {Name: "spare"}},
		Workspaces: []spec.Workspace{{Name: "web", Image: "made", Command: sleeper("web"), Update: spec.Update{Monitor: 50},
			Networks: []spec.Attachment{{Network: "back", Aliases: []string{"site"}}, {Network: "front"}},
			Mounts:   []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data"}}}},
	}
	s.Workspaces[0].Limits.Memory = 64 << 20
	return s
}

// changes are those by hand, of a name and a thing, that something has to be done
// about.
func changes() (out []struct{ what, on string }) {
	add := func(what, on string) { out = append(out, struct{ what, on string }{what, on}) }
	for _, what := range []string{"stop", "kill", "remove", "rename", "pause", "update cpu shares", "update memory", "update restart policy",
		"disconnect", "connect anew without aliases", "connect to a network of somebody else"} {
		add(what, "web")
	}
	add("remove network", "front")
	add("remove volume", "spare")
	add("tag another", "made")
	add("remove tag", "made")
	return out
}

// shape is all that changes by hand can change, as the engine shows it.
func (w *world) shape() string {
	out := map[string]any{}
	for _, c := range w.own("") {
		i, err := w.api.ContainerInspect(w.ctx, c.ID, client.ContainerInspectOptions{})
		if err != nil {
			continue // gone meanwhile
		}
		x := i.Container
		nets := map[string][]string{}
		for name, e := range x.NetworkSettings.Networks {
			nets[name] = slices.DeleteFunc(slices.Clone(e.Aliases), func(a string) bool { return strings.HasPrefix(x.ID, a) })
		}
		out[x.Name] = []any{x.State.Status, x.Image, nets, x.HostConfig.Memory, x.HostConfig.MemorySwap, x.HostConfig.CPUShares, x.HostConfig.RestartPolicy}
	}
	for _, name := range []string{"back", "front"} {
		_, err := w.api.NetworkInspect(w.ctx, w.owner.Title(name), client.NetworkInspectOptions{})
		out["network "+name] = err == nil
	}
	for _, name := range []string{"data", "spare"} {
		_, err := w.api.VolumeInspect(w.ctx, w.owner.Title(name), client.VolumeInspectOptions{})
		out["volume "+name] = err == nil
	}
	for _, ref := range w.refs(w.owner.Title("made")) {
		if i, err := w.api.ImageInspect(w.ctx, ref); err == nil {
			out["image "+ref] = i.ID
		}
	}
	text, err := json.MarshalIndent(out, "", " ")
	w.ok(err)
	return string(text)
}

// repaired makes every change by hand, and waits until all is as before, by what
// the agent did.
func (w *world) repaired() {
	w.t.Helper()
	stranger := w.n.Name("stranger")
	_, err := w.api.NetworkCreate(w.ctx, stranger, client.NetworkCreateOptions{})
	w.ok(err)
	w.declare(outside())
	w.settled()
	w.run("web", "sh", "-c", "echo kept >/data/f")
	for _, x := range changes() {
		before, wrote := w.shape(), w.a.engine.Calls().Writes
		change := func() {
			w.t.Helper()
			if x.what == "connect to a network of somebody else" {
				_, err = w.api.NetworkConnect(w.ctx, stranger, client.NetworkConnectOptions{Container: w.owner.Title(x.on)})
			} else {
				err = byHandOn(w, x.what, x.on)
			}
			if err != nil {
				w.t.Fatalf("%s %s: %v", x.what, x.on, err)
			}
		}
		change()
		futile := time.Now().Add(10 * time.Second)
		w.until(x.what+" "+x.on+" is not repaired", func() (bool, string) {
			words, err := w.a.unsettled(w.ctx)
			w.ok(err)
			idle := w.a.engine.Calls().Writes == wrote
			if idle && time.Now().Before(futile) || words != "" {
				return false, words // the engine has other things to do than to be asked
			}
			now := w.shape()
			if now == before && idle {
				// The engine took the change and made none: nothing is to be seen.
				w.t.Logf("%s %s changed nothing; once more", x.what, x.on)
				futile = time.Now().Add(10 * time.Second)
				change()
			}
			return now == before && !idle, fmt.Sprintf("before %s\nnow %s", before, now)
		})
		if got := w.run("web", "cat", "/data/f"); got != "kept\n" {
			w.t.Fatalf("%s: data %q", x.what, got)
		}
	}
	w.right(outside())
}

// TestOutsideChangesAreSeenByEvents: every change by hand is cured although
// nothing is looked at by the clock: only events can have told.
func TestOutsideChangesAreSeenByEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.repaired()
}

// TestOutsideChangesAreSeenWithoutEvents: the same by looking at everything again
// and again, on an engine that tells no events.
func TestOutsideChangesAreSeenWithoutEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.d.Proxy()
	p.Before(func(r dockertest.Request) dockertest.Outcome {
		if r.Path == "/events" {
			return dockertest.Fail
		}
		return dockertest.Pass
	})
	w.cfg.Socket, w.cfg.Resync = p.Socket(), 300
	w.start()
	w.repaired()
}

// TestOutsideChangesAreReportedByPolicy: what is declared to report only is left
// as people changed it, and the agent says so; a new declaration counts again.
func TestOutsideChangesAreReportedByPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	s := outside()
	s.Workspaces[0].ReportOnly = true
	w.declare(s)
	w.settled()
	for _, what := range []string{"update cpu shares", "disconnect", "stop"} {
		wrote := w.a.engine.Calls().Writes
		w.ok(byHandOn(w, what, "web"))
		before := w.shape()
		w.until(what+" is not reported", func() (bool, string) {
			r := w.row(spec.KindWorkspace, "web")
			if what == "stop" {
				return r.Reason.Code == spec.CodeStopped, fmt.Sprint(r.Phase, r.Reason)
			}
			return r.Reason.Code == "drift-reported", fmt.Sprint(r.Phase, r.Reason)
		})
		w.looked(engine.TriggerOperator)
		if w.shape() != before || w.a.engine.Calls().Writes != wrote {
			t.Errorf("%s was not left alone: %s\n%s", what, before, w.shape())
		}
	}
	s.Workspaces[0].ReportOnly = false
	w.declare(s)
	w.settled()
	w.right(s)
}

// TestGivenUpIsTriedAnew: an engine that starts anew is a new circumstance for what was given up before.
func TestGivenUpIsTriedAnew(t *testing.T) {
	t.Parallel()
	w := worldOn(t, dockertest.Private(t))
	w.start()
	dir := t.TempDir()
	w.declare(spec.Set{Images: []spec.Image{plain("plain")}, Workspaces: []spec.Workspace{{Name: "web", Image: "plain", StopSignal: "KILL", Update: spec.Update{Monitor: 50},
		Command: []string{"sh", "-c", "test -f /data/cure && sleep 100000"}, Mounts: []spec.Mount{{Type: spec.MountBind, Source: dir, Target: "/data"}}}}})
	w.until("it is not given up", func() (bool, string) {
		row, err := w.a.rows.Get(w.ctx, engine.Ref{Kind: spec.KindWorkspace, ID: "web"})
		if errors.Is(err, reconcile.ErrNotFound) {
			return false, err.Error()
		}
		w.ok(err)
		return row.Phase == engine.Failed, row.Reason.String()
	})
	w.ok(os.WriteFile(filepath.Join(dir, "cure"), nil, 0o644))
	w.d.Restart()
	w.converged()
	w.one("web", true)
}
