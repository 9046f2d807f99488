package convert

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Network is the normal form of a declared network with its name on the engine.
// An external one has none: there is nothing to compare.
func Network(n *spec.Network, name string, in Inputs) diff.Form {
	f := ObservedNetwork(&network.Inspect{Network: network.Network{
		Name: name, Driver: cmp.Or(n.Driver, "bridge"), Internal: n.Internal, Attachable: n.Attachable, EnableIPv6: n.IPv6,
		Options: n.Options, Labels: n.Labels, IPAM: network.IPAM{Driver: cmp.Or(n.IPAMDriver, "default"), Options: n.IPAMOpts},
	}}, in)
	for i, p := range pools(n.Pools) {
		at := "pool/" + strconv.Itoa(i) + "/"
		set(f, at+"subnet", prefix(p.Subnet))
		set(f, at+"range", prefix(p.Range))
		set(f, at+"gateway", address(p.Gateway))
		for k, v := range p.Aux {
			f[at+"aux/"+k] = address(v)
		}
	}
	return f
}

// pools puts those of IPv4 before those of IPv6, as engines do.
func pools(list []spec.Pool) []spec.Pool {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b spec.Pool) int { return version(a.Subnet) - version(b.Subnet) })
	return out
}

func version(subnet string) int {
	if p, err := netip.ParsePrefix(subnet); err == nil && p.Addr().Is6() {
		return 6
	}
	return 4
}

func prefix(s string) string {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return s
	}
	return p.String()
}

// ObservedNetwork is the normal form of a network as an engine shows it.
func ObservedNetwork(n *network.Inspect, in Inputs) diff.Form {
	f := diff.Form{"name": n.Name, "driver": n.Driver,
		// That one is off matters too.
		"internal": strconv.FormatBool(n.Internal), "attachable": strconv.FormatBool(n.Attachable), "ipv6": strconv.FormatBool(n.EnableIPv6)}
	pairs(f, "option", n.Options, &in)
	labels(f, n.Labels, &in)
	set(f, "ipam/driver", n.IPAM.Driver)
	pairs(f, "ipam/option", n.IPAM.Options, &in)
	for i, p := range n.IPAM.Config {
		at := "pool/" + strconv.Itoa(i) + "/"
		set(f, at+"subnet", text(p.Subnet))
		set(f, at+"range", text(p.IPRange))
		set(f, at+"gateway", text(p.Gateway))
		for k, v := range p.AuxAddress {
			f[at+"aux/"+k] = v.String()
		}
	}
	return f
}

// CreateNetwork writes the request that makes a network; own are the agent's
// labels.
func CreateNetwork(n *spec.Network, own map[string]string) (client.NetworkCreateOptions, error) {
	out := client.NetworkCreateOptions{Driver: cmp.Or(n.Driver, "bridge"), Options: maps.Clone(n.Options), Internal: n.Internal,
		Attachable: n.Attachable, Labels: merged(n.Labels, own)}
	if n.IPv6 {
		out.EnableIPv6 = &n.IPv6
	}
	if n.IPAMDriver == "" && len(n.IPAMOpts) == 0 && len(n.Pools) == 0 {
		return out, nil
	}
	out.IPAM = &network.IPAM{Driver: cmp.Or(n.IPAMDriver, "default"), Options: maps.Clone(n.IPAMOpts)}
	for _, p := range pools(n.Pools) {
		c, err := pool(p)
		if err != nil {
			return out, fmt.Errorf("network %s: %w", n.Name, err)
		}
		out.IPAM.Config = append(out.IPAM.Config, c)
	}
	return out, nil
}

func pool(p spec.Pool) (c network.IPAMConfig, err error) {
	if p.Subnet != "" {
		if c.Subnet, err = netip.ParsePrefix(p.Subnet); err != nil {
			return c, err
		}
	}
	if p.Range != "" {
		if c.IPRange, err = netip.ParsePrefix(p.Range); err != nil {
			return c, err
		}
	}
	if p.Gateway != "" {
		if c.Gateway, err = netip.ParseAddr(p.Gateway); err != nil {
			return c, err
		}
	}
	for k, v := range p.Aux {
		ip, err := netip.ParseAddr(v)
		if err != nil {
			return c, err
		}
		if c.AuxAddress == nil {
			c.AuxAddress = map[string]netip.Addr{}
		}
		c.AuxAddress[k] = ip
	}
	return c, nil
}
