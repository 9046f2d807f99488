package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestEveryEventHasWords keeps a new event from showing as raw JSON.
func TestEveryEventHasWords(t *testing.T) {
	for _, name := range event.Types() {
		if got := operator.Message(operator.Event{Type: name, Body: json.RawMessage("{}")}); strings.HasPrefix(got, name) {
			t.Errorf("%s shows as %q: give it words", name, got)
		}
	}
	unknown := operator.Event{Type: "from.the.future", Body: json.RawMessage(`{"a":1}`)}
	if got := operator.Message(unknown); got != `from.the.future {"a":1}` {
		t.Errorf("an unknown event shows as %q", got)
	}
}

func encode(t *testing.T, seq uint64, name string, e event.Event) operator.Event {
	t.Helper()
	en := testkit.Value(event.NewEntry(1, event.HostSubject(name), e))(t)
	return operator.Event{Seq: seq, At: en.At, Type: en.Type, Subject: en.Subject, Body: en.Body}
}

func step(t *testing.T, seq uint64, name string, from, to host.Phase, in host.Input) operator.Event {
	t.Helper()
	data := testkit.Value(host.EncodeInput(in))(t)
	v := event.HostStepped{Rollout: "stable@v2", Input: in.Kind(), Data: data, From: from, To: to}
	if to == host.Failed {
		v.Cause, v.Detail = host.ProbeFailing, "answers"
	}
	return encode(t, seq, name, v)
}

// bad is the course of a rollout that reverts.
func bad(t *testing.T) []operator.Event {
	return []operator.Event{
		encode(t, 1, "", event.RolloutMoved{Rollout: "stable@v2", From: "opening", To: "active"}),
		encode(t, 2, "canary-1", event.Granted{Grant: "g1", Rollout: "stable@v2", Wave: 0}),
		step(t, 3, "canary-1", host.Converged, host.Activating, host.Claimed{}),
		step(t, 4, "canary-1", host.Activating, host.Soaking, host.Activated{}),
		step(t, 5, "canary-1", host.Soaking, host.Soaking, host.ProbeObserved{Name: "answers", Reason: "no \"ok\""}),
		step(t, 6, "canary-1", host.Soaking, host.Failed, host.Elapsed{}),
		encode(t, 7, "", event.RolloutReverting{Rollout: "stable@v2", Reason: "1 of 1 failed"}),
		step(t, 8, "canary-1", host.Failed, host.Reverted, host.RevertCompleted{}),
		encode(t, 9, "", event.RolloutMoved{Rollout: "stable@v2", From: "active", To: "reverted", Reason: "all are back"}),
	}
}

func detail(phase rollout.Phase) operator.RolloutDetail {
	d := operator.RolloutDetail{Rollout: operator.Rollout{Name: "stable@v2", Phase: string(phase), Status: string(phase)}}
	if !phase.Ended() {
		d.Waves = []operator.Wave{{Name: "canary", Open: true, Hosts: 1}, {Name: "rest", Hosts: 1}}
		d.Members = []operator.Member{
			{Host: "canary-1", Status: rollout.Waiting.String(), Online: true},
			{Host: "web-1", Wave: 1, Status: rollout.Waiting.String(), Online: true},
		}
	}
	return d
}

func TestRolloutFoldsEvents(t *testing.T) {
	r := &Rollout{}
	r.Refresh(detail(rollout.Active))
	events := bad(t)
	for _, e := range events[:5] {
		r.Apply(e)
	}
	canary := r.Hosts[0]
	if canary.Status != rollout.Claimed.String() || canary.Phase != string(host.Soaking) || len(canary.Probes) != 1 || canary.Probes[0].Pass {
		t.Fatalf("a soaking canary with a failing probe is %+v", canary)
	}
	if done, busy, failed, all := r.Progress(0); done != 0 || busy != 1 || failed != 0 || all != 1 {
		t.Fatalf("progress of the canary wave is %d %d %d %d", done, busy, failed, all)
	}
	lines := strings.Join(Lines(term.Screen{}, r), "\n")
	for _, want := range []string{"stable@v2  active", "wave canary", "✗ answers", "wave rest", "waits for its turn"} {
		if !strings.Contains(lines, want) {
			t.Errorf("the view lacks %q:\n%s", want, lines)
		}
	}
	if strings.Contains(lines, "\x1b") {
		t.Errorf("colour where none is wanted: %q", lines)
	}
	for _, e := range events[5:] {
		r.Apply(e)
	}
	r.Refresh(detail(rollout.Reverted))
	if !r.Ended() || r.Converged() || r.Hosts[0].Status != rollout.RolledBack.String() || len(r.Waves) != 2 {
		t.Fatalf("a reverted rollout is %+v", r)
	}
	if got := Ending(r); got != "Rollout stable@v2 was reverted (0 converged, 1 went back)" {
		t.Errorf("it ends with %q", got)
	}
}

