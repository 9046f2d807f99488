package spec

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Network is one network of the engine.
type Network struct {
	Name string `json:"name"`
	// External names a network that exists and is never made, changed or removed.
	External string `json:"external,omitempty"`
	// Title names it on the engine, after the host's prefix; empty takes Name.
	Title      string            `json:"title,omitempty"`
	Driver     string            `json:"driver,omitempty" doc:"by default that of the engine, bridge"`
	Options    map[string]string `json:"options,omitempty"`
	Internal   bool              `json:"internal,omitempty"`
	Attachable bool              `json:"attachable,omitempty"`
	IPv6       bool              `json:"ipv6,omitempty"`
	IPAMDriver string            `json:"ipamDriver,omitempty"`
	IPAMOpts   map[string]string `json:"ipamOptions,omitempty"`
	Pools      []Pool            `json:"pools,omitempty"` // in order
	// Apart says that no pool may meet an address or a route of the host. Agents set
	// it in the managed layer.
	Apart  bool              `json:"apart,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Pool is one address pool of a network.
type Pool struct {
	Subnet  string            `json:"subnet,omitempty"`
	Range   string            `json:"range,omitempty"`
	Gateway string            `json:"gateway,omitempty"`
	Aux     map[string]string `json:"aux,omitempty"`
}

func (n *Network) Named() *string { return &n.Name }

func (n *Network) Normalize() {
	if n.Title == n.Name {
		n.Title = ""
	}
	if n.Driver == "bridge" || n.Driver == "default" {
		n.Driver = ""
	}
	if n.IPAMDriver == "default" {
		n.IPAMDriver = ""
	}
	n.Options, n.IPAMOpts, n.Labels = filledMap(n.Options), filledMap(n.IPAMOpts), filledMap(n.Labels)
	if len(n.Pools) == 0 {
		n.Pools = nil
	}
	for i := range n.Pools {
		n.Pools[i].Aux = filledMap(n.Pools[i].Aux)
	}
}

func (n *Network) Needs() []Need { return nil }
func (n *Network) Blobs() []Blob { return nil }

func (n *Network) Unique() string {
	if n.External != "" {
		return ""
	}
	return cmp.Or(n.Title, n.Name)
}

// EngineName is the network's name on the engine.
func (n *Network) EngineName(t NameMapper) string {
	return cmp.Or(n.External, t(cmp.Or(n.Title, n.Name)))
}

func (n *Network) Claims(t NameMapper) []Claim {
	return []Claim{{What: fmt.Sprintf("network %q", n.EngineName(t))}}
}

func (n *Network) Check(c Checker) {
	checkTitle(c.In("title"), n.Title)
	checkText(c.In("driver"), n.Driver, n.IPAMDriver, n.External)
	checkMap(c.In("options"), n.Options)
	checkMap(c.In("ipamOptions"), n.IPAMOpts)
	checkLabels(c.In("labels"), n.Labels)
	if n.External != "" && (n.Title != "" || n.Driver != "" || len(n.Options)+len(n.Labels)+len(n.Pools)+len(n.IPAMOpts) > 0 || n.IPAMDriver != "" || n.Internal || n.Attachable || n.IPv6) {
		c.Addf("an external network is never made or changed: expected nothing but its name")
	}
	if len(n.Pools) > 64 {
		c.In("pools").Addf("%d address pools: expected at most 64", len(n.Pools))
		return
	}
	for i, p := range n.Pools {
		checkText(c.Item("pools", i), p.Subnet, p.Range, p.Gateway)
		checkMap(c.Item("pools", i).In("aux"), p.Aux)
		if p.Subnet == "" && (p.Range != "" || p.Gateway != "" || len(p.Aux) > 0) {
			c.Item("pools", i).Addf("an address pool without a subnet: expected one, such as 10.9.0.0/24")
		}
	}
}

// bridgeOptions of networks change nothing outside them.
var bridgeOptions = []string{"com.docker.network.driver.mtu", "com.docker.network.bridge.enable_icc"}

func (n *Network) CheckBounds(b *Bounds, c Checker) {
	if n.External != "" {
		c.In("external").Addf("network %q of another owner: the managed layer has its own networks alone", n.External)
	}
	if n.Driver != "" && n.Driver != "bridge" {
		c.In("driver").Addf("driver %q reaches the host's own networks: expected bridge", n.Driver)
	}
	if n.IPAMDriver != "" && n.IPAMDriver != "default" || len(n.IPAMOpts) > 0 {
		c.In("ipamDriver").Addf("address driver %q: expected the engine's own", n.IPAMDriver)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Options)) {
		if !slices.Contains(bridgeOptions, k) {
			c.In("options", k).Addf("network option %q: expected one of %q", k, bridgeOptions)
		}
	}
	for i, p := range n.Pools {
		if !b.subnet(p.Subnet) {
			c.Item("pools", i).Addf("subnet %q would be routed on the host: expected none, so that the engine chooses, or one within %q (bounds.subnets)", p.Subnet, b.Subnets)
			continue
		}
		p.checkInside(c.Item("pools", i))
	}
}

// checkInside refuses addresses that are not of the pool's own subnet, which the bounds allow.
func (p *Pool) checkInside(c Checker) {
	subnet, err := netip.ParsePrefix(p.Subnet)
	if err != nil {
		return
	}
	outside := func(c Checker, text string) {
		a, err := netip.ParseAddr(text)
		if err != nil || !subnet.Contains(a) {
			c.Addf("%q is no address within the pool's subnet %s", text, p.Subnet)
		}
	}
	if p.Gateway != "" {
		outside(c.In("gateway"), p.Gateway)
	}
	for _, k := range slices.Sorted(maps.Keys(p.Aux)) {
		outside(c.In("aux", k), p.Aux[k])
	}
	if r, err := netip.ParsePrefix(p.Range); p.Range != "" && (err != nil || !subnet.Contains(r.Addr()) || r.Bits() < subnet.Bits()) {
		c.In("range").Addf("%q is no range within the pool's subnet %s", p.Range, p.Subnet)
	}
}

func (b *Bounds) subnet(s string) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && slices.ContainsFunc(b.Subnets, func(allowed string) bool {
		a, err := netip.ParsePrefix(allowed)
		return err == nil && a.Contains(p.Addr()) && p.Bits() >= a.Bits()
	})
}

// Confine keeps its own pools away from the host's networks.
func (n *Network) Confine(*Bounds) { n.Apart = len(n.Pools) > 0 }
