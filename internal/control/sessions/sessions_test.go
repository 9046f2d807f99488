package sessions

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func inBubble(t *testing.T, hosts []string, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hosts...)
		defer w.close()
		f(w)
	})
}

func create(w *world, name string, s session.Spec) {
	w.t.Helper()
	w.check(w.runner.Create(context.Background(), name, s, nil, "ann"))
}

// TestSessionLivesItsTimeslot: hosts are booked at once, nothing runs before provisionAt, all of it by
// the start, and nothing after the end.
func TestSessionLivesItsTimeslot(t *testing.T) {
	inBubble(t, []string{"a", "b"}, func(w *world) {
		create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{
			{Name: "db", Pods: []session.Pod{pod("db", 1)}},
			{Name: "web", After: []session.Gate{{Part: "db"}}, Pods: []session.Pod{pod("web", 1), pod("cache", 0)}},
		}})
		pass(10 * time.Second)
		st := w.want("lab", session.Scheduled)
		if why := st.Parts[1].Reason; why != "it comes up after part db" {
			t.Fatalf("part web: %q", why)
		}
		if st.Parts[0].Pods[0].Host == "" || st.Parts[0].Pods[0].GPUs == nil {
			t.Fatalf("no host is booked: %+v", st)
		}
		if n := len(w.runningOn("a")) + len(w.runningOn("b")); n != 0 {
			t.Fatalf("%d workloads run before their time", n)
		}
		pass(2 * time.Minute)
		w.want("lab", session.Ready)
		if n := len(w.runningOn("a")) + len(w.runningOn("b")); n != 3 {
			t.Fatalf("%d workloads run, want 3\n%s", n, w.story("lab"))
		}
		pass(10 * time.Minute)
		w.want("lab", session.Running)
		w.restart()
		pass(57 * time.Minute)
		w.want("lab", session.Running)
		pass(2 * time.Minute)
		st = w.want("lab", session.Retired)
		if p := st.Parts[0]; p.Phase != string(engine.Deleted) || p.Pods[0].Phase != string(engine.Deleted) {
			t.Fatalf("what is gone is %+v", p)
		}
		if n := len(w.runningOn("a")) + len(w.runningOn("b")); n != 0 {
			t.Fatalf("%d workloads run after the end", n)
		}
		if w.state.Booked.Len() != 0 {
			t.Fatalf("still booked: %v", w.state.Booked)
		}
	})
}

// TestPartThatStartsAgain: its phases wait for its pods, as they did at first.
func TestPartThatStartsAgain(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 0)}, Phases: []session.Phase{{Name: "exam", Await: "done", Timeout: clock.Hour}}}}})
		pass(5 * time.Minute)
		w.check(w.runner.SetPart(context.Background(), "lab", "p", true, "ann"))
		pass(time.Minute)
		if p := w.status("lab").Parts[0]; p.Phase != string(engine.Deleted) || p.Phases[0].State != session.PhaseGone {
			t.Fatalf("stopped: %+v", p)
		}
		w.online("a", false)
		w.check(w.runner.SetPart(context.Background(), "lab", "p", false, "ann"))
		pass(time.Second)
		if p := w.status("lab").Parts[0]; p.Pods[0].Phase == string(engine.Converged) || p.Phases[0].State != session.PhasePending {
			t.Fatalf("its pod does not run: %+v\n%s", p, w.story("lab"))
		}
	})
}

// TestHostThatIsOffCleansUpWhenItReturns: what cannot be removed is an orphan with one alert, ends by
// itself at the deadline, and the GPU is another's only after that.
func TestHostThatIsOffCleansUpWhenItReturns(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 2)}}}})
		pass(20 * time.Minute)
		w.want("lab", session.Running)
		w.online("a", false)
		pass(55 * time.Minute)
		st := w.want("lab", session.Stopping)
		if !strings.Contains(w.story("lab"), "is offline") {
			t.Fatalf("%+v\n%s", st, w.story("lab"))
		}
		if got := w.runningOn("a"); len(got) != 1 {
			t.Fatalf("a host that is cut off runs %v", got)
		}
		pass(10 * time.Minute)
		w.want("lab", session.Orphaned)
		if got := w.runningOn("a"); len(got) != 0 {
			t.Fatalf("past the cleanup deadline it runs %v", got)
		}
		rows := testkit.Value(w.runner.Attention(context.Background()))(t)
		if len(rows) == 0 {
			t.Fatal("nobody is told of an orphan")
		}
		for _, row := range rows {
			w.check(w.runner.Acknowledge(context.Background(), row.Ref, "seen", "ann"))
		}
		if rows := testkit.Value(w.runner.Attention(context.Background()))(t); len(rows) != 0 {
			t.Fatalf("still %v", rows)
		}
		w.check(w.runner.Reconcile(context.Background(), "lab", "ann"))
		pass(time.Minute)
		w.want("lab", session.Stopping) // it is looked at again, and the host is still away
		w.online("a", true)
		pass(2 * time.Minute)
		w.want("lab", session.Retired)
		create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 1)}}}})
		pass(time.Minute)
		w.check(w.runner.Stop(context.Background(), "lab", "ann"))
		pass(time.Minute)
		create(w, "next", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 2)}}}})
		pass(20 * time.Minute)
		w.want("next", session.Running)
	})
}

