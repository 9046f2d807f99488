package event

import (
	"github.com/steadyfleet/steady/internal/core/clock"
)

// HostDecommissioned retires a host: its certificates issued before NotBefore
// end, and it is given nothing more. What it may still be doing under a grant
// keeps its slot until SlotUntil. Enrolling it again brings it back.
type HostDecommissioned struct {
	NotBefore clock.Instant `json:"notBefore"`
	SlotUntil clock.Instant `json:"slotUntil"`
	Reason    string        `json:"reason"`
	Actor     string        `json:"actor"`
}

// HostSlotFreed gives the slot of a decommissioned host back to its budgets.
type HostSlotFreed struct {
	Grant  string `json:"grant,omitempty"`
	Reason string `json:"reason"`
}

// EventType names of what ends a host's identity.
func (HostDecommissioned) EventType() string { return "host.decommissioned" }
func (HostSlotFreed) EventType() string      { return "host.slot_freed" }

func init() { register(HostDecommissioned{}, HostSlotFreed{}) }
