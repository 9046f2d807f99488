package session

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/reconcile/engine"
)

var methods = []string{"", "GET", "POST", "PUT", "PATCH", "DELETE"}

// maxCalls bounds the hosts that one session may call.
const maxCalls = 64

// checkCalls checks hosts that jobs may call: a name, *. before one for all below it, and a port if it is
// not that of the scheme.
func checkCalls(p *Problems, calls []string) {
	if len(calls) > maxCalls {
		p.add("calls", "there are %d; expected at most %d", len(calls), maxCalls)
	}
	for i, c := range calls {
		u, err := url.Parse("https://" + strings.TrimPrefix(c, "*."))
		if err != nil || u.Hostname() == "" || u.Host != strings.TrimPrefix(c, "*.") || strings.Contains(u.Host, "*") {
			p.add(fmt.Sprintf("calls[%d]", i), "%q is no host: expected one such as lms.example, *.example or lms.example:8443", c)
		}
	}
}

// allows reports why a URL may not be called, if it may not.
func allows(calls []string, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is no URL of http or https", raw)
	case u.User != nil:
		return fmt.Errorf("%s has a user in it: expected none, since it is in the log", u.Redacted())
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && access.Inward(ip, nil) {
		return fmt.Errorf("%s: %s", ip, NotCalled)
	}
	host := strings.ToLower(u.Host)
	if slices.ContainsFunc(calls, func(c string) bool {
		c = strings.ToLower(c)
		parent, below := strings.CutPrefix(c, "*")
		return c == host || below && strings.HasSuffix(host, parent)
	}) {
		return nil
	}
	return fmt.Errorf("host %s may not be called: expected one of calls, %q", u.Host, calls)
}

// NotCalled says which addresses are forbidden.
const NotCalled = "calls to loopback, link-local, multicast, metadata and unspecified addresses are not made, nor to those of the server's own machine, nor to forms of IPv6 that stand for one of them"

// Reserved reports whether only the server itself sends events of a type.
func Reserved(eventType string) bool { return strings.HasPrefix(eventType, "steady.") }

// checkEvent refuses a type of which no event is ever accepted.
func checkEvent(p *Problems, path, eventType string) {
	switch {
	case Reserved(eventType):
		p.add(path, "events of type %s are of steady itself, and not accepted from outside", eventType)
	case len(eventType) > engine.MaxEventName:
		p.add(path, "it has %d bytes; at most %d are allowed", len(eventType), engine.MaxEventName)
	}
}
