package operations

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	corefleet "github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// drawnNow is the instant of every state.
const drawnNow = clock.Instant(1_800_000_000_000)

// drawnDocuments are the manifests of a drawn fleet.
type drawnDocuments map[digest.Digest]*rollout.Manifest

func (d drawnDocuments) Manifest(of digest.Digest) (*rollout.Manifest, error) {
	if m := d[of]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("there is no manifest %s", of)
}

// anyFleet is a state and the hosts of its newest release.
type anyFleet struct {
	*server.State
	Roster map[string]corefleet.RosterHost
}

var drawnBundles = []digest.Digest{digest.Of([]byte("one")), digest.Of([]byte("two"))}

// drawAny draws a fleet of two channels with two rollouts each, hosts, nodes, sessions, sources and
// expiries.
func drawAny(t *rapid.T) anyFleet {
	docs := drawnDocuments{}
	f := anyFleet{server.NewState(docs), map[string]corefleet.RosterHost{}}
	for _, channel := range []string{"a", "b"} {
		f.drawChannel(t, docs, channel)
	}
	f.drawNodes(t)
	f.drawSessions(t)
	f.drawWarnings(t)
	return f
}

func (f *anyFleet) record(t *rapid.T, host string, ev event.Event) {
	entry := testkit.Value(event.NewEntry(drawnNow.Add(-clock.Hour), event.HostSubject(host), ev))(t)
	testkit.Must(t, f.Apply(entry))
}

func (f *anyFleet) drawChannel(t *rapid.T, docs drawnDocuments, channel string) {
	var names []string
	for i := range rapid.IntRange(1, 5).Draw(t, "hosts") {
		name := fmt.Sprint(channel, i)
		names = append(names, name)
		if rapid.IntRange(0, 9).Draw(t, "declared") > 0 {
			f.Roster[name] = corefleet.RosterHost{Channel: channel}
		}
	}
	var refs []corefleet.ManifestRef
	for i, target := range drawnBundles {
		m := &rollout.Manifest{Header: &corefleet.Manifest{Channel: channel, Ref: fmt.Sprint("r", i), Waves: []corefleet.Wave{{Name: "canary"}, {Name: "rest"}},
			Policy: corefleet.Policy{SustainedFailure: clock.Minute}}}
		for k, name := range names {
			m.Leaves = append(m.Leaves, corefleet.Leaf{Host: name, Wave: min(k, 1), Target: target})
		}
		m.Digest = digest.Of([]byte(channel + m.Header.Ref))
		docs[m.Digest] = m
		refs = append([]corefleet.ManifestRef{{Rollout: m.Header.Rollout(), Digest: m.Digest}}, refs...)
	}
	f.record(t, "", event.ReleaseAccepted{Version: 1, Ref: "r1", Channels: append(f.channels(), event.ChannelRelease{Channel: channel, FreshnessWindow: clock.Day, Manifests: refs})})
	for k := range refs {
		ref := refs[len(refs)-1-k]
		f.record(t, "", event.RolloutOpened{Rollout: ref.Rollout, Channel: channel, Ref: strings.TrimPrefix(ref.Rollout, channel+"@"), Manifest: ref.Digest, Reason: "drawn"})
		if k == 0 {
			f.Plan.Rollouts[ref.Digest].Phase = rollout.Terminal
			f.Plan.Channels[channel].Converged = ref.Digest
		}
	}
	for _, name := range names {
		f.drawHost(t, name, refs)
	}
	f.drawRollout(t, channel, f.Plan.Rollouts[refs[0].Digest])
	for _, name := range names { // what a rollout is changes what its hosts are in it
		f.record(t, name, drawnPresence(f.Plan.Hosts[name].Online))
	}
}

func (f *anyFleet) channels() (out []event.ChannelRelease) {
	for _, name := range f.Plan.ChannelNames() {
		c := f.Plan.Channels[name]
		out = append(out, event.ChannelRelease{Channel: name, FreshnessWindow: c.FreshnessWindow, Manifests: c.Manifests})
	}
	return out
}

