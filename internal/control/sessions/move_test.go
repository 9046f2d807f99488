package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/sessionfile"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestPodMovesWhenItsLeaseIsOver: nothing of a pod runs twice. It comes up elsewhere once the host that died has ended
// it by itself, and not before; where duplicates are allowed, soon.
func TestPodMovesWhenItsLeaseIsOver(t *testing.T) {
	for _, duplicates := range []string{"", session.DuplicatesAllowed} {
		inBubble(t, []string{"a", "b"}, func(w *world) {
			create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Moves: true, Duplicates: duplicates, Pods: []session.Pod{pod("p", 1)}}}})
			pass(15 * time.Minute)
			first := w.want("lab", session.Running).Parts[0].Pods[0].Host
			second := map[string]string{"a": "b", "b": "a"}[first]
			w.online(first, false)
			moved := 0
			for minute := range 20 {
				pass(time.Minute)
				here, there := len(w.runningOn(first)), len(w.runningOn(second))
				if duplicates == "" && here+there > 1 {
					t.Fatalf("after %d minutes the pod runs twice\n%s", minute, w.story("lab"))
				}
				if there == 1 && moved == 0 {
					moved = minute + 1
				}
			}
			if moved == 0 || duplicates != "" && moved > 4 || duplicates == "" && moved < 5 {
				t.Fatalf("moved after %d minutes, duplicates %q\n%s", moved, duplicates, w.story("lab"))
			}
			w.want("lab", session.Running)
			w.online(first, true)
			pass(time.Minute)
			if n := len(w.runningOn(first)); n != 0 {
				t.Fatalf("the host that returned runs %d workloads", n)
			}
			pass(time.Hour)
			w.want("lab", session.Retired)
		})
	}
}

// TestPodFailsWithItsHost: a part that does not move fails with a host that stays away, and says so.
func TestPodFailsWithItsHost(t *testing.T) {
	inBubble(t, []string{"a", "b"}, func(w *world) {
		create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 0)}}}})
		pass(15 * time.Minute)
		host := w.want("lab", session.Running).Parts[0].Pods[0].Host
		w.online(host, false)
		pass(session.HostGrace - time.Minute)
		w.want("lab", session.Running)
		pass(2 * time.Minute)
		st := w.status("lab").Parts[0]
		if st.Phase != string(engine.Failed) || !strings.Contains(w.story("lab"), "is offline since") {
			t.Fatalf("%+v\n%s", st, w.story("lab"))
		}
	})
}

// TestPartsEndInReverseOrder: at the end of a timeslot a part goes once those that came after it are gone, and all
// go in time where one of those cannot.
func TestPartsEndInReverseOrder(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		inBubble(t, []string{"a", "b"}, func(w *world) {
			db, web := pod("db", 0), pod("web", 0)
			db.Selector.Hosts, web.Selector.Hosts = []string{"a"}, []string{"b"}
			create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "db", Pods: []session.Pod{db}}, {Name: "web", After: []session.Gate{{Part: "db"}}, Pods: []session.Pod{web}}}})
			pass(65 * time.Minute)
			w.want("lab", session.Running)
			if !strings.Contains(w.status("lab").Reason, "it ends at") {
				t.Fatalf("nobody is told of the end: %q", w.status("lab").Reason)
			}
			if stuck {
				w.online("b", false)
			}
			pass(5 * time.Minute)
			order := func(part string) (at time.Time) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, x := range w.state.Rows.History(engine.Ref{Kind: session.KindPod, ID: "lab/" + part + "/" + part}, 0, 0) {
					if x.To == engine.Deleting {
						at = x.At
					}
				}
				return at
			}
			pass(4 * time.Minute)
			if stuck {
				if !order("db").IsZero() {
					t.Fatalf("db goes before web is gone\n%s", w.story("lab"))
				}
				pass(2 * time.Minute) // half of the time until the cleanup deadline is over
				if n := len(w.runningOn("a")); n != 0 {
					t.Fatalf("db waits for a host that is off\n%s", w.story("lab"))
				}
				return
			}
			if !order("db").After(order("web")) || order("web").IsZero() {
				t.Fatalf("db went at %s, web at %s\n%s", order("db"), order("web"), w.story("lab"))
			}
			w.want("lab", session.Retired)
		})
	}
}

// TestWhatKeepsAPodIsNamed: the reason of a pod that goes, and of the orphan that it becomes, is what its host reports of
// what keeps it, of a workspace rather than of the network that waits for that.
func TestWhatKeepsAPodIsNamed(t *testing.T) {
	const ignores, foreign = "container h.web was asked to stop and has not ended", "network h.net has containers that are not this host's: probe"
	for name, c := range map[string]struct {
		keeps map[string]string
		want  string
	}{
		"a container":            {map[string]string{"workspace/p-web": ignores}, "on host a: workspace/p-web is Stopping: " + ignores},
		"a foreign container":    {map[string]string{"network/p-net": foreign}, "on host a: network/p-net is Stopping: " + foreign},
		"a container, and a net": {map[string]string{"network/p-net": "it goes after them", "workspace/p-web": ignores}, "on host a: workspace/p-web is Stopping: " + ignores},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []string{"a"}, func(w *world) {
				p := pod("p", 0)
				p.Workloads = append(p.Workloads, session.Workload{Kind: "image", Name: "p-web", Spec: json.RawMessage(`{"ref":"nginx:1","pull":{}}`)},
					session.Workload{Kind: "workspace", Name: "p-web", Spec: json.RawMessage(`{"image":"p-web","networks":[{"network":"p-net"}]}`)})
				w.agents["a"].keeps = c.keeps
				create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{p}}}})
				pass(72 * time.Minute)
				if st := w.want("lab", session.Stopping); st.Parts[0].Pods[0].Reason != c.want {
					t.Fatalf("while it goes: %s\nexpected: %s", st.Parts[0].Pods[0].Reason, c.want)
				}
				pass(10 * time.Minute)
				if st := w.want("lab", session.Orphaned); st.Parts[0].Pods[0].Reason != "not removed in time: "+c.want {
					t.Fatalf("past its deadline: %s", st.Parts[0].Pods[0].Reason)
				}
			})
		})
	}
}

