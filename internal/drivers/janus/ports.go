package janus

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

// keepPorts has streams of port zero, which is any, keep the port that they have.
func keepPorts(want map[string]any, now *mountpoint) {
	if now == nil {
		return
	}
	has := byMid(now.live["media"])
	for mid, m := range byMid(want["media"]) { // order-free: each by itself
		if p := has[mid]["port"]; p != nil && m["port"] == json.Number("0") {
			m["port"] = p
		}
	}
}

// busy lists the ports that somebody else has. It is asked first because Janus does not
// free the ports of a mountpoint that it cannot make, until it ends.
func (d *Driver) busy(want map[string]any, now *mountpoint) (out []nodesdk.Problem) {
	u, err := url.Parse(d.o.URL)
	if ip := net.ParseIP(u.Hostname()); err != nil || u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil // another machine's ports
	}
	own := map[string]bool{}
	if now != nil {
		for _, m := range byMid(now.live["media"]) { // order-free: it fills a set
			for _, p := range portsOf(m) {
				own[p.number] = true
			}
		}
	}
	taken := map[string]bool{}
	media, _ := want["media"].([]any)
	for _, e := range media {
		m, _ := e.(map[string]any)
		iface, said := m["iface"].(string)
		if m["mcast"] != nil || said && net.ParseIP(iface) == nil {
			continue
		}
		for _, p := range portsOf(m) {
			field := nodeconfig.Field([]string{"media", fmt.Sprint(m["mid"]), p.member})
			if taken[p.number] {
				out = append(out, nodesdk.Problem{Field: field, Message: "two streams have UDP port " + p.number})
			}
			taken[p.number] = true
			if own[p.number] {
				continue
			}
			conn, err := net.ListenPacket("udp", net.JoinHostPort(iface, p.number))
			if err != nil {
				out = append(out, nodesdk.Problem{Field: field, Message: "UDP port " + p.number + " is in use"})
				continue
			}
			_ = conn.Close()
		}
	}
	return out
}

type port struct{ member, number string }

func portsOf(m map[string]any) (out []port) {
	for _, member := range []string{"port", "rtcpport", "port2", "port3"} {
		if n := integer(m[member]); n > 0 {
			out = append(out, port{member, strconv.Itoa(n)})
		}
	}
	return out
}
