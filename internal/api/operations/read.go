package operations

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

type hostPath struct {
	AtRecord
	Host string `path:"host" maxLength:"63"`
}

type idPath struct {
	ID string `path:"id" maxLength:"64"`
}

func (h *Handler) reading() {
	add(h, get("status", "/status", "Sum up the fleet"), viewing, h.status)
	add(h, get("show-server", "/server", "Say how the server itself is: since when it runs, its last backup, and what keeps it from its work"), viewing, h.server)
	add(h, get("show-fleet", "/fleet", "Say where every host stands, one letter each"), viewing, h.fleet)
	add(h, get("list-hosts", "/hosts", "List every host"), viewing, h.hosts)
	add(h, get("page-hosts", "/host-list", "List a page of the hosts that filters leave, sorted"), viewing, h.hostList)
	add(h, get("show-host", "/hosts/{host}", "Show one host"), viewing, h.host)
	add(h, get("why-host", "/hosts/{host}/why", "Say why a host has not moved yet"), viewing, h.why)
	add(h, get("safe-mode", "/safe-mode", "For which hosts the server waits since it began"), viewing, h.safeMode)
	add(h, get("list-rollouts", "/rollouts", "List the rollouts, newest first"), viewing, h.rollouts)
	add(h, get("show-rollout", "/rollouts/{rollout}", "Show one rollout with its waves and hosts"), viewing, h.rollout)
	add(h, get("list-quarantine", "/quarantine", "List every quarantined bundle"), viewing, h.quarantine)
	add(h, get("list-sources", "/sources", "Say where every source of releases stands"), viewing, h.sources)
	add(h, get("list-events", "/events", "Read the log"), viewing, h.events)
	add(h, get("list-overrides", "/overrides", "The signed overrides in force"), viewing, h.overrides)
	add(h, get("show-override", "/overrides/{id}", "One signed override in force, with what was signed"), viewing, h.override)
	add(h, get("history-chain", "/history/chain", "How far the hash chain of the log was checked, and whether it holds"), viewing, h.chain)
	add(h, get("history-marks", "/history/marks", "The first and the last record of the log, and those that matter between them"), viewing, h.timeline)
	add(h, get("reference", "/reference", "What every status means, and what to do"), viewing, h.reference)
	add(h, get("list-tokens", "/tokens", "List the operators' tokens"), admin, h.tokens)
	add(h, get("enrolment", "/enrolment", "What a new host begins with"), viewing, h.enrolment)
}

func (h *Handler) status(ctx context.Context, in *AtRecord) (operator.Status, error) {
	c, err := h.at(ctx, in)
	if err != nil {
		return operator.Status{}, err
	}
	out, err := statusOf(ctx, c)
	out.Fleet = h.c.Fleet()
	if err != nil || in.At != 0 {
		return out, err
	}
	out.Version = h.c.Version()
	if out.Sources, err = h.sources(ctx, nil); err == nil {
		out.Expiries, err = h.c.Expiries(ctx)
	}
	return out, err
}

// statusOf sums up what the log comes to.
func statusOf(ctx context.Context, c source) (out operator.Status, err error) {
	list, err := c.Attention(ctx)
	if err != nil {
		return out, err
	}
	out.Inbox = operator.NewInbox(list)
	out.Inbox.Items = list[:min(len(list), operator.MaxInbox)]
	out.Nodes, out.Sessions = map[string]int{}, map[string]int{}
	err = c.ViewNodes(ctx, func(s *drift.State) {
		for _, name := range s.NodeNames() {
			out.Nodes[s.NodeSummary(name).Word]++
		}
	})
	if err != nil {
		return out, err
	}
	sessions, err := c.SessionList(ctx)
	if err != nil {
		return out, err
	}
	for i := range sessions {
		out.Sessions[sessions[i].Summary.Word]++
	}
	head, root, roster := c.Head(), c.Root(), c.Roster()
	out.Seq, out.Term, out.Now, out.SafeMode, out.Channels = head.Seq, head.Term, c.Now(), c.SafeMode(), []operator.ChannelState{}
	out.Root = operator.RootInfo{Version: root.Version, Epoch: root.Epoch, Expires: root.Expires}
	return out, c.View(ctx, func(s *plan.State) {
		out.Release = operator.ReleaseInfo{Version: s.Release.Version, Ref: s.Release.Ref, Resolved: s.Release.Resolved, AcceptedAt: s.Release.At,
			TimestampAt: s.Timestamp.IssuedAt, RootVersion: s.Root.Version}
		out.Hosts, out.Health = countHosts(s, roster), fleetHealth(s, c.Totals(s))
		out.Hosts.Versions = c.AgentVersions()
		for _, name := range s.ChannelNames() {
			ch := channelState(s, s.Channels[name], c.Now())
			ch.Health = rolloutHealth(s.Rollouts[s.Channels[name].Latest], func(host string) health.Assessment { return c.Assess(s, host) })
			out.Channels = append(out.Channels, ch)
		}
	})
}

