package operations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	corefleet "github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// drawn is a state as handlers read that of the running server.
type drawn struct{ anyFleet }

func (d drawn) View(_ context.Context, read func(*plan.State)) error { read(d.Plan); return nil }
func (d drawn) ViewNodes(_ context.Context, read func(*drift.State)) error {
	read(d.State.Nodes)
	return nil
}
func (d drawn) Head() store.Head                                  { return store.Head{} }
func (d drawn) Now() clock.Instant                                { return drawnNow }
func (d drawn) Root() trust.Root                                  { return trust.Root{} }
func (d drawn) Roster() map[string]corefleet.RosterHost           { return d.anyFleet.Roster }
func (d drawn) Explain(s *plan.State) *plan.Explainer             { return plan.Explain(s, drawnNow) }
func (d drawn) RestoreWait() (none server.RestoreWait)            { return none }
func (d drawn) SafeMode() string                                  { return "" }
func (d drawn) Sample(string) *control.Sample                     { return nil }
func (d drawn) LastSeen(string) clock.Instant                     { return 0 }
func (d drawn) AgentVersions() map[string]int                     { return nil }
func (d drawn) Unfinished(string) ([]event.DegradedResource, int) { return nil, 0 }
func (d drawn) Hosts(context.Context) (plan.Fleet, error) {
	return new(plan.Overview).Read(d.Plan, d.anyFleet.Roster), nil
}
func (d drawn) Assess(s *plan.State, host string) health.Assessment {
	return d.Health.Hosts[host].Assess(s.HealthFacts(host, drawnNow), drawnNow)
}
func (d drawn) Totals(s *plan.State) health.Totals {
	return health.Total(d.Health, s.HostNames(), func(host string) health.Facts { return s.HealthFacts(host, drawnNow) }, drawnNow)
}
func (d drawn) Attention(context.Context) ([]status.InboxItem, error) {
	return d.Listed(d.anyFleet.Roster, nil, drawnNow), nil
}
func (d drawn) SessionList(context.Context) ([]session.Status, error) {
	return session.List(d.Rows, drawnNow.Time())
}

// surfaces are what people and programs are shown of one state.
type surfaces struct {
	status   operator.Status
	fleet    operator.Fleet
	hosts    []operator.Host
	why      map[string]plan.Answer
	rollouts []operator.Rollout
	waves    map[string][]operator.Wave // by rollout
	blocked  map[string]bool            // rollouts whose open wave waits for an event, for six hours or more
	nodes    []drift.NodeRow
	unread   map[string]bool // nodes that are connected again and not compared
	objects  []drift.ObjectRow
	episodes []drift.EpisodeRow
	sessions []session.Status
}

func surfacesOf(t *rapid.T, d drawn) *surfaces {
	ctx := context.Background()
	out := &surfaces{status: testkit.Value(statusOf(ctx, d))(t), fleet: fleetOf(testkit.Value(d.Hosts(ctx))(t)), why: map[string]plan.Answer{}, waves: map[string][]operator.Wave{}, blocked: map[string]bool{}, unread: map[string]bool{}}
	rows, _, err := rowsOf(ctx, d, d.anyFleet.Roster, func(s *plan.State) []string { return hostNames(s, d.anyFleet.Roster) })
	testkit.Must(t, err)
	out.hosts = rows
	for _, h := range rows {
		if a, err := d.Explain(d.Plan).Why(h.Name); err == nil {
			out.why[h.Name] = *a
		}
	}
	for _, digest := range d.Plan.Order {
		r := d.Plan.Rollouts[digest]
		out.rollouts = append(out.rollouts, rolloutRow(d.Plan, r, d.Explain(d.Plan), drawnNow))
		if b := plan.FirstBlock(d.Plan, r, drawnNow); b != nil && !r.Phase.Ended() && !r.Paused && r.BlockedSince != 0 {
			out.blocked[r.Name] = drawnNow.Sub(max(b.Earliest, r.BlockedSince)) >= 6*clock.Hour
		}
		for i := range r.Waves {
			out.waves[r.Name] = append(out.waves[r.Name], waveRow(r, i))
		}
	}
	for _, name := range d.State.Nodes.NodeNames() {
		out.nodes = append(out.nodes, d.State.Nodes.NodeRow(name))
		if n := d.State.Nodes.Nodes[name]; n != nil {
			out.unread[name] = n.UnreadSince != 0 && n.UnreadSince < n.Since
		}
	}
	out.objects, out.episodes = d.State.Nodes.ObjectRows("", drawnNow), d.State.Nodes.EpisodeRows()
	out.sessions = testkit.Value(d.SessionList(ctx))(t)
	return out
}

