package api_test

import (
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// passed are stages that a resource of each kind goes through, and the words for them. Real ones pass
// too quickly for a browser to be sure to see them.
var passed = []struct {
	spec.Stage
	is spec.State
}{
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Pending}, spec.DeploymentPending},
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Acting, Action: "create"}, spec.Deploying},
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Verifying, Action: "start"}, spec.Starting},
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Converged}, spec.RunningState},
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Converged, Code: spec.CodeSnapshotting}, spec.Snapshotting},
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Failed}, spec.ErrorState},
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Acting, Action: "stop"}, spec.Stopping},
	{spec.Stage{Kind: spec.KindWorkspace, Phase: engine.Converged, Code: spec.CodeStopped}, spec.StoppedState},
	{spec.Stage{Kind: spec.KindImage, Phase: engine.Pending}, spec.ImagePending},
	{spec.Stage{Kind: spec.KindImage, Phase: engine.Acting}, spec.ImageBuilding},
	{spec.Stage{Kind: spec.KindImage, Phase: engine.Failed, Code: spec.CodeCancelled}, spec.ImageCancelled},
	{spec.Stage{Kind: spec.KindImage, Phase: engine.Failed}, spec.ImageFailed},
	{spec.Stage{Kind: spec.KindImage, Phase: engine.Converged}, spec.ImageFinished},
	{spec.Stage{Kind: spec.KindSnapshot, Phase: engine.Pending}, spec.Waiting},
	{spec.Stage{Kind: spec.KindSnapshot, Phase: engine.Acting}, spec.Snapshotting},
	{spec.Stage{Kind: spec.KindSnapshot, Phase: engine.Converged}, spec.Ready},
	{spec.Stage{Kind: spec.KindVolume, Phase: engine.Acting}, spec.Applying},
	{spec.Stage{Kind: spec.KindVolume, Phase: engine.Converged}, spec.Ready},
	{spec.Stage{Kind: spec.KindVolume, Phase: engine.Deleting}, spec.Removing},
}

// Each state that an agent reports of a resource is on the pages of it, and whoever points at it is told
// what it means and what comes next.
func TestBrowserShowsEveryState(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: ", managed: [image, snapshot, volume, workspace], bounds: {images: [registry.example/app]}"})
	for kind, document := range map[string]string{
		spec.KindWorkspace: `{"image":"registry.example/app:1"}`, spec.KindImage: `{"ref":"registry.example/app:1","pull":{}}`,
		spec.KindSnapshot: `{"workspace":"web"}`, spec.KindVolume: `{}`,
	} { // order-free: each by itself
		testkit.Value(w.op.SetResource(w.ctx(), a.name, kind, "web", resource(document)))(t)
	}
	list, own := w.browser(t, w.adminSecret(), "/"), w.browser(t, w.adminSecret(), "/")
	for i, s := range passed {
		state := spec.Known.StateOf(s.Stage) // as agents word it
		if state != s.is {
			t.Errorf("%+v is worded %s, expected %s", s.Stage, state, s.is)
		}
		if i == 0 || passed[i-1].Kind != s.Kind {
			list.Go(w.server.OperatorURL() + "/workspaces?kind=" + s.Kind)
			own.Go(w.server.OperatorURL() + "/workspaces/" + a.name + "/" + s.Kind + "/web")
		}
		a.append(event.ResourceReported{Resource: s.Kind + "/web", Phase: s.Phase, Reason: s.Code, State: string(state), Layer: event.LayerManaged})
		testkit.Must(t, a.send())
		for _, p := range []*browse.Page{list, own} {
			tells(t, p, string(state))
		}
	}
}

// tells waits for the word of a state, and for its meaning where the pointer rests on it.
func tells(t *testing.T, p *browse.Page, state string) {
	t.Helper()
	k := slices.IndexFunc(spec.Meanings, func(m prose.Meaning) bool { return m.Word == state })
	if k < 0 {
		t.Fatalf("nobody says what %s means", state)
	}
	p.Hover("button", state)
	p.In("note", "").WaitText(spec.Meanings[k].Means)
	p.In("note", "").WaitText("Next: " + spec.Meanings[k].Next)
}
