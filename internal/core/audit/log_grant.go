package audit

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/oracle"
)

// grantEvent checks the life of a grant up to its claim.
func (l *Log) grantEvent(e event.Entry, ev event.Event) {
	h := l.Host(e.Host())
	switch ev := ev.(type) {
	case event.Granted:
		l.granted(h, e, ev)
	case event.GrantClaimed:
		l.claimed(h, e, ev)
	case event.GrantEnded:
		g := h.Grant
		l.must(ev.Reason != "", "S28", "grant %s ended without a reason", ev.Grant)
		l.must(g != nil && g.ID == ev.Grant && (!g.Claimed || g.Declined), "S24", "grant %s of host %s ended and was not open", ev.Grant, h.Name)
	case event.GrantDeclined:
		l.consistent(ev.Code != "", h, "S28", "host %s declined grant %s without a reason", h.Name, ev.Grant)
	}
}

// granted checks one offer against every rule that could have held it back.
func (l *Log) granted(h *oracle.Host, e event.Entry, ev event.Granted) {
	l.must(ev.Reason != "", "S28", "grant %s has no reason", ev.Grant)
	l.must(ev.Expires > e.At, "S23", "grant %s expires as it is given", ev.Grant)
	l.must(l.grants[ev.Grant] == nil, "S24", "grant %s was given before", ev.Grant)
	r := l.find(ev)
	if r == nil {
		return
	}
	switch ev.Purpose {
	case host.Update, host.Rollback, host.Repair, host.Reboot:
	default:
		l.addf("S3", "host %s was granted %s for %q", h.Name, ev.Grant, ev.Purpose)
		return
	}
	if i, ok := r.Manifest.Leaf(h.Name); ok && r.Manifest.Leaves[i].Wave != ev.Wave {
		l.addf("S30", "grant %s of host %s says wave %d, the plan %d", ev.Grant, h.Name, ev.Wave, r.Manifest.Leaves[i].Wave)
	}
	l.broken("was granted", ev.Grant, oracle.Request{Host: h, Rollout: r, Purpose: ev.Purpose, Target: ev.Target, At: e.At})
}

func (l *Log) claimed(h *oracle.Host, e event.Entry, ev event.GrantClaimed) {
	g := h.Grant
	if g == nil || g.ID != ev.Grant {
		l.addf("S24", "host %s claimed grant %s, which is not open for it", h.Name, ev.Grant)
		return
	}
	l.must(!g.Claimed, "S24", "host %s claimed grant %s twice", h.Name, ev.Grant)
	l.must(e.At < g.Expires, "S23", "host %s claimed grant %s after it expired", h.Name, ev.Grant)
	if r := l.Find(g.Manifest); r != nil {
		l.broken("claimed", ev.Grant, oracle.Request{Host: h, Rollout: r, Purpose: g.Purpose, Target: g.Target, Claim: true, At: e.At})
	}
}

// broken adds what a grant breaks as it is given or claimed.
func (l *Log) broken(how, grant string, q oracle.Request) {
	for _, rule := range l.Broken(q) {
		l.addf(rule.Invariant, "host %s %s %s to %s %s of rollout %s: %s", q.Host.Name, how, grant, q.Purpose, q.Target.Short(), q.Rollout.Name, rule.Message)
	}
}
