package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/event"
)

// Accepted is a wave that an operator let pass. Its hosts that wait are served as
// late ones and hold the rollout no more; Failing is the required evidence that
// did not pass, sorted by host, which holds nothing as long as the rollout lasts.
type Accepted struct {
	Wave    int                     `json:"wave"`
	Failing []event.FailingEvidence `json:"failing,omitempty"`
	Reason  string                  `json:"reason"`
	Actor   string                  `json:"actor"`
}

// Message name who answers for it, for people.
func (a *Accepted) Message() string { return "accepted by " + a.Actor + ": " + a.Reason }

// Forced returns how a wave passed on an operator's word, or nil.
func (r *Rollout) Forced(wave int) *Accepted {
	for i := range r.Accepted {
		if r.Accepted[i].Wave == wave {
			return &r.Accepted[i]
		}
	}
	return nil
}

// Excused returns who accepted that a control does not pass on a host, or nil.
func (r *Rollout) Excused(host, control string) *Accepted {
	for i := range r.Accepted {
		failing := r.Accepted[i].Failing
		k, found := slices.BinarySearchFunc(failing, host, func(f event.FailingEvidence, h string) int { return strings.Compare(f.Host, h) })
		if found && slices.Contains(failing[k].Controls, control) {
			return &r.Accepted[i]
		}
	}
	return nil
}

// Due counts the hosts that the end of the rollout waits for to start: those of
// waves that an operator let pass are late.
func (r *Rollout) Due() int {
	n := 0
	for w := range r.Waves {
		if r.Forced(w) == nil {
			n += r.Waves[w].Ready()
		}
	}
	return n
}

// Skipped counts the hosts that are away, those left behind aside.
func (r *Rollout) Skipped() int {
	n := 0
	for w := range r.Waves {
		if r.Forced(w) == nil {
			n += r.Waves[w].Skipped()
		}
	}
	return n
}

// away reports whether a wave goes on without the member: it waits, and is not there or does
// not take what it is offered.
func (m *Member) away() bool {
	return m.Status == Waiting && (!m.Online || m.Unwilling) || m.ignores()
}

// Away names hosts of the open waves from one on that these go on without, those left behind
// aside, in order and not more than most.
func (r *Rollout) Away(from, most int) []string {
	var names []string
	for i := range r.Members {
		if w := r.Plan.Leaves[i].Wave; w >= from && w <= r.Cursor && r.Members[i].away() && r.Forced(w) == nil && len(names) < most {
			names = append(names, r.Plan.Leaves[i].Host)
		}
	}
	return names
}

// NotBack is how many hosts failed, and neither went back nor are on their way.
func (r *Rollout) NotBack() int { return r.Total().By[Broken] }

// SkippedMember reports whether the rollout went on without a member that was away.
func (r *Rollout) SkippedMember(i int) bool {
	m := &r.Members[i]
	return m.away() && (r.Plan.Leaves[i].Wave < r.Cursor || r.Phase == Terminal)
}

// LeftBehind names the hosts that wait in waves which an operator let pass, the
// first of them alone; empty without any.
func (r *Rollout) LeftBehind() string {
	const most = 5
	var names []string
	n := 0
	for i := range r.Members {
		leaf := &r.Plan.Leaves[i]
		if r.Members[i].Status != Waiting || r.Forced(leaf.Wave) == nil {
			continue
		}
		if n++; n <= most {
			names = append(names, leaf.Host)
		}
	}
	switch {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf("%d left waiting: %s and %d more", n, strings.Join(names, ", "), n-most)
	}
	return fmt.Sprintf("%d left waiting: %s", n, strings.Join(names, ", "))
}
