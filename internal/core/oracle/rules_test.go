package oracle

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

const (
	old, fresh, now = digest.Digest("sha256:old"), digest.Digest("sha256:fresh"), clock.Instant(1_000_000)
	first, second   = digest.Digest("sha256:first"), digest.Digest("sha256:second")
)

type documents map[digest.Digest]*rollout.Manifest

func (d documents) Manifest(m digest.Digest) (*rollout.Manifest, error) {
	if d[m] == nil {
		return nil, errors.New("there is no such manifest")
	}
	return d[m], nil
}

// manifest is a rollout of one bundle to h0, then h1: in one wave, in which h1 goes
// after h0 if asked for, or in two.
func manifest(d, target digest.Digest, change func(*rollout.Manifest)) *rollout.Manifest {
	m := &rollout.Manifest{Digest: d, Header: &fleet.Manifest{Document: fleet.Document{Epoch: 1}, Channel: "c", Ref: string(d), Waves: []fleet.Wave{{Name: "w0"}, {Name: "w1"}},
		Policy: fleet.Policy{OnHealthFailure: fleet.RollbackAndHalt, GrantExpiry: clock.Minute, ConfirmWindow: clock.Minute, ActivationDeadline: clock.Minute}},
		Leaves: []fleet.Leaf{{Host: "h0", Target: target}, {Host: "h1", Target: target}}}
	if change != nil {
		change(m)
	}
	return m
}

// story is a log that is told event by event, a second apart.
type story struct {
	t    *testing.T
	f    *Facts
	docs documents
}

func (s *story) at(at clock.Instant, name string, ev event.Event) {
	s.t.Helper()
	testkit.Must(s.t, s.f.Apply(event.Entry{At: at, Subject: event.HostSubject(name), Type: ev.EventType()}, ev))
}

func (s *story) tell(name string, ev event.Event) { s.t.Helper(); s.at(now-1, name, ev) }

func (s *story) step(name string, to host.Phase, in host.Input) {
	s.t.Helper()
	h := s.f.Host(name)
	manifest := h.Manifest
	if claim, is := in.(host.Claimed); is {
		manifest = claim.Manifest
	}
	ev := testkit.Value(event.NewHostStepped(&host.State{Phase: h.Phase}, &host.State{Phase: to, Manifest: manifest, Cause: host.ActivationFailedCause}, in))(s.t)
	s.tell(name, ev)
}

func (s *story) open(m *rollout.Manifest) {
	s.t.Helper()
	s.docs[m.Digest] = m
	ref := fleet.ManifestRef{Rollout: m.Header.Rollout(), Digest: m.Digest}
	s.tell("", event.ReleaseAccepted{Epoch: 1, Channels: []event.ChannelRelease{{Channel: "c", FreshnessWindow: clock.Day, Manifests: []fleet.ManifestRef{ref}}}})
	s.tell("", event.RolloutOpened{Rollout: ref.Rollout, Channel: "c", Manifest: m.Digest})
	s.tell("", event.RolloutMoved{Rollout: ref.Rollout, Manifest: m.Digest, From: "opening", To: "active"})
}

// claim has a host claim a grant; its machine has not begun.
func (s *story) claim(name string, m *rollout.Manifest, p host.Purpose, target digest.Digest) {
	s.t.Helper()
	id := name + "/" + string(m.Digest) + "/" + string(p)
	s.tell(name, event.Granted{Grant: id, Rollout: m.Header.Rollout(), Manifest: m.Digest, Purpose: p, Target: target, Expires: now + 1})
	s.tell(name, event.GrantClaimed{Grant: id})
}

// activate has a host claim and begin.
func (s *story) activate(name string, m *rollout.Manifest) {
	s.t.Helper()
	target := leafOf(m, name).Target
	s.claim(name, m, host.Update, target)
	s.step(name, host.Activating, host.Claimed{Grant: s.f.Host(name).Grant.ID, Manifest: m.Digest, From: s.f.Host(name).Current, Target: target, BootID: "1"})
}

