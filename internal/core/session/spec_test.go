package session

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// sound is a session of two parts without a fault.
func sound() *Spec {
	workload := func(name string) []Workload {
		return []Workload{{Kind: "network", Name: name, Spec: json.RawMessage(`{}`)}}
	}
	return &Spec{
		Timeslot: Timeslot{ProvisionAt: now, Start: now.Add(time.Hour), End: now.Add(2 * time.Hour), CleanupDeadline: now.Add(3 * time.Hour)},
		Calls:    []string{"x.example"},
		Parts: []Part{
			{Name: "db", Pods: []Pod{{Name: "db", Workloads: workload("db")}}, Phases: []Phase{{Name: "load", Call: &Call{URL: "http://x.example/"}}}},
			{Name: "web", After: []Gate{{Part: "db"}, {Phase: "db/load"}}, Pods: []Pod{{Name: "web", Workloads: workload("web")}}},
		},
	}
}

// TestValidate: what is wrong with a session is said by the path of the field, before anything is reserved.
func TestValidate(t *testing.T) {
	testkit.Must(t, Validate("lab", sound(), now))
	for _, c := range []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { s.Timeslot.End = now.Add(-time.Hour) }, "timeslot.end: 2026-11-26T11:00:00Z has passed"},
		{func(s *Spec) { s.Timeslot.Start = now.Add(-time.Hour) }, "timeslot.start: it is before provisionAt, "},
		{func(s *Spec) { s.Timeslot.End = s.Timeslot.Start }, "timeslot.end: it is not after start, "},
		{func(s *Spec) { s.Timeslot.CleanupDeadline = s.Timeslot.Start }, "timeslot.cleanupDeadline: it is before end, "},
		{func(s *Spec) {
			s.Timeslot.End = now.Add(MaxLength + time.Hour)
			s.Timeslot.CleanupDeadline = s.Timeslot.End
		}, "timeslot.end: the session would last 2161h from provisionAt on; at most 2160h are allowed"},
		{func(s *Spec) { s.Timeslot.CleanupDeadline = s.Timeslot.End.Add(MaxGrace + time.Second) }, "timeslot.cleanupDeadline: it is 168h1s after end"},
		{func(s *Spec) {
			last := time.Date(9999, 12, 31, 23, 59, 57, 0, time.UTC)
			s.Timeslot = Timeslot{ProvisionAt: last, Start: last, End: last.Add(time.Second), CleanupDeadline: last.Add(time.Minute)}
		}, "timeslot.cleanupDeadline: cleanupDeadline 10000-01-01T00:00:57Z is more than 1825 days from now"},
		{func(s *Spec) { s.OnFailure = "panic" }, `onFailure: unknown action "panic": expected abort or continue`},
		{func(s *Spec) { s.Parts = nil }, "parts: there are 0; expected 1 to 64"},
		{func(s *Spec) { s.Parts[1].Name = "db" }, "parts[1].name: db is there twice"},
		{func(s *Spec) { s.Parts[0].Name = "A b" }, "parts[0].name: "},
		{func(s *Spec) { s.Parts[0].After = []Gate{{Part: "web"}} }, "parts[0].after: part db waits for itself"},
		{func(s *Spec) { s.Parts[1].After = []Gate{{Part: "web"}} }, "parts[1].after: part web waits for itself"},
		{func(s *Spec) { s.Parts[1].After = []Gate{{Part: "cache"}} }, "parts[1].after[0]: there is no part cache"},
		{func(s *Spec) { s.Parts[1].After = []Gate{{Phase: "db/dump"}} }, `parts[1].after[0].phase: part db has no phase "dump"; expected PART/PHASE`},
		{func(s *Spec) { s.Parts[1].After = []Gate{{Part: "db", Event: "x"}} }, "parts[1].after[0]: 2 of part, phase, at and event are set; expected one"},
		{func(s *Spec) { s.Parts[1].After = []Gate{{}} }, "parts[1].after[0]: 0 of part, phase, at and event are set; expected one"},
		{func(s *Spec) { s.Parts[1].Pods = nil }, "parts[1]: it has 0 pods and 0 phases"},
		{func(s *Spec) { s.Parts[0].Pods[0].Workloads = nil }, "parts[0].pods[0].workloads: there are 0; expected 1 to 64"},
		{func(s *Spec) {
			s.Parts[0].Pods = append(s.Parts[0].Pods, Pod{Name: "b", Workloads: s.Parts[0].Pods[0].Workloads})
		}, "parts[0].pods[1].workloads[0]: network/db is declared by pod db"},
		{func(s *Spec) { s.Parts[0].Pods[0].Workloads[0].Spec = json.RawMessage(`{"no":1}`) }, "parts[0].pods[0].workloads[0]: network/db: "},
		{func(s *Spec) { s.Parts[0].Pods[0].Workloads[0].Kind = "lamp" }, "parts[0].pods[0].workloads[0]: lamp/db: "},
		{func(s *Spec) { s.Parts[0].Pods[0].Resources.Memory = -1 }, "parts[0].pods[0]: lab"},
		{func(s *Spec) { s.Parts[0].Phases[0].Call = nil }, "parts[0].phases[0]: it has neither a call nor a command nor an event to await"},
		{func(s *Spec) { s.Parts[0].Phases[0].Await = "done" }, "parts[0].phases[0].timeout: it is 0s"},
		{func(s *Spec) { s.Calls = []string{"y.example"} }, `parts[0].phases[0].call.url: host x.example may not be called: expected one of calls, ["y.example"]`},
		{func(s *Spec) { s.Calls = nil }, "parts[0].phases[0].call.url: host x.example may not be called"},
		{func(s *Spec) { s.Calls = []string{"*.x.example"} }, "parts[0].phases[0].call.url: host x.example may not be called"},
		{func(s *Spec) { s.Calls[0] = "http://x" }, `calls[0]: "http://x" is no host`},
		{func(s *Spec) { s.Parts[0].Phases[0].Call.URL = "http://x.example:81/" }, "parts[0].phases[0].call.url: host x.example:81 may not be called"},
		{func(s *Spec) { s.Parts[0].Phases[0].Call.URL = "http://u:p@x.example/" }, "parts[0].phases[0].call.url: http://u:xxxxx@x.example/ has a user in it"},
		{func(s *Spec) { s.Parts[0].Phases[0].Call.URL = "file:///etc/passwd" }, `parts[0].phases[0].call.url: "file:///etc/passwd" is no URL of http or https`},
		{func(s *Spec) { s.Parts[0].Phases[0].Command = &Command{} }, "parts[0].phases[0]: it has both a call and a command"},
		{func(s *Spec) {
			s.Parts[0].Phases[0] = Phase{Name: "x", Command: &Command{Pod: "no", Argv: []string{"x"}}}
		}, "parts[0].phases[0].command.pod: part db has no pod no"},
		{func(s *Spec) {
			s.Parts[0].Phases[0] = Phase{Name: "x", Command: &Command{Pod: "db", Workspace: "db", Argv: []string{"x"}}}
		}, "parts[0].phases[0].command.service: pod db has no workspace db"},
		{func(s *Spec) { s.Parts[0].Phases[0] = Phase{Name: "x", Command: &Command{Pod: "db"}} }, "parts[0].phases[0].command.run: it has 0 bytes"},
		{func(s *Spec) { s.Parts[0].Duplicates = "yes" }, `parts[0].duplicates: "yes": expected allowed`},
		{func(s *Spec) { s.Parts[0].Duplicates = "allowed" }, "parts[0].duplicates: only a part that moves has duplicates"},
		{func(s *Spec) { s.Timeslot.Start = time.Time{} }, "timeslot.start: it is missing"},
		{func(s *Spec) { s.Parts[0].Phases[0].Call.URL = "http://[::ffff:127.0.0.1]:80/" }, "parts[0].phases[0].call.url: ::ffff:127.0.0.1: calls to loopback"},
		{func(s *Spec) { s.Parts[0].Phases[0].Call.Method = "BREW" }, `parts[0].phases[0].call.method: unknown method "BREW": expected one of GET POST`},
		{func(s *Spec) { s.Parts[0].Phases[0].Await = RetryEvent }, "parts[0].phases[0].await: events of type steady.phase.retry are of steady itself"},
		{func(s *Spec) { s.Parts[1].After[0] = Gate{Event: AcceptedEvent} }, "parts[1].after[0].event: events of type steady.job.accepted are of steady itself"},
		{func(s *Spec) { s.Parts[1].After[0] = Gate{Event: strings.Repeat("x", 257)} }, "parts[1].after[0].event: it has 257 bytes; at most 256 are allowed"},
		{func(s *Spec) { s.Parts[0].Phases[0].Retries = new(11) }, "parts[0].phases[0].retries: there are 11; expected 0 to 10"},
	} {
		s := sound()
		c.change(s)
		err := Validate("lab", s, now)
		p, ok := errors.AsType[Problems](err)
		if !ok || !strings.Contains(strings.ReplaceAll(p.Error(), "s/db/db", "lab"), c.want) {
			t.Errorf("want %s\ngot  %v", c.want, err)
		}
	}
	if err := Validate("Not A Name", sound(), now); err == nil || !strings.Contains(err.Error(), "name: ") {
		t.Errorf("%v", err)
	}
}

