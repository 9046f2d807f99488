package server

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// RefusedError says why a host or an operator does not get what was asked for.
type RefusedError struct {
	Kind   RefusalKind
	Reason string
}

func (e *RefusedError) Error() string { return e.Reason }

// RefusalKind is what a refusal is about.
type RefusalKind string

// The kinds.
const (
	Forbidden RefusalKind = "forbidden" // whatever the caller sends
	Conflict  RefusalKind = "conflict"  // it does not fit the state
	Unknown   RefusalKind = "unknown"   // there is no such host
)

func refuse(kind RefusalKind, format string, args ...any) error {
	return &RefusedError{kind, fmt.Sprintf(format, args...)}
}

// MayEnrol decides whether a genuine token, issued at an instant, enrols its host h, which
// is nil before the log names it. Declared says that the newest release, if any, has it.
// Tokens from before a revocation are revoked as certificates are: one may have been stolen
// with the host.
func MayEnrol(name string, h *plan.Host, declared bool, issued, now clock.Instant) error {
	if !declared {
		return refuse(Forbidden, "host %s is not declared in the newest release; add it to the fleet file, build, sign and push", name)
	}
	if h == nil {
		return nil
	}
	if h.RevokedBefore > now {
		return refuse(Forbidden, "host %s is revoked until %s", name, h.RevokedBefore)
	}
	if issued < h.RevokedBefore {
		return refuse(Forbidden, "the token is older than the revocation of host %s; make a new one with steady token create %s", name, name)
	}
	return nil
}

// Enrols decides whether the state still is as it was when a token was checked.
func (s *State) Enrols(name, token string, incarnation uint64) error {
	if _, used := s.Plan.Tokens[token]; used {
		return refuse(Conflict, "the token was used meanwhile; try again")
	}
	if h := s.Plan.Hosts[name]; h != nil && h.Incarnation+1 != incarnation {
		return refuse(Conflict, "host %s was enrolled meanwhile; try again", name)
	}
	return nil
}

// Renews decides whether a host still is of the incarnation that asked for a certificate.
func (s *State) Renews(name string, incarnation uint64) error {
	if h := s.Plan.Hosts[name]; h == nil || h.Incarnation != incarnation {
		return refuse(Conflict, "host %s was enrolled again meanwhile", name)
	}
	return nil
}

// RetryHost decides that a host begins anew with a resource that it gave up, or with all
// where none is named.
func (s *State) RetryHost(name, resource, nonce string, ch managed.Change) ([]event.Event, error) {
	h := s.Plan.Hosts[name]
	if h == nil || h.Incarnation == 0 {
		return nil, refuse(Unknown, "host %s never enrolled, so it runs nothing; steady host list shows the hosts", name)
	}
	if h.Ended != nil {
		return nil, refuse(Conflict, "host %s is %s and speaks with the server no more; a new token brings it back: steady token create %s", name, h.Ended.Status, name)
	}
	return managed.RetryHost(name, resource, nonce, s.Health.Hosts[name], ch)
}

// Answers decides whether something can be asked of a host now; seen says when it was
// connected last. The view is nil before the log names the host.
func (v *View) Answers(name, seen string) error {
	if v == nil || v.Incarnation == 0 {
		return refuse(Conflict, "host %s never enrolled; make a token with steady token create %s", name, name)
	}
	if !v.Online {
		return refuse(Conflict, "host %s is offline: %s; nothing can be asked of it now", name, seen)
	}
	return nil
}

// Continues decides whether a batch that begins at an event continues what the log holds of
// the host. Acked is what the host may forget; ahead is how many events the log lacks where
// the host was acknowledged more, zero otherwise.
func (v *View) Continues(name string, incarnation, first uint64) (acked, ahead uint64, err error) {
	if incarnation != v.Incarnation {
		return 0, 0, refuse(Conflict, "host %s is in incarnation %d, the batch is of %d", name, v.Incarnation, incarnation)
	}
	if first > v.Seq+1 {
		return v.Seq, first - 1, refuse(Conflict, "the batch begins at event %d, the server holds %d", first, v.Seq)
	}
	return v.Seq, 0, nil
}

// NeedsDocuments reports whether a host needs what a manifest names to act on a grant.
func NeedsDocuments(g *plan.Grant) bool { return g.Purpose == host.Update }

// NeedsProof reports whether a host takes a grant only with what orders it: an override, or
// the failures of others.
func NeedsProof(g *plan.Grant) bool { return g.Purpose == host.Rollback }

// ProvenFailures lists the hosts that are proven to have failed under a manifest, with the
// wave of each, and how many of one wave prove that it has to be rolled back.
func ProvenFailures(s *plan.State, manifest digest.Digest) (waves map[string]int, need int) {
	r := s.Rollouts[manifest]
	if r == nil || r.Plan == nil {
		return nil, 0
	}
	waves = map[string]int{}
	for name, m := range r.Marks { // order-free: it only fills a map
		if i, member := r.Plan.Leaf(name); m.Proven && member && s.Hosts[name] != nil {
			waves[name] = r.Plan.Leaves[i].Wave
		}
	}
	return waves, r.Plan.Header.Policy.MaxFailures + 1
}
