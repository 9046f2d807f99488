package nodecmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
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
	options    []option
	open       func(values) (nodesdk.Driver, []nodesdk.Collection, error)
}

type option struct{ name, what string }

// drivers has a row for each.
var drivers = []driver{
	{"file", "a program whose configuration is a JSON, YAML or TOML file", slices.Concat([]option{
		{"path", "the file"},
		{"format", "json, yaml or toml (default: what the file's name ends with)"},
		{"at", "members that lead to the objects, with slashes (default: the document itself)"},
		{"identity", "member that names an object in a list (default: objects are members of a map)"},
		{"validate", "command that refuses a candidate; {} in it is the file, spaces separate words"},
		{"reload", "command after a change"},
		{"timeout", "of a command (default: 10s)"},
	}, ruleOptions), openFile},
	{"janus", "a Janus WebRTC gateway: mountpoints of its streaming plugin", []option{
		{"url", "of its HTTP API (default: http://127.0.0.1:8088/janus)"},
		{"config-dir", "folder of its configuration files (default: /etc/janus)"},
	}, openJanus},
	{"caddy", "a Caddy web server: its HTTP servers", []option{
		{"url", "of its admin API, also unix:///path (default: http://127.0.0.1:2019)"},
		{"command", "Caddy's program, which validates (default: caddy)"},
	}, openCaddy},
	{"toxiproxy", "Toxiproxy: a proxy is a leg of a tunnel", []option{{"url", "of its API, as http://127.0.0.1:8474"}}, opened(toxiproxy.Open)},
	{"kea", "the DHCPv4 server of ISC Kea: its configuration is a document", listed(kea.Options), opened(kea.Open)},
	{"mediamtx", "MediaMTX: a path is a flow", listed(mediamtx.Options), opened(mediamtx.Open)},
	{"netconf", "a device that speaks NETCONF over SSH: entries of a YANG list, or a subtree", listed(netconf.Options), opened(netconf.Open)},
}

func listed(list [][2]string) (out []option) {
	for _, o := range list {
		out = append(out, option{o[0], o[1]})
	}
	return out
}

// opened has the errors of a driver that reads its options itself be those of the command.
func opened(open func(map[string]string) (nodesdk.Driver, []nodesdk.Collection, error)) func(values) (nodesdk.Driver, []nodesdk.Collection, error) {
	return func(v values) (nodesdk.Driver, []nodesdk.Collection, error) {
		d, collections, err := open(v)
		if err != nil {
			return nil, nil, exit.Bad(err)
		}
		return d, collections, nil
	}
}

// ruleOptions say what is no difference in the configuration of any program; see collection.
var ruleOptions = []option{
	{"kind", "of the objects: " + prose.Either(nodeconfig.KindNames()) + " (default: flow)"},
	{"secrets", "fields whose values never leave the node, separated by commas"},
	{"ignored", "fields that the device changes by itself"},
	{"ports", "fields with a port, or an address with one, that the device listens on"},
	{"sets", "lists whose order means nothing, as FIELD or FIELD=MEMBER"},
}

func openFile(v values) (nodesdk.Driver, []nodesdk.Collection, error) {
	o := file.Options{Path: v["path"], Format: v["format"], At: v["at"], Kind: v["kind"], Identity: v["identity"],
		Validate: strings.Fields(v["validate"]), Reload: strings.Fields(v["reload"])}
	if v["path"] == "" {
		return nil, nil, exit.Badf("the driver needs --driver-option path=FILE")
	}
	var err error
	if o.Timeout, err = v.duration("timeout"); err != nil {
		return nil, nil, err
	}
	d, err := file.New(o)
	if err != nil {
		return nil, nil, exit.Bad(err)
	}
	return d, []nodesdk.Collection{v.collection()}, nil
}

func openJanus(v values) (nodesdk.Driver, []nodesdk.Collection, error) {
	d, err := janus.New(janus.Options{URL: v["url"], ConfigDir: v["config-dir"]})
	if err != nil {
		return nil, nil, exit.Bad(err)
	}
	return d, janus.Collections, nil
}

func openCaddy(v values) (nodesdk.Driver, []nodesdk.Collection, error) {
	d, err := caddy.New(caddy.Options{URL: v["url"], Command: v["command"]})
	if err != nil {
		return nil, nil, exit.Bad(err)
	}
	return d, caddy.Collections, nil
}

// values are the options that were given.
type values map[string]string

func (v values) duration(name string) (time.Duration, error) {
	if v[name] == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v[name])
	if err != nil || d <= 0 {
		return 0, exit.Badf("--driver-option %s=%s: expected a duration such as 10s", name, v[name])
	}
	return d, nil
}

func (v values) list(name string) []string {
	return strings.FieldsFunc(v[name], func(r rune) bool { return r == ',' })
}

// collection is that of a driver whose one kind and rules are options.
func (v values) collection() nodesdk.Collection {
	c := nodesdk.Collection{Kind: v["kind"], Secrets: v.list("secrets"), Ignored: v.list("ignored"), Ports: v.list("ports")}
	if c.Kind == "" {
		c.Kind = nodeconfig.Flow
	}
	for _, set := range v.list("sets") {
		field, member, _ := strings.Cut(set, "=")
		if c.Sets == nil {
			c.Sets = map[string]string{}
		}
		c.Sets[field] = member
	}
	return c
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
			fmt.Fprintf(&b, "    %s: %s\n", o.name, o.what)
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
		known = append(known, o.name)
	}
	v := values{}
	for _, pair := range given {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !slices.Contains(known, key) {
			return nil, nil, exit.Badf("--driver-option %q: expected KEY=VALUE with one of %s%s", pair, strings.Join(known, ", "), prose.DidYouMean(key, known))
		}
		if _, twice := v[key]; twice {
			return nil, nil, exit.Badf("--driver-option %s is given twice", key)
		}
		v[key] = value
	}
	return d.open(v)
}
