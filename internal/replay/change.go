package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Change is what is to be other than it was.
type Change struct {
	// Delay has what came from outside with an event arrive later; what the same
	// host said after it cannot arrive before.
	Delay map[uint64]clock.Duration
	// Drop has an event from outside not happen.
	Drop []uint64
	// Edits change manifests from the event after From on.
	Edits []Edit
	From  uint64
}

// Empty reports whether nothing is changed.
func (c *Change) Empty() bool { return len(c.Delay)+len(c.Drop)+len(c.Edits) == 0 }

// Edit gives manifests another setting.
type Edit struct {
	kind, name string // those of a channel, or with a budget; without a name all
	set        func(*fleet.Manifest)
}

// names are what a manifest has of the edit's kind.
func (e *Edit) names(m *fleet.Manifest) (names []string) {
	if e.kind == "channel" {
		return []string{m.Channel}
	}
	for i := range m.Budgets {
		names = append(names, m.Budgets[i].Selector)
	}
	return names
}

// fields are the parts of the policy that can be changed: where each stands.
var fields = []struct {
	name string
	in   func(*fleet.Policy, *fleet.Wave) any
}{
	{"maxFailures", func(p *fleet.Policy, _ *fleet.Wave) any { return &p.MaxFailures }},
	{"onHealthFailure", func(p *fleet.Policy, _ *fleet.Wave) any { return &p.OnHealthFailure }},
	{"soak", func(_ *fleet.Policy, w *fleet.Wave) any { return &w.Soak }},
	{"minSoaked", func(_ *fleet.Policy, w *fleet.Wave) any { return &w.MinSoaked }},
	{"confirmWindow", func(p *fleet.Policy, _ *fleet.Wave) any { return &p.ConfirmWindow }},
	{"activationDeadline", func(p *fleet.Policy, _ *fleet.Wave) any { return &p.ActivationDeadline }},
	{"sustainedFailure", func(p *fleet.Policy, _ *fleet.Wave) any { return &p.SustainedFailure }},
	{"grantExpiry", func(p *fleet.Policy, _ *fleet.Wave) any { return &p.GrantExpiry }},
}

// parse sets a part of the policy to its text.
func parse(part any, text string) (err error) {
	switch part := part.(type) {
	case *int:
		if *part, err = strconv.Atoi(text); err != nil || *part < 0 {
			return fmt.Errorf("%q is no number of hosts", text)
		}
	case *clock.Duration:
		*part, err = clock.ParseDuration(text)
	case *fleet.OnHealthFailure:
		if *part = fleet.OnHealthFailure(text); *part != fleet.Halt && *part != fleet.RollbackAndHalt {
			return fmt.Errorf("expected %s or %s", fleet.Halt, fleet.RollbackAndHalt)
		}
	}
	return err
}

// PolicyFields lists what ParsePolicy takes.
func PolicyFields() (names []string) {
	for i := range fields {
		names = append(names, fields[i].name)
	}
	return names
}

// ParsePolicy reads [CHANNEL:]FIELD=VALUE: one field of the policy of a channel, or of
// every channel.
func ParsePolicy(text string) (Edit, error) {
	name, value, ok := strings.Cut(text, "=")
	channel, name, named := strings.Cut(name, ":")
	if !named {
		channel, name = "", channel
	}
	i := slices.Index(PolicyFields(), name)
	if !ok || i < 0 {
		return Edit{}, fmt.Errorf("%q: expected [CHANNEL:]FIELD=VALUE with one of the fields %s", text, strings.Join(PolicyFields(), ", "))
	}
	if err := parse(fields[i].in(&fleet.Policy{}, &fleet.Wave{}), value); err != nil {
		return Edit{}, fmt.Errorf("%q: %w", text, err)
	}
	return Edit{"channel", channel, func(m *fleet.Manifest) {
		for w := range m.Waves {
			_ = parse(fields[i].in(&m.Policy, &m.Waves[w]), value) // did well above
		}
	}}, nil
}

