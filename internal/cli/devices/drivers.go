package devices

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/drivers/caddy"
	"github.com/steadyfleet/steady/internal/drivers/file"
	"github.com/steadyfleet/steady/internal/drivers/janus"
	"github.com/steadyfleet/steady/internal/drivers/kea"
	"github.com/steadyfleet/steady/internal/drivers/mediamtx"
	"github.com/steadyfleet/steady/internal/drivers/netconf"
	"github.com/steadyfleet/steady/internal/drivers/toxiproxy"
	"github.com/steadyfleet/steady/nodesdk"
)

// driver is one that a device can be run with.
type driver struct {
	name, what string
	options    [][2]string
	open       func(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error)
}

// drivers has a row for each.
var drivers = []driver{
	{"file", "a program whose configuration is a JSON, YAML or TOML file", file.Options, file.Open},
	{"janus", "a Janus WebRTC gateway: mountpoints of its streaming plugin", janus.Options, janus.Open},
	{"caddy", "a Caddy web server: its HTTP servers", caddy.Options, caddy.Open},
	{"toxiproxy", "Toxiproxy: a proxy is a leg of a tunnel", toxiproxy.Options, toxiproxy.Open},
	{"kea", "the DHCPv4 server of ISC Kea: its configuration is a document", kea.Options, kea.Open},
	{"mediamtx", "MediaMTX: a path is a flow", mediamtx.Options, mediamtx.Open},
	{"netconf", "a device that speaks NETCONF over SSH: entries of a YANG list, or a subtree", netconf.Options, netconf.Open},
}

func driverNames() []string {
	var names []string
	for _, d := range drivers {
		names = append(names, d.name)
	}
	return names
}

func driverHelp() string {
	var b strings.Builder
	for _, d := range drivers {
		fmt.Fprintf(&b, "  %s: %s\n", d.name, d.what)
		for _, o := range d.options {
			fmt.Fprintf(&b, "    %s: %s\n", o[0], o[1])
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// open opens the driver of a name with options that are KEY=VALUE.
func open(name string, given []string) (nodesdk.Driver, []nodesdk.Collection, error) {
	at := slices.IndexFunc(drivers, func(d driver) bool { return d.name == name })
	if at < 0 {
		return nil, nil, exit.Badf("--driver %q: expected %s%s", name, prose.Either(driverNames()), prose.DidYouMean(name, driverNames()))
	}
	d := &drivers[at]
	var known []string
	for _, o := range d.options {
		known = append(known, o[0])
	}
	options := map[string]string{}
	for _, pair := range given {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !slices.Contains(known, key) {
			return nil, nil, exit.Badf("--driver-option %q: expected KEY=VALUE with one of %s%s", pair, strings.Join(known, ", "), prose.DidYouMean(key, known))
		}
		if _, twice := options[key]; twice {
			return nil, nil, exit.Badf("--driver-option %s is given twice", key)
		}
		options[key] = value
	}
	opened, collections, err := d.open(options)
	if err != nil {
		return nil, nil, exit.Bad(err)
	}
	return opened, collections, nil
}
