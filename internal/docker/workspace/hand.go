package workspace

import (
	"context"
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

// hand carries out one step. It ends without an error and without a change where
// the containers are not in the roles that the step was decided for: the next
// look decides anew.
type hand struct {
	m     *Reconciler
	ctx   context.Context
	r     engine.Resource[Desired]
	title string
}

// found is a container as it is now.
type found struct {
	*container.InspectResponse
	run  convert.RunInfo
	role replace.Role
}

// live reports whether processes of it may run.
func (f *found) live() bool { return f.run.Up() || f.run.State == convert.Restarting }

// failed reports that the engine could not start it.
func (f *found) failed() bool { return f.run.State == convert.FailedStart }

// get reads a container by its ID; nil if it is gone, going, or not this host's.
func (h *hand) get(id string) (*found, error) {
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
	f := &found{&c, convert.Run(&c), role}
	if !ours || c.ID != id || f.run.State == convert.Removing {
		return nil, nil
	}
	return f, nil
}

// gone makes an error of a call on what is gone meanwhile none: the next look
// shows it.
func gone(err error) error {
	if dockerapi.NotFound(err) {
		return nil
	}
	return err
}

// Stop implements replace.Handler.
func (h *hand) Stop(a replace.Stop) error {
	for _, id := range a.IDs {
		c, err := h.get(id)
		if err != nil {
			return err
		}
		if err := h.stop(c); err != nil {
			return err
		}
	}
	return nil
}

// stop ends a container as it wants to be ended. Nil is stopped already.
func (h *hand) stop(c *found) error {
	if c == nil || !c.live() {
		return nil
	}
	if c.run.State == convert.Paused {
		if err := gone(h.m.o.Engine.ContainerUnpause(h.ctx, c.ID)); err != nil && !dockerapi.Conflict(err) {
			return err
		}
	}
	h.preStop(c)
	grace := 10 * time.Second
	if c.Config != nil && c.Config.StopTimeout != nil && *c.Config.StopTimeout >= 0 {
		grace = time.Duration(*c.Config.StopTimeout) * time.Second
	}
	if err := gone(h.m.o.Engine.ContainerStop(h.ctx, c.ID, grace, "")); err != nil {
		return err
	}
	// An end that was asked for is none of a crash loop.
	rec, err := h.m.remembered(h.ctx, c.ID)
	if err != nil || rec.Starts == 0 {
		return err
	}
	rec.Starts = 0
	return h.m.remember(h.ctx, c.ID, rec)
}

// Unpause implements replace.Handler.
func (h *hand) Unpause(a replace.Unpause) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil || c.run.State != convert.Paused {
		return err
	}
	return gone(h.m.o.Engine.ContainerUnpause(h.ctx, c.ID))
}

// Rename implements replace.Handler.
func (h *hand) Rename(a replace.Rename) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil {
		return err
	}
	return h.rename(c, replace.Main)
}

// rename gives a container its name in a role. A name that is taken meanwhile is
// waited for.
func (h *hand) rename(c *found, to replace.Role) error {
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
func (h *hand) Start(a replace.Start) error {
	c, err := h.get(a.ID)
	if c == nil || err != nil {
		return err
	}
	if a.Restart == "" && c.live() {
		return nil
	}
	rec, err := h.m.remembered(h.ctx, c.ID)
	if err != nil {
		return err
	}
	if a.Restart != "" && rec.Restarted == a.Restart {
		return nil
	}
	leave, err := h.slot()
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
	return h.m.remember(h.ctx, c.ID, rec)
}

const (
	noSlot    = "as many containers start as may at once"
	slotPause = 15 * time.Second // should nobody tell that there is one
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
	return m.o.Starts != nil && starts(m.decide(r, o, 0).Action()) && !m.o.Starts.Room(r.Ref.String())
}

// slot takes a place among those that start, or says to wait for one.
func (h *hand) slot() (leave func(), err error) {
	if h.m.o.Starts == nil {
		return func() {}, nil
	}
	leave, ok := h.m.o.Starts.TryEnter(h.r.Ref.String())
	if !ok {
		return nil, reconcile.Blocked(engine.NewReason(CodeNoSlot, noSlot))
	}
	return leave, nil
}

// seat takes a place among those that start if there is one. What stood still for
// a start does not wait for one.
func (h *hand) seat() (leave func()) {
	if h.m.o.Starts == nil {
		return func() {}
	}
	leave, _ = h.m.o.Starts.TryEnter(h.r.Ref.String())
	return leave
}

// start starts a container. A failure that the engine shows on a container which
// is made to replace another is no error here: the next look sees it and goes
// back at once.
func (h *hand) start(c *found) error {
	if err := h.confined(); err != nil {
		return err
	}
	err := h.m.o.Engine.ContainerStart(h.ctx, c.ID)
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

func (h *hand) hold() {
	if u := h.m.o.Upstreams; u != nil {
		h.m.told(h.r.Ref.ID, "held", func() { u.Pause(h.r.Ref.ID) })
	}
}

// lead leads requests to a container; its addresses are read again.
func (h *hand) lead(id string) error {
	if h.m.o.Upstreams == nil {
		return nil
	}
	c, err := h.get(id)
	if c != nil && c.live() {
		to := target(c.InspectResponse)
		h.m.told(h.r.Ref.ID, fmt.Sprintf("%+v", to), func() { h.m.o.Upstreams.Set(h.r.Ref.ID, to) })
	}
	return err
}

func (h *hand) drain(c *found) {
	if u := h.m.o.Upstreams; u != nil && c.live() {
		u.Drain(h.ctx, h.r.Ref.ID, target(c.InspectResponse))
	}
}