// converge has a host run what it claims.
func (s *story) converge(name string, m *rollout.Manifest) {
	s.t.Helper()
	s.activate(name, m)
	s.step(name, host.Soaking, host.Activated{Observed: leafOf(m, name).Target})
	s.step(name, host.Converged, host.Elapsed{})
}

// begin is a fleet of two hosts of which both may have the target of the first rollout.
func begin(t *testing.T, change func(*rollout.Manifest)) (*story, *rollout.Manifest) {
	s := &story{t: t, docs: documents{}}
	s.f = New(s.docs)
	s.tell("", event.RootTrusted{Version: 1, Epoch: 1})
	for _, name := range []string{"h0", "h1"} {
		s.tell(name, event.HostEnrolled{Incarnation: 1})
		s.tell(name, event.HostReturned{})
		s.step(name, "", host.Booted{BootID: "1"})
	}
	m := manifest(first, old, change)
	s.open(m)
	s.tell("", event.TimestampAccepted{IssuedAt: now - 1})
	return s, m
}

// TestEveryRuleCanBreak tells a log for each rule in which a grant breaks it, and next to
// it one in which it does not: the same without what the case tells.
func TestEveryRuleCanBreak(t *testing.T) {
	budget := func(m *rollout.Manifest) {
		m.Header.Budgets, m.Members = []fleet.Budget{{Selector: "b", Max: 1}}, [][]string{{"h0", "h1"}}
	}
	windows := func(m *rollout.Manifest) {
		m.Header.Windows = []clock.Window{{Name: "never"}}
		m.Leaves[1].Windows = []int{0}
	}
	over := func(m *rollout.Manifest) { m.Leaves[1].After = []string{"h0"} }
	canary := func(m *rollout.Manifest) { m.Header.CanaryMax = 1 }
	later := func(m *rollout.Manifest) { m.Leaves[1].Wave = 1 }
	scanned := func(m *rollout.Manifest) {
		m.Header.Probes = []fleet.Probe{{Name: "scan", Mode: fleet.Enforce, Evidence: &fleet.EvidenceProbe{}}}
		m.Leaves[0].Probes, m.Leaves[1].Wave = []int{0}, 1
	}
	staged := func(s *story, m *rollout.Manifest) {
		s.activate("h1", m)
		s.step("h1", host.Deferred, host.ActivationDeferred{})
	}
	need := func(s *story, m *rollout.Manifest) {
		s.converge("h1", m)
		s.tell("h1", event.RepairNeeded{RepairNeed: host.RepairNeed{Manifest: m.Digest, Bundle: old}})
	}
	say := func(ev event.Event, name string) func(*story, *rollout.Manifest) {
		return func(s *story, _ *rollout.Manifest) { s.tell(name, ev) }
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		want    string // a rule's message
		change  func(*rollout.Manifest)
		before  func(*story, *rollout.Manifest) // also where the rule is kept
		breaks  func(*story, *rollout.Manifest)
		request func(*Request)
	}{
		{want: "the host is not there", breaks: say(event.HostSilent{}, "h1")},
		{want: "the identity of the host counts for nothing", breaks: say(event.HostForked{}, "h1")},
		{want: "the host has another grant", breaks: func(s *story, m *rollout.Manifest) { s.claim("h1", m, host.Update, old) }},
		{want: "the host is on its way already", breaks: func(s *story, m *rollout.Manifest) { s.activate("h1", m) }},
		{want: "the host is frozen", breaks: say(event.HostFrozen{Until: now + 1}, "h1")},
		{want: "a session has something on the host", breaks: say(event.ManagedSet{Kind: "workspace", Name: "desk", Owner: "session/lab", NotAfter: now + 1}, "h1")},
		{want: "the host declined and its time off is not over", breaks: func(s *story, m *rollout.Manifest) {
			s.tell("h1", event.Granted{Grant: "g", Rollout: m.Header.Rollout(), Manifest: m.Digest, Purpose: host.Update, Target: old})
			s.tell("h1", event.GrantEnded{Grant: "g", NotBefore: now + 1})
		}},
		{want: "the host declined a repair and its time off is not over", before: need, request: func(q *Request) { q.Purpose = host.Repair }, breaks: func(s *story, m *rollout.Manifest) {
			s.tell("h1", event.Granted{Grant: "g", Rollout: m.Header.Rollout(), Manifest: m.Digest, Purpose: host.Repair, Target: old})
			s.tell("h1", event.GrantEnded{Grant: "g", NotBefore: now + 1})
		}},
		{want: "a maintenance window of the host is closed", change: windows},
		{want: "a budget of the host is full", change: budget, breaks: func(s *story, m *rollout.Manifest) { s.claim("h0", m, host.Update, old) }},
		{want: "a budget of the host is full by what the same tick gave", change: budget, breaks: func(s *story, m *rollout.Manifest) {
			s.at(now, "h0", event.Granted{Grant: "g", Rollout: m.Header.Rollout(), Manifest: m.Digest, Purpose: host.Update, Target: old, Expires: now + 1})
		}},
		{want: "the host is not in the rollout", change: func(m *rollout.Manifest) { m.Leaves = m.Leaves[:1] }},
		{want: "the plan says something else", request: func(q *Request) { q.Target = fresh }},
		{want: "the rollout is neither the newest of its channel nor the last that converged", breaks: func(s *story, _ *rollout.Manifest) { s.open(manifest(second, fresh, nil)) }},
		{want: "the host took a later rollout", breaks: func(s *story, _ *rollout.Manifest) {
			m := manifest(second, fresh, nil)
			s.open(m)
			s.converge("h1", m)
		}},
		{want: "the host belongs to the newest rollout of the channel", breaks: func(s *story, _ *rollout.Manifest) { s.open(manifest(second, fresh, nil)) }},
		{want: "the rollout is paused, reverting or over", breaks: say(event.RolloutPaused{Manifest: first}, "")},
		{want: "an override blocks the rollout", breaks: say(event.OverrideAccepted{Override: fleet.Override{Action: fleet.OverrideFreeze, Channel: "c", Document: fleet.Document{Epoch: 1, Version: 1}}}, "")},
		{want: "the rollout was signed in a key epoch that has ended", breaks: say(event.RootTrusted{Version: 2, Epoch: 2}, "")},
		{want: "the rollout fails required controls", breaks: say(event.ComplianceEvaluated{Manifest: first, Failures: []fleet.ControlFailure{{Control: "x", Mode: fleet.Enforce}}}, "")},
		{want: "nothing says that the channel's documents are fresh", request: func(q *Request) { q.At = now.Add(clock.Day) }},
		{want: "the bundle is quarantined for the host", breaks: say(event.QuarantineAdded{Channel: "c", Digest: old}, "")},
		{want: "the wave of the host is not open", change: later},
		{want: "evidence of an earlier wave fails", change: scanned, before: func(s *story, m *rollout.Manifest) {
			s.converge("h0", m)
			s.tell("", event.WavePromoted{Manifest: first})
		}, breaks: func(s *story, _ *rollout.Manifest) { s.step("h0", host.Converged, host.ProbeObserved{Name: "scan"}) }},
		{want: "somebody who goes before the host has not arrived", change: over},
		{want: "as many hosts as may try the bundle before one has converged", change: canary, breaks: func(s *story, m *rollout.Manifest) { s.claim("h0", m, host.Update, old) }},
		{want: "the host needs nothing of the rollout", breaks: func(s *story, m *rollout.Manifest) { s.converge("h1", m) }},
		{want: "the rollout is not reverting", request: func(q *Request) { q.Purpose = host.Rollback }},
		{want: "the host came from somewhere else", request: func(q *Request) { q.Purpose = host.Rollback }},
		{want: "the host has nothing of the rollout to go back from", request: func(q *Request) { q.Purpose = host.Rollback }},
		{want: "the host has something else staged, or nothing", before: staged, request: func(q *Request) { q.Purpose = host.Reboot }, breaks: func(s *story, _ *rollout.Manifest) {
			s.step("h1", host.Deferred, host.RebootClaimed{Grant: "g"})
		}},
		{want: "the host is not at rest on what it is to repair", before: need, request: func(q *Request) { q.Purpose = host.Repair }, breaks: func(s *story, _ *rollout.Manifest) {
			s.step("h1", host.Failed, host.RevertClaimed{Grant: "back"})
		}},
		{want: "the host waits for no such repair", before: need, request: func(q *Request) { q.Purpose = host.Repair }, breaks: say(event.RepairOver{}, "h1")},
		{want: "the host is to go back from what it would repair", before: need, request: func(q *Request) { q.Purpose = host.Repair }, breaks: say(event.RolloutReverting{Manifest: first}, "")},
	} {
		broken := func(breaks bool) []string {
			change := c.change
			if !breaks && c.breaks == nil {
				change = nil
			}
			s, m := begin(t, change)
			if c.before != nil {
				c.before(s, m)
			}
			if breaks && c.breaks != nil {
				c.breaks(s, m)
			}
			q := Request{Host: s.f.Host("h1"), Rollout: s.f.Find(first), Purpose: host.Update, Target: old, At: now}
			if c.request != nil && (breaks || c.breaks != nil) {
				c.request(&q)
			}
			var out []string
			for _, r := range s.f.Broken(q) {
				out = append(out, r.Message)
			}
			if s.f.may(q) != (len(out) == 0) {
				t.Errorf("%s: what may be decided and what is broken differ", c.want)
			}
			return out
		}
		seen[c.want] = true
		if got := broken(true); !slices.Contains(got, c.want) {
			t.Errorf("%s: only %q is broken", c.want, got)
		}
		if got := broken(false); len(got) > 0 {
			t.Errorf("%s: without it %q is broken", c.want, got)
		}
	}
	for i := range rules {
		if !seen[rules[i].Message] {
			t.Errorf("no case breaks the rule that %s", rules[i].Message)
		}
	}
}

