// Package toxiproxy drives Toxiproxy: each of its proxies is a leg of a tunnel.
package toxiproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// Fields of a proxy. Toxiproxy drops all others in silence.
const (
	fieldName     = "name"
	fieldListen   = "listen"
	fieldUpstream = "upstream"
	fieldEnabled  = "enabled"
)

// Driver is a nodesdk.Driver.
type Driver struct{ api *base.HTTP }

// Options of Open, each with what it is for.
var Options = [][2]string{{"url", "of its API, as http://127.0.0.1:8474"}}

// Open returns a driver.
func Open(options map[string]string) (nodesdk.Driver, []nodesdk.Collection, error) {
	api, err := base.NewHTTP(base.Options{URL: options["url"]})
	if err != nil {
		return nil, nil, err
	}
	return &Driver{api}, []nodesdk.Collection{{Kind: nodeconfig.Tunnel, Ports: []string{fieldListen}}}, nil
}

// proxy is one as Toxiproxy writes it.
type proxy struct {
	Name     string  `json:"name,omitempty"`
	Listen   string  `json:"listen"`
	Upstream string  `json:"upstream"`
	Enabled  bool    `json:"enabled"`
	Toxics   []toxic `json:"toxics,omitempty"`
}

type toxic struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func (p *proxy) item(name string) (*nodesdk.Item, error) {
	raw, err := json.Marshal(map[string]any{fieldListen: p.Listen, fieldUpstream: p.Upstream, fieldEnabled: p.Enabled})
	return &nodesdk.Item{Kind: nodeconfig.Tunnel, ID: name, Config: raw}, err
}

func (d *Driver) list(ctx context.Context) (map[string]*proxy, error) {
	var all map[string]*proxy
	if err := d.api.Do(ctx, http.MethodGet, []string{"proxies"}, nil, &all); err != nil {
		return nil, err
	}
	for name, p := range all {
		if p == nil || p.Name != name || p.Listen == "" {
			return nil, fmt.Errorf("proxy %q is listed without its name or address: this is no Toxiproxy 2", name)
		}
	}
	if all == nil {
		return nil, fmt.Errorf("no list of proxies was answered")
	}
	return all, nil
}

// Snapshot implements nodesdk.Driver. Toxics are faults that somebody injects for a while,
// and no configuration: Probe reports them.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	all, err := d.list(ctx)
	if err != nil {
		return nodesdk.State{}, err
	}
	s := nodesdk.State{Complete: true}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		it, err := all[name].item(name)
		if err != nil {
			return nodesdk.State{}, err
		}
		s.Items = append(s.Items, *it)
	}
	return s, nil
}

// Normalize implements nodesdk.Driver: addresses as Toxiproxy reports them, and no enabled,
// which is the default.
func (d *Driver) Normalize(it nodesdk.Item) nodesdk.Item {
	it = nodesdk.Fold{Nulls: true}.Item(it) // Toxiproxy takes null for nothing, and has no number
	m, err := base.Object(it.Config)
	if err != nil {
		return it
	}
	if m[fieldEnabled] == true {
		delete(m, fieldEnabled)
	}
	if m[fieldName] == it.ID {
		delete(m, fieldName)
	}
	if s, is := m[fieldListen].(string); is {
		if a, err := address(s); err == nil {
			m[fieldListen] = a
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return it
	}
	it.Config = raw
	return it
}

// address is where to listen, as Toxiproxy reports it afterwards.
func address(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("expected ADDRESS:PORT: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("the port %.20q is no number below 65536", port)
	}
	switch host {
	case "":
		host = "::"
	case "localhost":
		host = "127.0.0.1"
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return "", fmt.Errorf("%.80q is no IP address, and a name may become another one at each start", host)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)).String(), nil
}