// TestFullFleetSaysWhenThereIsRoom: a session that finds no GPU waits, says what would free one, and gets
// it when that ends.
func TestFullFleetSaysWhenThereIsRoom(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		one := session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("one", 2)}}}}
		create(w, "one", one)
		pass(time.Second)
		two := one
		two.Parts = []session.Part{{Name: "p", Pods: []session.Pod{pod("two", 1)}}}
		create(w, "two", two)
		pass(time.Second)
		st := w.want("two", session.Pending)
		if why := st.Parts[0].Pods[0].Reason; !strings.Contains(why, "gpu") || !strings.Contains(why, "one/p/one") || !strings.Contains(why, "there is room from") {
			t.Fatalf("it waits for %q", why)
		}
		w.check(w.runner.Stop(context.Background(), "one", "ann"))
		pass(time.Minute)
		w.want("one", session.Retired)
		if st := w.status("two"); st.Parts[0].Pods[0].Host != "a" {
			t.Fatalf("%+v\n%s", st, w.story("two"))
		}
	})
}

// TestFailedPart: one failure is escalated once; the part is aborted in order, or continued degraded.
func TestFailedPart(t *testing.T) {
	for _, c := range []struct {
		action  engine.FailureAction
		part    engine.Phase
		state   session.State
		running int
	}{
		{engine.Abort, engine.Failed, session.Degraded, 1},
		{engine.Continue, engine.Degraded, session.Degraded, 3},
	} {
		t.Run(string(c.action), func(t *testing.T) {
			inBubble(t, []string{"a"}, func(w *world) {
				w.breaks("a", "network/bad-net", true)
				create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{
					{Name: "p", OnFailure: c.action, Pods: []session.Pod{pod("good", 0), pod("bad", 0)}},
					{Name: "q", Pods: []session.Pod{pod("other", 0)}},
				}})
				pass(8 * time.Minute) // before its start: all of it runs but what failed
				st := w.want("lab", c.state)
				if aborted := c.part == engine.Failed; aborted != (st.Parts[0].Pods[0].Phase == string(engine.Deleted)) {
					t.Fatalf("a pod beside one that failed is %+v", st.Parts[0].Pods[0])
				}
				pass(22 * time.Minute)
				st = w.want("lab", c.state)
				if st.Parts[0].Phase != string(c.part) || !strings.Contains(w.story("lab"), "network/bad-net") {
					t.Fatalf("%+v\n%s", st, w.story("lab"))
				}
				if got := w.runningOn("a"); len(got) != c.running {
					t.Fatalf("%v run\n%s", got, w.story("lab"))
				}
				escalated := 0
				for _, x := range w.state.Rows.History(engine.Ref{Kind: session.KindPod, ID: "lab/p/bad"}, 0, 0) {
					if x.Escalated {
						escalated++
					}
				}
				if escalated != 1 {
					t.Fatalf("escalated %d times\n%s", escalated, w.story("lab"))
				}
			})
		})
	}
}

// TestExtension: the end moves for all that runs, unless others have booked the host by then.
func TestExtension(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		s := slot()
		create(w, "lab", session.Spec{Timeslot: s, Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 2)}}}})
		pass(20 * time.Minute)
		w.check(w.runner.Extend(context.Background(), "lab", s.End.Add(time.Hour), "ann"))
		pass(time.Minute)
		later := session.Timeslot{ProvisionAt: s.End.Add(2 * time.Hour), Start: s.End.Add(2 * time.Hour), End: s.End.Add(3 * time.Hour), CleanupDeadline: s.End.Add(3 * time.Hour)}
		create(w, "next", session.Spec{Timeslot: later, Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("n", 1)}}}})
		pass(80 * time.Minute)
		w.want("lab", session.Running)
		if err := w.runner.Extend(context.Background(), "lab", s.End.Add(3*time.Hour), "ann"); err == nil || !strings.Contains(err.Error(), "others have booked a") {
			t.Fatalf("extended into another's time: %v", err)
		}
		pass(40 * time.Minute)
		w.want("lab", session.Retired)
		pass(70 * time.Minute)
		w.want("next", session.Running)
	})
}

