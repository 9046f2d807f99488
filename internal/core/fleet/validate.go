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

// Validate checks a declaration by itself. Findings come in the order of the
// sections; an error means that Resolve must not be called.
func Validate(d *Declaration) []Finding {
	c := &checker{d: d}
	c.head()
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
	return c.out
}

// HasErrors reports whether any of the findings stops a build.
func HasErrors(fs []Finding) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Error })
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

func (c *checker) head() {
	if c.d.APIVersion != APIVersion {
		c.errorf(at("apiVersion"), "apiVersion is %q: expected %q", c.d.APIVersion, APIVersion)
	}
	if c.d.Kind != Kind {
		c.errorf(at("kind"), "kind is %q: expected %q", c.d.Kind, Kind)
	}
	c.name(at("metadata", "name"), c.d.Metadata.Name)
}

func (c *checker) hosts() {
	for _, h := range keys(c.d.Hosts) {
		host, path := c.d.Hosts[h], at("hosts", h)
		c.name(path, h)
		if _, ok := c.d.Channels[host.Channel]; !ok {
			c.errorf(at(path, "channel"), "unknown channel %q: %s", host.Channel, oneOf(keys(c.d.Channels)))
		}
		if _, ok := c.d.Bundles[host.Bundle]; !ok && host.Bundle != "" {
			c.errorf(at(path, "bundle"), "unknown bundle %q: %s", host.Bundle, oneOf(keys(c.d.Bundles)))
		}
		for i, t := range host.Tags {
			c.name(at(path, "tags", i), t)
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
		if _, ok := c.d.RolloutPolicies[ch.RolloutPolicy]; !ok {
			c.errorf(at(path, "rolloutPolicy"), "unknown rollout policy %q: %s", ch.RolloutPolicy, oneOf(keys(c.d.RolloutPolicies)))
		}
		c.freshness(path, ch)
		if ch.ReconcileInterval.Set && ch.ReconcileInterval.Duration < MinReconcile {
			c.errorf(at(path, "reconcileInterval"), "reconcileInterval is %s: expected at least %s", ch.ReconcileInterval.Duration, MinReconcile)
		}
		if o := ch.OnNewRef; o != "" && o != Queue && o != Supersede {
			c.errorf(at(path, "onNewRef"), "onNewRef is %q: expected %s or %s", o, Queue, Supersede)
		}
	}
}

func (c *checker) freshness(path []string, ch ChannelDecl) {
	signing := ch.SigningInterval.Or(DefaultSigningInterval)
	switch {
	case signing <= 0:
		c.errorf(at(path, "signingInterval"), "signingInterval is %s: expected more than 0s", signing)
	case !ch.FreshnessWindow.Set:
		c.errorf(at(path, "freshnessWindow"), "freshnessWindow is missing: expected a duration of at least twice the signingInterval (%s)", signing)
	case ch.FreshnessWindow.Duration < 2*signing:
		c.errorf(at(path, "freshnessWindow"), "freshnessWindow is %s: expected at least twice the signingInterval (%s)", ch.FreshnessWindow.Duration, signing)
	}
}

func (c *checker) policies() {
	for _, n := range keys(c.d.RolloutPolicies) {
		p, path := c.d.RolloutPolicies[n], at("rolloutPolicies", n)
		c.name(path, n)
		if len(p.Waves) == 0 {
			c.errorf(at(path, "waves"), "policy %q has no waves: expected at least one, such as {name: all, selector: {all: true}}", n)
		}
		seen := map[string]bool{}
		for i, w := range p.Waves {
			c.name(at(path, "waves", i, "name"), w.Name)
			if seen[w.Name] {
				c.errorf(at(path, "waves", i, "name"), "wave %q is named twice: expected each wave of a policy to have its own name", w.Name)
			}
			seen[w.Name] = true
			if w.MinSoaked.Count < 0 {
				c.errorf(at(path, "waves", i, "minSoaked"), "minSoaked is %d: expected 0 or more", w.MinSoaked.Count)
			}
			if p := w.MinSoaked.Percent; p < 0 || p > 100 {
				c.errorf(at(path, "waves", i, "minSoaked"), "minSoaked is %d%%: expected 0%% to 100%%", p)
			}
			c.selector(at(path, "waves", i, "selector"), &w.Selector)
		}
		if p.HealthGate.MaxFailures < 0 {
			c.errorf(at(path, "healthGate", "maxFailures"), "maxFailures is %d: expected 0 or more", p.HealthGate.MaxFailures)
		}
		if n := p.CanaryMax; n != nil && *n < 1 {
			c.errorf(at(path, "canaryMax"), "canaryMax is %d: expected at least 1, or no bound", *n)
		}
		if o := p.OnHealthFailure; o != "" && o != RollbackAndHalt && o != Halt {
			c.errorf(at(path, "onHealthFailure"), "onHealthFailure is %q: expected %s or %s", o, RollbackAndHalt, Halt)
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
		if n == EmptyBundle {
			c.errorf(at("bundles", n), "the name %q is taken for the bundle of hosts without one: expected another name", n)
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
