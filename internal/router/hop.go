package router

import (
	"net/http"
	"slices"
	"strings"
)

// dropHopByHop removes what belongs to one connection (RFC 9110, 7.6.1).
func dropHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

// dropForwarding removes what the client says of where the request came from.
func dropForwarding(h http.Header) { dropNamed(h, "forwarded", "x-real-ip", "x-forwarded-*") }

// dropIdentity removes what the client says of who it is, under the names by which
// services that authorize, and proxies before them, tell it to a workspace: Authelia,
// Authentik, oauth2-proxy, Pomerium, Vouch, Grafana's and Kubernetes' proxies, Tailscale.
func dropIdentity(h http.Header) {
	dropNamed(h, "remote-*", "x-remote-*", "x-auth-request-*", "x-authentik-*", "x-pomerium-*", "x-vouch-*", "x-webauth-*",
		"tailscale-user-*", "x-auth-user", "x-auth-email", "x-auth-groups", "x-auth-roles", "x-user", "x-user-id", "x-user-name",
		"x-user-email", "x-user-groups", "x-user-roles", "x-email", "x-groups", "x-roles")
}

// dropNamed removes the headers of these names, which may end with * for any rest, in
// any case and with '_' for '-': many servers read both alike.
func dropNamed(h http.Header, names ...string) {
	for name := range h {
		plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if slices.ContainsFunc(names, func(n string) bool {
			prefix, any := strings.CutSuffix(n, "*")
			return plain == n || any && strings.HasPrefix(plain, prefix)
		}) {
			delete(h, name)
		}
	}
}