func drawnPresence(online bool) event.Event {
	if online {
		return event.HostReturned{}
	}
	return event.HostSilent{LastSeen: drawnNow.Add(-2 * clock.Hour)}
}

// drawHost puts a host somewhere on its way from the older rollout to the newer one.
func (f *anyFleet) drawHost(t *rapid.T, name string, refs []corefleet.ManifestRef) {
	if rapid.IntRange(0, 9).Draw(t, "enrolled") == 0 {
		return
	}
	f.record(t, name, event.HostEnrolled{Incarnation: 1, Token: name, Serial: name})
	f.record(t, name, drawnPresence(rapid.IntRange(0, 3).Draw(t, "online") > 0))
	h := f.Plan.Hosts[name]
	m, newer := &h.Machine, refs[0]
	m.Manifest, m.Rollout, m.Current, m.Phase = refs[1].Digest, refs[1].Rollout, drawnBundles[0], host.Converged
	switch rapid.IntRange(0, 9).Draw(t, "phase") {
	case 0, 1:
		m.Manifest, m.Rollout, m.Current = newer.Digest, newer.Rollout, drawnBundles[1]
	case 2:
		m.Manifest, m.Rollout, m.Phase, m.Cause, m.Detail, m.FailedAt = newer.Digest, newer.Rollout, host.Failed, host.ProbeFailing, "answers", drawnNow.Add(-clock.Minute)
		m.Reverting = rapid.Bool().Draw(t, "reverting")
	case 3:
		m.Manifest, m.Rollout, m.Phase, m.Cause = newer.Digest, newer.Rollout, host.Reverted, host.ProbeFailing
	case 4:
		m.Manifest, m.Rollout, m.Phase, m.Target = newer.Digest, newer.Rollout, rapid.SampledFrom([]host.Phase{host.Activating, host.Soaking, host.Deferred}).Draw(t, "busy"), drawnBundles[1]
	case 5:
		h.Declines, h.LastDecline = rapid.IntRange(1, 6).Draw(t, "declines"), "could not prepare: no space left"
	case 6:
		h.Grant = &plan.Grant{ID: "g", Manifest: newer.Digest, Rollout: newer.Rollout, Purpose: host.Update, Target: drawnBundles[1], Expires: drawnNow.Add(clock.Hour), Claimed: rapid.Bool().Draw(t, "claimed")}
	}
	if rapid.IntRange(0, 4).Draw(t, "probe") == 0 {
		m.Probes = []host.ProbeState{{Name: "up", Mode: corefleet.Enforce, Seen: true, FailingSince: drawnNow.Add(-clock.Second), Reason: "refused"}}
	}
	for i, change := range []func(){
		func() { h.Forked = true }, func() { h.Parked = "set-back" }, func() { h.SilentFailure = true }, func() { h.Overdue = true },
		func() { h.Freeze = &event.HostFrozen{Until: drawnNow.Add(clock.Hour), Reason: "spare", Actor: "ann"} },
		func() { f.record(t, name, event.HostDecommissioned{Reason: "gone", Actor: "ann", NotBefore: drawnNow}) },
		func() { f.record(t, name, event.HostRevoked{NotBefore: drawnNow, Reason: "stolen", Actor: "ann"}) },
		func() {
			f.record(t, name, event.ResourceReported{Resource: "workspace/web", Phase: engine.Failed, State: "Error", Message: "exit code 1", Layer: event.LayerBundle})
			f.record(t, name, event.HostDegraded{Bundle: true, Resources: []event.DegradedResource{{Resource: "workspace/web", State: "Error", Message: "exit code 1"}}})
		},
	} {
		if rapid.IntRange(0, 11).Draw(t, fmt.Sprint("trouble", i)) == 0 {
			change()
		}
	}
}