// read checks a config and returns the proxy.
func (d *Driver) read(op nodesdk.Op) (*proxy, error) {
	if strings.Contains(op.ID, "/") || op.ID == "." || op.ID == ".." {
		return nil, base.Invalid("", "Toxiproxy cannot address a proxy of the name %q: use one without slashes", op.ID)
	}
	m, err := base.Object(d.Normalize(nodesdk.Item{ID: op.ID, Config: op.Config}).Config)
	if err != nil {
		return nil, err
	}
	if err := base.Known(m, fieldListen, fieldUpstream, fieldEnabled); err != nil {
		return nil, err
	}
	listen, _ := m[fieldListen].(string)
	upstream, _ := m[fieldUpstream].(string)
	enabled, isBool := m[fieldEnabled].(bool)
	_, said := m[fieldEnabled]
	switch listen, err := address(listen); {
	case err != nil:
		return nil, base.Invalid(fieldListen, "%v", err)
	case strings.HasSuffix(listen, ":0"):
		return nil, base.Invalid(fieldListen, "the device would choose the port, and have another one than is wanted: name it")
	case upstream == "":
		return nil, base.Invalid(fieldUpstream, "expected HOST:PORT")
	case said && !isBool:
		return nil, base.Invalid(fieldEnabled, "expected true or false")
	}
	if _, _, err := net.SplitHostPort(upstream); err != nil { // Toxiproxy finds that with the first connection
		return nil, base.Invalid(fieldUpstream, "expected HOST:PORT: %v", err)
	}
	return &proxy{Listen: listen, Upstream: upstream, Enabled: enabled || !said}, nil
}

// Apply implements nodesdk.Driver. Toxiproxy compares nothing: what somebody changes between
// the driver's own comparison and its request, a millisecond, is not seen.
func (d *Driver) Apply(ctx context.Context, op nodesdk.Op) error {
	all, err := d.list(ctx)
	if err != nil {
		return err
	}
	old := all[op.ID]
	var now *nodesdk.Item
	if old != nil {
		if now, err = old.item(op.ID); err != nil {
			return err
		}
	}
	if moved, err := base.Moved(d, now, op.Was); err != nil {
		return err
	} else if moved {
		return nodesdk.ErrConflict
	}
	if op.Delete {
		err := d.api.Do(ctx, http.MethodDelete, []string{"proxies", op.ID}, nil, nil)
		if old == nil || base.Status(err) == http.StatusNotFound && !strings.Contains(op.ID, "/") {
			return nil
		}
		return err
	}
	to, err := d.read(op)
	if err != nil {
		return err
	}
	if old == nil {
		return d.create(ctx, op.ID, to)
	}
	return d.update(ctx, op.ID, old, to)
}

func (d *Driver) create(ctx context.Context, name string, to *proxy) error {
	to.Name = name
	err := d.api.Do(ctx, http.MethodPost, []string{"proxies"}, to, nil)
	switch base.Status(err) {
	case http.StatusConflict:
		return nodesdk.ErrConflict
	case http.StatusBadRequest:
		return base.Invalid("", "%v", err)
	case http.StatusInternalServerError: // it could not listen, and added nothing
		code := "invalid"
		if strings.Contains(err.Error(), "address already in use") {
			code = "port-in-use"
		}
		return &nodesdk.InvalidError{Code: code, Problems: []nodesdk.Problem{{Field: fieldListen, Message: err.Error()}}}
	}
	return err
}

// update changes a proxy. Toxiproxy stops it before it knows whether it can listen at the
// new address, and leaves it there, stopped: then the old one is put back.
func (d *Driver) update(ctx context.Context, name string, old, to *proxy) error {
	at := []string{"proxies", name}
	err := d.api.Do(ctx, http.MethodPost, at, to, nil)
	switch base.Status(err) {
	case http.StatusNotFound:
		return nodesdk.ErrConflict
	case http.StatusInternalServerError:
		ctx = context.WithoutCancel(ctx)
		if back := d.api.Do(ctx, http.MethodPost, at, &proxy{Listen: old.Listen, Upstream: old.Upstream, Enabled: old.Enabled}, nil); back != nil {
			return fmt.Errorf("%w; and it could not be put back: %w", err, back)
		}
		return fmt.Errorf("%w; the proxy is as it was, and its connections were cut", err)
	}
	return err
}

// Probe implements nodesdk.Prober: Toxiproxy says of a proxy that it is enabled only if it
// listens.
func (d *Driver) Probe(ctx context.Context, it nodesdk.Item) (effect, detail string, err error) {
	all, err := d.list(ctx)
	if err != nil {
		return "", "", err
	}
	p := all[it.ID]
	if p == nil {
		return nodesdk.NotInEffect, "there is no such proxy", nil
	}
	var injected []string
	for _, t := range p.Toxics {
		injected = append(injected, t.Name+" ("+t.Type+")")
	}
	if len(injected) > 0 {
		detail = "it has toxics: " + strings.Join(injected, ", ")
	}
	if !p.Enabled {
		return nodesdk.NotInEffect, strings.Trim("it does not listen; "+detail, "; "), nil
	}
	return nodesdk.InEffect, detail, nil
}
