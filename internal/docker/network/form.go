package network

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/network"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/ownership"
)

// compare says how a network differs from the declaration. One whose label tells
// what it was made from is compared by that, so that nothing which an engine
// fills in or spells otherwise ever replaces it.
func compare(want *spec.Network, f *Found) []diff.Difference {
	seen := shown(&f.Shown)
	if f.Asked == nil {
		return diff.Compare(wanted(want), seen, nil, rules{})
	}
	base := &diff.Baseline{Desired: wanted(f.Asked), Observed: seen}
	return diff.Compare(wanted(want), seen, base, rules{})
}

// rules are those of networks, with one more: this host owns the labels.
type rules struct{ diff.NetworkRules }

// OwnsExtra implements diff.Rules.
func (rules) OwnsExtra(field string) bool { return strings.HasPrefix(field, "label/") }

// wanted is the normal form of a declaration.
func wanted(n *spec.Network) diff.Form {
	f := diff.Form{"driver": cmp.Or(n.Driver, network.NetworkBridge)}
	flags(f, n.Internal, n.Attachable, n.IPv6)
	pairs(f, "option/", n.Options)
	pairs(f, "label/", n.Labels)
	if n.IPAMDriver != "" {
		f["ipam/driver"] = n.IPAMDriver
	}
	pairs(f, "ipam/option/", n.IPAMOpts)
	for _, p := range n.Pools {
		pool(f, prefix(p.Subnet), prefix(p.Range), address(p.Gateway), p.Aux)
	}
	return f
}

// shown is the normal form of what the engine shows.
func shown(n *network.Network) diff.Form {
	f := diff.Form{"driver": n.Driver}
	flags(f, n.Internal, n.Attachable, n.EnableIPv6)
	pairs(f, "option/", n.Options)
	for k, v := range n.Labels {
		if !ownership.Managed(k) {
			f["label/"+k] = v
		}
	}
	if n.IPAM.Driver != "" && n.IPAM.Driver != network.NetworkDefault {
		f["ipam/driver"] = n.IPAM.Driver
	}
	pairs(f, "ipam/option/", n.IPAM.Options)
	for _, c := range n.IPAM.Config {
		aux := map[string]string{}
		for k, v := range c.AuxAddress {
			aux[k] = v.String()
		}
		pool(f, valid(c.Subnet), valid(c.IPRange), validAddr(c.Gateway), aux)
	}
	return f
}

func flags(f diff.Form, internal, attachable, ipv6 bool) {
	for field, on := range map[string]bool{"internal": internal, "attachable": attachable, "ipv6": ipv6} {
		if on {
			f[field] = "true"
		}
	}
}

func pairs(f diff.Form, field string, values map[string]string) {
	for k, v := range values {
		f[field+k] = v
	}
}

func pool(f diff.Form, subnet, within, gateway string, aux map[string]string) {
	at := "pool/" + subnet
	f[at] = "set"
	for field, v := range map[string]string{"/range": within, "/gateway": gateway} {
		if v != "" {
			f[at+field] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(aux)) {
		f[at+"/aux/"+k] = address(aux[k])
	}
}

// prefix writes a subnet as engines do; what is none stays as it is.
func prefix(s string) string {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked().String()
	}
	return s
}

func address(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String()
	}
	return s
}

func valid(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.Masked().String()
}

func validAddr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
