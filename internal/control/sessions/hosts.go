package sessions

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// used is what the workspaces of a bundle take of their host: a limit is a claim.
type used struct {
	place.Resources
	gpus int // -1: all
}

// learn reads what the bundles of the newest release use, those that were not read before.
func (r *Runner) learn(ctx context.Context) error {
	unread := r.unread()
	for d := range unread { // order-free: it fills a map
		b, err := r.srv.Bundle(ctx, d)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.used[d] = usedBy(b.Containers)
		r.mu.Unlock()
	}
	if len(unread) > 0 {
		r.forget()
		r.scenes.forget()
	}
	return nil
}

// unread are the bundles of the newest release that were not read. A host that leaves may have none.
func (r *Runner) unread() map[digest.Digest]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out map[digest.Digest]struct{}
	for _, h := range r.srv.Roster() { // order-free: it fills a map
		if _, known := r.used[h.Bundle]; known || h.Bundle == "" {
			continue
		}
		if out == nil {
			out = map[digest.Digest]struct{}{}
		}
		out[h.Bundle] = struct{}{}
	}
	return out
}

// forget drops what no host of the release has.
func (r *Runner) forget() {
	live := map[digest.Digest]bool{}
	for _, h := range r.srv.Roster() { // order-free: it fills a map
		live[h.Bundle] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for d := range r.used { // order-free: each by itself
		if !live[d] {
			delete(r.used, d)
		}
	}
}

func usedBy(set *spec.Set) (u used) {
	if set == nil {
		return u
	}
	for i := range set.Workspaces {
		w := &set.Workspaces[i]
		u.MilliCPU += w.Limits.NanoCPUs / 1e6
		u.Memory += w.Limits.Memory
		for _, g := range w.GPUs {
			if g.Count < 0 || u.gpus < 0 {
				u.gpus = -1
				continue
			}
			u.gpus += max(g.Count, len(g.IDs))
		}
	}
	return u
}

// host is what placement reads of one host; nil if there is none.
func (r *Runner) host(s *server.State, name string) *place.Host {
	h, declared := r.srv.Roster()[name]
	p := s.Plan.Hosts[name]
	if !declared || p == nil || p.Incarnation == 0 {
		return nil
	}
	out := &place.Host{Name: name, Channel: h.Channel, Tags: h.Tags, Present: p.Online, Frozen: p.Freeze != nil}
	if m := s.Managed.Hosts[name]; m != nil {
		out.Disabled = m.Settings.Disabled()
	}
	if d := h.Delegation; d != nil {
		out.RequireSigned, out.AllowsSessions = d.Bounds.RequireSigned, d.Bounds.CheckOwner(spec.SessionOwner("any")) == nil
	}
	r.mu.Lock()
	u := r.used[h.Bundle]
	r.mu.Unlock()
	out.Used = u.Resources
	if f := p.Facts; f != nil {
		out.Facts = &place.Facts{CPUs: int(f.CPUs), Memory: f.Memory, Arch: f.Arch, Engine: f.Engine}
		for i, g := range f.GPUs {
			out.Facts.GPUs = append(out.Facts.GPUs, place.GPU{Vendor: g.Vendor, Model: g.Model, Memory: g.Memory})
			if u.gpus < 0 || i < u.gpus { // engines give out those of the lowest indices
				out.UsedGPUs = append(out.UsedGPUs, i)
			}
		}
	}
	return out
}

// books reports whether a host may be booked for a pod now: it has room, and takes pods if it was not booked before.
func (r *Runner) books(s *server.State, ref engine.Ref, want *session.PodReport) bool {
	h := r.host(s, want.Host)
	if h == nil {
		h = &place.Host{}
	}
	had, _ := s.Booked.Of(ref)
	return (had.Host == want.Host || h.Accepts()) && s.Booked.Fits(ref, want, h.Capacity())
}
