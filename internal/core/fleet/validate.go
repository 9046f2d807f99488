package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Severity tells what stops a build from what is only said.
type Severity string

// Errors stop a build; warnings do not.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one thing that is wrong with a declaration.
type Finding struct {
	// Path leads to the place: map keys, and list indexes in decimal. The place
	// may be absent, when what is missing is the finding.
	Path     []string
	Message  string // "what is wrong: what was expected"
	Severity Severity
}

// Bounds of a declaration.
const (
	MinConfirmWindow = 5 * clock.Second // a server's poll and the skew of clocks fit in
	MinProbeInterval = 1 * clock.Second
	MinReconcile     = 1 * clock.Second
	longRollout      = 24 * clock.Hour
)

// Validate checks what the schema of the fleet file cannot: names of entries, what
// refers to what, and what follows from several values. Findings come in the order of
// the sections; an error means that Resolve must not be called.
func Validate(d *Declaration) []Finding {
	c := &checker{d: d}
	CheckServers(d.Servers, func(i int, err error) { c.errorf(at("servers", i), "%q: %v", d.Servers[i], err) })
	c.hosts()
	c.channels()
	c.policies()
	c.waves()
	c.hostEdges()
	c.channelEdges()
	c.budgets()
	c.windows()
	c.compliance()
	c.bundles()
	c.allProbes()
	c.revoked()
	c.removed()
	c.renamed()
	return c.out
}

type checker struct {
	d   *Declaration
	out []Finding
}

func (c *checker) errorf(path []string, format string, args ...any) {
	c.out = append(c.out, Finding{Path: path, Message: fmt.Sprintf(format, args...), Severity: Error})
}

func (c *checker) warnf(path []string, format string, args ...any) {
	c.out = append(c.out, Finding{Path: path, Message: fmt.Sprintf(format, args...), Severity: Warning})
}

func (c *checker) name(path []string, s string) {
	if err := CheckName(s); err != nil {
		c.errorf(path, "%v", err)
	}
}

