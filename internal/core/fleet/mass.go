package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
)

const (
	// massPercent is the largest share that a release may remove without consent.
	massPercent = 20
	// mostSpelled is how many names a consent spells out; more are counted and hashed.
	mostSpelled = 20
)

// Removal is consent to what one release removes: hosts of a channel or resources of a
// bundle, each by name. It covers nothing else.
type Removal struct {
	What  string // RemovedHosts or RemovedResources
	Of    string // the channel or the bundle
	Names []string
	// Count and Sum stand for the names where there are many.
	Count int
	Sum   string
}

// What a removal is of.
const (
	RemovedHosts     = "hosts"
	RemovedResources = "resources"
)

// removalOf is the consent that covers names, which are sorted.
func removalOf(what, of string, names []string) Removal {
	if len(names) > mostSpelled {
		return Removal{What: what, Of: of, Count: len(names), Sum: sumOf(names)}
	}
	return Removal{What: what, Of: of, Names: names}
}

func sumOf(names []string) string { return digest.Of([]byte(strings.Join(names, "\n"))).Short() }

// String is the form that ParseRemoval reads: hosts=stable:web-1,web-2, or of many names
// their number and the beginning of their hash, hosts=stable:40@9f2c1ab04d11.
func (r Removal) String() string {
	names := strings.Join(r.Names, ",")
	if r.Sum != "" {
		names = fmt.Sprintf("%d@%s", r.Count, r.Sum)
	}
	return r.What + "=" + r.Of + ":" + names
}

// ParseRemoval reads what a refusal printed.
func ParseRemoval(s string) (r Removal, err error) {
	what, rest, _ := strings.Cut(s, "=")
	of, names, named := strings.Cut(rest, ":")
	if what != RemovedHosts && what != RemovedResources || of == "" || !named || names == "" {
		return r, fmt.Errorf("%q: %w", s, errRemoval)
	}
	r = Removal{What: what, Of: of}
	if count, sum, many := strings.Cut(names, "@"); many {
		if r.Count, err = strconv.Atoi(count); err != nil || sum == "" {
			return r, fmt.Errorf("%q: %w", s, errRemoval)
		}
		r.Sum = sum
		return r, nil
	}
	r.Names = strings.Split(names, ",")
	return r, nil
}

var errRemoval = errors.New("expected what the refusal named, such as hosts=stable:web-1,web-2 or resources=web:volume/data")

// without leaves out the names that a consent covers.
func without(allowed []Removal, what, of string, names []string) []string {
	left := slices.Clone(names)
	for _, r := range allowed {
		switch {
		case r.What != what || r.Of != of:
		case r.Sum != "" && r.Count == len(names) && r.Sum == sumOf(names):
			return nil
		default:
			left = slices.DeleteFunc(left, func(n string) bool { return slices.Contains(r.Names, n) })
		}
	}
	return left
}

// share is what one release removes of a channel's hosts or a bundle's resources.
type share struct {
	of     string
	before int
	gone   []string // sorted
	unsaid []string // those of them that no consent covers
}

// consent words how a removal is said to be meant.
func consent(what string, shares []share) string {
	words := fmt.Sprintf("expected at most %d %% at once, or", massPercent)
	for _, s := range shares {
		if len(s.unsaid) > 0 {
			words += " --allow-removal " + removalOf(what, s.of, s.unsaid).String()
		}
	}
	return words + " if these are meant (allowMassChange: true allows all that a release removes)"
}

// massChange refuses a release that removes more than a fifth of the hosts, of the fleet or
// of a channel, or of the resources of one bundle, unless they are named as meant or
// allowMassChange is set. A host that keeps its name and loses its bundle counts as removed.
func (r *resolver) massChange(p *Plan) {
	prev := r.in.Previous
	if prev == nil || r.d.AllowMassChange {
		return
	}
	channels := r.goneHosts(p)
	all := share{}
	for _, s := range channels {
		all.before += s.before
		all.gone, all.unsaid = append(all.gone, s.gone...), append(all.unsaid, s.unsaid...)
	}
	if all.isMass() {
		r.c.errorf(at("hosts"), "%d of %d hosts of version %d are removed or lose their bundle: %s", len(all.gone), all.before, prev.Version, consent(RemovedHosts, channels))
	} else {
		for _, s := range channels {
			if len(s.gone) > 1 && s.isMass() { // a single host is no mass
				r.c.errorf(at("hosts"), "%d of %d hosts of channel %q of version %d are removed or lose their bundle: %s", len(s.gone), s.before, s.of, prev.Version, consent(RemovedHosts, []share{s}))
			}
		}
	}
	for _, d := range slices.Sorted(maps.Keys(prev.Bundles)) {
		old := prev.Bundles[d]
		now, ok := r.in.Bundles[old.Name]
		if !ok || old.Name == EmptyBundle {
			continue
		}
		s := lostResources(old, now)
		if s.unsaid = without(r.in.Removals, RemovedResources, old.Name, s.gone); s.isMass() {
			r.c.errorf(at("bundles", old.Name), "%d of %d resources of bundle %q of version %d are removed: %s", len(s.gone), s.before, old.Name, prev.Version, consent(RemovedResources, []share{s}))
		}
	}
}

// isMass reports whether too much is removed of which not everything is said to be meant.
func (s *share) isMass() bool { return len(s.unsaid) > 0 && len(s.gone)*100 > s.before*massPercent }

// goneHosts counts the hosts that leave, by the channel that they were in.
func (r *resolver) goneHosts(p *Plan) []share {
	prev, empty, renamed := r.in.Previous, r.in.Digests[""], r.d.formerly()
	by := map[string]*share{}
	for _, h := range keys(prev.Roster.Hosts) {
		old := prev.Roster.Hosts[h]
		now, ok := p.Roster[h]
		if old.Removed != "" && (!ok || now.Removed == old.Removed) {
			continue // it was counted when it left
		}
		s := by[old.Channel]
		if s == nil {
			s = &share{of: old.Channel}
			by[old.Channel] = s
		}
		s.before++
		if !ok && !renamed[h] || ok && (now.Bundle == empty && old.Bundle != empty || now.Removed != "") {
			s.gone = append(s.gone, h)
		}
	}
	var out []share
	for _, name := range keys(by) {
		s := *by[name]
		s.unsaid = without(r.in.Removals, RemovedHosts, name, s.gone)
		out = append(out, s)
	}
	return out
}

func lostResources(old, now Bundle) share {
	have := map[spec.ID]bool{}
	for _, r := range now.Resources() {
		have[r] = true
	}
	s := share{of: old.Name}
	for _, r := range old.Resources() {
		s.before++
		if !have[r] {
			s.gone = append(s.gone, r.String())
		}
	}
	slices.Sort(s.gone)
	return s
}
