package model

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// standing is why the present identity of a host counts for nothing.
type standing uint8

const (
	stands standing = iota
	shared          // two agents have it
	revoked
	retired // by an operator; it gives its slot back
)

// identity reads what ends or doubts a host's identity. What retires a host stays
// until it enrols again; a revocation ends only certificates from before it.
func (h *hostFacts) identity(at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.CertificateRenewed:
		h.issued = at
	case event.HostRevoked:
		if h.enrolled && h.issued < ev.NotBefore && h.standing != retired {
			h.standing = revoked
		}
	case event.HostForked:
		if h.standing == stands {
			h.standing = shared
		}
	case event.HostDecommissioned:
		h.standing, h.slotUntil = retired, ev.SlotUntil
	case event.HostSlotFreed:
		h.grant, h.freed = nil, true
	}
}

// there reports whether the host is there with an identity that counts.
func (h *hostFacts) there() bool { return h.online && h.standing == stands && !h.overdue }

// absent reports whether nobody waits for the host: it never enrolled, or was retired.
func (h *hostFacts) absent() bool { return !h.enrolled || h.standing == retired }

// freeSlot gives the slot of a retired host back once what it was granted is over:
// its time has come, and a host that acted was given up.
func (d *decider) freeSlot(h *hostFacts) {
	if h.standing == retired && !h.freed && h.slotUntil <= d.now && (h.failed || !h.acts()) {
		d.do(h.name, event.HostSlotFreed{})
	}
}
