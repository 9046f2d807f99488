package router

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// RequestHost brings the Host of a request to the form of Route.Host: no port,
// lower case, no trailing dot. It fails on what no client may send.
func RequestHost(host string) (string, error) {
	name, err := withoutPort(host)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(name, "[") {
		return addressHost(name)
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name, checkHost(name)
}

// withoutPort takes ":PORT" off, which may be empty, and nothing else.
func withoutPort(host string) (string, error) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return host, nil
	}
	port := host[i+1:]
	if len(port) > 5 || strings.ContainsFunc(port, func(c rune) bool { return c < '0' || c > '9' }) {
		return "", fmt.Errorf("%q has no valid port", host)
	}
	return host[:i], nil
}

// addressHost reads "[IPv6]" and writes it in its one form, with brackets.
func addressHost(s string) (string, error) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil || !strings.HasSuffix(s, "]") || !a.Is6() || a.Zone() != "" {
		return "", fmt.Errorf("%q is not an IPv6 address in brackets", s)
	}
	return "[" + a.String() + "]", nil
}

// routeHost brings what a person wrote to the form that requests carry.
func routeHost(s string) (string, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		s = "[" + s + "]"
	}
	if strings.HasPrefix(s, "[") {
		return addressHost(s)
	}
	if strings.Contains(s, "*") {
		return "", fmt.Errorf("%q has a wildcard: write one route for each host name, or leave host out for any", s)
	}
	if strings.Contains(s, ":") {
		return "", fmt.Errorf("%q has a port: write the name alone, the router listens on its own ports", s)
	}
	name, err := names.ToASCII(strings.TrimSuffix(s, "."))
	if err != nil {
		return "", fmt.Errorf("%q is not a host name: %w", s, err)
	}
	return name, checkHost(name)
}

// names maps as browsers do (UTS 46, not transitional), so that a route has the
// name that a request for it carries. Underscores pass: engines' names have them.
var names = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.StrictDomainName(false))

func checkHost(name string) error {
	if name == "" || len(name) > 253 {
		return fmt.Errorf("a host name has 1 to 253 characters, this one has %d", len(name))
	}
	for l := range strings.SplitSeq(name, ".") {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return fmt.Errorf("%q is not a host name: each part has 1 to 63 characters and no '-' at its ends", name)
		}
		for _, c := range []byte(l) {
			if !alphanumeric(c) && c != '-' && c != '_' {
				return fmt.Errorf("%q is not a host name: %q cannot be in it", name, c)
			}
		}
	}
	return nil
}
