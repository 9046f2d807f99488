package server

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// contacts are requests as a test has them.
type contacts struct {
	last  map[string]clock.Instant
	polls map[string]bool
}

func (c contacts) LastSeen(host string) (clock.Instant, bool) { return c.last[host], c.polls[host] }
func (c contacts) LastEvent(string) (uint64, bool)            { return 0, false }

// A host is found silent if and only if it is online, has no request open and was not
// heard from for the period of grace.
func TestSilentHostsAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const grace = 10
		s, c := plan.New(nil), contacts{map[string]clock.Instant{}, map[string]bool{}}
		var p presence
		p.restart(s, grace, 1)
		now := clock.Instant(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "host")
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op == 0:
				s.Hosts[name] = &plan.Host{Name: name, Online: true}
				c.last[name] = now
				p.add(s.Hosts[name], now)
			case op == 1:
				if c.polls[name] {
					c.last[name] = now
				}
				c.polls[name] = !c.polls[name]
			default:
				now = now.Add(clock.Duration(rapid.Int64Range(1, 2*grace).Draw(t, "pause")))
			}
			var got, want []string
			for _, found := range p.silent(s, c, now) {
				got = append(got, found.host)
				if found.last != c.last[found.host] {
					t.Fatalf("host %s was last seen at %d, not %d", found.host, c.last[found.host], found.last)
				}
			}
			for name, h := range s.Hosts {
				if h.Online && !c.polls[name] && c.last[name].Add(grace).Reached(now) {
					want = append(want, name)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("at %d silent are %v, expected %v", now, got, want)
			}
			for _, name := range got {
				s.Hosts[name].Online = false
			}
			if at := p.next(); at != 0 && at <= now {
				t.Fatalf("the next check is at %d, now is %d", at, now)
			}
		}
	})
}

// A restart gives every host that is online a fresh period of grace.
func TestRestartGivesGrace(t *testing.T) {
	s := plan.New(nil)
	s.Hosts["a"], s.Hosts["b"] = &plan.Host{Name: "a", Online: true}, &plan.Host{Name: "b"}
	var p presence
	for range 2 {
		p.restart(s, 10, 5)
	}
	if got := p.silent(s, contacts{}, 14); got != nil {
		t.Errorf("silent within the period of grace: %v", got)
	}
	if got := p.silent(s, contacts{}, 15); !slices.Equal(got, []silence{{"a", 5}}) {
		t.Errorf("silent are %v", got)
	}
	if p.next() != 0 {
		t.Error("a host that is not online is checked")
	}
}

// A host that waits is woken by what it would be answered or refused, and by nothing else.
func TestChangesThatMatterWake(t *testing.T) {
	h := &plan.Host{Name: "a", Incarnation: 1, Serial: "1"}
	s := &Server{State: NewState(nil)}
	s.Plan.Hosts["a"] = h
	v := s.View("a", nil)
	if !v.Wakes(nil) {
		t.Error("the first view does not wake")
	}
	for _, step := range []struct {
		what   string
		change func()
		wakes  bool
	}{
		{"an event", func() { h.Seq++ }, false},
		{"a return", func() { h.Online = true }, false},
		{"a grant", func() { h.Grant = &plan.Grant{ID: "g"} }, true},
		{"the same grant", func() { h.Grant = &plan.Grant{ID: "g"} }, false},
		{"a claim of it", func() { h.Grant.Claimed = true }, true},
		{"its end", func() { h.Grant = nil }, true},
		{"a renewal", func() { h.PrevSerial, h.Serial = h.Serial, "2" }, true},
		{"a revocation", func() { h.RevokedBefore = 5 }, true},
		{"an override", func() { s.Plan.Signed++ }, true},
	} {
		step.change()
		next := s.View("a", v)
		if next.Wakes(v) != step.wakes {
			t.Errorf("%s: wakes is %t", step.what, !step.wakes)
		}
		v = next
	}
}