func (h *Handler) safeMode(ctx context.Context, _ *none) (w server.RestoreWait, err error) {
	return w, h.c.View(ctx, func(*plan.State) { w = h.c.RestoreWait() })
}

func countHosts(s *plan.State, roster map[string]fleet.RosterHost) operator.HostCounts {
	n := operator.HostCounts{Presence: map[gate.HostPresence]int{}, NeverEnrolled: []string{}, Behind: map[plan.BehindCode]int{}}
	for _, name := range hostNames(s, roster) {
		h := s.Hosts[name]
		p := presenceOf(name, h, roster)
		n.Presence[p]++
		switch p {
		case gate.Decommissioned:
			continue // it is gone, and counted apart
		}
		if r := removal(name, h, roster[name]); r != nil {
			n.Leaving = append(n.Leaving, *r)
		}
		switch p {
		case gate.NeverEnrolled:
			n.NeverEnrolled = append(n.NeverEnrolled, name)
		default:
			n.Enrolled++
		}
		if n.Total++; h == nil {
			continue
		}
		if h.Online {
			n.Online++
		}
		if b := s.Behind(h); b != nil {
			n.Behind[b.Code]++
		}
		if h.InFlight() {
			n.InFlight++
		}
		if _, declared := roster[name]; declared && h.IdentityStatus() != "" && h.IdentityStatus() != gate.Leaving {
			n.ToEnrol++
		}
		if state, _ := s.HostState(name, plan.Declares(roster, name)); state == plan.StateFailed || state == plan.StateReverting {
			n.Failed++
		}
	}
	return n
}

func channelState(s *plan.State, c *plan.Channel, now clock.Instant) operator.ChannelState {
	out := operator.ChannelState{Name: c.Name, Deferral: c.Deferral, Quarantine: quarantineOf(c)}
	if r := s.Rollouts[c.Latest]; r != nil {
		out.Rollout, out.Summary = r.Name, s.RolloutSummary(r, now)
		out.Status = out.Summary.Word
	}
	if c.Queued != "" {
		for _, m := range c.Manifests {
			if m.Digest == c.Queued {
				out.Queued = m.Rollout
			}
		}
	}
	return out
}

func quarantineOf(c *plan.Channel) []operator.QuarantineRow {
	rows := []operator.QuarantineRow{}
	for _, d := range slices.Sorted(maps.Keys(c.Quarantine)) {
		rows = append(rows, operator.QuarantineRow{Channel: c.Name, Bundle: d, Reason: c.Quarantine[d]})
	}
	return rows
}

func (h *Handler) quarantine(ctx context.Context, _ *none) ([]operator.QuarantineRow, error) {
	rows := []operator.QuarantineRow{}
	err := h.c.View(ctx, func(s *plan.State) {
		for _, name := range s.ChannelNames() {
			rows = append(rows, quarantineOf(s.Channels[name])...)
		}
		rows = append(rows, signedQuarantine(s)...)
	})
	return rows, err
}

func (h *Handler) hosts(ctx context.Context, _ *none) ([]operator.Host, error) {
	roster := h.c.Roster()
	return h.hostRows(ctx, h.c, roster, func(s *plan.State) []string { return hostNames(s, roster) })
}

// hostRows sums up the hosts of a list.
func (h *Handler) hostRows(ctx context.Context, c source, roster map[string]fleet.RosterHost, list func(*plan.State) []string) ([]operator.Host, error) {
	out, past, err := rowsOf(ctx, c, roster, list)
	h.nameReleases(past, out)
	return out, err
}

