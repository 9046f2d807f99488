package hosts_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A long-poll is woken by what it would answer or end with, and by nothing else.
func TestChangesThatMatterWake(t *testing.T) {
	var d hosts.Directory
	if d.Find("a") != nil {
		t.Fatal("a host that was never published was found")
	}
	s := &plan.Host{Name: "a", Incarnation: 1, Serial: "1"}
	h := d.Publish(s, hosts.Layer{})
	for _, step := range []struct {
		what   string
		change func()
		wakes  bool
	}{
		{"an event", func() { s.Seq++ }, false},
		{"a return", func() { s.Online = true }, false},
		{"a grant", func() { s.Grant = &plan.Grant{ID: "g"} }, true},
		{"the same grant", func() { s.Grant = &plan.Grant{ID: "g"} }, false},
		{"a claim of it", func() { s.Grant.Claimed = true }, true},
		{"its end", func() { s.Grant = nil }, true},
		{"a renewal", func() { s.PrevSerial, s.Serial = s.Serial, "2" }, true},
		{"a revocation", func() { s.RevokedBefore = 5 }, true},
	} {
		changed := h.Changed()
		step.change()
		if d.Publish(s, hosts.Layer{}) != h || d.Find("a") != h {
			t.Fatal("one host has two entries")
		}
		if woken(changed) != step.wakes {
			t.Errorf("%s: woken is %t", step.what, !step.wakes)
		}
	}
}

// What is published is a copy: the fold may go on changing the grant.
func TestViewsNeverChange(t *testing.T) {
	var d hosts.Directory
	s := &plan.Host{Name: "a", Grant: &plan.Grant{ID: "g"}}
	v := d.Publish(s, hosts.Layer{}).View()
	s.Grant.Claimed = true
	if v.Grant.Claimed {
		t.Error("a published grant changed")
	}
}

func TestCertificatesInUse(t *testing.T) {
	v := &hosts.View{Incarnation: 1, Serial: "2", PrevSerial: "1", RevokedBefore: 10}
	for _, c := range []struct {
		view   *hosts.View
		serial string
		issued clock.Instant
		ok     bool
	}{
		{v, "2", 10, true}, {v, "1", 10, true}, {v, "3", 10, false}, {v, "2", 9, false},
		{&hosts.View{Serial: "2"}, "2", 10, false},
		{&hosts.View{Incarnation: 1, Serial: "2"}, "", 10, false},
	} {
		if err := c.view.InUse("a", c.serial, c.issued); (err == nil) != c.ok {
			t.Errorf("certificate %q of %d: %v", c.serial, c.issued, err)
		}
	}
	if v.Revoked(10) != nil || v.Revoked(9) == nil {
		t.Error("a revocation is of all certificates issued before it")
	}
}

func TestGrantIsHandedOutEverLater(t *testing.T) {
	var d hosts.Directory
	h := d.Publish(&plan.Host{Name: "a"}, hosts.Layer{})
	now, last := clock.Instant(1), clock.Duration(0)
	if h.Hand("g", now) != 0 {
		t.Fatal("a new grant waits")
	}
	for i := range 20 {
		pause := h.Hand("g", now)
		if pause <= 0 || pause < last || pause > 15*clock.Second {
			t.Fatalf("pause %d is %v after %v", i, pause, last)
		}
		if h.Hand("g", now.Add(pause-1)) == 0 {
			t.Fatalf("grant handed out before its pause of %v", pause)
		}
		now, last = now.Add(pause), pause
		if h.Hand("g", now) != 0 {
			t.Fatalf("grant not handed out after its pause of %v", pause)
		}
	}
	if h.Hand("h", now) != 0 {
		t.Error("the next grant waits for the last one")
	}
}

func TestRequestsOfOneHostAreBounded(t *testing.T) {
	var d hosts.Directory
	h := d.Publish(&plan.Host{Name: "a"}, hosts.Layer{})
	var ends []func()
	for len(ends) < 1000 {
		end, ok := h.Begin()
		if !ok {
			break
		}
		ends = append(ends, end)
	}
	if len(ends) == 0 || len(ends) == 1000 {
		t.Fatalf("%d requests at once", len(ends))
	}
	ends[0]()
	if _, ok := h.Begin(); !ok {
		t.Error("a request that ended still counts")
	}
}

// A return is told once, until the reducer has heard of it.
func TestReturnIsToldOnce(t *testing.T) {
	var d hosts.Directory
	s := &plan.Host{Name: "a"}
	h := d.Publish(s, hosts.Layer{})
	if !h.Returns() || h.Returns() {
		t.Error("a return is not told exactly once")
	}
	h.Returned()
	if !h.Returns() {
		t.Error("a return that was lost is not told again")
	}
	h.Returned()
	s.Online = true
	d.Publish(s, hosts.Layer{})
	if h.Returns() {
		t.Error("a host that is online returns")
	}
}

// A host is found silent if and only if it is online, has no long-poll open and
// was not heard from for the period of grace.
func TestWatchFindsTheSilent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const grace = 10
		var d hosts.Directory
		w := hosts.NewWatch(grace)
		states, last, polls := map[string]*plan.Host{}, map[string]clock.Instant{}, map[string]func(){}
		now := clock.Instant(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "host")
			h := d.Find(name)
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case h == nil:
				states[name] = &plan.Host{Name: name}
				d.Publish(states[name], hosts.Layer{})
			case op == 0:
				h.Seen(now)
				last[name] = now
				states[name].Online = true
				w.Add(d.Publish(states[name], hosts.Layer{}))
			case op == 1 && polls[name] == nil:
				polls[name] = h.Poll()
			case op == 1:
				polls[name]()
				delete(polls, name)
				h.Seen(now)
				last[name] = now
			default:
				now = now.Add(clock.Duration(rapid.Int64Range(1, 2*grace).Draw(t, "pause")))
			}
			var got, want []string
			for _, s := range w.Silent(now) {
				got = append(got, s.Host)
				if s.Last != last[s.Host] {
					t.Fatalf("host %s was last seen at %d, not %d", s.Host, last[s.Host], s.Last)
				}
			}
			for name, s := range states {
				if s.Online && polls[name] == nil && last[name].Add(grace).Reached(now) {
					want = append(want, name)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("at %d silent are %v, expected %v", now, got, want)
			}
			for _, name := range got {
				states[name].Online = false
				d.Publish(states[name], hosts.Layer{})
			}
			if at, ok := w.Next(); ok && at <= now {
				t.Fatalf("the next look is at %d, now is %d", at, now)
			}
		}
	})
}

// A restart gives every host that is online a fresh period of grace.
func TestWatchRestarts(t *testing.T) {
	var d hosts.Directory
	w := hosts.NewWatch(10)
	d.Publish(&plan.Host{Name: "a", Online: true}, hosts.Layer{})
	d.Publish(&plan.Host{Name: "b"}, hosts.Layer{})
	for range 2 {
		w.Restart(&d, 5)
	}
	if got := w.Silent(14); got != nil {
		t.Errorf("silent within the period of grace: %v", got)
	}
	if got := w.Silent(15); !slices.Equal(got, []hosts.Silence{{Host: "a", Last: 5}}) {
		t.Errorf("silent are %v", got)
	}
	if _, ok := w.Next(); ok {
		t.Error("a host that is not online is watched")
	}
}