// A view is a copy: the fold may go on changing the grant.
func TestViewsNeverChange(t *testing.T) {
	s := &Server{State: NewState(nil)}
	s.Plan.Hosts["a"] = &plan.Host{Name: "a", Grant: &plan.Grant{ID: "g"}}
	v := s.View("a", nil)
	s.Plan.Hosts["a"].Grant.Claimed = true
	if v.Grant.Claimed {
		t.Error("a grant of a view changed")
	}
}

// TestT10CertificatesInUse: only what the log has is in use, and what the log lacks only if it is newer
// than all that the log has of this incarnation, and not revoked.
func TestT10CertificatesInUse(t *testing.T) {
	v := &View{Incarnation: 2, Serial: "2", PrevSerial: "1", IssuedAt: 20, RevokedBefore: 10}
	for what, c := range map[string]struct {
		view   *View
		is     Certificate
		lacked bool
		refuse string
	}{
		"newest":               {v, Certificate{Serial: "2", Issued: 10}, false, ""},
		"before":               {v, Certificate{Serial: "1", Issued: 10, Incarnation: 2}, false, ""},
		"newest, revoked":      {v, Certificate{Serial: "2", Issued: 9}, false, "are revoked"},
		"lacked":               {v, Certificate{Serial: "3", Issued: 21, Incarnation: 2}, true, ""},
		"lacked, as old":       {v, Certificate{Serial: "3", Issued: 20, Incarnation: 2}, false, "is not in use"},
		"lacked, does not say": {v, Certificate{Serial: "3", Issued: 21}, false, "is not in use"},
		"lacked, of before":    {v, Certificate{Serial: "3", Issued: 21, Incarnation: 1}, false, "is not in use"},
		"lacked, of later":     {v, Certificate{Serial: "3", Issued: 21, Incarnation: 3}, false, "steady token create a"},
		"lacked, revoked":      {&View{Incarnation: 1, IssuedAt: 5, RevokedBefore: 10}, Certificate{Serial: "3", Issued: 9, Incarnation: 1}, false, "are revoked"},
		"host lacked":          {&View{}, Certificate{Serial: "3", Issued: 21, Incarnation: 1}, false, "steady token create a"},
		"host never enrolled":  {&View{Serial: "2"}, Certificate{Serial: "2", Issued: 10}, false, "never enrolled"},
		"none":                 {&View{Incarnation: 1, Serial: "2"}, Certificate{Issued: 10}, false, "is not in use"},
	} {
		lacked, err := c.view.Admit("a", c.is)
		if (lacked != nil) != c.lacked || (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%s: %+v, %v", what, lacked, err)
		}
		if lacked != nil && (lacked.Serial != "3" || lacked.Presented != "2" || lacked.Issued != 21) {
			t.Errorf("%s is recorded as %+v", what, lacked)
		}
	}
	if v.Revoked(10) != nil || v.Revoked(9) == nil {
		t.Error("a revocation is of all certificates issued before it")
	}
}

func TestGrantIsOfferedEverLater(t *testing.T) {
	var s Session
	g, other := &View{Grant: &plan.Grant{ID: "g", Expires: 1 << 40}}, &View{Grant: &plan.Grant{ID: "h", Expires: 1 << 40}}
	now, last := clock.Instant(1), clock.Duration(0)
	if got, _ := s.Offer(g, now); got == nil {
		t.Fatal("a new grant waits")
	}
	for i := range 20 {
		got, pause := s.Offer(g, now)
		if got != nil || pause <= 0 || pause < last || pause > 15*clock.Second {
			t.Fatalf("pause %d is %v after %v", i, pause, last)
		}
		if got, _ := s.Offer(g, now.Add(pause-1)); got != nil {
			t.Fatalf("grant offered before its pause of %v", pause)
		}
		now, last = now.Add(pause), pause
		if got, _ := s.Offer(g, now); got == nil {
			t.Fatalf("grant not offered after its pause of %v", pause)
		}
	}
	if got, _ := s.Offer(other, now); got == nil {
		t.Error("the next grant waits for the last one")
	}
	if got, wait := s.Offer(other, 1<<40); got != nil || wait != 0 {
		t.Error("a grant is offered that expired")
	}
}
