package storage

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestScrubLeavesNothing: what an engine makes of the changes passes the check,
// nothing that was kept is lost, and a change that was not carried out is found.
func TestScrubLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"A", "B_TOKEN", "C", "D_PASSWORD", "E"}
		var env, stored, keep []string
		for _, n := range names {
			if rapid.Bool().Draw(t, n) {
				env = append(env, n+"=value-of-"+n)
			}
			if rapid.IntRange(0, 2).Draw(t, "stored") == 0 {
				stored = append(stored, n)
			}
			if rapid.IntRange(0, 3).Draw(t, "keep") == 0 {
				keep = append(keep, n)
			}
		}
		labels := map[string]string{"theirs": "x", convert.LabelOwner: "f/h", convert.LabelKind: "workspace"}
		if rapid.Bool().Draw(t, "restored") {
			labels[labelName] = "earlier"
		}
		p := Scrub(env, labels, stored, keep)
		own := map[string]string{labelName: "snap"}
		seenEnv, seenLabels := apply(env, labels, p.Changes(own))
		if left := p.Left(seenEnv, seenLabels, seenEnv); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
		if seenLabels["theirs"] != "x" || seenLabels[labelName] != "snap" || seenLabels[convert.LabelOwner] != "" {
			t.Fatalf("labels: %v", seenLabels)
		}
		for i, line := range env {
			name, _, _ := strings.Cut(line, "=")
			inKeep, inStore := contains(keep, name), contains(stored, name)
			gone := strings.HasSuffix(seenEnv[i], "=")
			if gone != (!inKeep && (inStore || secret.Likely(name, ""))) {
				t.Fatalf("%s is now %s", line, seenEnv[i])
			}
		}
		if len(p.Env) > 0 && len(p.Left(env, labels, nil)) == 0 {
			t.Fatal("what was not taken out is not found")
		}
	})
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// apply does what an engine does with changes.
func apply(env []string, labels map[string]string, changes []string) ([]string, map[string]string) {
	outEnv, outLabels := append([]string(nil), env...), map[string]string{}
	for k, v := range labels {
		outLabels[k] = v
	}
	for _, c := range changes {
		what, rest, _ := strings.Cut(c, " ")
		k, v, _ := strings.Cut(rest, "=")
		if what == "LABEL" {
			outLabels[k] = strings.Trim(v, `"`)
			continue
		}
		for i := range outEnv {
			if strings.HasPrefix(outEnv[i], k+"=") {
				outEnv[i] = k + "=" + v
			}
		}
	}
	return outEnv, outLabels
}

// TestSnapshotDecide: a take is made at most once, only of a settled workspace
// that runs, and never over somebody else's image.
func TestSnapshotDecide(t *testing.T) {
	m := NewSnapshots(SnapshotOptions{})
	testkit.Must(t, SnapshotPolicy().WithDefaults().Validate())
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SampledFrom([]string{"", "x", "y"})
		o := SnapshotObserved{Ref: "r", ID: ids.Draw(t, "id"), Known: rapid.Bool().Draw(t, "known"), Deployed: rapid.Bool().Draw(t, "settled"),
			Container: ids.Draw(t, "container"), Short: rapid.SampledFrom([]string{"", "full"}).Draw(t, "short")}
		o.Ours = o.ID != "" && rapid.Bool().Draw(t, "ours")
		o.Take = rapid.Int64Range(0, 2).Draw(t, "take of the image")
		if o.Known {
			o.Newest = image.Image{ID: "x", Take: rapid.Int64Range(0, 2).Draw(t, "taken")}
			o.NewestThere = o.ID == "x" || rapid.Bool().Draw(t, "there")
		}
		r := engine.Resource[DesiredSnapshot]{Delete: rapid.Bool().Draw(t, "retire"), Desired: DesiredSnapshot{Spec: spec.Snapshot{Name: "s", Workspace: "w", Take: rapid.Int64Range(0, 2).Draw(t, "take")}}}
		d := m.Decide(engine.View[DesiredSnapshot, SnapshotObserved]{Resource: r, Observed: o, Now: time.UnixMilli(5)})
		if a, ok := d.Action().(Capture); ok {
			mine := o.Ours || o.Known && o.Newest.ID == o.ID
			if r.Delete || !o.Deployed || o.Container == "" || o.Short != "" || o.Known && o.Newest.Take == a.Take || o.ID != "" && !mine {
				t.Fatalf("taken with %+v", o)
			}
		}
		if d.Name() == "converged" && !r.Delete && !(o.Known && o.Newest.Take == r.Desired.Spec.Take && o.Newest.ID == o.ID) {
			t.Fatalf("converged with %+v", o)
		}
	})
}
