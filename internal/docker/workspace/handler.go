package workspace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// handler carries out one step. It ends without an error and without a change where
// the containers are not in the roles that the step was decided for: the next
// check decides anew.
type handler struct {
	m     *Reconciler
	ctx   context.Context
	r     engine.Resource[Desired]
	title string
}

// current is a container as it is now.
type current struct {
	*container.InspectResponse
	run  convert.RunInfo
	role replace.Role
}

// live reports whether processes of it may run.
func (f *current) live() bool { return f.run.Up() || f.run.State == convert.Restarting }

// failed reports that the engine could not start it.
func (f *current) failed() bool { return f.run.State == convert.FailedStart }

// get reads a container by its ID; nil if it is gone, going, or not this host's.
func (h *handler) get(id string) (*current, error) {
	c, err := h.m.o.Engine.ContainerInspect(h.ctx, id)
	switch {
	case dockerapi.NotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	role, ours, err := h.m.role(h.ctx, &c, h.r.Ref.ID, h.title)
	if err != nil {
		return nil, err
	}
	f := &current{&c, convert.Run(&c), role}
	if !ours || c.ID != id || f.run.State == convert.Removing {
		return nil, nil
	}
	return f, nil
}

// gone makes an error of a call on what is gone meanwhile none: the next check
// shows it.
func gone(err error) error {
	if dockerapi.NotFound(err) {
		return nil
	}
	return err
}

// Stop implements replace.Handler.
func (h *handler) Stop(a replace.Stop) error {
	return h.each(a.IDs, nil, false, func(c *current) error {
		failed := h.setRestart(c, container.RestartPolicy{Name: container.RestartPolicyDisabled})
		return errors.Join(h.stopBetween(c), failed)
	})
}

// rest stops a container that stays, until start: the engine itself does not start it either.
func (h *handler) rest(c *current) error {
	if c == nil {
		return nil
	}
	failed := h.setRestart(c, container.RestartPolicy{Name: container.RestartPolicyDisabled})
	return errors.Join(h.stop(c), failed)
}

func (h *handler) setRestart(c *current, to container.RestartPolicy) error {
	if c.HostConfig == nil || convert.SameRestart(c.HostConfig.RestartPolicy, to) {
		return nil
	}
	_, err := h.m.o.Engine.ContainerUpdate(h.ctx, c.ID, nil, &to)
	if err == nil {
		c.HostConfig.RestartPolicy = to
	}
	return gone(err)
}

// Unpause implements replace.Handler.
func (h *handler) Unpause(a replace.Unpause) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil || c.run.State != convert.Paused {
		return err
	}
	return gone(h.m.o.Engine.ContainerUnpause(h.ctx, c.ID))
}

// Rename implements replace.Handler.
func (h *handler) Rename(a replace.Rename) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil {
		return err
	}
	return h.rename(c, replace.Main)
}

// rename gives a container its name in a role. A name that is taken meanwhile is
// waited for.
func (h *handler) rename(c *current, to replace.Role) error {
	name := replace.Name(h.title, h.m.replica(c), to)
	if c.Name == "/"+name {
		return nil
	}
	if err := h.m.o.Engine.ContainerRename(h.ctx, c.ID, name); err != nil {
		now, look := h.get(c.ID)
		if look != nil || now != nil && now.Name != "/"+name {
			return err
		}
		// Gone, or another agent was faster.
	}
	c.Name, c.role = "/"+name, to
	return nil
}

// soonEnded is how short a run is that counts as one more in a row.
const soonEnded = 10 * clock.Minute

// Start implements replace.Handler.
func (h *handler) Start(a replace.Start) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil {
		return err
	}
	if a.Restart == "" && c.live() {
		return nil
	}
	rec, err := h.m.loadRecord(h.ctx, c.ID)
	if err != nil {
		return err
	}
	if a.Restart != "" && rec.Restarted == a.Restart {
		return nil
	}
	leave, err := h.startSlot()
	if err != nil {
		return err
	}
	defer leave()
	had := rec
	switch lasted := clock.FromStd(c.run.FinishedAt.Sub(c.run.StartedAt)); {
	case a.Restart != "" || c.run.State != convert.Exited || lasted > soonEnded:
		rec.Starts = 0
	default:
		rec.Starts++
	}
	if a.Restart != "" {
		if err := h.stop(c); err != nil {
			return err
		}
	}
	if err := h.start(c); err != nil {
		return err
	}
	if a.Restart != "" {
		rec.Restarted = a.Restart
	}
	if rec.Restarted == had.Restarted && rec.Starts == had.Starts {
		return nil
	}
	return h.m.saveRecord(h.ctx, c.ID, rec)
}

