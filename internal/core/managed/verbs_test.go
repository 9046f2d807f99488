package managed_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestVerbsThatAreOfferedAreAccepted: what is said to be possible of a resource is decided, and what is not is refused
// in the same words, but for what would change nothing.
func TestVerbsThatAreOfferedAreAccepted(test *testing.T) {
	names := []string{"ours", "theirs", "db", "none"}
	seen := map[managed.ResourceVerb]int{}
	rapid.Check(test, func(t *rapid.T) {
		l, v := newLedger(test), shared("workspace", "image")
		v.Bundle = &spec.Set{Workspaces: []spec.Workspace{{Name: "db"}}}
		testkit.Must(t, l.setAs(spec.Operators, v, "workspace", "ours", web))
		testkit.Must(t, l.setAs(lab, v, "workspace", "theirs", web))
		if rapid.Bool().Draw(t, "undelegated") {
			v.Delegation.Kinds = []string{"image"}
		}
		if rapid.Bool().Draw(t, "stopped") && len(v.Delegation.Kinds) == 2 {
			testkit.Must(t, l.askAs(spec.Operators, v, "workspace", "ours", spec.VerbStop))
		}
		name, state := rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom([]string{"", "Running", "Stopped"}).Draw(t, "state")
		for _, offered := range managed.VerbsOf(l.s, v, "workspace", name, state) {
			var err error
			switch offered.Verb {
			case managed.VerbSet:
				if name == "none" {
					continue // it would make one, and that is no verb of what is there
				}
				_, err = managed.Set(l.s, v, managed.Input{Kind: "workspace", Name: name, Spec: json.RawMessage(web)}, l.as(spec.Operators))
			case managed.VerbRemove:
				_, err = managed.Remove(l.s, v, "workspace", name, true, l.as(spec.Operators))
			default:
				_, err = managed.RequestVerb(l.s, v, "workspace", name, offered.Verb, "n", l.as(spec.Operators))
			}
			idle := offered.Verb == spec.VerbStart && state == "Running" || offered.Verb == spec.VerbStop && state == "Stopped"
			if offered.Possible != (err == nil && !idle) || !offered.Possible && offered.Message == "" {
				t.Fatalf("%+v of %s, which is %q, and deciding on it comes to %v", offered, name, state, err)
			}
			seen[managed.ResourceVerb{Verb: offered.Verb, Possible: offered.Possible}]++
		}
	})
	for _, verb := range []string{spec.VerbStart, spec.VerbStop, spec.VerbRestart, managed.VerbSet, managed.VerbRemove} {
		if seen[managed.ResourceVerb{Verb: verb, Possible: true}] == 0 || seen[managed.ResourceVerb{Verb: verb}] == 0 {
			test.Errorf("%s was not seen both ways: %v", verb, seen)
		}
	}
}
