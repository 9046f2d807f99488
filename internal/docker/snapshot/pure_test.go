package snapshot

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/ledger"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestSecretish(t *testing.T) {
	for line, want := range map[string]bool{
		"DB_PASSWORD=x": true, "githubToken=x": true, "AWS_SECRET_ACCESS_KEY=x": true, "DB_PWD=x": true, "REDIS_AUTH=x": true,
		"URL=postgres://u:p@h/d": true, "URL=https://h/?a=b": false, "URL=https://u@h/": false, "URL=:// %zz@x": true,
		"PWD=/": false, "OLDPWD=/": false, "PATH=/bin": false, "KEYBOARD=de": false, "AUTHOR=me": false,
	} {
		name, value, _ := strings.Cut(line, "=")
		if Secretish(name, value) != want {
			t.Errorf("%s: expected %v", line, want)
		}
	}
}

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
		labels := map[string]string{"theirs": "x", ownership.LabelOwner: "f/h", ownership.LabelKind: "workspace"}
		if rapid.Bool().Draw(t, "restored") {
			labels[labelName] = "earlier"
		}
		p := Scrub(env, labels, stored, keep)
		own := map[string]string{labelName: "snap"}
		seenEnv, seenLabels := apply(env, labels, p.Changes(own))
		if left := p.Left(seenEnv, seenLabels, seenEnv); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
		if seenLabels["theirs"] != "x" || seenLabels[labelName] != "snap" || seenLabels[ownership.LabelOwner] != "" {
			t.Fatalf("labels: %v", seenLabels)
		}
		for i, line := range env {
			name, _, _ := strings.Cut(line, "=")
			inKeep, inStore := contains(keep, name), contains(stored, name)
			gone := strings.HasSuffix(seenEnv[i], "=")
			if gone != (!inKeep && (inStore || Secretish(name, ""))) {
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
	m := New(Options{})
	if err := Policy().WithDefaults().Validate(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SampledFrom([]string{"", "x", "y"})
		o := Observed{Ref: "r", ID: ids.Draw(t, "id"), Known: rapid.Bool().Draw(t, "known"), Settled: rapid.Bool().Draw(t, "settled"),
			Container: ids.Draw(t, "container"), Short: rapid.SampledFrom([]string{"", "full"}).Draw(t, "short")}
		o.Ours = o.ID != "" && rapid.Bool().Draw(t, "ours")
		o.Take = rapid.Int64Range(0, 2).Draw(t, "take of the image")
		if o.Known {
			o.Taken = ledger.Image{ID: "x", Take: rapid.Int64Range(0, 2).Draw(t, "taken")}
			o.TakenThere = o.ID == "x" || rapid.Bool().Draw(t, "there")
		}
		r := engine.Resource[Desired]{Retire: rapid.Bool().Draw(t, "retire"), Desired: Desired{Spec: spec.Snapshot{Name: "s", Workspace: "w", Take: rapid.Int64Range(0, 2).Draw(t, "take")}}}
		d := m.Decide(engine.View[Desired, Observed]{Resource: r, Observed: o, Now: 5})
		if a, ok := d.Action().(Take); ok {
			mine := o.Ours || o.Known && o.Taken.ID == o.ID
			if r.Retire || !o.Settled || o.Container == "" || o.Short != "" || o.Known && o.Taken.Take == a.Take || o.ID != "" && !mine {
				t.Fatalf("taken with %+v", o)
			}
		}
		if d.Name() == "converged" && !r.Retire && !(o.Known && o.Taken.Take == r.Desired.Spec.Take && o.Taken.ID == o.ID) {
			t.Fatalf("converged with %+v", o)
		}
	})
}