// at makes a path; its parts are never shared between findings.
func at(parts ...any) []string {
	p := make([]string, 0, len(parts))
	for _, x := range parts {
		switch v := x.(type) {
		case []string:
			p = append(p, v...)
		case int:
			p = append(p, strconv.Itoa(v))
		case string:
			p = append(p, v)
		}
	}
	return p
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// oneOf renders the names that would have been right, not too many.
func oneOf(names []string) string {
	const most = 8
	switch {
	case len(names) == 0:
		return "none is declared"
	case len(names) > most:
		return "expected one of " + strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
	}
	return "expected one of " + strings.Join(names, ", ")
}

// known refuses a reference to an entry that nobody declares.
func known[V any](c *checker, path []string, what, name string, declared map[string]V) bool {
	_, ok := declared[name]
	if !ok {
		c.errorf(path, "unknown %s %q: %s", what, name, oneOf(keys(declared)))
	}
	return ok
}

// once refuses the second of two entries of a list with the same name.
func (c *checker) once(path []string, what, name string, seen map[string]bool) {
	if seen[name] {
		c.errorf(path, "%s %q is declared twice: expected each %s to have its own name", what, name, what)
	}
	seen[name] = true
}

func (c *checker) hosts() {
	for _, h := range keys(c.d.Hosts) {
		host, path := c.d.Hosts[h], at("hosts", h)
		c.name(path, h)
		known(c, at(path, "channel"), "channel", host.Channel, c.d.Channels)
		if host.Bundle != "" {
			known(c, at(path, "bundle"), "bundle", host.Bundle, c.d.Bundles)
		}
		for i, t := range host.Tags {
			if slices.Contains(host.Tags[:i], t) {
				c.errorf(at(path, "tags", i), "tag %q is listed twice: expected each tag once", t)
			}
		}
		c.delegated(path, host)
		c.tagProbeClash(h, host)
	}
}

// tagProbeClash refuses two tags of one host that define the same probe, unless
// a narrower scope replaces it.
func (c *checker) tagProbeClash(name string, h HostDecl) {
	from := map[string]string{}
	for _, tag := range slices.Sorted(slices.Values(h.Tags)) {
		for _, p := range keys(c.d.TagProbes[tag]) {
			_, onHost := h.Probes[p]
			_, onChannel := c.d.Channels[h.Channel].Probes[p]
			if first, ok := from[p]; ok && first != tag && !onHost && !onChannel {
				c.errorf(at("hosts", name, "tags"), "tags %q and %q both define probe %q for host %q: expected one of them, or the probe on the host or its channel", first, tag, p, name)
				continue
			}
			from[p] = tag
		}
	}
}

func (c *checker) channels() {
	used := map[string]bool{}
	for _, h := range c.d.Hosts {
		used[h.Channel] = true
	}
	for _, n := range keys(c.d.Channels) {
		ch, path := c.d.Channels[n], at("channels", n)
		c.name(path, n)
		if !used[n] {
			c.warnf(path, "channel %q has no hosts: it opens no rollout", n)
		}
		known(c, at(path, "rolloutPolicy"), "rollout policy", ch.RolloutPolicy, c.d.RolloutPolicies)
		c.freshness(path, ch)
		if ch.ReconcileInterval.Set && ch.ReconcileInterval.Duration < MinReconcile {
			c.errorf(at(path, "reconcileInterval"), "reconcileInterval is %s: expected at least %s", ch.ReconcileInterval.Duration, MinReconcile)
		}
	}
}

func (c *checker) freshness(path []string, ch ChannelDecl) {
	signing := ch.SigningInterval.Or(DefaultSigningInterval)
	switch {
	case signing <= 0:
		c.errorf(at(path, "signingInterval"), "signingInterval is %s: expected more than 0s", signing)
	case ch.FreshnessWindow.Duration < 2*signing:
		c.errorf(at(path, "freshnessWindow"), "freshnessWindow is %s: expected at least twice the signingInterval (%s)", ch.FreshnessWindow.Duration, signing)
	}
}

func (c *checker) policies() {
	for _, n := range keys(c.d.RolloutPolicies) {
		p, path := c.d.RolloutPolicies[n], at("rolloutPolicies", n)
		c.name(path, n)
		seen := map[string]bool{}
		for i, w := range p.Waves {
			c.once(at(path, "waves", i, "name"), "wave", w.Name, seen)
			if w.MinSoaked.Count < 0 {
				c.errorf(at(path, "waves", i, "minSoaked"), "minSoaked is %d: expected 0 or more", w.MinSoaked.Count)
			}
			c.selector(at(path, "waves", i, "selector"), &w.Selector)
		}
		if w := p.ConfirmWindow; w.Set && w.Duration != 0 && w.Duration < MinConfirmWindow {
			c.errorf(at(path, "confirmWindow"), "confirmWindow is %s: expected at least %s, or 0s to turn it off", w.Duration, MinConfirmWindow)
		}
		c.positive(at(path, "activationDeadline"), p.ActivationDeadline)
		c.positive(at(path, "grantExpiry"), p.GrantExpiry)
	}
}

func (c *checker) positive(path []string, d DurationText) {
	if d.Set && d.Duration <= 0 {
		c.errorf(path, "%s is %s: expected more than 0s", path[len(path)-1], d.Duration)
	}
}

func (c *checker) bundles() {
	for _, n := range keys(c.d.Bundles) {
		c.name(at("bundles", n), n)
		if n == WipedBundle {
			c.errorf(at("bundles", n), "the name %q is reserved for the bundle of hosts that are wiped: expected another name", n)
		}
		if n == EmptyBundle {
			c.errorf(at("bundles", n), "the name %q is reserved for the bundle of hosts without one: expected another name", n)
		}
		p := c.d.Bundles[n].Path
		if p == "" || strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), "..") {
			c.errorf(at("bundles", n, "path"), "path is %q: expected a folder below that of the fleet file", p)
		}
	}
}

func (c *checker) revoked() {
	for _, h := range keys(c.d.Revoked) {
		c.name(at("revoked", h), h)
		if _, err := time.Parse(time.RFC3339, c.d.Revoked[h].NotBefore); err != nil {
			c.errorf(at("revoked", h, "notBefore"), "notBefore is %q: expected a time such as 2026-03-01T12:00:00Z", c.d.Revoked[h].NotBefore)
		}
	}
}