// TestGates: a part comes up once all its gates are open, and goes on when one closes again.
func TestGates(t *testing.T) {
	at := now.Add(time.Minute)
	s := sound()
	s.Parts[1].After = []Gate{{Part: "db"}, {At: at}, {Event: "go"}}
	view := engine.View[Spec, NeedsNothing]{Resource: engine.Resource[Spec]{Ref: Ref("lab"), Desired: *s}, Now: now}
	step := func(want string, children int) {
		t.Helper()
		d := Decide(view)
		if got := d.Name() + " " + d.Reason().Message; got != want || len(d.Children()) != children {
			t.Fatalf("%s with %d children, want %s with %d", got, len(d.Children()), want, children)
		}
	}
	step("wait part web waits for part db", 1)
	db := engine.Child{Ref: engine.Ref{Kind: KindPart, ID: "lab/db"}, Phase: engine.Waiting, Report: json.RawMessage(`{"ready":true}`)}
	view.Children = []engine.Child{db}
	step("wait part web waits for 2026-11-26T12:01:00Z", 1)
	if d := Decide(view); !d.Until().Equal(at) {
		t.Fatalf("it looks again at %s", d.Until())
	}
	view.Now = at
	step("wait part web waits for an event go", 1)
	view.Events = []engine.Event{{N: 1, Type: "go"}}
	step("converged ", 2)
	view.Events, view.Children = nil, append(view.Children, engine.Child{Ref: engine.Ref{Kind: KindPart, ID: "lab/web"}, Phase: engine.Converged})
	step("converged ", 2)
}

