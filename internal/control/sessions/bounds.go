package sessions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// declared are the hosts of a roster that leave something to sessions, together where they leave the same.
type declared struct {
	mu     sync.Mutex
	roster map[string]fleet.RosterHost
	alike  []alike
}

// alike are hosts of one delegation, by name.
type alike struct {
	*fleet.Delegation
	hosts []string
}

// of lists the hosts of a roster by what they leave to sessions, read once for each roster.
func (c *declared) of(roster map[string]fleet.RosterHost) []alike {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alike != nil && sameMap(roster, c.roster) {
		return c.alike
	}
	c.roster, c.alike = roster, []alike{}
	at := map[string]int{}
	for _, host := range slices.Sorted(maps.Keys(roster)) {
		d := roster[host].Delegation
		if d == nil || d.Bounds.RequireSigned || d.Bounds.CheckOwner(spec.SessionOwner("any")) != nil {
			continue
		}
		key, err := json.Marshal(d)
		if err != nil {
			continue // the host judges what it is set
		}
		i, known := at[string(key)]
		if !known {
			i, c.alike = len(c.alike), append(c.alike, alike{Delegation: d})
			at[string(key)] = i
		}
		c.alike[i].hosts = append(c.alike[i].hosts, host)
	}
	return c.alike
}

// outOfBounds says of the hosts that accept sessions why their signed bounds do not allow a pod of a session, if they do not.
// Of is how many hosts accept sessions, of those that the pod's selector picks.
func (r *Runner) outOfBounds(name string, p *session.Pod) (out map[string]string, of int) {
	owner, roster := spec.SessionOwner(name), r.srv.Roster()
	all := p.Selector.String() == ""
	for _, a := range r.declared.of(roster) {
		why := refusedBy(a.hosts[0], a.Delegation, p, owner)
		if why == "" && all {
			of += len(a.hosts)
			continue
		}
		for _, host := range a.hosts {
			if h := roster[host]; !all && !p.Selector.Matches(host, h.Channel, h.Tags) {
				continue
			}
			of++
			if why == "" {
				continue
			}
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
