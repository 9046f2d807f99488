package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/go-units"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

func drain(t *testing.T, r io.ReadCloser) {
	t.Helper()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// seen is every field of what was made, by path, in a form in which names and the
// order of sets do not count. Service and number are the labels that name a
// container; made is the label of all that one tool makes.
func (b *bench) seen(service, number, made, dir string) map[string]string {
	out := map[string]string{}
	list, err := b.api.ContainerList(b.ctx, client.ContainerListOptions{All: true})
	b.ok(err)
	for _, c := range list.Items {
		name := c.Labels[service]
		if n := c.Labels[number]; number != "" && replicas(list.Items, service, name) > 1 {
			name += "-" + n
		}
		b.flatten(out, "container "+strings.ToLower(name), b.inspect("containers/"+c.ID+"/json"), skipContainer, dir, c.ID)
	}
	nets, err := b.api.NetworkList(b.ctx, client.NetworkListOptions{})
	b.ok(err)
	for _, n := range nets.Items {
		if n.Labels[made] == "" {
			continue
		}
		b.flatten(out, "network "+plain(n.Name, dir, ""), b.inspect("networks/"+n.ID), skipNetwork, dir, "")
	}
	vols, err := b.api.VolumeList(b.ctx, client.VolumeListOptions{})
	b.ok(err)
	for _, v := range vols.Items {
		if anonymous.MatchString(v.Name) {
			continue // containers show them
		}
		raw, err := json.Marshal(v)
		b.ok(err)
		b.flatten(out, "volume "+plain(v.Name, dir, ""), raw, skipVolume, dir, "")
	}
	return out
}

// inspect reads a document as the engine writes it: the client refuses some of what
// engines take.
func (b *bench) inspect(path string) []byte {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.d.Socket())
	}}}
	resp, err := c.Get("http://engine/" + path)
	b.ok(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	b.ok(err)
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s", path, raw)
	}
	return raw
}

func replicas(all []api.Summary, service, name string) (n int) {
	for _, c := range all {
		if c.Labels[service] == name {
			n++
		}
	}
	return n
}

// Fields that say when, where and by whom and not what, by kind.
var (
	skipContainer = regexp.MustCompile(`^(Id|Created|Path|Args|State|Name|RestartCount|Driver|Platform|ProcessLabel|MountLabel|GraphDriver|Storage|ImageManifestDescriptor|ExecIDs|(ResolvConf|Hostname|Hosts|Log)Path|SizeR\w+)\b` +
		`|^Config\.(AttachStd\w+|OnBuild|StdinOnce)\b|^HostConfig\.(Binds|Mounts|ConsoleSize|ContainerIDFile)\b` +
		`|^NetworkSettings\.(SandboxID|SandboxKey|Bridge|Ports|EndpointID|Gateway|IPAddress|MacAddress|IPPrefixLen|GlobalIPv6\w+|IPv6Gateway|HairpinMode|LinkLocalIPv6\w+|Secondary\w+)\b` +
		`|^NetworkSettings\.Networks\.[^.]+\.(NetworkID|EndpointID|DNSNames|IPAddress|IPPrefixLen|Gateway|GlobalIPv6\w+|IPv6Gateway)\b`)
	skipNetwork = regexp.MustCompile(`^(Id|Created|Name|Containers|Peers|Services|Status|ConfigFrom|ConfigOnly)\b`)
	skipVolume  = regexp.MustCompile(`^(CreatedAt|Mountpoint|Name|Status|UsageData)\b`)

	// Labels of the two tools, and of the image's folder.
	toolLabels = regexp.MustCompile(`Labels\.(com\.docker\.compose|io\.steady)\.`)
	anonymous  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hex64      = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	ownPools   = regexp.MustCompile(`^10\.\d+\.`)
)

// sets are lists whose order means nothing.
var sets = []string{"Aliases", "CapAdd", "CapDrop", "Env", "ExtraHosts", "GroupAdd", "Ulimits", "Devices", "DeviceCgroupRules", "Mounts", "SecurityOpt", "DnsOptions", "Links", "MaskedPaths", "ReadonlyPaths"}

// plain takes prefixes of projects and hosts, IDs and temporary folders out of a text.
func plain(s, dir, id string) string {
	s = strings.ReplaceAll(s, project1+"_", "")
	s = strings.ReplaceAll(s, project1+"-", "")
	s = strings.ReplaceAll(s, "bench.", "")
	if id != "" {
		s = strings.ReplaceAll(strings.ReplaceAll(s, id, "ID"), id[:12], "ID")
	}
	return hex64.ReplaceAllString(s, "HEX")
}

