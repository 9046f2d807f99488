package convert

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// ports writes what is published, and what is exposed by the image, the
// declaration or by being published.
func ports(f diff.Form, w *spec.Workspace, img *defaults) {
	exposed := map[string]bool{}
	for p := range img.exposed {
		exposed[portName(p)] = true
	}
	for _, p := range w.Expose {
		exposed[portName(p)] = true
	}
	bound := map[string][]string{}
	for _, p := range w.Ports {
		name := portName(strconv.Itoa(p.Port) + "/" + p.Protocol)
		exposed[name] = true
		ip, _ := netip.ParseAddr(p.HostIP)
		bound[name] = append(bound[name], binding(ip, hostPort(p)))
	}
	published(f, bound, exposed)
}

// hostPort is the port of the host, the range to choose from, or nothing.
func hostPort(p spec.Port) string {
	switch {
	case p.HostPort == 0:
		return ""
	case p.HostPortEnd == 0:
		return strconv.Itoa(p.HostPort)
	}
	return strconv.Itoa(p.HostPort) + "-" + strconv.Itoa(p.HostPortEnd)
}

// published writes ports; several bindings of one are a set.
func published(f diff.Form, bound map[string][]string, exposed map[string]bool) {
	for p, b := range bound {
		f["port/"+p] = strings.Join(sorted(b), " ")
	}
	for p := range exposed {
		f["expose/"+p] = "set"
	}
}

// binding spells a host's side of a port; any is a port that the engine chooses
// anew at each start.
func binding(ip netip.Addr, port string) string {
	if port == "" || port == "0" {
		port = "any"
	}
	switch {
	case !ip.IsValid():
		return "*:" + port
	case ip.Is6():
		return "[" + ip.String() + "]:" + port
	}
	return ip.String() + ":" + port
}

// portName spells a container's port as number and protocol.
func portName(s string) string {
	number, protocol, _ := strings.Cut(s, "/")
	return number + "/" + strings.ToLower(cmp.Or(protocol, "tcp"))
}

// portConfig is the ports of a request.
func portConfig(w *spec.Workspace) (network.PortSet, network.PortMap, error) {
	exposed, bound := network.PortSet{}, network.PortMap{}
	for _, e := range w.Expose {
		p, err := network.ParsePort(portName(e))
		if err != nil {
			return nil, nil, fmt.Errorf("workspace %s: expose %s: %w", w.Name, e, err)
		}
		exposed[p] = struct{}{}
	}
	for _, declared := range w.Ports {
		p, err := network.ParsePort(portName(strconv.Itoa(declared.Port) + "/" + declared.Protocol))
		if err != nil {
			return nil, nil, fmt.Errorf("workspace %s: port %d: %w", w.Name, declared.Port, err)
		}
		b := network.PortBinding{HostPort: hostPort(declared)}
		if declared.HostIP != "" {
			if b.HostIP, err = netip.ParseAddr(declared.HostIP); err != nil {
				return nil, nil, fmt.Errorf("workspace %s: host address of port %d: %w", w.Name, declared.Port, err)
			}
		}
		exposed[p] = struct{}{}
		bound[p] = append(bound[p], b)
	}
	return exposed, bound, nil
}

// observedPorts reads what was asked for. What is published just now is in the
// network settings and changes with each start.
func observedPorts(f diff.Form, exposed network.PortSet, bound network.PortMap) {
	names := map[string]bool{}
	for p := range exposed {
		names[p.String()] = true
	}
	bindings := map[string][]string{}
	for p, list := range bound {
		for _, b := range list {
			bindings[p.String()] = append(bindings[p.String()], binding(b.HostIP, b.HostPort))
		}
	}
	published(f, bindings, names)
}