// TestPhaseAwaitsItsEvent: a job is called once the pods are ready, a restart does not call it again, the
// event ends it once, and a phase whose event never comes fails after its retries.
func TestPhaseAwaitsItsEvent(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		var made []string
		calling := func() []string { // under the lock, since calls are made by workers
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(made)
		}
		w.client = &http.Client{Transport: transport(func(r *http.Request) int {
			w.mu.Lock()
			defer w.mu.Unlock()
			made = append(made, r.URL.Path+" "+r.Header.Get("Idempotency-Key"))
			return 202
		})}
		w.restart()
		create(w, "lab", session.Spec{Timeslot: slot(), Calls: []string{"lms.example"}, Parts: []session.Part{{Name: "p", OnFailure: engine.Continue, Pods: []session.Pod{pod("p", 0)}, Phases: []session.Phase{
			{Name: "grade", Call: &session.Call{URL: "http://lms.example/grade"}, Await: "graded", Timeout: clock.FromStd(30 * time.Minute)},
			{Name: "publish", Call: &session.Call{URL: "http://lms.example/publish"}, Await: "published", Timeout: clock.FromStd(time.Minute), Retries: new(1)},
		}}}})
		pass(5 * time.Minute)
		if calls := calling(); !slices.Equal(calls, []string{"/grade lab/p/grade#1.0"}) {
			t.Fatalf("called %v\n%s", calls, w.story("lab"))
		}
		w.restart()
		pass(5 * time.Minute)
		event := engine.Event{Source: "lms", ID: "7", Type: "graded", Data: json.RawMessage(`{"points":3}`)}
		w.check(w.runner.Receive(context.Background(), "lab", "p/grade", event))
		w.check(w.runner.Receive(context.Background(), "lab", "p/grade", event))
		pass(time.Second)
		w.check(w.runner.Receive(context.Background(), "lab", "p/grade", event)) // late, and known
		if err := w.runner.Receive(context.Background(), "lab", "p/grade", engine.Event{Source: "lms", ID: "8", Type: "graded"}); err == nil || !strings.Contains(err.Error(), "is over") {
			t.Fatalf("an event for a phase that is over: %v", err)
		}
		st := w.status("lab")
		if j := st.Parts[0].Phases[0]; j.State != session.PhaseOver || string(j.Result) != `{"points":3}` {
			t.Fatalf("%+v", j)
		}
		pass(5 * time.Minute)
		if j := w.status("lab").Parts[0].Phases[1]; j.State != session.PhaseFailed || len(calling()) != 3 {
			t.Fatalf("%+v after %v\n%s", j, calling(), w.story("lab"))
		}
		w.check(w.runner.RetryPhase(context.Background(), "lab", "p/publish", "1", "ann"))
		pass(time.Second)
		w.check(w.runner.Receive(context.Background(), "lab", "p/publish", engine.Event{Source: "lms", ID: "9", Type: "published"}))
		pass(time.Second)
		if j := w.status("lab").Parts[0].Phases[1]; j.State != session.PhaseOver || len(calling()) != 4 {
			t.Fatalf("%+v after %v\n%s", j, calling(), w.story("lab"))
		}
		w.want("lab", session.Running)
		// The next session of the name has a life of its own.
		w.check(w.runner.Stop(context.Background(), "lab", "ann"))
		pass(time.Minute)
		st = w.want("lab", session.Retired)
		if j := st.Parts[0].Phases[0]; j.State != session.PhaseOver || string(j.Result) != `{"points":3}` {
			t.Fatalf("after the session: %+v", j)
		}
		create(w, "lab", session.Spec{Timeslot: slot(), Calls: []string{"lms.example"}, Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("p", 0)}, Phases: []session.Phase{
			{Name: "grade", Call: &session.Call{URL: "http://lms.example/grade"}, Await: "graded", Timeout: clock.FromStd(30 * time.Minute)},
		}}}})
		pass(5 * time.Minute)
		if j := w.status("lab").Parts[0].Phases[0]; j.State != session.PhaseRunning || len(calling()) != 5 {
			t.Fatalf("%+v after %v\n%s", j, calling(), w.story("lab"))
		}
	})
}

type transport func(*http.Request) int

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f(r), Body: http.NoBody, Request: r}, nil
}

// TestCallsNoAddressOfItsOwn: a job is no way to reach what only the server reaches.
func TestCallsNoAddressOfItsOwn(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/", "http://169.254.169.254/latest/meta-data", "http://0.0.0.0:1/", "http://[::ffff:127.0.0.1]:1/", "http://[fe80::1]:1/", "http://[fd00:ec2::254]/latest", "http://100.100.100.200/latest"} {
		resp, err := newClient().Get(url)
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "are not made") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
