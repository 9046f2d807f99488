package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Change is what is to be other than it was.
type Change struct {
	// Delay has what came from outside with an event arrive later; what the same
	// host said after it cannot arrive before.
	Delay map[uint64]clock.Duration
	// Drop has an event from outside not happen.
	Drop []uint64
	// Policy and Budgets change manifests from the event after From on.
	Policy  []PolicyEdit
	Budgets map[string]int // by selector, as declared
	From    uint64
}

// Empty reports whether nothing is changed.
func (c *Change) Empty() bool {
	return len(c.Delay)+len(c.Drop)+len(c.Policy)+len(c.Budgets) == 0
}

// PolicyEdit sets one field of the policy of a channel, or of every channel.
type PolicyEdit struct {
	Channel string
	Field   string
	apply   func(*fleet.Manifest)
}

// PolicyFields lists what ParsePolicy takes.
var PolicyFields = []string{"maxFailures", "onHealthFailure", "soak", "minSoaked", "confirmWindow", "activationDeadline", "sustainedFailure", "grantExpiry"}

// ParsePolicy reads [CHANNEL:]FIELD=VALUE.
func ParsePolicy(text string) (PolicyEdit, error) {
	name, value, ok := strings.Cut(text, "=")
	channel, field, named := strings.Cut(name, ":")
	if !named {
		channel, field = "", name
	}
	e := PolicyEdit{Channel: channel, Field: field}
	if !ok || !slices.Contains(PolicyFields, field) {
		return e, fmt.Errorf("%q: expected [CHANNEL:]FIELD=VALUE with one of the fields %s", text, strings.Join(PolicyFields, ", "))
	}
	switch field {
	case "maxFailures", "minSoaked":
		n := 0
		if _, err := fmt.Sscanf(value+";", "%d;", &n); err != nil || n < 0 {
			return e, fmt.Errorf("%q: %q is no number of hosts", text, value)
		}
		e.apply = func(m *fleet.Manifest) {
			if field == "maxFailures" {
				m.Policy.MaxFailures = n
				return
			}
			for i := range m.Waves {
				m.Waves[i].MinSoaked = n
			}
		}
		return e, nil
	case "onHealthFailure":
		p := fleet.OnHealthFailure(value)
		if p != fleet.Halt && p != fleet.RollbackAndHalt {
			return e, fmt.Errorf("%q: expected %s or %s", text, fleet.Halt, fleet.RollbackAndHalt)
		}
		e.apply = func(m *fleet.Manifest) { m.Policy.OnHealthFailure = p }
		return e, nil
	}
	d, err := clock.ParseDuration(value)
	e.apply = func(m *fleet.Manifest) { setTime(m, field, d) }
	return e, err
}

func setTime(m *fleet.Manifest, field string, d clock.Duration) {
	switch field {
	case "soak":
		for i := range m.Waves {
			m.Waves[i].Soak = d
		}
	case "confirmWindow":
		m.Policy.ConfirmWindow = d
	case "activationDeadline":
		m.Policy.ActivationDeadline = d
	case "sustainedFailure":
		m.Policy.SustainedFailure = d
	case "grantExpiry":
		m.Policy.GrantExpiry = d
	}
}

// changed gives manifests with other settings under their own digests.
type changed struct {
	docs   plan.Documents
	change *Change
	made   map[digest.Digest]*rollout.Manifest
}

// Manifest implements plan.Documents.
func (c *changed) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	if m := c.made[d]; m != nil {
		return m, nil
	}
	m, err := c.docs.Manifest(d)
	if err != nil {
		return nil, err
	}
	header := *m.Header
	header.Waves, header.Budgets = slices.Clone(header.Waves), slices.Clone(header.Budgets)
	for _, e := range c.change.Policy {
		if e.Channel == "" || e.Channel == header.Channel {
			e.apply(&header)
		}
	}
	for i := range header.Budgets {
		if n, ok := c.change.Budgets[header.Budgets[i].Selector]; ok {
			header.Budgets[i].Max = n
		}
	}
	next := *m
	next.Header = &header
	c.made[d] = &next
	return &next, nil
}

// ChangeError says why a change cannot be made.
type ChangeError struct{ Reason string }

func (e *ChangeError) Error() string { return e.Reason }

// arrange takes out what does not happen and moves what comes later. It returns
// the index of the first unit that is not as it was, or len(units).
func (c *Change) arrange(units []*unit) ([]*unit, int, error) {
	at := map[uint64]*unit{}
	for _, u := range units {
		for seq := u.first; seq <= u.last; seq++ {
			at[seq] = u
		}
	}
	first := len(units)
	touch := func(u *unit) { first = min(first, slices.Index(units, u)) }
	for _, seq := range c.Drop {
		u, err := outside(at, seq)
		if err != nil {
			return nil, 0, err
		}
		if u.kind == claimed {
			return nil, 0, &ChangeError{fmt.Sprintf("event %d is a claim, which a host repeats until it is answered; have it come later with --delay", seq)}
		}
		touch(u)
		u.drop(seq)
	}
	for seq, d := range c.Delay { // order-free: the latest of two counts
		u, err := outside(at, seq)
		if err != nil {
			return nil, 0, err
		}
		touch(u)
		delay(units, u, u.at.Add(d))
	}
	out := slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return u.dropped })
	slices.SortStableFunc(out, func(a, b *unit) int { return int(min(max(a.at-b.at, -1), 1)) })
	return out, first, nil
}

// outside finds what came from outside with an event.
func outside(at map[uint64]*unit, seq uint64) (*unit, error) {
	u := at[seq]
	switch {
	case u == nil:
		return nil, &ChangeError{fmt.Sprintf("there is no event %d in the log", seq)}
	case u.kind == verb && seq != u.first:
		return nil, &ChangeError{fmt.Sprintf("event %d (%s) follows from event %d (%s), which an operator asked for; name that one", seq, u.records[seq-u.first].Type, u.first, u.records[0].Type)}
	case u.kind == decided:
		return nil, &ChangeError{fmt.Sprintf("event %d (%s) is a decision of the server, which is worked out again; name what it answered: a host's event, a claim, presence, a release or a verb", seq, u.records[0].Type)}
	}
	return u, nil
}

// drop takes one event out, or the unit if nothing else is in it.
func (u *unit) drop(seq uint64) {
	i := slices.IndexFunc(u.records, func(r event.Record) bool { return r.Seq == seq })
	if u.kind != reported || i < 0 || len(u.records) == 1 {
		u.dropped = true
		return
	}
	u.records, u.diverge = slices.Delete(slices.Clone(u.records), i, i+1), slices.Delete(slices.Clone(u.diverge), i, i+1)
}

// delay moves a unit and what cannot come before it.
func delay(units []*unit, u *unit, to clock.Instant) {
	after := false
	for _, v := range units {
		switch {
		case v == u:
			after = true
			v.at = max(v.at, to)
		case !after:
		case (u.kind == reported || u.kind == claimed) && v.host == u.host && (v.kind == reported || v.kind == claimed),
			u.kind == other && v.kind == other && v.records[0].Type == u.records[0].Type && v.host == u.host:
			v.at = max(v.at, to)
		}
	}
}
