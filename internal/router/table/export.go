package table

import (
	"encoding/json"
	"net/netip"
	"strconv"
)

// Exported is a table written for another proxy.
type Exported struct {
	JSON []byte
	// Notes name each field of a route that the other proxy cannot do, and
	// what it does instead.
	Notes []Problem
}

// Addresses returns where the requests for an upstream go now; none if it is
// not ready. An address with port 0 takes the route's port.
type Addresses func(upstream string) []netip.AddrPort

// exportedRoute is a route with its addresses.
type exportedRoute struct {
	Route
	Addresses []string `json:"addresses"`
}

// Export writes the table as it is: {"version": 1, "routes": […]}.
func (t Table) Export(where Addresses) (Exported, error) {
	return encode(struct {
		Version int             `json:"version"`
		Routes  []exportedRoute `json:"routes"`
	}{1, t.withAddresses(where)}, nil)
}

func (t Table) withAddresses(where Addresses) []exportedRoute {
	out := make([]exportedRoute, 0, len(t.routes))
	for _, r := range t.routes {
		e := exportedRoute{Route: r, Addresses: []string{}}
		for _, a := range where(r.Upstream) {
			if a.Port() == 0 {
				a = netip.AddrPortFrom(a.Addr(), uint16(r.Port))
			}
			e.Addresses = append(e.Addresses, a.String())
		}
		out = append(out, e)
	}
	return out
}

func encode(v any, notes []Problem) (Exported, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return Exported{}, err
	}
	return Exported{JSON: append(data, '\n'), Notes: notes}, nil
}

// millis spells milliseconds the way both proxies read a duration.
func millis(ms int64) string { return strconv.FormatInt(ms, 10) + "ms" }
