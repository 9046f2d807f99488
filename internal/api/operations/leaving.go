package operations

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// removal is how a host leaves the fleet, or nil. One that never enrolled has nothing to
// remove.
func removal(name string, h *plan.Host, declared fleet.RosterHost) *operator.Removal {
	if h != nil && h.Leaving != nil {
		l := h.Leaving
		return &operator.Removal{Host: name, Workloads: l.Workloads, Done: l.Done, Signed: l.Reason, Detail: l.Detail}
	}
	if declared.Removed == "" {
		return nil
	}
	done := h == nil || h.Incarnation == 0 || h.Machine.Phase == host.Converged && h.Machine.Current == declared.Bundle
	return &operator.Removal{Host: name, Workloads: declared.Removed, Done: done}
}

// toRename says what is left to do for a host that has not come under its new name.
func (h *Handler) toRename(row *operator.Host) string {
	text := fmt.Sprintf("is host %s under its new name, and has not enrolled with it; make a token with steady token create %s, and start the agent of %s once with it, in the same state folder",
		row.RenamedFrom, row.Name, row.RenamedFrom)
	if s := h.c.Sample(row.RenamedFrom); s != nil && s.AgentVersion == noRename {
		text += "; that agent reports version " + noRename + ": the release of that version cannot be renamed, and is upgraded first; a later build that reports the same can"
	}
	return text
}

// noRename is the release whose agents cannot be renamed. What was built before the next one reports it too.
const noRename = "0.1.0"