// told are the keys of the inbox, with how often each is in it.
func (s *surfaces) told() map[string]*status.InboxItem {
	out := map[string]*status.InboxItem{}
	for i := range s.status.Inbox.Items {
		out[s.status.Inbox.Items[i].Key()] = &s.status.Inbox.Items[i]
	}
	return out
}

// contradictions lists where two surfaces tell otherwise of one object, or one hides that it needs a
// person.
func (s *surfaces) contradictions() (out []string) {
	says := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	told := s.told()
	if len(told) != len(s.status.Inbox.Items) || s.status.Inbox.Needed != len(status.Needed(s.status.Inbox.Items)) {
		says("the inbox has %d items of %d objects, %d are counted", len(s.status.Inbox.Items), len(told), s.status.Inbox.Needed)
	}
	for key, item := range told {
		if !item.Level.NeedsPerson() && item.Level != status.Away || item.Reason == "" || len(item.Next) == 0 {
			says("%s is an item of level %s with reason %q and %d steps", key, item.Level, item.Reason, len(item.Next))
		}
		for _, r := range item.Next {
			if operator.Command(r) == "" || strings.Contains(operator.Command(r), "{") {
				says("%s: %+v has no command: %q", key, r, operator.Command(r))
			}
		}
	}
	s.hostContradictions(told, says)
	s.rolloutContradictions(told, says)
	s.nodeContradictions(told, says)
	counts := map[string]int{}
	for i := range s.sessions {
		x := &s.sessions[i]
		counts[x.Summary.Word]++
		same(says, told, "session/"+x.Name, x.Summary, x.Summary.Level.NeedsPerson())
		for _, p := range x.Parts {
			if over := x.State == session.Stopping || x.State == session.Retired; !over && p.Summary.Level.Worse(x.Summary.Level) {
				says("session %s is %s, its part %s %s", x.Name, x.Summary.Level, p.Name, p.Summary.Level)
			}
		}
	}
	if !maps.Equal(counts, s.status.Sessions) {
		says("sessions are %v, the status counts %v", counts, s.status.Sessions)
	}
	return out
}

// same holds the item of an object against its summary: there is one if and only if it needs a person.
func same(says func(string, ...any), told map[string]*status.InboxItem, key string, sum status.Summary, needs bool) {
	item := told[key]
	switch {
	case needs != (item != nil):
		says("%s is %s (%s) and needs a person: %t; the inbox has it: %t", key, sum.Word, sum.Level, needs, item != nil)
	case item != nil && (item.Word != sum.Word || item.Level != sum.Level):
		says("%s is %s (%s), and %s (%s) in the inbox", key, sum.Word, sum.Level, item.Word, item.Level)
	}
}

func (s *surfaces) hostContradictions(told map[string]*status.InboxItem, says func(string, ...any)) {
	stopped, given := map[string]bool{}, map[string]bool{} // rollouts whose trouble is told of with them; those that give their targets out
	for i := range s.rollouts {
		given[s.rollouts[i].Name] = !slices.Contains([]string{"reverting", "reverted", "revert failed", "superseded", "pruned"}, s.rollouts[i].Status)
		stopped[s.rollouts[i].Name] = told["rollout/"+s.rollouts[i].Name] != nil
	}
	behind, failed := map[plan.BehindCode]int{}, 0
	for i := range s.hosts {
		h := &s.hosts[i]
		cell := ""
		if k := slices.Index(s.fleet.Names, h.Name); k >= 0 {
			cell = string(plan.StateOf(s.fleet.Cells[k]).State)
		}
		if h.Summary.Word != string(h.State) || cell != h.Summary.Word {
			says("host %s is %q in its summary, %q in lists and %q on the map", h.Name, h.Summary.Word, h.State, cell)
		}
		bad := h.Summary.Level == status.Critical
		if bad && h.State != plan.HostState("silent") && (h.Health == health.Healthy || h.Health == health.Progressing) {
			says("host %s is %s and its health %s", h.Name, h.State, h.Health)
		}
		if h.Behind != nil {
			behind[h.Behind.Code]++
			if h.Summary.Level == status.OK {
				says("host %s is behind and %s", h.Name, h.Summary.Word)
			}
		}
		if h.State == plan.StateFailed || h.State == plan.StateReverting {
			failed++
		}
		needs := h.Summary.Level.NeedsPerson() && h.State != plan.StateReverting || h.State == "offline"
		if (h.State == plan.StateFailed || h.State == plan.StateReverted || h.State == plan.StateBehind) && stopped[h.Rollout] || h.State == plan.StateBehind && !ownReason[h.Behind.Code] {
			needs = told["host/"+h.Name] != nil // told of with its rollout
		}
		if _, declared := s.why[h.Name]; declared || h.State == plan.HostState("never-enrolled") {
			same(says, told, "host/"+h.Name, h.Summary, needs)
		}
		if a := s.why[h.Name]; h.State == plan.StateConverged && a.Current != a.Target && given[a.Rollout] {
			says("host %s is converged and runs %s, while %s gives it %s", h.Name, a.Current, a.Rollout, a.Target)
		}
		if a, there := s.why[h.Name]; there && h.State == plan.StateConverged && a.Rollout != "" && a.Rollout != h.Rollout {
			says("host %s: why answers for %s, the list for %s", h.Name, a.Rollout, h.Rollout)
		}
	}
	if !maps.Equal(behind, s.status.Hosts.Behind) || failed != s.status.Hosts.Failed {
		says("%v are behind and %d failed, the status counts %v and %d", behind, failed, s.status.Hosts.Behind, s.status.Hosts.Failed)
	}
}