// drawRollout puts the newer rollout of a channel somewhere.
func (f *anyFleet) drawRollout(t *rapid.T, channel string, r *rollout.Rollout) {
	r.Phase = rapid.SampledFrom([]rollout.Phase{rollout.Active, rollout.Active, rollout.Converging, rollout.Terminal, rollout.Failed, rollout.Reverted}).Draw(t, "rollout")
	r.Cursor = rapid.IntRange(0, 1).Draw(t, "wave")
	switch r.Phase {
	case rollout.Failed:
		r.Reason = "wave canary has 1 failed host"
		r.Final = rapid.IntRange(0, 3).Draw(t, "cancelled") == 0
		r.EndedAt = drawnNow
	case rollout.Reverted:
		r.Reverting, r.Reason, r.EndedAt = true, "1 host went back", drawnNow
	case rollout.Active:
		r.Reverting = rapid.IntRange(0, 5).Draw(t, "goes back") == 0
	}
	if rapid.IntRange(0, 2).Draw(t, "blocked") == 0 {
		r.SetBlocked("wave-waiting", drawnNow.Add(-clock.Duration(rapid.IntRange(1, 9).Draw(t, "hours"))*clock.Hour))
	}
	if rapid.IntRange(0, 5).Draw(t, "paused") == 0 {
		r.Paused, r.PauseReason = true, "lunch"
	}
	if rapid.IntRange(0, 3).Draw(t, "quarantine") == 0 {
		f.Plan.Channels[channel].Quarantine[drawnBundles[1]] = "failed on host x"
	}
	for i := range r.Plan.Leaves {
		if h := f.Plan.Hosts[r.Plan.Leaves[i].Host]; h != nil && h.Machine.Manifest == r.Manifest && h.Machine.Phase == host.Failed {
			r.SetMark(h.Name, func(m *rollout.Mark) { m.Failed, m.Claimed = true, true })
		}
	}
}

func (f *anyFleet) drawNodes(t *rapid.T) {
	s := drift.New()
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		n := &drift.Node{Name: fmt.Sprint("n", i), RegisteredAt: drawnNow.Add(-clock.Day), Since: drawnNow.Add(-2 * clock.Hour), Episodes: map[string]*drift.Episode{}}
		n.Online = rapid.IntRange(0, 3).Draw(t, "connected") > 0
		for k, change := range []func(){
			func() { n.RegisteredAt = 0 }, func() { n.RetiredAt = drawnNow }, func() { n.Paused = &drift.Pause{Code: drift.Ahead, Detail: "it knows more", Since: drawnNow} },
			func() {
				n.Compare, n.UnreadSince = true, n.Since.Add(-clock.Duration(rapid.IntRange(0, 1).Draw(t, "unread"))*clock.Hour)
			},
			func() { n.Refusal = "too-large" }, func() {
				n.Adoption = &drift.Adoption{Objects: []event.NodeObject{{Kind: nodeconfig.Flow, ID: "x"}}, Since: drawnNow}
			},
		} {
			if rapid.IntRange(0, 7).Draw(t, fmt.Sprint("node", k)) == 0 {
				change()
			}
		}
		s.Nodes[n.Name] = n
		for _, flow := range []string{"p", "q"} {
			drawObject(t, s, n, n.Name+flow)
		}
	}
	raw := testkit.Value(json.Marshal(s))(t)
	var back *drift.State
	testkit.Must(t, json.Unmarshal(raw, &back))
	f.State.Nodes = drift.Restore(back)
}

