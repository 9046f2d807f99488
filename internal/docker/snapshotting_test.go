package docker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestSnapshottingIsShown: a workspace is Snapshotting while it is being captured for a snapshot,
// and Running before and after; that the engine pauses it meanwhile is undone by nobody.
func TestSnapshottingIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.d.Proxy()
	w.cfg.Socket = p.Socket()
	w.start()
	set := spec.Set{Images: []spec.Image{plain("base")},
		Workspaces: []spec.Workspace{{Name: "web", Image: "base", Command: sleeper("here"), Update: spec.Update{Monitor: 50}}}}
	w.declare(set)
	w.converged()
	n := w.a.count()
	commit := make(chan struct{})
	p.Before(func(r dockertest.Request) dockertest.Outcome {
		if r.Path == "/commit" {
			<-commit
		}
		return dockertest.Pass
	})
	set.Snapshots = []spec.Snapshot{{Name: "copy", Workspace: "web", Take: 1}}
	w.declare(set)
	state := func() spec.State {
		r := w.row(spec.KindWorkspace, "web")
		return spec.Known.StateOf(spec.Stage{Kind: spec.KindWorkspace, Phase: r.Phase, Code: r.Reason.Code})
	}
	w.until("it is not Snapshotting", func() (bool, string) { return state() == spec.Snapshotting, string(state()) })
	// As engines do for the time of a commit.
	id := w.one("web", true).ID
	_, err := w.api.ContainerPause(w.ctx, id, client.ContainerPauseOptions{})
	w.ok(err)
	ref, since := engine.Ref{Kind: spec.KindWorkspace, ID: "web"}, time.Now()
	w.until("no look at it", func() (bool, string) {
		w.a.loop.Enqueue(ref, engine.Cause{Trigger: engine.TriggerOperator, ID: "look"})
		last := w.a.loop.LastTurn(w.ctx, ref)
		return last.At.After(since) && !last.Acting, last.Decision
	})
	if x := w.inspect(id); !x.State.Paused {
		t.Error("the agent ended the engine's pause")
	}
	_, err = w.api.ContainerUnpause(w.ctx, id, client.ContainerUnpauseOptions{})
	w.ok(err)
	close(commit)
	w.converged()
	w.until("it is not Running again", func() (bool, string) { return state() == spec.RunningState, string(state()) })
	var states []spec.State
	for _, x := range w.a.transitions(n) {
		if x.Ref == ref {
			states = append(states, spec.Known.StateOf(spec.Stage{Kind: x.Ref.Kind, Phase: x.To, Code: x.Reason.Code, Action: x.Action}))
		}
	}
	if i := slices.Index(states, spec.Snapshotting); i < 0 || !slices.Equal(states[i:], []spec.State{spec.Snapshotting, spec.RunningState}) {
		t.Errorf("states %s", fmt.Sprint(states))
	}
}
