package fleet

import (
	"maps"
	"strings"
)

// Workloads is what becomes of what a host runs when it leaves the fleet.
type Workloads string

// The ways to leave. Keep changes nothing on the host. Stop gives it the empty bundle:
// files go, steps are undone, containers are stopped and kept. Wipe removes containers and
// networks too, and volumes with their data; there is no way back.
const (
	Keep Workloads = "keep"
	Stop Workloads = "stop"
	Wipe Workloads = "wipe"
)

// Known reports whether a leaf or a roster may say so.
func (w Workloads) Known() bool { return w == "" || w == Stop || w == Wipe }

// Way reports whether it is one of the ways to leave.
func (w Workloads) Way() bool { return w == Keep || w == Stop || w == Wipe }

// WipedBundle is the name of the bundle that a host is given which is wiped. No declared
// bundle may have it. It names wipe critical: an agent that does not know what that
// means refuses it.
const WipedBundle = "wiped"

// CriticalWipe is the critical name of a bundle that wipes.
const CriticalWipe = "wipe"

func (c *checker) removed() {
	for _, h := range keys(c.d.Removed) {
		r := c.d.Removed[h]
		c.name(at("removed", h), h)
		if _, there := c.d.Hosts[h]; there {
			c.errorf(at("removed", h), "host %q is removed and declared under hosts: expected one of the two", h)
		}
		if !r.Workloads.Way() {
			c.errorf(at("removed", h, "workloads"), "workloads is %q: expected keep, stop or wipe", r.Workloads)
		}
		if r.Channel != "" {
			known(c, at("removed", h, "channel"), "channel", r.Channel, c.d.Channels)
		}
	}
}

// renamed checks what hosts were called before.
func (c *checker) renamed() {
	by := map[string]string{}
	for _, h := range keys(c.d.Hosts) {
		from, path := c.d.Hosts[h].RenamedFrom, at("hosts", h, "renamedFrom")
		if from == "" {
			continue
		}
		c.name(path, from)
		_, declared := c.d.Hosts[from]
		_, leaves := c.d.Removed[from]
		switch {
		case declared:
			c.errorf(path, "host %q is declared under hosts: expected a name that no host has any more", from)
		case leaves:
			c.errorf(path, "host %q is removed: expected it under its new name alone, where what it runs goes on", from)
		case by[from] != "":
			c.errorf(path, "hosts %q and %q were both host %q: expected one of them", by[from], h, from)
		}
		by[from] = h
	}
}

// formerly are the hosts that have another name now.
func (d *Declaration) formerly() map[string]bool {
	names := map[string]bool{}
	for _, h := range d.Hosts { // order-free: a set is made of them
		names[h.RenamedFrom] = true
	}
	return names
}

// leave gives the hosts that leave a place in the plan: that of an empty host of the
// channel that they were in, with no tags and no probes, in its last wave.
func (r *resolver) leave() {
	d := *r.d
	d.Hosts = maps.Clone(r.d.Hosts)
	for _, h := range keys(r.d.Removed) {
		decl := r.d.Removed[h]
		if decl.Workloads == Keep {
			continue
		}
		channel, was := decl.Channel, ""
		if r.in.Previous != nil {
			if before, ok := r.in.Previous.Roster.Hosts[h]; ok {
				was = r.in.Previous.Bundles[before.Bundle].Name
				if channel == "" {
					channel = before.Channel
				}
			}
		}
		host := HostDecl{Channel: channel, removed: decl.Workloads}
		what := "its containers are stopped and kept, its files removed"
		if decl.Workloads == Wipe {
			host.Bundle, what = WipedBundle, "its containers, files and volumes are deleted with their data, and nothing brings them back"
		}
		switch _, ok := d.Channels[channel]; {
		case channel == "":
			r.c.errorf(at("removed", h), "no earlier release names host %q: expected channel: and the channel that it was in", h)
			continue
		case !ok:
			r.c.errorf(at("removed", h), "host %q was in channel %q, which is declared no more: expected the channel to stay until the host is removed", h, channel)
			continue
		}
		if was != "" && was != EmptyBundle && was != WipedBundle {
			what = "it runs bundle " + was + "; " + what
		}
		r.c.warnf(at("removed", h), "host %q leaves the fleet: %s", h, what)
		d.Hosts[h] = host
	}
	r.keptBehind(&d)
	r.d, r.c.d = &d, &d
}

// keptBehind warns of hosts that are declared no more and go on with what they run.
func (r *resolver) keptBehind(d *Declaration) {
	if r.in.Previous == nil {
		return
	}
	var kept []string
	renamed := d.formerly()
	for _, h := range keys(r.in.Previous.Roster.Hosts) {
		_, there := d.Hosts[h]
		_, said := d.Removed[h]
		if !there && !said && !renamed[h] && r.in.Previous.Roster.Hosts[h].Removed == "" {
			kept = append(kept, h)
		}
	}
	if len(kept) == 0 {
		return
	}
	const most = 5
	names := strings.Join(kept[:min(len(kept), most)], ", ")
	if len(kept) > most {
		names += " and others"
	}
	r.c.warnf(at("hosts"), "%s: declared no more, and what runs there goes on for ever; to stop it write removed: {%s: {workloads: stop}}, or wipe, or keep to say that it is meant", names, kept[0])
}