// ownReason are the reasons of being behind that nothing but an act on that host or its bundle ends.
var ownReason = map[plan.BehindCode]bool{plan.BehindDeclined: true, plan.BehindQuarantined: true, plan.BehindOverride: true}

func (s *surfaces) rolloutContradictions(told map[string]*status.InboxItem, says func(string, ...any)) {
	for i := range s.rollouts {
		r := &s.rollouts[i]
		if r.Status != r.Summary.Word || r.Summary.Word == "failed" || r.Phase == "failed" && r.Status != "cancelled" {
			says("rollout %s is %s, %s and %s", r.Name, r.Phase, r.Status, r.Summary.Word)
		}
		for _, w := range s.waves[r.Name] {
			if w.State != w.Summary.Word {
				says("wave %s of %s is %s and %s", w.Name, r.Name, w.State, w.Summary.Word)
			}
		}
		newest := slices.IndexFunc(s.status.Channels, func(c operator.ChannelState) bool { return c.Rollout == r.Name })
		needs := newest >= 0 && slices.Contains([]string{"halted", "reverted", "revert failed", "reverting", "paused"}, r.Status) || newest >= 0 && s.blocked[r.Name]
		same(says, told, "rollout/"+r.Name, r.Summary, needs)
		if newest >= 0 && s.status.Channels[newest].Status != r.Status {
			says("rollout %s is %s, in the status %s", r.Name, r.Status, s.status.Channels[newest].Status)
		}
		if needs && !r.Summary.Level.NeedsPerson() {
			says("rollout %s is %s and of level %s", r.Name, r.Status, r.Summary.Level)
		}
	}
}

func (s *surfaces) nodeContradictions(told map[string]*status.InboxItem, says func(string, ...any)) {
	counts, nodes := map[string]int{}, map[string]bool{}
	for i := range s.nodes {
		nodes[s.nodes[i].Name] = told["node/"+s.nodes[i].Name] != nil
		n := &s.nodes[i]
		counts[n.Summary.Word]++
		open := n.Conflicts + n.Legs[drift.Failed] + n.ToAdopt
		if n.Status != drift.NodeRetired && open > 0 && !n.Summary.Level.NeedsPerson() {
			says("node %s has %d things to decide and is %s", n.Name, open, n.Summary.Level)
		}
		own := n.Status == drift.NodePaused || n.Status == drift.NodeOffline || n.Status == drift.NodeComparing && s.unread[n.Name] || n.Problem != "" && n.Status != drift.NodeRetired || n.ToAdopt > 0 && n.Status != drift.NodeRetired
		if n.Status != drift.NodeUnknown && own != (told["node/"+n.Name] != nil) {
			says("node %s is %s, refused for %q with %d to adopt; the inbox has it: %t", n.Name, n.Status, n.Problem, n.ToAdopt, !own)
		}
	}
	if !maps.Equal(counts, s.status.Nodes) {
		says("nodes are %v, the status counts %v", counts, s.status.Nodes)
	}
	for i := range s.episodes {
		e := &s.episodes[i]
		same(says, told, "drift/"+e.ID, e.Summary, !e.Decided)
	}
	for i := range s.objects {
		o := &s.objects[i]
		worst, pushes := status.OK, false
		for _, l := range o.Legs {
			if l.Summary.Level.Worse(worst) {
				worst = l.Summary.Level
			}
			if l.Drift == drift.Missing && l.Effect != "" {
				says("%s/%s: a leg is missing and %q", o.Kind, o.Name, l.Effect)
			}
			pushes = pushes || l.Episode == "" && l.Summary.Level.NeedsPerson() && (l.Status != drift.Pending || !nodes[l.Node]) // what waits for a node is told with it
		}
		if o.Summary.Level != worst {
			says("%s/%s is %s, the worst of its legs %s", o.Kind, o.Name, o.Summary.Level, worst)
		}
		if !o.Local && pushes != (told[o.Kind+"/"+o.Name] != nil) {
			says("%s/%s has a push that fails: %t; the inbox has it: %t", o.Kind, o.Name, pushes, !pushes)
		}
	}
}

