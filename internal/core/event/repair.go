package event

import "github.com/steadyfleet/steady/internal/core/host"

// RepairNeeded says that the host found drift of what it runs, that undoing it
// would stop or replace something, and that it waits for a grant. It replaces
// what the host said before; at most host.MaxRepairNames resources are named.
type RepairNeeded struct{ host.RepairNeed }

// RepairOver says that nothing waits any more. Grant is the claimed grant that
// this closes: nothing under it runs any more. It is empty when none was claimed:
// the drift is gone by itself, or the host went on in a rollout.
type RepairOver struct {
	Grant  string `json:"grant,omitempty"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// EventType names of repairs.
func (RepairNeeded) EventType() string { return "host.repair_needed" }
func (RepairOver) EventType() string   { return "host.repair_over" }

func init() { register(RepairNeeded{}, RepairOver{}) }
