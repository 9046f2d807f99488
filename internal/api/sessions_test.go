package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
)

// awaiting is a session of one part without pods, whose phase awaits an event graded.
func awaiting() operator.NewSession {
	now := time.Now().UTC().Truncate(time.Second)
	return operator.NewSession{Timeslot: session.Timeslot{ProvisionAt: now, Start: now, End: now.Add(time.Hour), CleanupDeadline: now.Add(2 * time.Hour)},
		Parts: []session.Part{{Name: "p", Phases: []session.Phase{{Name: "grade", Await: "graded", Timeout: clock.FromStd(time.Hour)}, {Name: "later", Await: "x", Timeout: clock.FromStd(time.Hour)}}}}}
}

func (w *world) phase(name string, i int) session.JobStatus {
	w.t.Helper()
	return testkit.Value(w.op.Session(w.ctx(), name))(w.t).Parts[0].Phases[i]
}

// TestCloudEventsForSessions: an event is taken with the session's own token alone, once, in both modes of the
// HTTP binding; each refusal has its status and is counted.
func TestCloudEventsForSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := testkit.Value(w.op.CreateSession(w.ctx(), "lab", awaiting()))(t)
	other := testkit.Value(w.op.CreateSession(w.ctx(), "other", awaiting()))(t)
	w.until("the phase begins", func() bool { return w.phase("lab", 0).State == session.PhaseRunning })
	ce := func(id, subject string, more ...string) []string {
		return append([]string{"Ce-Specversion", "1.0", "Ce-Id", id, "Ce-Source", "/lms", "Ce-Type", "graded", "Ce-Subject", subject}, more...)
	}
	structured := func(data string) string {
		return `{"specversion":"1.0","id":"2","source":"/lms","type":"graded","subject":"p/grade","data":` + data + `}`
	}
	path, asStructured := made.Path, []string{"Content-Type", "application/cloudevents+json; charset=utf-8"}
	for _, c := range []struct {
		what, token, path, body string
		headers                 []string
		status                  int
	}{
		{"no token", "", path, "{}", ce("1", "p/grade"), 401},
		{"a wrong token", "steadyev_x", path, "{}", ce("1", "p/grade"), 401},
		{"an operator's token", w.adminSecret(), path, "{}", ce("1", "p/grade"), 401},
		{"another session's token", other.EventToken, path, "{}", ce("1", "p/grade"), 401},
		{"no such session", made.EventToken, "/v1/sessions/none/events", "{}", ce("1", "p/grade"), 401},
		{"unknown phase", made.EventToken, path, "{}", ce("1", "p/none"), 404},
		{"phase that has not begun", made.EventToken, path, "{}", ce("1", "p/later"), 404},
		{"too large", made.EventToken, path, `"` + strings.Repeat("x", 70<<10) + `"`, ce("1", "p/grade"), 413},
		{"far too large", made.EventToken, path, `"` + strings.Repeat("x", 300<<10) + `"`, ce("1", "p/grade"), 413},
		{"no event", made.EventToken, path, "{}", nil, 415},
		{"no JSON", made.EventToken, path, "{", ce("1", "p/grade"), 400},
		{"no id", made.EventToken, path, "{}", ce("", "p/grade"), 400},
		{"two ids", made.EventToken, path, "{}", ce("1", "p/grade", "Ce-Id", "2"), 400},
		{"an id that would move a cursor", made.EventToken, path, "{}", ce("%1B[2J", "p/grade"), 400},
		{"of a type that the phase does not await", made.EventToken, path, "{}", []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "/lms", "Ce-Type", "grade", "Ce-Subject", "p/grade"}, 400},
		{"of steady itself", made.EventToken, path, "{}", []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "steady", "Ce-Type", "steady.phase.retry", "Ce-Subject", "p/grade"}, 400},
		{"of the session", made.EventToken, path, `{"points":1}`, ce("%C3%A4", ""), 202},
		{"structured, of another version", made.EventToken, path, `{"specversion":"2.0","id":"2","source":"/lms","type":"graded"}`, asStructured, 400},
		{"structured, no JSON", made.EventToken, path, `{`, asStructured, 400},
		{"structured", made.EventToken, path, structured(`{"points":3}`), asStructured, 202},
		{"structured again", made.EventToken, path, structured(`{"points":3}`), asStructured, 202},
	} {
		headers := c.headers
		if status, body := w.request(c.token, "POST", c.path, c.body, headers...); status != c.status {
			t.Errorf("%s: %d %s, expected %d", c.what, status, body, c.status)
		} else if status == 401 && !strings.Contains(body, "steady session token NAME prints it") {
			t.Errorf("%s: %s", c.what, body)
		}
	}
	w.until("the phase is over", func() bool { return w.phase("lab", 0).State == session.PhaseOver })
	if got := string(w.phase("lab", 0).Result); got != `{"points":3}` {
		t.Errorf("the result is %s", got)
	}
	if status, body := w.request(made.EventToken, "POST", path, structured(`{"points":3}`), asStructured...); status != 202 {
		t.Errorf("once more, late: %d %s", status, body)
	}
	if status, body := w.request(made.EventToken, "POST", path, "{}", ce("9", "p/grade")...); status != 409 {
		t.Errorf("for a phase that is over: %d %s", status, body)
	}
	scraped := w.scrape()
	for outcome, n := range map[string]int{"token": 5, "unknown": 2, "too-large": 2, "malformed": 9, "accepted": 4, "over": 1} {
		if line := fmt.Sprintf("steady_session_events_total{outcome=%q} %d", outcome, n); !strings.Contains(scraped, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	w.halt()
	w.start()
	again := testkit.Value(w.op.SessionEvents(w.ctx(), "lab"))(t)
	if again != made.SessionEvents {
		t.Errorf("after a restart the token is another")
	}
}

// TestSessionsByTheAPI: what is wrong with a session is refused with its place, and the verbs reach it.
func TestSessionsByTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := awaiting()
	bad.Parts[0].After = []session.Gate{{Part: "p"}}
	bad.Timeslot.End = time.Now().Add(-time.Hour)
	if _, err := w.op.CreateSession(w.ctx(), "lab", bad); err == nil || !strings.Contains(err.Error(), "timeslot.end ") || !strings.Contains(err.Error(), "waits for itself") {
		t.Errorf("%v", err)
	}
	first := testkit.Value(w.op.CreateSession(w.ctx(), "lab", awaiting()))(t)
	if first.Session.Owner == "" || first.Session.Created.IsZero() {
		t.Errorf("%+v", first.Session)
	}
	if _, err := w.op.CreateSession(w.ctx(), "lab", awaiting()); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("created twice: %v", err)
	}
	end := first.Session.Timeslot.End.Add(time.Hour)
	extended := testkit.Value(w.op.ExtendSession(w.ctx(), "lab", operator.ExtendSession{End: end}))(t)
	if !extended.End.Equal(end) {
		t.Errorf("ends at %s", extended.End)
	}
	testkit.Must(t, w.op.SetSessionPart(w.ctx(), "lab", "p", true))
	testkit.Must(t, w.op.ReconcileSession(w.ctx(), "lab"))
	s := testkit.Value(w.op.Session(w.ctx(), "lab"))(t)
	if !s.Timeslot.End.Equal(end) || !s.Parts[0].Stopped {
		t.Errorf("%+v", s)
	}
	for _, err := range []error{w.op.SetSessionPart(w.ctx(), "lab", "none", true), w.op.StopSession(w.ctx(), "none"), w.op.RetrySessionPhase(w.ctx(), "lab", "p", "none"),
		w.op.Acknowledge(w.ctx(), operator.Acknowledge{Kind: "session", Name: "lab", Note: "x"})} {
		if refusal, ok := err.(*operator.Error); !ok || refusal.Status != 404 {
			t.Errorf("%v", err)
		}
	}
	testkit.Must(t, w.op.StopSession(w.ctx(), "lab"))
	w.until("it is retired", func() bool {
		return testkit.Value(w.op.Session(w.ctx(), "lab"))(t).State == session.Retired
	})
	next := testkit.Value(w.op.CreateSession(w.ctx(), "lab", awaiting()))(t)
	if next.EventToken == first.EventToken {
		t.Error("a later session of the name has the token of the one before")
	}
	if all := testkit.Value(w.op.Sessions(w.ctx()))(t); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if in := testkit.Value(w.op.Attention(w.ctx()))(t); len(in.Items) != 0 {
		t.Errorf("%+v", in)
	}
	pods := awaiting()
	pods.Parts[0].Pods = []session.Pod{{Name: "web", Workloads: []session.Workload{{Kind: "network", Name: "n", Spec: json.RawMessage(`{}`)}}}}
	if p := testkit.Value(w.op.PreviewSession(w.ctx(), "sketch", pods))(t); p.Fits || len(p.Pods) != 1 || p.Pods[0].Pod != "p/web" {
		t.Errorf("%+v", p)
	}
}