// TestSurfacesTellOneState: whatever state a fleet is in, all surfaces have one word, level and reason
// for an object, none is better than its parts, and the inbox has exactly what needs a person.
func TestSurfacesTellOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if all := surfacesOf(t, drawn{drawAny(t)}).contradictions(); len(all) > 0 {
			t.Fatal(strings.Join(all, "\n"))
		}
	})
}

// hides are faults each of which hides one kind of trouble from one surface.
var hides = map[string]func(*surfaces){
	"the status counts no host as behind": func(s *surfaces) { s.status.Hosts.Behind = map[plan.BehindCode]int{} },
	"the list of hosts has a failed one as healthy": func(s *surfaces) {
		for i := range s.hosts {
			s.hosts[i].Health = health.Healthy
		}
	},
	"the map has a degraded host as converged": func(s *surfaces) {
		s.fleet.Cells = strings.ReplaceAll(s.fleet.Cells, "d", "c")
	},
	"the list of rollouts has a halted one as over": func(s *surfaces) {
		for i := range s.rollouts {
			if s.rollouts[i].Status == "halted" {
				s.rollouts[i].Status = "done"
			}
		}
	},
	"the status has a reverted rollout as superseded": func(s *surfaces) {
		for i := range s.status.Channels {
			if s.status.Channels[i].Status == "reverted" {
				s.status.Channels[i].Status = "superseded"
			}
		}
	},
	"the inbox leaves out open drift": func(s *surfaces) { s.drop(drift.KindDrift) },
	"the inbox leaves out rollouts":   func(s *surfaces) { s.drop(plan.KindRollout) },
	"the inbox leaves out sessions":   func(s *surfaces) { s.drop(session.KindSession) },
	"the inbox leaves out rollouts that are blocked": func(s *surfaces) {
		s.status.Inbox.Items = slices.DeleteFunc(slices.Clone(s.status.Inbox.Items), func(x status.InboxItem) bool { return x.Kind == plan.KindRollout && s.blocked[x.Name] })
	},
	"a push that is tried again counts as no failed one": func(s *surfaces) {
		for i := range s.objects {
			o, worst := &s.objects[i], []status.Summary(nil)
			for k := range o.Legs {
				if l := &o.Legs[k]; l.Status == drift.Failed {
					l.Summary = status.Summary{Word: string(drift.Pushing), Level: status.Busy}
				}
				worst = append(worst, o.Legs[k].Summary)
			}
			o.Summary = status.Worst(worst...)
		}
	},
	"the list of nodes has one with failed pushes as online": func(s *surfaces) {
		for i := range s.nodes {
			s.nodes[i].Summary = status.Summary{Word: "online", Level: status.OK}
		}
	},
	"a tunnel is as well as its best leg": func(s *surfaces) {
		for i := range s.objects {
			for _, l := range s.objects[i].Legs {
				if s.objects[i].Summary.Level.Worse(l.Summary.Level) {
					s.objects[i].Summary = l.Summary
				}
			}
		}
	},
	"a session is better than its part": func(s *surfaces) {
		for i := range s.sessions {
			s.sessions[i].Summary.Level = status.OK
		}
	},
	"the exit code does not count acknowledged by nobody": func(s *surfaces) { s.status.Inbox.Needed = 0 },
}

func (s *surfaces) drop(kind string) {
	s.status.Inbox.Items = slices.DeleteFunc(slices.Clone(s.status.Inbox.Items), func(x status.InboxItem) bool { return x.Kind == kind })
	s.status.Inbox.Needed = len(status.Needed(s.status.Inbox.Items))
}

// TestHiddenTroubleIsFound plants each fault, and has random states find it.
func TestHiddenTroubleIsFound(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(hides)) {
		found := 0
		rapid.Check(t, func(t *rapid.T) {
			if found > 0 {
				return
			}
			s := surfacesOf(t, drawn{drawAny(t)})
			hides[name](s)
			if len(s.contradictions()) > 0 {
				found++
			}
		})
		if found == 0 {
			t.Errorf("no state shows that %s", name)
		}
	}
}