// TestCommandsAreJobs: a phase runs a command in a workspace of its part, and is over when that ends with 0.
func TestCommandsAreJobs(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		f, problems := sessionfile.Read("lab.yaml", []byte(`name: lab
timeslot: {end: in 2h}
parts:
- name: p
  pods: [{name: p, compose: {services: {shell: {image: "box:1"}}}}]
  phases:
  - {name: load, command: {pod: p, service: shell, run: [load, --all]}}
  - {name: check, command: {pod: p, service: shell, run: [check]}}
`), time.Now())
		if f == nil {
			t.Fatal(problems)
		}
		create(w, "lab", f.Spec)
		pass(5 * time.Minute)
		w.mu.Lock()
		ran := slices.Clone(w.ran)
		w.mu.Unlock()
		if want := []string{"load --all in lab-p-p-shell on a", "check in lab-p-p-shell on a"}; !slices.Equal(ran, want) {
			t.Fatalf("ran %q, want %q\n%s", ran, want, w.story("lab"))
		}
		for _, j := range w.status("lab").Parts[0].Phases {
			if j.State != session.PhaseOver {
				t.Errorf("%+v", j)
			}
		}
	})
}

// textOf is a refusal with all that it finds.
func textOf(err error) string {
	if r, ok := errors.AsType[*wire.Refusal](err); ok && len(r.Problems) > 0 {
		return r.Problems.Error()
	}
	return fmt.Sprint(err)
}

const labTemplate = `name: lab
description: A shop for a class
parameters:
- {name: seats, type: integer, min: 1, max: 3, default: 2}
- {name: lms, type: string, choices: [a.example, b.example], default: a.example}
calls: [a.example]
parts:
- name: shop
  pods:
  - name: web
    cpus: ${param:seats}
    compose: {services: {web: {image: "nginx:1", environment: {SEATS: "for ${param:seats}", COST: "5$$"}}}}
  phases:
  - name: grade
    call: {url: "https://${param:lms}/grade"}
`

// TestSessionOfATemplate: values are put into the parsed template, jobs call the hosts that its owner allows alone, and
// only its owner or an admin changes it.
func TestSessionOfATemplate(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		ctx := context.Background()
		w.check(w.runner.PutTemplate(ctx, "lab", labTemplate, 0, "ann", false))
		refused := func(err error, want string) {
			t.Helper()
			if text := textOf(err); !strings.Contains(text, want) {
				t.Errorf("%s, want %s", text, want)
			}
		}
		refused(w.runner.PutTemplate(ctx, "lab", labTemplate, 0, "bob", false), "template lab is owned by ann")
		refused(w.runner.RemoveTemplate(ctx, "lab", "bob", false), "template lab is owned by ann")
		w.check(w.runner.PutTemplate(ctx, "lab", labTemplate, 0, "root", true))
		refused(w.runner.PutTemplate(ctx, "other", labTemplate, 0, "ann", false), "the document is of template lab")
		ask := session.Spec{Timeslot: slot(), Template: "lab"}
		refused(w.runner.Create(ctx, "x", ask, map[string]any{"seats": 9.0}, "bob"), "parameters.seats: 9 is too much")
		refused(w.runner.Create(ctx, "x", ask, map[string]any{"lms": "b.example"}, "bob"), "host b.example may not be called")
		refused(w.runner.Create(ctx, "x", session.Spec{Timeslot: slot(), Template: "no"}, nil, "bob"), "there is no template no")
		w.bounds("a", func(b *spec.Bounds) { b.Images = []string{"registry.example/*"} })
		refused(w.runner.Create(ctx, "x", ask, nil, "bob"), "parts[0].pods[0].workloads: none of the 1 hosts that accept sessions allows it: ")
		w.bounds("a", func(b *spec.Bounds) { b.Images = []string{"*"} })
		own := ask
		own.Calls = []string{"b.example"}
		refused(w.runner.Create(ctx, "x", own, nil, "bob"), "parts, calls and onFailure are those of template lab")
		w.check(w.runner.Create(ctx, "x", ask, map[string]any{"seats": 3.0}, "bob"))
		pass(time.Second)
		row, err := w.runner.loop.Get(ctx, session.Ref("x"))
		w.check(err)
		for _, want := range []string{`"milliCPU":3000`, `for 3`, `"value":"5$"`, `"url":"https://a.example/grade"`, `"template":"lab"`, `"owner":"bob"`, `"x-shop-web-web"`} {
			if !strings.Contains(string(row.Desired), want) {
				t.Errorf("%s is not in %s", want, row.Desired)
			}
		}
		w.check(w.runner.RemoveTemplate(ctx, "lab", "ann", false))
		pass(time.Second)
		if all, _ := w.runner.Templates(ctx); len(all) != 0 {
			t.Errorf("still %v", all)
		}
		w.restart()
		w.check(w.runner.PutTemplate(ctx, "lab", labTemplate, 0, "bob", false))
		w.check(w.runner.SetQuota(ctx, "bob", session.Quota{Sessions: 1}, nil, 0, "root"))
		refused(w.runner.Create(ctx, "y", ask, nil, "bob"), "would have 2 sessions")
		w.check(w.runner.SetQuota(ctx, "bob", session.Quota{}, nil, 0, "root"))
		w.check(w.runner.Create(ctx, "y", ask, nil, "bob"))
	})
}
