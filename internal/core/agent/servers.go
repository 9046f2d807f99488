package agent

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Servers is what a host remembers of its server's addresses besides the one of its
// enrolment. Only a snapshot that was verified changes it.
type Servers struct {
	Signed []string `json:"signed,omitempty"` // as the newest snapshot has them
	// Before is the address at which that snapshot came: should none of Signed be right,
	// the host is not lost.
	Before string `json:"before,omitempty"`
	// Version is that of the newest snapshot.
	Version uint64 `json:"version,omitempty"`
}

// Accept takes the addresses of a verified snapshot of a version that came from the server
// at from. What is no address is left out.
func (s Servers) Accept(version uint64, signed []string, from string) Servers {
	s.Version = version
	good := slices.Clone(signed)
	good = slices.DeleteFunc(good[:min(len(good), fleet.MaxServers)], func(a string) bool { return fleet.CheckServer(a) != nil })
	if !slices.Equal(good, s.Signed) {
		s.Signed, s.Before = good, from
	}
	return s
}

// Addresses is where to look for the server, in this order: an address of the command
// line, if any; those that are signed; the one from which they came; the one of the
// enrolment.
func (s Servers) Addresses(flag, enrolled string) []string {
	var out []string
	for _, a := range slices.Concat([]string{flag}, s.Signed, []string{s.Before, enrolled}) {
		if a != "" && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// failuresAtOne is how often an address may fail in turn before the next one is tried: one
// connection that broke is no reason to leave a server.
const failuresAtOne = 2

// Address is which of several addresses is in use.
type Address struct {
	list     []string
	at       int
	failures int
}

// Use sets the addresses. The one in use stays, if it is among them.
func (a Address) Use(list []string) Address {
	return Address{list: slices.Clone(list), at: max(0, slices.Index(list, a.Current()))}
}

// Current is the address in use; empty if there are none.
func (a Address) Current() string {
	if len(a.list) == 0 {
		return ""
	}
	return a.list[a.at]
}

// Tried notes how a request to an address ended. What became of one that is not in
// use any more changes nothing.
func (a Address) Tried(address string, ok bool) Address {
	if address != a.Current() {
		return a
	}
	if ok {
		a.failures = 0
		return a
	}
	if a.failures++; a.failures >= failuresAtOne {
		a.at, a.failures = (a.at+1)%len(a.list), 0
	}
	return a
}