// rowsOf sums up the hosts of a list, without the releases that they run: past are those to look in.
func rowsOf(ctx context.Context, c source, roster map[string]fleet.RosterHost, list func(*plan.State) []string) (out []operator.Host, past []opened, err error) {
	var names []string
	err = c.View(ctx, func(s *plan.State) { past, names = openedIn(s), list(s) })
	out = make([]operator.Host, 0, len(names))
	for some := range slices.Chunk(names, atOnce(c, names)) {
		if err != nil {
			break
		}
		err = c.View(ctx, func(s *plan.State) {
			owed, q := c.RestoreWait().Owed, c.Explain(s)
			for _, name := range some {
				row := hostRow(q, s, name, roster, c.Assess(s, name).Status)
				if i, owes := slices.BinarySearchFunc(owed, name, func(o server.Owed, name string) int { return strings.Compare(o.Host, name) }); owes {
					row.Owed = &owed[i]
				}
				out = append(out, row)
			}
		})
	}
	for i := range out {
		introduce(c, &out[i])
	}
	return out, past, err
}

// atOnce is how many hosts are read at once: of the past, which no reducer keeps, all.
func atOnce(c source, names []string) int {
	if _, present := c.(*control.Control); present {
		return control.HostsAtOnce
	}
	return max(1, len(names))
}

// introduce adds what the host's agent said of itself.
func introduce(c source, row *operator.Host) {
	if s := c.Sample(row.Name); s != nil {
		row.AgentVersion, row.Server, row.Accepted = s.AgentVersion, s.Server, s.Resolved
	}
}

// opened is a rollout that hosts may have taken part in.
type opened struct {
	channel, ref string
	manifest     digest.Digest
}

// openedIn lists the rollouts that opened, newest first.
func openedIn(s *plan.State) (list []opened) {
	for _, d := range slices.Backward(s.Order) {
		if r := s.Rollouts[d]; r != nil {
			list = append(list, opened{r.Channel, r.Ref, d})
		}
	}
	for _, r := range slices.Backward(s.Pruned) {
		list = append(list, opened{r.Channel, strings.TrimPrefix(r.Name, r.Channel+"@"), r.Manifest})
	}
	return list
}

// maxPast is how many releases are read to name what hosts run.
const maxPast = 16

// nameReleases says of each host which release brought what it runs: the newest of its
// channel whose plan gives the host that bundle. Manifests are read outside the reducer,
// and those of earlier releases only while a host runs what no later one gives it.
func (h *Handler) nameReleases(past []opened, hosts []operator.Host) {
	left := map[string]*operator.Host{}
	for i := range hosts {
		if hosts[i].Current != "" && hosts[i].Channel != "" {
			left[hosts[i].Name] = &hosts[i]
		}
	}
	for _, r := range past[:min(len(past), maxPast)] {
		if len(left) == 0 {
			return
		}
		m, err := h.c.Manifest(r.manifest)
		if err != nil {
			continue // the digest of the bundle says what runs
		}
		for i := range m.Leaves {
			leaf := &m.Leaves[i]
			if row := left[leaf.Host]; row != nil && row.Channel == r.channel && row.Current == leaf.Target {
				row.Runs = r.ref
				delete(left, leaf.Host)
			}
		}
	}
}