// TestOneFaultOneFinding: a timeslot that is not sound is found once, and not again in the words of what is derived of it.
func TestOneFaultOneFinding(t *testing.T) {
	for _, slot := range []func(*Timeslot){
		func(s *Timeslot) { s.ProvisionAt = time.Time{} },
		func(s *Timeslot) { s.Start = time.Time{} },
		func(s *Timeslot) { s.CleanupDeadline = time.Time{} },
		func(s *Timeslot) { s.End = s.Start },
		func(s *Timeslot) { s.ProvisionAt = s.CleanupDeadline.Add(time.Hour) },
		func(s *Timeslot) { s.End, s.CleanupDeadline = now.Add(-2*time.Hour), now.Add(-time.Hour) },
	} {
		s := sound()
		slot(&s.Timeslot)
		found, _ := Validate("lab", s, now).(Problems)
		if len(found) != 1 || !strings.HasPrefix(found[0].Path, "timeslot.") {
			t.Errorf("%+v: %v", s.Timeslot, found)
		}
	}
}

// TestNewSessionsCanStart: a start that has passed is of a session that failed before it began.
func TestNewSessionsCanStart(t *testing.T) {
	for _, c := range []struct {
		provisionAt, start time.Duration
		found              bool
	}{{-2 * time.Hour, -time.Hour, true}, {-time.Hour, -time.Hour, false}, {-time.Hour, 0, false}, {-time.Hour, time.Hour, false}, {0, 0, false}} {
		s := sound()
		s.Timeslot.ProvisionAt, s.Timeslot.Start = now.Add(c.provisionAt), now.Add(c.start)
		if found := CheckNew(s, now); (found != nil) != c.found {
			t.Errorf("provisionAt %s, start %s: %v", c.provisionAt, c.start, found)
		}
	}
}
