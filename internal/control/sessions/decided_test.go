package sessions

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/session"
)

// TestANewSessionIsDecidedOn: it is known at once where the pods of a new session run, or what they wait for and until
// when; pods of a part that waits for another one are not waited for.
func TestANewSessionIsDecidedOn(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		decided := func(name string, milliCPU int64) session.Status {
			t.Helper()
			s := session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("a", 0)}}, {Name: "q", After: []session.Gate{{Event: "go"}}, Pods: []session.Pod{pod("b", 0)}}}}
			s.Parts[0].Pods[0].Resources.MilliCPU = milliCPU
			create(w, name, s)
			ctx, stop := context.WithTimeout(w.ctx, time.Minute)
			defer stop()
			began := w.now()
			st, err := w.runner.Decided(ctx, name)
			w.check(err)
			if !st.Decided() || w.now().Sub(began) > 10*time.Second {
				t.Fatalf("%s after %s: %+v", name, w.now().Sub(began), st)
			}
			return st
		}
		first := decided("first", 7000)
		if waits := first.Waits(); len(waits) > 0 || first.Parts[0].Pods[0].Host != "a" {
			t.Errorf("%+v", first.Parts)
		}
		second := decided("second", 7000)
		waits := second.Waits()
		if len(waits) != 1 || waits[0].Pod != "p/a" || !waits[0].Room.Equal(first.Timeslot.CleanupDeadline) || second.State != session.Pending {
			t.Fatalf("%s: %+v", second.State, waits)
		}
		if !strings.Contains(second.Summary.Reason, waits[0].Reason) {
			t.Errorf("its reason is %q, and its pod waits for %q", second.Summary.Reason, waits[0].Reason)
		}
		never := decided("never", 1<<30)
		if waits := never.Waits(); len(waits) != 1 || !waits[0].Room.IsZero() {
			t.Errorf("what no host can ever run: %+v", waits)
		}
	})
}
