// Package caddy drives the HTTP servers of a Caddy (2.6) over its admin API, with the ETags
// that Caddy has for every path of its configuration. An object is a server, by its name.
package caddy
