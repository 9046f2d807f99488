package workspace

import (
	"errors"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// Swap implements replace.Handler: stop the old one, give its name away, start the
// new one.
func (h *handler) Swap(a replace.Swap) error {
	n, err := h.get(a.New)
	if n == nil || err != nil || n.role == replace.Old {
		return err
	}
	o, err := h.get(a.Old)
	if err != nil || o != nil && o.role == replace.New {
		return err
	}
	if o != nil && o.role != replace.Old {
		if err := h.checkFree(replace.Name(h.title, h.m.replica(o), replace.Old), o.ID); err != nil {
			return err
		}
	}
	h.pauseUpstream()
	if err := h.rest(o); err != nil {
		return err
	}
	if o != nil {
		if err := h.rename(o, replace.Old); err != nil {
			return err
		}
	}
	if err := h.rename(n, replace.Main); err != nil {
		return err
	}
	if a.Run && !n.live() {
		defer h.tryStartSlot()()
		return h.start(n)
	}
	return nil
}

// checkFree fails if a name is taken, before anything is stopped for it.
func (h *handler) checkFree(name, except string) error {
	switch c, err := h.m.o.Engine.ContainerInspect(h.ctx, name); {
	case dockerapi.NotFound(err):
		return nil
	case err != nil:
		return err
	case c.ID == except:
		return nil // another agent was faster
	default:
		return fmt.Errorf("the name %s is needed and belongs to container %.12s: rename or remove it", name, c.ID)
	}
}

// Promote implements replace.Handler.
func (h *handler) Promote(a replace.Promote) error {
	n, err := h.get(a.New)
	if n == nil || err != nil || n.role == replace.Old || n.run.State != convert.Running {
		return err
	}
	o, err := h.get(a.Old)
	if err != nil {
		return err
	}
	if err := h.route(n.ID); err != nil {
		return err
	}
	if o != nil {
		if err := h.rename(o, replace.Old); err != nil {
			return err
		}
	}
	return h.rename(n, replace.Main)
}

// Restore implements replace.Handler: the old one is back and runs before the bad
// one goes.
func (h *handler) Restore(a replace.Restore) error {
	o, err := h.get(a.Old)
	if o == nil || err != nil {
		return err // without the old one nothing is taken away
	}
	b, err := h.get(a.Bad)
	if err != nil {
		return err
	}
	last := ""
	if b != nil && a.Cause != "" {
		last = h.m.tailOf(h.ctx, &h.r.Desired.Spec, b.ID, b.run.FinishedAt)
	}
	h.pauseUpstream()
	if b != nil {
		if err := h.rest(b); err != nil {
			return err
		}
		if err := h.rename(b, replace.New); err != nil {
			return err
		}
	}
	if err := h.rename(o, replace.Main); err != nil {
		return err
	}
	if a.Run && !o.live() {
		defer h.tryStartSlot()()
		if err := h.launch(o); err != nil {
			return fmt.Errorf("go back to the container before: %w", err)
		}
	}
	if err := h.route(o.ID); err != nil {
		return err
	}
	if b != nil {
		if err := h.remove(b, dockerapi.Removal{}); err != nil {
			return err
		}
	}
	if a.Cause == "" {
		return nil
	}
	return rolledBack(a.Cause, last, "the container before is back")
}

func rolledBack(cause, last, then string) error {
	if last != "" && !strings.Contains(cause, last) {
		cause += "; last output: " + last
	}
	return fmt.Errorf("the new container was not good: %s; %s", cause, then)
}

// RemoveOld implements replace.Handler.
func (h *handler) RemoveOld(a replace.RemoveOld) error {
	keep, err := h.get(a.Keep)
	if keep == nil || err != nil || keep.role != replace.Main || a.Run && keep.run.State != convert.Running {
		return err
	}
	if a.Run {
		if err := h.route(keep.ID); err != nil {
			return err
		}
	}
	err = h.each(a.IDs, func(c *current) bool { return c.role != replace.Main }, true, func(c *current) error {
		if err := h.stopBetween(c); err != nil {
			return err
		}
		return h.remove(c, dockerapi.Removal{})
	})
	if err != nil {
		return err
	}
	return h.pruneFiles(keep.InspectResponse)
}

// remove removes a container that does not run. One that is being removed by
// somebody else is as good as gone.
func (h *handler) remove(c *current, how dockerapi.Removal) error {
	err := gone(h.m.o.Engine.ContainerRemove(h.ctx, c.ID, how))
	if err != nil {
		if now, look := h.get(c.ID); look == nil && now == nil {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return h.m.o.Ledger.Forget(h.ctx, c.ID)
}

// Discard implements replace.Handler.
func (h *handler) Discard(a replace.Discard) error {
	last := ""
	err := h.each(a.IDs, func(c *current) bool { return c.role != replace.Main || c.run.State == convert.Dead }, false, func(c *current) error {
		if a.Cause != "" {
			last = h.m.tailOf(h.ctx, &h.r.Desired.Spec, c.ID, c.run.FinishedAt)
		}
		if err := h.stopBetween(c); err != nil {
			return err
		}
		return h.remove(c, dockerapi.Removal{Force: c.run.State == convert.Dead})
	})
	if err != nil {
		return err
	}
	if a.Cause == "" {
		return nil
	}
	return rolledBack(a.Cause, last, "it was removed")
}

// Remove implements replace.Handler. Volumes with a name stay.
func (h *handler) Remove(a replace.Remove) error {
	volumes := map[string]bool{}
	err := h.each(a.IDs, nil, true, func(c *current) error {
		for _, v := range convert.AnonymousVolumes(c.InspectResponse) {
			volumes[v] = true
		}
		if err := h.stopBetween(c); err != nil {
			return err
		}
		return h.remove(c, dockerapi.Removal{Force: c.run.State == convert.Dead || h.over(), AnonymousVolumes: true})
	})
	if err != nil {
		return err
	}
	var errs []error
	for v := range volumes {
		// One that the container took over by name is not removed with it.
		if err := gone(h.m.o.Engine.VolumeRemove(h.ctx, v)); err != nil && !dockerapi.Conflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, h.pruneFiles(nil), h.forgetCompleted())...)
}
