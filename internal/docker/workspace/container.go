package workspace

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Labels that report why a container was made.
const (
	labelAsked   = convert.Prefix + "asked"    // nonce of the verb
	labelMadeFor = convert.Prefix + "made-for" // JSON list of marks of differences
	labelRepeats = convert.Prefix + "repeats"
	labelIdle    = convert.Prefix + "replaces-idle" // what it replaces did not run
)

// role is what a container is to a workspace, and whether it is this host's at
// all: all labels have the exact values, and the name is one of the workspace's
// under this agent's prefix, or the very container is known to the ledger.
func (m *Reconciler) role(ctx context.Context, c *container.InspectResponse, name, title string) (replace.Role, bool, error) {
	if c.Config == nil || !m.o.Owner.Owns(c.Config.Labels, spec.KindWorkspace, name) {
		return "", false, nil
	}
	l := c.Config.Labels
	replica, err := strconv.Atoi(l[convert.LabelReplica])
	if err != nil || replica < 1 {
		return "", false, nil // labels that were written by hand
	}
	now := strings.TrimPrefix(c.Name, "/")
	role := replace.RoleOf(now, title, l[convert.LabelTitle], replica)
	if m.o.Owner.HasPrefix(now) && (role != replace.Unmanaged || now == l[convert.LabelTitle]) {
		return role, true, nil
	}
	_, ok, err := m.o.Ledger.Baseline(ctx, c.ID)
	return role, ok, err
}

// container reads one container.
func (m *Reconciler) container(ctx context.Context, c *container.InspectResponse, r *engine.Resource[Desired]) (replace.Container, bool, error) {
	role, ours, err := m.role(ctx, c, r.Ref.ID, m.title(&r.Desired))
	if err != nil || !ours {
		return replace.Container{}, false, err
	}
	l := c.Config.Labels
	run := convert.Run(c)
	out := replace.Container{ID: c.ID, Name: strings.TrimPrefix(c.Name, "/"), Role: role, Replaces: l[convert.LabelReplaces], Image: c.Image,
		State: stateOf(run.State), Begun: !run.StartedAt.IsZero(), Error: run.Error, Health: replace.Health(run.Health),
		Restarts: run.Restarts, Revives: convert.Revives(c), StopGrace: clock.FromStd(convert.StopGrace(c.Config)), Fulfilled: l[labelAsked], Age: since(m.o.Now(), created(c))}
	out.ReplacesIdle = l[labelIdle] != ""
	out.Replica, _ = strconv.Atoi(l[convert.LabelReplica]) // role has read it
	out.Repeats, _ = strconv.Atoi(l[labelRepeats])         // none is 0
	if why := l[labelMadeFor]; why != "" && json.Unmarshal([]byte(why), &out.MadeFor) != nil {
		out.MadeFor = nil // nothing is known of why
	}
	rec, err := m.counted(ctx, c.ID)
	if err != nil {
		return out, true, err
	}
	out.Restarted, out.Starts = rec.Restarted, rec.Starts
	m.hookStatus(&out, c, run, rec.Hooks)
	out.Stopping, out.StopsBy = m.stopOf(c, r)
	switch run.State {
	case convert.Running:
		out.Ran, out.Check = m.running(c, run), m.checkOf(&r.Desired.Spec, c)
	case convert.Exited, convert.FailedStart, convert.Restarting:
		out.End = m.endOf(c)
		out.ExitCode, out.Rested = run.ExitCode, since(m.o.Now(), run.FinishedAt)
		if run.ExitCode != 0 && run.State != convert.FailedStart {
			out.Tail = m.tailOf(ctx, &r.Desired.Spec, c.ID, run.FinishedAt)
		}
	}
	return out, true, nil
}

func stateOf(s convert.RunState) replace.State {
	if s == convert.FailedStart {
		return replace.Created
	}
	return replace.State(s)
}

func created(c *container.InspectResponse) time.Time {
	t, err := time.Parse(time.RFC3339Nano, c.Created)
	if err != nil {
		return time.Time{}
	}
	return t
}

// since is how long ago an instant was; 0 if that is not known.
func since(now, t time.Time) clock.Duration {
	if t.IsZero() {
		return 0
	}
	return clock.FromStd(max(0, now.Sub(t)))
}

// record is what the ledger keeps of a container.
type record struct {
	Form      *convert.Record `json:"form,omitempty"`
	Restarted string          `json:"restarted,omitempty"`
	Starts    int             `json:"starts,omitempty"`
	Hooks     *hooks          `json:"hooks,omitempty"`
}

// counted is the small part of a container's record, read once.
func (m *Reconciler) counted(ctx context.Context, id string) (have record, err error) {
	m.mu.Lock()
	have, ok := m.counters[id]
	m.mu.Unlock()
	if !ok {
		if have, err = m.loadRecord(ctx, id); err != nil {
			return record{}, err
		}
		m.cacheCounters(id, have)
	}
	return have, nil
}

func (m *Reconciler) cacheCounters(id string, r record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Form = nil
	m.counters[id] = r
	delete(m.comparisons, id)
}

func (m *Reconciler) loadRecord(ctx context.Context, id string) (record, error) {
	var out record
	b, ok, err := m.o.Ledger.Baseline(ctx, id)
	if err != nil || !ok {
		return out, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		m.o.Log.Warn("the record of a container cannot be read: causes of what differs are unknown", "container", id, "error", err)
		return record{}, nil
	}
	return out, nil
}

func (m *Reconciler) saveRecord(ctx context.Context, id string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := m.o.Ledger.SetBaseline(context.WithoutCancel(ctx), id, b); err != nil {
		return err
	}
	m.cacheCounters(id, r)
	return nil
}
