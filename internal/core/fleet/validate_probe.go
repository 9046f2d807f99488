package fleet

import (
	"strconv"
	"strings"
)

func (c *checker) allProbes() {
	c.probeSet(at("probes"), c.d.Probes)
	tags := map[string]bool{}
	for _, h := range keys(c.d.Hosts) {
		for _, t := range c.d.Hosts[h].Tags {
			tags[t] = true
		}
	}
	for _, t := range keys(c.d.TagProbes) {
		c.name(at("tagProbes", t), t)
		if !tags[t] {
			c.warnf(at("tagProbes", t), "no host has tag %q: its probes never run", t)
		}
		c.probeSet(at("tagProbes", t), c.d.TagProbes[t])
	}
	for _, n := range keys(c.d.Channels) {
		c.probeSet(at("channels", n, "probes"), c.d.Channels[n].Probes)
	}
	for _, h := range keys(c.d.Hosts) {
		c.probeSet(at("hosts", h, "probes"), c.d.Hosts[h].Probes)
	}
}

// ValidateProbes checks the set of probes at path.
func ValidateProbes(path []string, set ProbeSet) []Finding {
	c := &checker{d: &Declaration{}}
	c.probeSet(path, set)
	return c.out
}

func (c *checker) probeSet(path []string, set ProbeSet) {
	for _, n := range keys(set) {
		c.name(at(path, n), n)
		if n == ResourcesName {
			c.errorf(at(path, n), "the name %q is that of the built-in probe of what a bundle runs: expected another name; resources: false in bundle.yaml turns the built-in one off", n)
		}
		c.probe(at(path, n), set[n])
	}
}

func (c *checker) probe(path []string, p ProbeDecl) {
	interval := p.Interval.Or(DefaultProbeInterval)
	if interval < MinProbeInterval {
		c.errorf(at(path, "interval"), "interval is %s: expected at least %s", interval, MinProbeInterval)
	}
	if t := p.Timeout; t.Set && t.Duration > interval {
		c.errorf(at(path, "timeout"), "timeout is %s: expected at most the interval (%s)", t.Duration, interval)
	}
	c.positive(at(path, "timeout"), p.Timeout)
	if p.HTTP != nil {
		c.httpProbe(at(path, "http"), p.HTTP)
	}
	if p.TCP != nil {
		if !validAddress(p.TCP.Address) {
			c.errorf(at(path, "tcp", "address"), "address is %q: expected host:port", p.TCP.Address)
		}
	}
	if p.Exec != nil {
		if len(p.Exec.Command) == 0 || p.Exec.Command[0] == "" {
			c.errorf(at(path, "exec", "command"), "the command is empty: expected a program and its arguments")
		}
		if code := p.Exec.ExpectExitCode; code < 0 || code > 255 {
			c.errorf(at(path, "exec", "expectExitCode"), "expectExitCode is %d: expected 0 to 255", code)
		}
	}
	if p.Evidence != nil {
		if e := p.Evidence; !strings.HasPrefix(e.Path, "/") || strings.Contains(e.Path, "/../") || strings.ContainsAny(e.Path, "\r\n\x00") || len(e.Path) > 1024 {
			c.errorf(at(path, "evidence", "path"), "path is %q: expected an absolute path of the host", e.Path)
		}
	}
	resolved := resolveProbe("", p)
	switch kinds := resolved.Kinds(); len(kinds) {
	case 1:
	case 0:
		c.errorf(path, "the probe checks nothing: expected exactly one of http, tcp, exec and evidence")
	default:
		c.errorf(path, "the probe has %s: expected exactly one of http, tcp, exec and evidence", strings.Join(kinds, " and "))
	}
}

func (c *checker) httpProbe(path []string, p *HTTPProbe) {
	rest, ok := strings.CutPrefix(p.URL, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(p.URL, "https://")
	}
	if !ok || rest == "" || rest[0] == '/' || strings.ContainsAny(p.URL, " \t\r\n") {
		c.errorf(at(path, "url"), "url is %q: expected http:// or https://, a host and a path", p.URL)
	}
	if s := p.ExpectStatus; s != 0 && (s < 100 || s > 599) {
		c.errorf(at(path, "expectStatus"), "expectStatus is %d: expected 100 to 599", s)
	}
}

func validAddress(s string) bool {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return false
	}
	port, err := strconv.ParseUint(s[i+1:], 10, 16)
	return err == nil && port > 0
}