// TestS8SignedPromotionWaitsForHostsAlone: an override that was signed for a wave lets it
// pass over a soak that time alone would end, and neither over hosts on their way nor
// over those that could start.
func TestS8SignedPromotionWaitsForHostsAlone(t *testing.T) {
	soaks := func(m *rollout.Manifest) { m.Leaves[1].Wave, m.Header.Waves[0].Soak = 1, clock.Minute }
	arrives := func(s *story, m *rollout.Manifest) { s.converge("h0", m) }
	for name, c := range map[string]struct {
		wave string // that is signed for
		h0   func(*story, *rollout.Manifest)
		at   clock.Instant
		want string
	}{
		"a soak":                    {"w0", arrives, now, "force wave 0"},
		"a soak, of another wave":   {"w1", arrives, now, "hold wave 0 of sha256:first: 0/soak"},
		"nothing":                   {"w0", arrives, now.Add(clock.Minute), "promote wave 0"},
		"a host that is on its way": {"w0", func(s *story, m *rollout.Manifest) { s.activate("h0", m) }, now, "hold wave 0 of sha256:first: 0/in-flight"},
		"a host that could start":   {"w0", func(*story, *rollout.Manifest) {}, now, "grant h0"},
	} {
		s, m := begin(t, soaks)
		s.tell("", event.OverrideAccepted{Override: fleet.Override{Action: fleet.OverridePromote, Channel: "c", Manifest: first, Wave: c.wave, Document: fleet.Document{Epoch: 1, Version: 1}}})
		c.h0(s, m)
		due := testkit.Value(Decisions(s.f, c.at))(t)
		if !slices.ContainsFunc(due, func(d string) bool { return strings.HasPrefix(d, c.want) }) {
			t.Errorf("%s: decides %q, not to %s", name, due, c.want)
		}
		if forces := slices.ContainsFunc(due, func(d string) bool { return strings.HasPrefix(d, "force") }); forces != strings.HasPrefix(c.want, "force") {
			t.Errorf("%s: decides %q", name, due)
		}
	}
}