// flatten adds the fields of an inspect document.
func (b *bench) flatten(out map[string]string, name string, raw []byte, skip *regexp.Regexp, dir, id string) {
	var doc map[string]any
	b.ok(json.Unmarshal(raw, &doc))
	if list, ok := doc["Mounts"].([]any); ok {
		doc["Mounts"] = slices.DeleteFunc(list, func(m any) bool { return mount(m.(map[string]any), dir) == "tmpfs" })
	}
	if host, ok := doc["HostConfig"].(map[string]any); ok {
		doc["MountOptions"] = mountOptions(host["Mounts"])
		for target, o := range tmpfs(host) {
			doc["MountOptions"].(map[string]any)[target] = o
		}
		delete(host, "Tmpfs")
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		if at != "" && (skip.MatchString(at) || toolLabels.MatchString(at+".")) {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(strings.TrimPrefix(at+"."+plain(k, dir, id), "."), x)
			}
		case []any:
			texts := make([]string, 0, len(v))
			for _, x := range v {
				raw, err := json.Marshal(x)
				b.ok(err)
				if text := plain(string(raw), dir, id); !empty(at, text) {
					texts = append(texts, text)
				}
			}
			if slices.Contains(sets, at[strings.LastIndexByte(at, '.')+1:]) {
				slices.Sort(texts)
			}
			if len(texts) > 0 {
				out[name+" "+at] = strings.Join(texts, ", ")
			}
		case nil:
		default:
			if text := plain(fmt.Sprint(v), dir, id); !nothing(at, text) {
				out[name+" "+at] = text
			}
		}
	}
	walk("", doc)
}

// nothing reports whether a value says no more than if it was not there.
func nothing(at, text string) bool {
	return text == "" || text == "false" || text == "0" || at == "HostConfig.RestartPolicy.Name" && text == "no"
}

// empty reports whether an entry of a list is one that an engine or a tool adds:
// the container's own names, and subnets from the engine's own pools.
func empty(at, text string) bool {
	text = strings.Trim(text, `"`)
	return strings.HasSuffix(at, ".Aliases") && (text == "ID" || strings.HasSuffix(text, "-1")) ||
		at == "IPAM.Config" && ownPools.MatchString(strings.TrimPrefix(text, `{Subnet:`)) || at == "IPAM.Config" && strings.Contains(text, `"Subnet":"10.`)
}

// tmpfs gives the options of those asked for in the short way as the long one has
// them.
func tmpfs(host map[string]any) map[string]any {
	out := map[string]any{}
	short, _ := host["Tmpfs"].(map[string]any)
	for target, o := range short {
		kept := map[string]any{"Type": "tmpfs"}
		for word := range strings.SplitSeq(fmt.Sprint(o), ",") {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "":
			case "size":
				n, err := units.RAMInBytes(value)
				kept["SizeBytes"] = any(float64(n))
				if err != nil {
					kept["SizeBytes"] = value
				}
			case "mode":
				n, err := strconv.ParseUint(value, 8, 32)
				kept["Mode"] = any(float64(n))
				if err != nil {
					kept["Mode"] = value
				}
			default:
				kept[key] = value
			}
		}
		out[strings.ReplaceAll(target, ".", "_")] = kept
	}
	return out
}

// mount has the two ways to ask for one look the same, where it leads and how, and
// gives its kind.
func mount(m map[string]any, dir string) (kind any) {
	delete(m, "Mode") // of the short form alone
	name, _ := m["Name"].(string)
	if source, _ := m["Source"].(string); m["Type"] == "volume" || strings.HasPrefix(source, dir) {
		m["Source"] = "" // a folder of the engine or of the tool
	}
	if anonymous.MatchString(name) {
		m["Name"] = "anonymous"
	}
	return m["Type"]
}

// mountOptions are what mounts say beyond that, by target.
func mountOptions(mounts any) map[string]any {
	out := map[string]any{}
	list, _ := mounts.([]any)
	for _, x := range list {
		m := x.(map[string]any)
		kept := map[string]any{}
		if m["Type"] == "tmpfs" {
			kept["Type"] = "tmpfs"
		}
		for _, key := range []string{"TmpfsOptions", "VolumeOptions", "BindOptions"} {
			o, _ := m[key].(map[string]any)
			for _, k := range []string{"NonRecursive", "NoCopy", "SizeBytes", "Mode", "Subpath", "Options"} {
				if o[k] != nil {
					kept[k] = o[k]
				}
			}
		}
		if target, _ := m["Target"].(string); len(kept) > 0 {
			out[strings.ReplaceAll(target, ".", "_")] = kept
		}
	}
	return out
}
