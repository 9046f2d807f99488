package server

import (
	"errors"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// kindOf is the kind of a refusal; empty without one.
func kindOf(t *testing.T, err error) RefusalKind {
	t.Helper()
	if err == nil {
		return ""
	}
	r, ok := errors.AsType[*RefusedError](err)
	if !ok || r.Reason == "" {
		t.Fatalf("%v is no refusal with a reason", err)
	}
	return r.Kind
}

func TestMayEnrol(t *testing.T) {
	const now = 1000
	for what, c := range map[string]struct {
		h        *plan.Host
		declared bool
		issued   int64
		want     RefusalKind
	}{
		"new":                        {nil, true, 900, ""},
		"not declared":               {nil, false, 900, Forbidden},
		"known and not declared":     {&plan.Host{}, false, 900, Forbidden},
		"enrolled before":            {&plan.Host{Incarnation: 1}, true, 900, ""},
		"token from before the end":  {&plan.Host{RevokedBefore: 901}, true, 900, Forbidden},
		"token of the instant":       {&plan.Host{RevokedBefore: 900}, true, 900, ""},
		"revoked into the future":    {&plan.Host{RevokedBefore: now + 1}, true, now + 2, Forbidden},
		"revoked until this instant": {&plan.Host{RevokedBefore: now}, true, now, ""},
	} {
		if got := kindOf(t, MayEnrol("web-1", c.h, c.declared, clock.Instant(c.issued), now)); got != c.want {
			t.Errorf("%s: %q, expected %q", what, got, c.want)
		}
	}
}

func TestMeanwhile(t *testing.T) {
	s := &State{Plan: plan.New(nil)}
	s.Plan.Tokens["spent"] = plan.SpentToken{}
	s.Plan.Hosts["web-1"] = &plan.Host{Incarnation: 2}
	for what, c := range map[string]struct {
		err  error
		want RefusalKind
	}{
		"next incarnation":       {s.Enrols("web-1", "fresh", 3), ""},
		"first of a host":        {s.Enrols("web-2", "fresh", 1), ""},
		"token used":             {s.Enrols("web-2", "spent", 1), Conflict},
		"enrolled meanwhile":     {s.Enrols("web-1", "fresh", 2), Conflict},
		"renewed":                {s.Renews("web-1", 2), ""},
		"renewed by an old one":  {s.Renews("web-1", 1), Conflict},
		"renewed without a host": {s.Renews("web-2", 1), Conflict},
	} {
		if got := kindOf(t, c.err); got != c.want {
			t.Errorf("%s: %q, expected %q", what, got, c.want)
		}
	}
	if _, err := s.RetryHost("web-2", "", "n", managed.Change{}); kindOf(t, err) != Unknown {
		t.Errorf("retry of a host that never enrolled: %v", err)
	}
	s.Plan.Hosts["web-1"].Ended = &plan.Ended{}
	if _, err := s.RetryHost("web-1", "", "n", managed.Change{}); kindOf(t, err) != Conflict {
		t.Errorf("retry of a host that ended: %v", err)
	}
}

func TestViewAnswers(t *testing.T) {
	var none *View
	v := &View{Incarnation: 2, Seq: 7, Online: true}
	for what, c := range map[string]struct {
		err  error
		want RefusalKind
	}{
		"online":         {v.Answers("a", ""), ""},
		"offline":        {(&View{Incarnation: 1}).Answers("a", ""), Conflict},
		"never enrolled": {(&View{Online: true}).Answers("a", ""), Conflict},
		"unknown":        {none.Answers("a", ""), Conflict},
	} {
		if got := kindOf(t, c.err); got != c.want {
			t.Errorf("%s: %q, expected %q", what, got, c.want)
		}
	}
	for _, c := range []struct {
		incarnation, first, acked, ahead uint64
		want                             RefusalKind
	}{{2, 8, 7, 0, ""}, {2, 3, 7, 0, ""}, {2, 9, 7, 8, Conflict}, {1, 8, 0, 0, Conflict}, {3, 1, 0, 0, Conflict}} {
		acked, ahead, err := v.Continues("a", c.incarnation, c.first)
		if acked != c.acked || ahead != c.ahead || kindOf(t, err) != c.want {
			t.Errorf("%+v: %d, %d, %v", c, acked, ahead, err)
		}
	}
	for p, want := range map[host.Purpose]bool{host.Update: false, host.Rollback: true} {
		if NeedsProof(&plan.Grant{Purpose: p}) != want {
			t.Errorf("purpose %s", p)
		}
	}
}
