package sessions

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// outOfBounds says of the hosts that accept sessions why their signed bounds do not allow a pod of a session, if they do not.
// Of is how many hosts accept sessions, of those that the pod's selector picks.
func (r *Runner) outOfBounds(name string, p *session.Pod) (out map[string]string, of int) {
	owner := spec.SessionOwner(name)
	known := map[string]string{} // by delegation: many hosts have the same
	all := p.Selector.String() == ""
	for host, h := range r.srv.Roster() { // order-free: it fills a map
		d := h.Delegation
		if d == nil || d.Bounds.RequireSigned || d.Bounds.CheckOwner(owner) != nil || !all && !p.Selector.Matches(host, h.Channel, h.Tags) {
			continue
		}
		of++
		key, err := json.Marshal(d)
		if err != nil {
			continue // the host judges what it is set
		}
		why, seen := known[string(key)]
		if !seen {
			why = refusedBy(host, d, p, owner)
			known[string(key)] = why
		}
		if why != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[host] = why
		}
	}
	return out, of
}

// refusedBy says why a host's declaration does not allow a pod of a session; empty if it does.
func refusedBy(host string, d *fleet.Delegation, p *session.Pod, owner spec.Owner) string {
	t := &managed.Target{Host: host, Declared: true, Delegation: d, Bundle: &spec.Set{}}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if _, err := managed.Check(t, managed.Input{Kind: w.Kind, Name: w.Name, Spec: w.Spec}, owner); err != nil {
			return err.Error()
		}
	}
	return ""
}

// checkBounds finds pods that no host allows which accepts sessions. Where none does, none is wrong with a pod.
func (r *Runner) checkBounds(name string, s *session.Spec) (found session.Problems) {
	for i := range s.Parts {
		for k := range s.Parts[i].Pods {
			refused, of := r.outOfBounds(name, &s.Parts[i].Pods[k])
			if of == 0 || len(refused) < of {
				continue
			}
			least := ""
			for _, why := range refused { // order-free: the least of all
				if least == "" || why < least {
					least = why
				}
			}
			found = append(found, session.Problem{Path: fmt.Sprintf("parts[%d].pods[%d].workloads", i, k),
				Message: fmt.Sprintf("none of the %d hosts that accept sessions allows it: %s", of, least)})
		}
	}
	return found
}
