package convert

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// attachments are the networks of a workspace, the first to connect first.
func attachments(w *spec.Workspace) []spec.Attachment {
	out := slices.Clone(w.Networks)
	slices.SortStableFunc(out, func(a, b spec.Attachment) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Network, b.Network))
	})
	if len(out) > 0 && out[0].MAC == "" {
		out[0].MAC = w.MAC
	}
	return out
}

// byEndpoint reports an engine whose connections have hardware addresses of their
// own. Older ones have one address of the container, on its first network.
func byEndpoint(in *Inputs) bool { return diff.AtLeast(in.API, 44) }

// ownMAC is the hardware address of the container itself: on the engine's own
// bridge, and of the first network on older engines.
func ownMAC(w *spec.Workspace, in *Inputs) string {
	if w.Bridged() {
		return w.MAC
	}
	if all := attachments(w); len(all) > 0 && !byEndpoint(in) {
		return all[0].MAC
	}
	return ""
}

// aliases are the names of a workspace on a network: its own and the declared ones.
func aliases(w *spec.Workspace, a spec.Attachment) []string {
	return sorted(append([]string{w.Name}, a.Aliases...))
}

// byMode is the connection to the engine's own bridge, which the mode makes.
const byMode = "by mode"

func desiredNetworks(f diff.Form, d *spec.Deployment, in *Inputs) error {
	if d.Workspace.Bridged() {
		f["network/bridge"] = byMode
	}
	set(f, "mac", macName(ownMAC(&d.Workspace, in)))
	for i, a := range attachments(&d.Workspace) {
		title, id, err := in.network(d, a.Network)
		if err != nil {
			return err
		}
		at := "network/" + title
		f[at] = id
		each(f, at+"/alias", aliases(&d.Workspace, a))
		set(f, at+"/ipv4", address(a.IPv4))
		set(f, at+"/ipv6", address(a.IPv6))
		list(f, at+"/link-local", sorted(addresses(a.LinkLocal)))
		if i > 0 || byEndpoint(in) {
			set(f, at+"/mac", macName(a.MAC))
		}
		pairs(f, at+"/option", a.DriverOpts, in)
		setInt(f, at+"/gateway-priority", a.GatewayPriority)
		for _, l := range d.Workspace.Links {
			f[at+"/link/"+l.Alias] = l.Target
		}
	}
	return nil
}

// address spells an IP address in one way; what is none stays as it is, and the
// request fails with it.
func address(s string) string {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return s
	}
	return ip.String()
}

func macName(s string) string {
	mac, err := net.ParseMAC(s)
	if err != nil {
		return s
	}
	return mac.String()
}

// mode is the network mode of a workspace without networks of its own: bridge,
// host, none or container:ID. It is empty with networks.
func mode(d *spec.Deployment, in *Inputs) (string, error) {
	w := &d.Workspace
	if len(w.Networks) > 0 {
		return "", nil
	}
	if w.Bridged() {
		return "bridge", nil
	}
	return shared(d, w.NetworkMode, in)
}

// shared turns workspace:NAME into container:ID; other modes are the engine's.
func shared(d *spec.Deployment, value string, in *Inputs) (string, error) {
	name, found := strings.CutPrefix(value, "workspace:")
	if !found {
		return value, nil
	}
	title, known := d.Uses.Workspaces[name]
	if !known {
		return "", fmt.Errorf("workspace %s: workspace %s is not declared: declare it", d.Workspace.Name, name)
	}
	id, known := in.Containers[title]
	if !known {
		return "", fmt.Errorf("workspace %s: the engine has no container %s, whose namespace it shares: it has to be made first", d.Workspace.Name, title)
	}
	return "container:" + id, nil
}

// Endpoints are the connections of a workspace, in the order to make them; that
// to the engine's own bridge is made with the container, and is here to be made
// again.
func Endpoints(d *spec.Deployment, in Inputs) ([]Endpoint, error) {
	if d.Workspace.Bridged() {
		e, err := bridge(d, in)
		return []Endpoint{e}, err
	}
	return endpoints(d, in)
}

// bridge is the connection to the engine's own bridge.
func bridge(d *spec.Deployment, in Inputs) (Endpoint, error) {
	out := Endpoint{Network: "bridge", ID: "bridge", Settings: &network.EndpointSettings{}}
	if d.Workspace.MAC == "" || !byEndpoint(&in) {
		return out, nil
	}
	mac, err := net.ParseMAC(d.Workspace.MAC)
	if err != nil {
		return out, fmt.Errorf("workspace %s: %w", d.Workspace.Name, err)
	}
	out.Settings.MacAddress = network.HardwareAddr(mac)
	return out, nil
}

// endpoints are those to declared networks.
func endpoints(d *spec.Deployment, in Inputs) ([]Endpoint, error) {
	var out []Endpoint
	for i, a := range attachments(&d.Workspace) {
		title, id, err := in.network(d, a.Network)
		if err != nil {
			return nil, err
		}
		s := &network.EndpointSettings{Aliases: aliases(&d.Workspace, a), DriverOpts: a.DriverOpts, GwPriority: a.GatewayPriority}
		for _, l := range d.Workspace.Links {
			s.Links = append(s.Links, l.Target+":"+l.Alias)
		}
		if s.IPAMConfig, err = ipam(a); err != nil {
			return nil, fmt.Errorf("workspace %s: network %s: %w", d.Workspace.Name, a.Network, err)
		}
		if a.MAC != "" && (i > 0 || byEndpoint(&in)) {
			mac, err := net.ParseMAC(a.MAC)
			if err != nil {
				return nil, fmt.Errorf("workspace %s: network %s: %w", d.Workspace.Name, a.Network, err)
			}
			s.MacAddress = network.HardwareAddr(mac)
		}
		out = append(out, Endpoint{Network: title, ID: id, Settings: s})
	}
	return out, nil
}

