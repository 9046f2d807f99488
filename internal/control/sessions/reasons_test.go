package sessions

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// history is what is kept of a row: each phase that it came to, with the reason.
func (w *world) history(kind, id string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.state.Rows.History(engine.Ref{Kind: kind, ID: id}, 0, 0) {
		out = append(out, string(t.To)+": "+t.Reason.Text())
	}
	return out
}

// TestHistoryHasTheCause: each row of a session has in its history why it came up, changed, failed and ended.
func TestHistoryHasTheCause(t *testing.T) {
	begins := slot
	for _, tc := range []struct {
		name string
		spec func(*session.Spec)
		do   func(w *world)
		want map[string]string // by row: what its history has
	}{
		{"it is asked for", nil, func(*world) {}, map[string]string{
			"session lab": "pending: asked for by ann", "part lab/p": "pending: declared by session lab", "pod lab/p/a": "pending: declared by part p", "phase lab/p/x": "pending: declared by part p"}},
		{"its time ends", nil, func(*world) { pass(2 * time.Hour) }, map[string]string{
			"session lab": "deleting: its time ended at END", "part lab/p": "deleting: its time ended at END", "pod lab/p/a": "deleting: its time ended at END", "phase lab/p/x": "deleting: its time ended at END"}},
		{"that is kept", nil, func(*world) { pass(2 * time.Hour) }, map[string]string{"session lab": "deleted: its time ended at END"}},
		{"it is stopped", nil, func(w *world) { w.check(w.runner.Stop(w.ctx, "lab", "bob")) }, map[string]string{
			"session lab": "deleting: stopped by bob", "part lab/p": "deleting: stopped by bob", "part lab/q": "deleting: stopped by bob", "pod lab/p/a": "deleting: stopped by bob", "phase lab/p/x": "deleting: stopped by bob"}},
		{"that is kept too", nil, func(w *world) { w.check(w.runner.Stop(w.ctx, "lab", "bob")) }, map[string]string{"session lab": "deleted: stopped by bob", "part lab/p": "deleted: stopped by bob"}},
		{"it is cancelled", func(s *session.Spec) { later(s, 5*time.Hour) }, func(w *world) { w.check(w.runner.Cancel(w.ctx, "lab", "bob")) }, map[string]string{
			"session lab": "deleting: cancelled by bob", "pod lab/p/a": "deleting: cancelled by bob"}},
		{"it is started early", func(s *session.Spec) { later(s, 5*time.Hour) }, func(w *world) { w.check(w.runner.Start(w.ctx, "lab", "bob")) }, map[string]string{
			"session lab": "pending: started before its time by bob"}},
		{"its end is moved", nil, func(w *world) { w.check(w.runner.Extend(w.ctx, "lab", begins().End.Add(time.Hour), "bob")) }, map[string]string{
			"session lab": "pending: its end was moved by bob"}},
		{"a part is stopped", nil, func(w *world) { w.check(w.runner.SetPart(w.ctx, "lab", "p", true, "bob")) }, map[string]string{
			"session lab": "pending: part p was stopped by bob", "part lab/p": "deleting: the part was stopped", "pod lab/p/a": "deleting: the part was stopped", "phase lab/p/x": "deleting: the part was stopped"}},
		{"and started", nil, func(w *world) {
			w.check(w.runner.SetPart(w.ctx, "lab", "p", true, "bob"))
			pass(time.Minute)
			w.check(w.runner.SetPart(w.ctx, "lab", "p", false, "eve"))
		}, map[string]string{"session lab": "pending: part p was started by eve"}},
		{"a pod fails", nil, func(w *world) { w.breaks("a", "network/b-net", true) }, map[string]string{
			"pod lab/q/b": "failed: on a: network/b-net", "part lab/q": "failed: pod/lab/q/b: on a: network/b-net"}},
		{"a phase fails, and with it its part", func(s *session.Spec) { s.Parts[0].Phases[0].Timeout = clock.FromStd(time.Minute) }, func(*world) {}, map[string]string{
			"phase lab/p/x": "failed: no event done came within 1m", "part lab/p": "failed: phase/lab/p/x: no event done came within 1m", "pod lab/p/a": "deleting: part/lab/p failed"}},
		{"and the session", func(s *session.Spec) {
			s.OnFailure, s.Parts[0].Phases[0].Timeout = engine.Abort, clock.FromStd(time.Minute)
		}, func(*world) {}, map[string]string{
			"session lab": "failed: part/lab/p: phase/lab/p/x: no event done came within 1m", "part lab/q": "deleting: session/lab failed", "pod lab/q/b": "deleting: session/lab failed"}},
		{"a phase begins anew", nil, func(w *world) { w.check(w.runner.RetryPhase(w.ctx, "lab", "p/x", "1", "bob")) }, map[string]string{
			"phase lab/p/x": "pending: to begin anew, asked for by bob"}},
		{"its host is away at the end", nil, func(w *world) {
			w.online("a", false)
			pass(3 * time.Hour)
		}, map[string]string{"pod lab/p/a": "orphaned: not removed in time: host a is offline; what runs there ends by itself at GONE"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, []string{"a"}, func(w *world) {
				w.client = &http.Client{Transport: transport(func(*http.Request) int { return 202 })}
				w.restart()
				s := session.Spec{Timeslot: slot(), Parts: []session.Part{
					{Name: "p", Pods: []session.Pod{pod("a", 0)}, Phases: []session.Phase{{Name: "x", Await: "done", Timeout: clock.FromStd(24 * time.Hour)}}},
					{Name: "q", Pods: []session.Pod{pod("b", 0)}}}}
				if tc.spec != nil {
					tc.spec(&s)
				}
				create(w, "lab", s)
				pass(5 * time.Minute)
				tc.do(w)
				pass(time.Minute)
				instant := strings.NewReplacer("END", s.Timeslot.End.Format(time.RFC3339), "GONE", s.Timeslot.CleanupDeadline.Format(time.RFC3339))
				for row, want := range tc.want {
					kind, id, _ := strings.Cut(row, " ")
					if got := w.history(kind, id); !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, instant.Replace(want)) }) {
						t.Errorf("%s has no %q:\n%s", row, instant.Replace(want), strings.Join(got, "\n"))
					}
				}
				for _, row := range []string{"session lab", "part lab/p", "part lab/q", "pod lab/p/a", "pod lab/q/b", "phase lab/p/x"} {
					kind, id, _ := strings.Cut(row, " ")
					for _, line := range w.history(kind, id) {
						if _, why, _ := strings.Cut(line, ": "); why == string(engine.CodeDesiredChanged) || why == string(engine.CodeDeleteRequested) || why == string(engine.CodeRetryRequested) {
							t.Errorf("%s: %q has no cause", row, line)
						}
					}
				}
			})
		})
	}
}

// later moves a timeslot.
func later(s *session.Spec, by time.Duration) {
	t := &s.Timeslot
	for _, at := range []*time.Time{&t.ProvisionAt, &t.Start, &t.End, &t.CleanupDeadline} {
		*at = at.Add(by)
	}
}
