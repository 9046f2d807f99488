package server

import (
	"slices"
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

func TestCertificatesInUse(t *testing.T) {
	v := &View{Incarnation: 1, Serial: "2", PrevSerial: "1", RevokedBefore: 10}
	for _, c := range []struct {
		view   *View
		serial string
		issued clock.Instant
		ok     bool
	}{
		{v, "2", 10, true}, {v, "1", 10, true}, {v, "3", 10, false}, {v, "2", 9, false},
		{&View{Serial: "2"}, "2", 10, false},
		{&View{Incarnation: 1, Serial: "2"}, "", 10, false},
	} {
		if err := c.view.InUse("a", c.serial, c.issued); (err == nil) != c.ok {
			t.Errorf("certificate %q of %d: %v", c.serial, c.issued, err)
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