func ipam(a spec.Attachment) (*network.EndpointIPAMConfig, error) {
	if a.IPv4 == "" && a.IPv6 == "" && len(a.LinkLocal) == 0 {
		return nil, nil
	}
	out := &network.EndpointIPAMConfig{}
	for _, x := range []struct {
		text string
		to   *netip.Addr
	}{{a.IPv4, &out.IPv4Address}, {a.IPv6, &out.IPv6Address}} {
		if x.text == "" {
			continue
		}
		ip, err := netip.ParseAddr(x.text)
		if err != nil {
			return nil, err
		}
		*x.to = ip
	}
	for _, l := range a.LinkLocal {
		ip, err := netip.ParseAddr(l)
		if err != nil {
			return nil, err
		}
		out.LinkLocalIPs = append(out.LinkLocalIPs, ip)
	}
	return out, nil
}

// observedNetworks reads the connections. Those that the engine makes by itself
// for a mode belong to the mode.
func observedNetworks(f diff.Form, c *container.InspectResponse, in *Inputs) {
	if c.NetworkSettings == nil {
		return
	}
	own := observedMode(string(c.HostConfig.NetworkMode))
	observedMAC(f, c, in)
	wanted := requestedOf(in)
	for title, e := range c.NetworkSettings.Networks {
		if e == nil {
			continue
		}
		if own != "" && (title == own || title == "default") {
			if own == "bridge" {
				f["network/bridge"] = byMode
			}
			continue
		}
		at := "network/" + title
		// A container that never ran names its networks and not their IDs: the engine
		// looks them up by name when it starts.
		f[at] = cmp.Or(cmp.Or(e.NetworkID, in.Networks[title]), "by name")
		for _, a := range e.Aliases {
			if !addedByEngine(c, a) || wanted[title].aliases[a] {
				f[at+"/alias/"+a] = "set"
			}
		}
		for _, l := range e.Links {
			target, alias, _ := strings.Cut(l, ":")
			f[at+"/link/"+cmp.Or(alias, target)] = target
		}
		if i := e.IPAMConfig; i != nil {
			observedAddresses(f, at, i)
		}
		if want := wanted[title].mac; want != "" {
			// Only an address that was asked for is ours, and one of a stopped
			// container is not shown.
			f[at+"/mac"] = want
			if len(e.MacAddress) > 0 {
				f[at+"/mac"] = e.MacAddress.String()
			}
		}
		pairs(f, at+"/option", e.DriverOpts, in)
		setInt(f, at+"/gateway-priority", e.GwPriority)
	}
}

// observedMAC reads the address of the container itself, if one was asked for.
func observedMAC(f diff.Form, c *container.InspectResponse, in *Inputs) {
	if in.Wanted == nil {
		return
	}
	set(f, "mac", macName(ownMAC(&in.Wanted.Workspace, in)))
	title := cmp.Or(string(c.HostConfig.NetworkMode), "bridge")
	if title == "default" {
		title = "bridge"
	}
	if e := c.NetworkSettings.Networks[title]; f["mac"] != "" && e != nil && len(e.MacAddress) > 0 {
		f["mac"] = e.MacAddress.String()
	}
}

func observedAddresses(f diff.Form, at string, i *network.EndpointIPAMConfig) {
	set(f, at+"/ipv4", text(i.IPv4Address))
	set(f, at+"/ipv6", text(i.IPv6Address))
	var local []string
	for _, l := range i.LinkLocalIPs {
		local = append(local, l.String())
	}
	list(f, at+"/link-local", sorted(local))
}

// observedMode is empty for a container with networks of its own.
func observedMode(m string) string {
	switch {
	case m == "" || m == "default" || m == "bridge":
		return "bridge"
	case m == "host" || m == "none" || strings.HasPrefix(m, "container:"):
		return m
	}
	return ""
}

// addedByEngine reports an alias that engines add by themselves: the start of the ID, and
// the host name at a later connection.
func addedByEngine(c *container.InspectResponse, alias string) bool {
	return len(alias) == 12 && strings.HasPrefix(c.ID, alias) || alias == c.Config.Hostname
}

// requested is what the deployment at hand wants of an endpoint, of what engines
// choose when it is not asked for.
type requested struct {
	mac     string
	aliases map[string]bool
}

// requestedOf is by the network's name on the engine.
func requestedOf(in *Inputs) map[string]requested {
	out := map[string]requested{}
	if in.Wanted == nil {
		return out
	}
	w := &in.Wanted.Workspace
	for i, a := range attachments(w) {
		x := requested{aliases: map[string]bool{}}
		if i > 0 || byEndpoint(in) {
			x.mac = macName(a.MAC)
		}
		for _, alias := range aliases(w, a) {
			x.aliases[alias] = true
		}
		out[in.Wanted.Uses.Networks[a.Network]] = x
	}
	return out
}