// TestOtherRolloutsAreLeftOut keeps events of another rollout out of a view.
func TestOtherRolloutsAreLeftOut(t *testing.T) {
	r := &Rollout{}
	d := detail(rollout.Active)
	d.Name = "stable@v1"
	r.Refresh(d)
	for _, e := range bad(t) {
		r.Apply(e)
	}
	if r.Phase != string(rollout.Active) || r.Hosts[0].Status != rollout.Waiting.String() {
		t.Fatalf("events of stable@v2 moved stable@v1: %+v", r)
	}
}

// TestLargeWavesListWhatMatters keeps hosts that move or failed in sight.
func TestLargeWavesListWhatMatters(t *testing.T) {
	r := &Rollout{Waves: []Wave{{Name: "all", Open: true}}}
	for i := range 100 {
		h := r.host(fmt.Sprintf("host-%02d", i))
		h.Status = rollout.Converged.String()
		if i == 77 {
			h.Status, h.Message = rollout.Broken.String(), "probe-failing"
		}
	}
	lines := Lines(term.Screen{}, r)
	if len(lines) != 4 || !strings.Contains(lines[2], "host-77") || !strings.Contains(lines[3], "and 99 more") {
		t.Errorf("one broken host of 100 shows as\n%s", strings.Join(lines, "\n"))
	}
}

// script is a server whose stream breaks after every few events.
type script struct {
	events []operator.Event
	ended  atomic.Bool
	breaks atomic.Int32
}

func (s *script) Rollout(context.Context, string) (operator.RolloutDetail, error) {
	if s.ended.Load() {
		return detail(rollout.Reverted), nil
	}
	return detail(rollout.Active), nil
}

func (s *script) Why(_ context.Context, name string) (plan.Answer, error) {
	return plan.Answer{Host: name, Rollout: "stable@v2", Message: "its wave is not open"}, nil
}

func (s *script) Follow(ctx context.Context, q operator.EventQuery, fn func(operator.Event) error) error {
	sent := 0
	for _, e := range s.events {
		if e.Seq <= q.After {
			continue
		}
		if err := fn(e); err != nil {
			return err
		}
		if sent++; sent == 2 {
			s.breaks.Add(1)
			return io.ErrUnexpectedEOF
		}
		if e.Seq == s.events[len(s.events)-1].Seq {
			s.ended.Store(true)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestWatchOutlivesLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{events: bad(t)}
		var out bytes.Buffer
		end, err := Watch(t.Context(), s, "stable@v2", Plain(&out))
		if err != nil || end.Converged() || end.Phase != string(rollout.Reverted) {
			t.Fatalf("watching ended with %+v, %v", end, err)
		}
		if n := s.breaks.Load(); n < 3 {
			t.Fatalf("the stream broke only %d times", n)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(s.events)+1 {
			t.Fatalf("%d events gave %d lines:\n%s", len(s.events), len(lines), out.String())
		}
		if end.Hosts[1].Message != "its wave is not open" {
			t.Errorf("web-1 waits without a reason: %+v", end.Hosts[1])
		}
	})
}

// gone is a server that cannot be reached.
type gone struct{}

func (gone) Follow(context.Context, operator.EventQuery, func(operator.Event) error) error {
	return io.ErrUnexpectedEOF
}

func TestFollowGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := Follow(t.Context(), gone{}, operator.EventQuery{}, func(operator.Event) error { return nil })
		if !errors.Is(err, io.ErrUnexpectedEOF) || time.Since(began) < patience || time.Since(began) > 2*patience {
			t.Fatalf("gave up with %v after %s", err, time.Since(began))
		}
	})
}

func TestJSONEndsWithTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{events: bad(t)}
		var out bytes.Buffer
		testkit.Value(Watch(t.Context(), s, "stable@v2", JSON(&out)))(t)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Fatalf("%q is no JSON", line)
			}
		}
		var last struct {
			OK    *bool
			Phase string
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.OK == nil || *last.OK || last.Phase != "reverted" {
			t.Fatalf("the last line is %s (%v)", lines[len(lines)-1], err)
		}
	})
}
