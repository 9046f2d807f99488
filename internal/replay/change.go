package replay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
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
	Channel, Field, Value string
}

// field is a part of the policy that can be changed, read from its text.
type field struct {
	name string
	set  func(m *fleet.Manifest, text string) error
}

var fields = []field{
	number("maxFailures", func(m *fleet.Manifest, n int) { m.Policy.MaxFailures = n }),
	{"onHealthFailure", func(m *fleet.Manifest, text string) error {
		m.Policy.OnHealthFailure = fleet.OnHealthFailure(text)
		if m.Policy.OnHealthFailure != fleet.Halt && m.Policy.OnHealthFailure != fleet.RollbackAndHalt {
			return fmt.Errorf("expected %s or %s", fleet.Halt, fleet.RollbackAndHalt)
		}
		return nil
	}},
	duration("soak", func(m *fleet.Manifest, d clock.Duration) { waves(m, func(w *fleet.Wave) { w.Soak = d }) }),
	number("minSoaked", func(m *fleet.Manifest, n int) { waves(m, func(w *fleet.Wave) { w.MinSoaked = n }) }),
	duration("confirmWindow", func(m *fleet.Manifest, d clock.Duration) { m.Policy.ConfirmWindow = d }),
	duration("activationDeadline", func(m *fleet.Manifest, d clock.Duration) { m.Policy.ActivationDeadline = d }),
	duration("sustainedFailure", func(m *fleet.Manifest, d clock.Duration) { m.Policy.SustainedFailure = d }),
	duration("grantExpiry", func(m *fleet.Manifest, d clock.Duration) { m.Policy.GrantExpiry = d }),
}

func number(name string, set func(*fleet.Manifest, int)) field {
	return field{name, func(m *fleet.Manifest, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is no number of hosts", text)
		}
		set(m, n)
		return nil
	}}
}

func duration(name string, set func(*fleet.Manifest, clock.Duration)) field {
	return field{name, func(m *fleet.Manifest, text string) error {
		d, err := clock.ParseDuration(text)
		set(m, d)
		return err
	}}
}

func waves(m *fleet.Manifest, set func(*fleet.Wave)) {
	for i := range m.Waves {
		set(&m.Waves[i])
	}
}

// PolicyFields lists what ParsePolicy takes.
func PolicyFields() []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// ParsePolicy reads [CHANNEL:]FIELD=VALUE.
func ParsePolicy(text string) (PolicyEdit, error) {
	name, value, ok := strings.Cut(text, "=")
	channel, name, named := strings.Cut(name, ":")
	if !named {
		channel, name = "", channel
	}
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if !ok || i < 0 {
		return PolicyEdit{}, fmt.Errorf("%q: expected [CHANNEL:]FIELD=VALUE with one of the fields %s", text, strings.Join(PolicyFields(), ", "))
	}
	if err := fields[i].set(&fleet.Manifest{}, value); err != nil {
		return PolicyEdit{}, fmt.Errorf("%q: %w", text, err)
	}
	return PolicyEdit{Channel: channel, Field: name, Value: value}, nil
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
			i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.Field })
			if err := fields[i].set(&header, e.Value); err != nil {
				return nil, err
			}
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
		u.cut, u.dropped = u.kind == reported, u.kind != reported
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
	case u.kind == asked && seq != u.first:
		return nil, &ChangeError{fmt.Sprintf("event %d (%s) follows from event %d (%s), which an operator asked for; name that one", seq, u.records[seq-u.first].Type, u.first, u.records[0].Type)}
	case u.kind == decided:
		return nil, &ChangeError{fmt.Sprintf("event %d (%s) is a decision of the server, which is worked out again; name what it answered: a host's event, a claim, presence, a release or a verb", seq, u.records[0].Type)}
	}
	return u, nil
}

// delay moves a unit and what cannot come before it.
func delay(units []*unit, u *unit, to clock.Instant) {
	after := false
	for _, v := range units {
		switch {
		case v == u:
			after = true
			v.late = v.kind == reported || v.kind == claimed
			v.at = max(v.at, to)
		case !after:
		case (u.kind == reported || u.kind == claimed) && v.host == u.host && (v.kind == reported || v.kind == claimed),
			u.kind == other && v.kind == other && v.records[0].Type == u.records[0].Type && v.host == u.host:
			v.late = v.late || v.at < to && v.kind == reported
			v.at = max(v.at, to)
		}
	}
}

// check refuses changes of what no manifest has.
func (c *Change) check(h *History) error {
	channels, selectors := map[string]bool{}, map[string]bool{}
	for _, m := range h.Manifests { // order-free: it only fills sets
		channels[m.Header.Channel] = true
		for _, b := range m.Header.Budgets {
			selectors[b.Selector] = true
		}
	}
	for _, e := range c.Policy {
		if e.Channel != "" && !channels[e.Channel] {
			return &ChangeError{fmt.Sprintf("no rollout of the log is of channel %q; there are %s", e.Channel, strings.Join(slices.Sorted(maps.Keys(channels)), ", "))}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(c.Budgets)) {
		if !selectors[s] {
			return &ChangeError{fmt.Sprintf("no rollout of the log has a budget %q; there are: %s", s, strings.Join(slices.Sorted(maps.Keys(selectors)), ", "))}
		}
	}
	return nil
}
