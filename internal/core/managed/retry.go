package managed

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
)

// Retry has a host begin anew with what it gave up. It needs no delegation: what is
// declared is tried again, nothing else.
type Retry struct {
	Resource string        `json:"resource,omitempty"` // kind/name; empty: all
	Nonce    string        `json:"nonce"`
	Actor    string        `json:"actor"`
	At       clock.Instant `json:"at"`
}

// MaxRetries is how many retries of a host are kept for it, the newest.
const MaxRetries = 16

// RetryHost decides that a host tries again. Reported is what the host has told of
// its resources, nil when nothing. Nonce is unique.
func RetryHost(host, resource, nonce string, reported *health.Host, c Change) ([]event.Event, error) {
	known := resource == ""
	if reported != nil && !known {
		_, known = reported.Resources[resource]
	}
	if !known {
		return nil, refuse(Missing, "host %s has reported no resource %s; steady host resources %s lists them", host, resource, host)
	}
	return []event.Event{event.HostRetried{Resource: resource, Nonce: nonce, Actor: c.Actor, Reason: c.Reason}}, nil
}

func foldRetried(h *Host, at clock.Instant, ev event.HostRetried) {
	h.Version++
	h.Retries = append(h.Retries, Retry{Resource: ev.Resource, Nonce: ev.Nonce, Actor: ev.Actor, At: at})
	h.Retries = slices.Delete(h.Retries, 0, max(0, len(h.Retries)-MaxRetries))
}