const (
	noSlot     = "as many containers start as may at once"
	noHookSlot = "as many workspaces run their post_start commands as may at once"
	slotPause  = 15 * time.Second // should nobody tell that there is one
)

// starts reports whether a step takes a place among those that start.
func starts(a engine.Action) bool {
	switch a := a.(type) {
	case replace.Create:
		return a.Run
	case replace.Start:
		return a.Restart == ""
	}
	return false
}

// queued reports whether the next step has to wait for a place, so that it is not
// begun in vain.
func (m *Reconciler) queued(r *engine.Resource[Desired], o *Observed) bool {
	a := m.decide(r, o, 0).Action()
	if _, runs := a.(replace.RunHooks); runs {
		return m.o.Hooks != nil && !m.o.Hooks.Room(r.Ref.String())
	}
	return m.o.Starts != nil && starts(a) && !m.o.Starts.Room(r.Ref.String())
}

// startSlot takes a place among those that start, or says to wait for one.
func (h *handler) startSlot() (leave func(), err error) {
	if h.m.o.Starts == nil {
		return func() {}, nil
	}
	leave, ok := h.m.o.Starts.TryEnter(h.r.Ref.String())
	if !ok {
		return nil, reconcile.Blocked(engine.NewReason(CodeNoSlot, noSlot))
	}
	return leave, nil
}

// tryStartSlot takes a place among those that start if there is one. What stood still for
// a start does not wait for one.
func (h *handler) tryStartSlot() (leave func()) {
	if h.m.o.Starts == nil {
		return func() {}
	}
	leave, _ = h.m.o.Starts.TryEnter(h.r.Ref.String())
	return leave
}

// start starts a container. A failure that the engine shows on a container which
// is made to replace another is no error here: the next check sees it and goes
// back at once.
func (h *handler) start(c *current) error {
	if err := h.confined(); err != nil {
		return err
	}
	err := h.launch(c)
	if err == nil || dockerapi.Unknown(err) || h.ctx.Err() != nil {
		return err
	}
	now, look := h.get(c.ID)
	switch {
	case look != nil || now == nil:
		return look
	case now.failed() && c.Config != nil && c.Config.Labels[labelReplaces] != "":
		if old, look := h.get(c.Config.Labels[labelReplaces]); look != nil || old != nil {
			return look
		}
	}
	return err
}

// launch gives a container the restart policy that it was made with, and starts it.
func (h *handler) launch(c *current) error {
	rec, err := h.m.loadRecord(h.ctx, c.ID)
	if err != nil {
		return err
	}
	if err := h.setRestart(c, rec.Form.Restart(&h.r.Desired.Spec)); err != nil {
		return err
	}
	return h.m.o.Engine.ContainerStart(h.ctx, c.ID)
}

// target is where requests for a container go.
func target(c *container.InspectResponse) Target {
	t := Target{ID: c.ID, Addresses: map[string]netip.Addr{}}
	if c.HostConfig != nil && c.HostConfig.NetworkMode.IsHost() {
		t.Addresses["host"] = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if c.NetworkSettings != nil {
		for name, e := range c.NetworkSettings.Networks {
			if e != nil && e.IPAddress.IsValid() {
				t.Addresses[name] = e.IPAddress
			}
		}
	}
	return t
}

func (h *handler) pauseUpstream() {
	if u := h.m.o.Upstreams; u != nil {
		h.m.setUpstream(h.r.Ref.ID, "held", func() { u.Pause(h.r.Ref.ID) })
	}
}

// route leads requests to a container; its addresses are read again.
func (h *handler) route(id string) error {
	if h.m.o.Upstreams == nil {
		return nil
	}
	c, err := h.get(id)
	if c != nil && c.live() {
		to := target(c.InspectResponse)
		h.m.setUpstream(h.r.Ref.ID, fmt.Sprintf("%+v", to), func() { h.m.o.Upstreams.Set(h.r.Ref.ID, to) })
	}
	return err
}

func (h *handler) drain(c *current) {
	if u := h.m.o.Upstreams; u != nil && c.live() {
		u.Drain(h.ctx, h.r.Ref.ID, target(c.InspectResponse))
	}
}
