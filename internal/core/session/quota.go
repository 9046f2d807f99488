package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// KindQuota is the kind of row that keeps the quota of an owner; its id is the owner's name.
const KindQuota = "quota"

// Everybody is the owner whose quota is that of all who have none of their own.
const Everybody = "everybody"

// Quota bounds what the sessions of one owner take whose timeslots overlap. A zero field is no bound.
type Quota struct {
	Sessions int            `json:"sessions,omitempty"`
	Pods     int            `json:"pods,omitempty"`
	MilliCPU int64          `json:"milliCPU,omitempty"`
	Memory   int64          `json:"memory,omitempty"` // bytes
	GPUs     int            `json:"gpus,omitempty"`
	Length   clock.Duration `json:"length,omitempty"` // of a session, from provisionAt to end
	// Calls are the hosts that jobs may call; nil bounds nothing.
	Calls []string `json:"calls,omitzero"`
}

// OwnerName is the name of an owner without the id of the token: who gets a new token stays who they are.
func OwnerName(owner string) string {
	name, _, _ := strings.Cut(owner, " (")
	return name
}

// OwnersQuota is what counts for an owner, and whose it is: the owner's, or that of Everybody.
type OwnersQuota struct {
	Quota
	Of string
}

// QuotaOf is the quota of an owner among rows, or that of everybody.
func QuotaOf(rows Rows, owner string) (q OwnersQuota) {
	for _, of := range []string{OwnerName(owner), Everybody} {
		if row, there := find(rows, QuotaRef(of)); there && !row.Delete && json.Unmarshal(row.Desired, &q.Quota) == nil {
			q.Of = of
			return q
		}
	}
	return OwnersQuota{}
}

// Bounds are the names of what a quota bounds.
var Bounds = []string{"sessions", "pods", "milliCPU", "memory", "gpus", "length", "calls"}

// With is the quota with those bounds of another one alone that only names.
func (q Quota) With(o Quota, only []string, found *Problems) Quota {
	for _, name := range only {
		switch name {
		case "sessions":
			q.Sessions = o.Sessions
		case "pods":
			q.Pods = o.Pods
		case "milliCPU":
			q.MilliCPU = o.MilliCPU
		case "memory":
			q.Memory = o.Memory
		case "gpus":
			q.GPUs = o.GPUs
		case "length":
			q.Length = o.Length
		case "calls":
			q.Calls = o.Calls
		default:
			found.add("only", "%q is no bound of a quota: expected one of %s", name, strings.Join(Bounds, ", "))
		}
	}
	return q
}

// QuotaRef is the row of an owner's quota.
func QuotaRef(owner string) engine.Ref { return engine.Ref{Kind: KindQuota, ID: owner} }

// CheckQuota finds what is wrong with a quota.
func CheckQuota(owner string, q *Quota) (found Problems) {
	if owner == "" || len(owner) > 64 || strings.ContainsAny(owner, "/()") {
		found.add("owner", "%q is no name of an operator's token, nor %s", owner, Everybody)
	}
	if q.Sessions < 0 || q.Pods < 0 || q.MilliCPU < 0 || q.Memory < 0 || q.GPUs < 0 || q.Length < 0 {
		found.add("", "a bound is below zero: expected zero for none, or more")
	}
	checkCalls(&found, q.Calls)
	return found
}

// DecideQuota is the decision on a quota: there is nothing to do for it.
func DecideQuota(v engine.View[Quota, NeedsNothing]) engine.Decision {
	return engine.IsConverged(engine.NewReason(codeReady, ""))
}

// Usage is what a session uses of a quota.
type Usage struct {
	Name      string
	Timeslot  Timeslot
	Pods      int
	Resources place.Resources
	GPUs      int
}

// UsageOf is what a session uses while it lasts.
func UsageOf(name string, s *Spec) Usage {
	t := Usage{Name: name, Timeslot: s.Timeslot}
	for i := range s.Parts {
		for k := range s.Parts[i].Pods {
			p := &s.Parts[i].Pods[k]
			t.Pods++
			t.Resources, t.GPUs = t.Resources.Add(p.Resources), t.GPUs+p.GPU.Count
		}
	}
	return t
}

// Exceeded finds what of a session is beyond the quota of its owner, beside the sessions of these rows. It returns
// Problems.
func (q OwnersQuota) Exceeded(sessions []engine.Row, name string, s *Spec) error {
	var others []Usage
	for _, row := range sessions {
		var o Spec
		if row.Phase.Terminal() {
			continue
		}
		if err := json.Unmarshal(row.Desired, &o); err != nil {
			return err
		}
		if OwnerName(o.Owner) == OwnerName(s.Owner) {
			others = append(others, UsageOf(row.Ref.ID, &o))
		}
	}
	if found := q.exceeded(name, s, others); len(found) > 0 {
		return found
	}
	return nil
}

// IsZero reports whether the quota bounds nothing.
func (q Quota) IsZero() bool {
	return q.Calls == nil && q.Sessions == 0 && q.Pods == 0 && q.MilliCPU == 0 && q.Memory == 0 && q.GPUs == 0 && q.Length == 0
}

// exceeded is Exceeded with the other sessions of the owner.
func (q *OwnersQuota) exceeded(name string, s *Spec, others []Usage) (found Problems) {
	own := UsageOf(name, s)
	sum, sessions := own, 1
	for _, o := range others {
		if o.Name == name || !o.Timeslot.ProvisionAt.Before(s.Timeslot.CleanupDeadline) || !s.Timeslot.ProvisionAt.Before(o.Timeslot.CleanupDeadline) {
			continue
		}
		sessions++
		sum.Pods, sum.GPUs, sum.Resources = sum.Pods+o.Pods, sum.GPUs+o.GPUs, sum.Resources.Add(o.Resources)
	}
	over := func(path, what string, n, most int64) {
		if most > 0 && n > most {
			found.add(path, "%s would have %d %s with those that overlap; the quota of %s allows %d", OwnerName(s.Owner), n, what, q.Of, most)
		}
	}
	over("timeslot", "sessions", int64(sessions), int64(q.Sessions))
	over("parts", "pods", int64(sum.Pods), int64(q.Pods))
	over("parts", "thousandths of a CPU", sum.Resources.MilliCPU, q.MilliCPU)
	over("parts", "bytes of memory", sum.Resources.Memory, q.Memory)
	over("parts", "GPUs", int64(sum.GPUs), int64(q.GPUs))
	if length := s.Timeslot.End.Sub(s.Timeslot.ProvisionAt); q.Length > 0 && length > q.Length.Std() {
		found.add("timeslot.end", "the session would last %s; the quota of %s allows %s", length.Truncate(time.Second), q.Of, q.Length)
	}
	if q.Calls != nil {
		s.eachCall(func(path string, c *Call) {
			if err := allows(q.Calls, c.URL); err != nil {
				found.add(path, "%v by the quota of %s", err, q.Of)
			}
		})
	}
	return found
}

// eachCall visits the calls of all phases.
func (s *Spec) eachCall(visit func(path string, c *Call)) {
	for i := range s.Parts {
		for k := range s.Parts[i].Phases {
			if c := s.Parts[i].Phases[k].Call; c != nil {
				visit(fmt.Sprintf("parts[%d].phases[%d].call.url", i, k), c)
			}
		}
	}
}
