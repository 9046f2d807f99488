package workspace

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	core "github.com/steadyfleet/steady/internal/core/workspace"
	"github.com/steadyfleet/steady/internal/docker/form"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Labels that say why a container was made.
const (
	labelAsked   = ownership.Prefix + "asked"    // nonce of the verb
	labelMadeFor = ownership.Prefix + "made-for" // JSON list of marks of differences
	labelRepeats = ownership.Prefix + "repeats"
)

// role says what a container is to a workspace, and whether it is this host's at
// all: all labels have the exact values, and the name is one of the workspace's
// under this agent's prefix, or the very container is known to the ledger.
func (m *Manager) role(ctx context.Context, c *container.InspectResponse, name, title string) (core.Role, bool, error) {
	if c.Config == nil || !m.o.Owner.Owns(c.Config.Labels, spec.KindWorkspace, name) {
		return "", false, nil
	}
	l := c.Config.Labels
	replica, err := strconv.Atoi(l[ownership.LabelReplica])
	if err != nil || replica < 1 {
		return "", false, nil // labels that were written by hand
	}
	now := strings.TrimPrefix(c.Name, "/")
	role := core.RoleOf(now, title, l[ownership.LabelTitle], replica)
	if m.o.Owner.Gave(now) && (role != core.Stray || now == l[ownership.LabelTitle]) {
		return role, true, nil
	}
	_, ok, err := m.o.Ledger.Baseline(ctx, c.ID)
	return role, ok, err
}

// container reads one container.
func (m *Manager) container(ctx context.Context, c *container.InspectResponse, r *engine.Resource[Desired]) (core.Container, bool, error) {
	role, ours, err := m.role(ctx, c, r.Ref.ID, m.title(&r.Desired))
	if err != nil || !ours {
		return core.Container{}, false, err
	}
	l := c.Config.Labels
	run := form.Run(c)
	out := core.Container{ID: c.ID, Name: strings.TrimPrefix(c.Name, "/"), Role: role, Replaces: l[ownership.LabelReplaces], Image: c.Image,
		State: stateOf(run.State), Begun: !run.StartedAt.IsZero(), Error: run.Error, Health: core.Health(run.Health),
		Restarts: run.Restarts, Asked: l[labelAsked], Age: since(m.o.Now(), created(c))}
	out.Replica, _ = strconv.Atoi(l[ownership.LabelReplica]) // role has read it
	out.Repeats, _ = strconv.Atoi(l[labelRepeats])           // none is 0
	if why := l[labelMadeFor]; why != "" && json.Unmarshal([]byte(why), &out.MadeFor) != nil {
		out.MadeFor = nil // nothing is known of why
	}
	rec, err := m.counts(ctx, c.ID)
	if err != nil {
		return out, true, err
	}
	out.Restarted, out.Starts = rec.Restarted, rec.Starts
	m.hooked(&out, c, run, rec.Hooks)
	switch run.State {
	case form.Running:
		out.Ran, out.Check = m.running(c, run), m.checkOf(&r.Desired.Spec, c)
	case form.Exited, form.FailedStart, form.Restarting:
		out.ExitCode, out.Rested = run.ExitCode, since(m.o.Now(), run.FinishedAt)
		if run.ExitCode != 0 && run.State != form.FailedStart {
			out.Tail = m.tailOf(ctx, &r.Desired.Spec, c.ID, run.FinishedAt)
		}
	}
	return out, true, nil
}

func stateOf(s form.RunState) core.State {
	if s == form.FailedStart {
		return core.Created
	}
	return core.State(s)
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
	Form      *form.Record `json:"form,omitempty"`
	Restarted string       `json:"restarted,omitempty"`
	Starts    int          `json:"starts,omitempty"`
	Hooks     *hooks       `json:"hooks,omitempty"`
}

// counts is the small part of a container's record, read once.
func (m *Manager) counts(ctx context.Context, id string) (have record, err error) {
	m.mu.Lock()
	have, ok := m.small[id]
	m.mu.Unlock()
	if !ok {
		if have, err = m.remembered(ctx, id); err != nil {
			return record{}, err
		}
		m.noted(id, have)
	}
	return have, nil
}

func (m *Manager) noted(id string, r record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Form = nil
	m.small[id] = r
	delete(m.memo, id)
}

func (m *Manager) remembered(ctx context.Context, id string) (record, error) {
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

func (m *Manager) remember(ctx context.Context, id string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := m.o.Ledger.SetBaseline(context.WithoutCancel(ctx), id, b); err != nil {
		return err
	}
	m.noted(id, r)
	return nil
}