// drawObject puts a flow, or a tunnel with a second node, on a node.
func drawObject(t *rapid.T, s *drift.State, n *drift.Node, name string) {
	o := &drift.Object{Kind: nodeconfig.Flow, Name: name, Version: 1, Legs: map[string]*drift.Leg{}, ChangedAt: drawnNow.Add(-clock.Hour)}
	o.Definition.Legs = []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: n.Name, ID: name, Config: json.RawMessage(`{}`)}}
	if rapid.IntRange(0, 2).Draw(t, "tunnel") == 0 {
		o.Kind = nodeconfig.Tunnel
		o.Definition.Legs = []nodeconfig.Leg{{Role: "ingress", Node: n.Name, ID: name, Config: json.RawMessage(`{}`)}, {Role: "egress", Node: "far", ID: name, Config: json.RawMessage(`{}`)}}
	}
	for i := range o.Definition.Legs {
		d := &o.Definition.Legs[i]
		l := &drift.Leg{Status: rapid.SampledFrom([]drift.Status{drift.Pending, drift.Pushing, drift.Pushed, drift.Pushed, drift.Failed}).Draw(t, "push")}
		if l.Status == drift.Failed || l.Status == drift.Pushing && rapid.Bool().Draw(t, "tried again") {
			l.Code, l.Error, l.Attempts, l.FailedSince = "port-in-use", "port 80 is in use", 3, drawnNow.Add(-clock.Minute)
		}
		if l.Status == drift.Pushed {
			l.Acked, l.Effect = &drift.Acked{Version: 1, At: drawnNow}, rapid.SampledFrom([]string{"", "in effect", "not in effect"}).Draw(t, "effect")
		}
		o.Legs[d.Role] = l
		if kind := rapid.SampledFrom([]string{"", "", drift.Missing, drift.Mismatched}).Draw(t, "drift"); kind != "" && d.Node == n.Name {
			e := &drift.Episode{Node: n.Name, Kind: o.Kind, Name: name, Role: d.Role, Drift: kind, OpenedAt: drawnNow.Add(-clock.Hour), Decided: rapid.IntRange(0, 3).Draw(t, "decided") == 0}
			e.Drifted = event.Drifted{Episode: "d" + name, ID: name, Conflict: rapid.IntRange(0, 3).Draw(t, "conflict") == 0}
			n.Episodes[drift.Key(o.Kind, name)] = e
			if kind == drift.Missing { // what was said of the effect ended with it
				l.Effect = ""
			}
		}
		if !n.Online {
			l.Effect = ""
		}
	}
	s.Objects[drift.Key(o.Kind, name)] = o
}

// drawSessions draws the rows of sessions with a part and a pod each.
func (f *anyFleet) drawSessions(t *rapid.T) {
	for i := range rapid.IntRange(0, 3).Draw(t, "sessions") {
		name := fmt.Sprint("s", i)
		now := drawnNow.Time()
		spec := session.Spec{Owner: "ann", Timeslot: session.Timeslot{ProvisionAt: now.Add(-time.Hour), Start: now.Add(-time.Hour), End: now.Add(time.Hour), CleanupDeadline: now.Add(2 * time.Hour)},
			Parts: []session.Part{{Name: "p", Pods: []session.Pod{{Name: "web"}}}}}
		row := func(ref, parent engine.Ref, phase engine.Phase, desired any) engine.StoredRow {
			r := engine.Row{Ref: ref, Parent: parent, Created: int64(10*i + 1), Generation: 1, Revision: 1, Phase: phase, Reason: engine.NewReason("drawn", "it is "+string(phase))}
			r.Desired = testkit.Value(json.Marshal(desired))(t)
			return engine.StoredRow{Row: r, State: json.RawMessage(`{}`)}
		}
		phases := []engine.Phase{engine.Converged, engine.Converged, engine.Degraded, engine.Failed, engine.Orphaned, engine.Waiting}
		ref := session.Ref(name)
		part := engine.Ref{Kind: session.KindPart, ID: name + "/p"}
		pod := engine.Ref{Kind: session.KindPod, ID: name + "/p/web"}
		w := engine.Write{At: now, Rows: []engine.StoredRow{
			row(ref, engine.Ref{}, rapid.SampledFrom(phases).Draw(t, "session"), spec),
			row(part, ref, rapid.SampledFrom(phases).Draw(t, "part"), spec.Parts[0]),
			row(pod, part, rapid.SampledFrom(phases).Draw(t, "pod"), spec.Parts[0].Pods[0])}}
		f.record(t, "", event.ResourceRecorded{OnSession: event.OnSession{Session: name}, Write: testkit.Value(json.Marshal(w))(t)})
	}
}

func (f *anyFleet) drawWarnings(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "source") == 0 {
		f.record(t, "", event.SourceFailed{Source: "git", Cause: "unreachable", Detail: "connection refused"})
	}
	if rapid.IntRange(0, 2).Draw(t, "expiry") == 0 {
		f.record(t, "", event.ExpiryWarned{Kind: string(warning.Disk), Level: string(warning.Critical), Message: "the disk is full", Next: "free some"})
	}
}