// hostNames lists the hosts that are declared or were known, in order.
func hostNames(s *plan.State, roster map[string]fleet.RosterHost) []string {
	names := make(map[string]struct{}, max(len(roster), len(s.Hosts)))
	for name := range roster {
		names[name] = struct{}{}
	}
	for name := range s.Hosts {
		names[name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(names))
}

func presenceOf(name string, h *plan.Host, roster map[string]fleet.RosterHost) gate.HostPresence {
	if h == nil {
		return gate.NeverEnrolled
	}
	return h.Presence(plan.Declares(roster, name))
}

// hostRow sums up a host; one that is only declared has no record.
func hostRow(q *plan.Explainer, s *plan.State, name string, roster map[string]fleet.RosterHost, status health.Status) operator.Host {
	h, declared := s.Hosts[name], roster[name]
	row := operator.Host{Name: name, Channel: declared.Channel, Tags: declared.Tags, Target: declared.Bundle, Phase: string(host.Pending), Health: status,
		Presence: presenceOf(name, h, roster), Removed: removal(name, h, declared), RenamedFrom: declared.RenamedFrom}
	row.Summary = q.HostSummary(name, plan.Declares(roster, name))
	row.State, row.Since = plan.HostState(row.Summary.Word), row.Summary.Since
	if h == nil {
		return row
	}
	m := &h.Machine
	row.Online, row.Incarnation, row.Forked, row.IdentityStatus = h.Online, h.Incarnation, h.Forked, h.IdentityStatus()
	row.Rollout, row.Current, row.Degraded, row.Behind = s.RolloutOf(name), m.Current, h.Degraded, s.Behind(h)
	if m.Phase != "" {
		row.Phase = string(m.Phase)
	}
	if f := h.Freeze; f != nil {
		row.FrozenUntil, row.FrozenWhy = f.Until, f.Reason+" ("+f.Actor+")"
	}
	if h.Grant != nil {
		row.Grant, row.Target = h.Grant.ID, h.Grant.Target
	}
	switch row.State {
	case plan.StateFailed, plan.StateReverting, plan.StateReverted:
		row.Failed = row.Summary.Reason
	}
	return row
}

func (h *Handler) host(ctx context.Context, in *hostPath) (operator.HostDetail, error) {
	var out operator.HostDetail
	c, err := h.at(ctx, &in.AtRecord)
	if err != nil {
		return out, err
	}
	var failed error
	var past []opened
	roster := c.Roster()
	err = c.View(ctx, func(s *plan.State) {
		past = openedIn(s)
		rec := s.Hosts[in.Host]
		if _, declared := roster[in.Host]; rec == nil && !declared {
			failed = unknownHost(in.Host)
			return
		}
		out.Host = hostRow(c.Explain(s), s, in.Host, roster, c.Assess(s, in.Host).Status)
		if rec == nil {
			out.Why = notEnrolled(in.Host)
			return
		}
		out.Seq, out.CertSerial, out.CertExpires, out.Probes = rec.Seq, rec.Serial, rec.NotAfter, rec.Probes()
		out.Facts = rec.Facts
		var a *plan.Answer
		if a, failed = c.Explain(s).Why(in.Host); failed == nil {
			out.Why = *a
		}
	})
	if err == nil {
		err = failed
	}
	row := []operator.Host{out.Host}
	h.nameReleases(past, row)
	introduce(c, &row[0])
	if row[0].RenamedFrom != "" && row[0].Presence == gate.NeverEnrolled {
		out.Why.Message = h.toRename(&row[0])
	}
	out.Host, out.LastSeen = row[0], c.LastSeen(in.Host)
	return out, err
}

func unknownHost(name string) error {
	return wire.Refuse(wire.ErrNotFound, "host %s is not declared in any accepted release and never enrolled", name)
}

func unknownRollout(id string) error {
	return wire.Refuse(wire.ErrNotFound, "there is no rollout %s; steady rollout list shows them", id)
}

func notEnrolled(name string) plan.Answer {
	return plan.Answer{Host: name, Status: "undeclared", Message: "host " + name + " is declared, but no rollout that is open names it yet", Gates: []plan.Gate{}}
}

func (h *Handler) why(ctx context.Context, in *hostPath) (plan.Answer, error) {
	detail, err := h.host(ctx, in)
	return detail.Why, err
}

func (h *Handler) tokens(ctx context.Context, _ *none) ([]operator.Token, error) {
	out := []operator.Token{}
	err := h.c.View(ctx, func(s *plan.State) {
		for _, id := range slices.Sorted(maps.Keys(s.Operators)) {
			o := s.Operators[id]
			out = append(out, operator.Token{ID: id, Name: o.Name, Role: operator.Role(o.Role), CreatedAt: o.CreatedAt, Expires: o.Expires,
				LastUsed: max(o.UsedAt, h.c.OperatorUsed(o.Hash)), Parent: o.Parent})
		}
	})
	return out, err
}

func (h *Handler) enrolment(context.Context, *none) (operator.Enrolment, error) {
	root, d, epoch, versions, err := h.c.Roots()
	return operator.Enrolment{Fleet: h.c.Fleet(), Epoch: epoch, ServerCA: h.serverCA,
		Root: root, RootDigest: d, MinVersions: versions}, err
}
