package sessions

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// guarded is a pod with a secret.
func guarded(name string) session.Pod {
	p := pod(name, 0)
	p.Secrets = []string{"password"}
	p.Workloads = append(p.Workloads,
		session.Workload{Kind: "image", Name: name + "-box", Spec: json.RawMessage(`{"ref":"box:1","pull":{"policy":"never"}}`)},
		session.Workload{Kind: "workspace", Name: name + "-box", Spec: json.RawMessage(`{"image":"` + name + `-box","env":[{"name":"PASSWORD","secret":"password"}]}`)})
	return p
}

// given are the pods whose secrets a host is handed now.
func (w *world) given(host string) (pods []string) {
	refs, err := w.runner.SecretsOn(context.Background(), host)
	w.check(err)
	for _, r := range refs {
		pods = append(pods, r.Session+"/"+r.Part+"/"+r.Pod)
	}
	return pods
}

// TestSecretsAreHandedToTheirHostAlone: a secret is handed to the host on which its pod is, from when that is set
// until the pod is to go, over restarts of the server; and no rule of a host lets a session name another's.
func TestSecretsAreHandedToTheirHostAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		defer w.close()
		spec := session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{guarded("one"), guarded("two")}}}}
		spec.Parts[0].Pods[0].Selector.Hosts, spec.Parts[0].Pods[1].Selector.Hosts = []string{"a"}, []string{"b"}
		w.check(w.runner.Create(context.Background(), "lab", spec, nil, "ann"))
		pass(30 * time.Second)
		if got := slices.Concat(w.given("a"), w.given("b")); len(got) != 0 {
			t.Fatalf("before their time: %v", got)
		}
		pass(2 * time.Minute)
		expect := func(a, b string) {
			t.Helper()
			if gotA, gotB := strings.Join(w.given("a"), " "), strings.Join(w.given("b"), " "); gotA != a || gotB != b {
				t.Fatalf("a is given %q and b %q; want %q and %q", gotA, gotB, a, b)
			}
		}
		expect("lab/p/one", "lab/p/two")
		w.restart()
		expect("lab/p/one", "lab/p/two")
		refs := testkit.Value(w.runner.SecretsOf(context.Background(), "lab"))(t)
		if len(refs) != 2 {
			t.Fatalf("%+v", refs)
		}
		w.online("b", false)
		w.check(w.runner.Stop(context.Background(), "lab", "ann"))
		pass(time.Minute)
		expect("", "") // b still has it in its layer, and is away
		w.online("b", true)
		pass(time.Minute)
		w.want("lab", session.Retired)
		w.check(w.runner.Create(context.Background(), "lab", session.Spec{Timeslot: slot(), Parts: spec.Parts[:1]}, nil, "ann"))
		again := testkit.Value(w.runner.SecretsOf(context.Background(), "lab"))(t)
		if again[0].String() == refs[0].String() || again[0].Value([]byte("k")) == refs[0].Value([]byte("k")) {
			t.Error("a later session has the secret of the one before")
		}
	})
}

// TestSecretsOfTheHostAreOutOfReach: neither the file of a session nor its entries name a secret of the host, not even
// one that its declaration leaves to operators.
func TestSecretsOfTheHostAreOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		defer w.close()
		w.bounds("a", func(b *spec.Bounds) { b.Secrets = []string{"db-password"} })
		p := guarded("one")
		p.Workloads[2].Spec = json.RawMessage(`{"image":"one-box","env":[{"name":"PASSWORD","secret":"password"},{"name":"STOLEN","secret":"db-password"}]}`)
		err := w.runner.Create(context.Background(), "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{p}}}}, nil, "ann")
		if !strings.Contains(textOf(err), `names secret "db-password": a session has no secrets but its own`) {
			t.Fatalf("%v", err)
		}
		target := testkit.Value(w.Target(context.Background(), "a"))(t)
		in := managed.Input{Kind: "workspace", Name: "x", Spec: json.RawMessage(`{"image":"i","env":[{"name":"A","secret":"db-password"}]}`)}
		testkit.Value(managed.Check(target, in, ""))(t)
		if _, err := managed.Check(target, in, "session/lab"); err == nil || !strings.Contains(err.Error(), `secret "db-password" is not of session lab`) {
			t.Errorf("%v", err)
		}
		in.Spec = json.RawMessage(`{"image":"i","env":[{"name":"A","secret":"session/lab/1/p/one/password"}]}`)
		testkit.Value(managed.Check(target, in, "session/lab"))(t)
		if _, err := managed.Check(target, in, "session/other"); err == nil || !strings.Contains(err.Error(), "is not of session other") {
			t.Errorf("%v", err)
		}
		if _, err := managed.Check(target, in, ""); err == nil || !strings.Contains(err.Error(), "is of session lab") {
			t.Errorf("%v", err)
		}
	})
}

// TestAgentsThatKnowNoSecrets: what an older agent refuses is said with the reason that it is older.
func TestAgentsThatKnowNoSecrets(t *testing.T) {
	for message, older := range map[string]bool{
		`refused: workspace/x: env.0: secret "session/lab/1/p/one/password" of the host is not allowed here: expected one of []`: true,
		`refused: volume/x: the spec cannot be read: json: unknown field "keep"`:                                                 true,
		`refused: workspace/x: env.0: secret "db" of the host is not allowed here: expected one of []`:                           false,
	} {
		if got := olderAgent(message); (got != "") != older {
			t.Errorf("%s: %q", message, got)
		}
	}
}