// Budget sets the most hosts in flight of a budget, by its selector as declared.
func Budget(selector string, most int) Edit {
	return Edit{"budget", selector, func(m *fleet.Manifest) {
		for i := range m.Budgets {
			if m.Budgets[i].Selector == selector {
				m.Budgets[i].Max = most
			}
		}
	}}
}

// ChangeError says why a change cannot be made.
type ChangeError struct{ Reason string }

func (e *ChangeError) Error() string { return e.Reason }

func changeErrorf(format string, a ...any) error { return &ChangeError{fmt.Sprintf(format, a...)} }

// edit gives manifests with other settings under their own digests. It refuses edits of
// what no manifest has.
func (c *Change) edit(h *History) (*History, error) {
	if len(c.Edits) == 0 {
		return h, nil
	}
	out := &History{Manifests: map[digest.Digest]*rollout.Manifest{}}
	for d, m := range h.Manifests { // order-free: each by itself
		header, next := *m.Header, *m
		header.Waves, header.Budgets = slices.Clone(header.Waves), slices.Clone(header.Budgets)
		next.Header, out.Manifests[d] = &header, &next
	}
	for _, e := range c.Edits {
		known := map[string]bool{}
		for _, m := range out.Manifests { // order-free: each by itself
			names := e.names(m.Header)
			for _, name := range names {
				known[name] = true
			}
			if e.name == "" || slices.Contains(names, e.name) {
				e.set(m.Header)
			}
		}
		if e.name != "" && !known[e.name] {
			return nil, changeErrorf("no rollout of the log has a %s %q; there are: %s", e.kind, e.name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return out, nil
}

// arrange takes out what does not happen and moves what comes later. It returns the
// index of the first unit that is not as it was, or len(units).
func (c *Change) arrange(units []*unit) ([]*unit, int, error) {
	first := len(units)
	for _, seq := range c.Drop {
		i, err := outside(units, seq)
		if err == nil && units[i].kind == claimed {
			err = changeErrorf("event %d is a claim, which a host repeats until it is answered; have it come later with --delay", seq)
		}
		if err != nil {
			return nil, 0, err
		}
		first, units[i].cut = min(first, i), true
	}
	for _, seq := range slices.Sorted(maps.Keys(c.Delay)) {
		i, err := outside(units, seq)
		if err != nil {
			return nil, 0, err
		}
		first = min(first, i)
		delay(units[i:], units[i].at.Add(c.Delay[seq]))
	}
	// What a host reported is cut off there: it is modelled from then on.
	out := slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return u.cut && u.kind != reported })
	slices.SortStableFunc(out, func(a, b *unit) int { return cmp.Compare(a.at, b.at) })
	return out, first, nil
}

// outside finds what came from outside with an event.
func outside(units []*unit, seq uint64) (int, error) {
	i := sort.Search(len(units), func(i int) bool { return units[i].last >= seq })
	if i == len(units) || seq == 0 {
		return 0, changeErrorf("there is no event %d in the log", seq)
	}
	switch u := units[i]; {
	case u.kind == asked && seq != u.first:
		return 0, changeErrorf("event %d (%s) follows from event %d (%s), which an operator asked for; name that one", seq, u.records[seq-u.first].Type, u.first, u.records[0].Type)
	case u.kind == decided:
		return 0, changeErrorf("event %d (%s) is a decision of the server, which is worked out again; name what it answered: a host's event, a claim, presence, a release or a verb", seq, u.records[0].Type)
	}
	return i, nil
}

// delay moves the first unit and what cannot come before it.
func delay(units []*unit, to clock.Instant) {
	first := units[0]
	for _, u := range units {
		if u == first || u.source != "" && u.source == first.source {
			u.late = u.late || u.at < to && u.fromHost()
			u.at = max(u.at, to)
		}
	}
}
