package compose

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/prose"
)

// How an attribute is handled.
type How string

// Applied attributes end in the container resources, or in nothing when they say
// what is so anyway. Refused ones are errors. Noted ones have no meaning here
// and give a warning.
const (
	Applied How = "applied"
	Refused How = "refused"
	Noted   How = "noted"
)

// Attribute is one attribute of the specification, by its path with * for a name
// and [] for an entry of a list.
type Attribute struct {
	Path string
	How  How
	Why  string // of what is not applied
}

// attributes are all of the specification; what a refused or noted path leads to
// goes with it.
var attributes = slices.Concat(
	group(Applied, "", "", "name version include services services.* networks networks.* volumes volumes.* configs configs.* secrets secrets.*"),
	group(Applied, "", "include.[]", "path project_directory env_file"),
	group(Refused, "models run through a plugin of the docker command: expected a service with the model's server", "", "models"),
	group(Refused, "jobs run on a schedule of their own: expected a service with x-steady: {state: once}, or a timer of the host", "", "jobs"),
	serviceAttributes, deployAttributes, buildAttributes, resourceAttributes,
)

var serviceAttributes = slices.Concat(
	group(Applied, "", "services.*", `annotations annotations.* blkio_config build cap_add cap_drop cgroup cgroup_parent
		command configs container_name cpu_count cpu_percent cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares
		cpus cpuset depends_on depends_on.* deploy device_cgroup_rules devices dns dns_opt dns_search domainname entrypoint
		env_file environment environment.* expose extends extends.file extends.service extra_hosts extra_hosts.* gpus
		group_add healthcheck hostname image init ipc isolation label_file labels labels.* links logging mac_address
		mem_limit mem_reservation mem_swappiness memswap_limit network_mode networks networks.* oom_kill_disable
		oom_score_adj pid pids_limit platform ports privileged profiles pull_policy read_only restart runtime scale secrets
		security_opt shm_size stdin_open stop_grace_period stop_signal storage_opt sysctls sysctls.* tmpfs tty ulimits
		ulimits.* ulimits.*.hard ulimits.*.soft user userns_mode uts volumes volumes_from working_dir`),
	group(Applied, "", "services.*.blkio_config", `device_read_bps device_read_bps.[].path device_read_bps.[].rate
		device_read_iops device_read_iops.[].path device_read_iops.[].rate device_write_bps device_write_bps.[].path
		device_write_bps.[].rate device_write_iops device_write_iops.[].path device_write_iops.[].rate weight weight_device
		weight_device.[].path weight_device.[].weight`),
	group(Applied, "", "services.*.configs.[]", "gid mode source target uid"),
	group(Applied, "", "services.*.secrets.[]", "gid mode source target uid"),
	group(Applied, "", "services.*.depends_on.*", "condition required restart"),
	group(Applied, "", "services.*.devices.[]", "permissions source target"),
	group(Applied, "", "services.*.env_file.[]", "format path required"),
	group(Applied, "", "services.*.gpus.[]", "capabilities count device_ids driver options options.*"),
	group(Applied, "", "services.*.healthcheck", "disable interval retries start_interval start_period test timeout"),
	group(Applied, "", "services.*.logging", "driver options options.*"),
	group(Applied, "", "services.*.networks.*", "aliases driver_opts driver_opts.* ipv4_address ipv6_address gw_priority link_local_ips mac_address priority"),
	group(Applied, "", "services.*.ports.[]", "host_ip mode protocol published target"),
	group(Applied, "", "services.*.volumes.[]", `bind bind.create_host_path bind.propagation bind.recursive bind.selinux read_only
		source target tmpfs tmpfs.mode tmpfs.size type volume volume.nocopy`),
	group(Noted, "it is a note for people and programs that read the file", "services.*.ports.[]", "app_protocol name"),
	group(Noted, "it meant something on Docker Desktop alone", "services.*.volumes.[]", "consistency"),
	group(Noted, "what the docker command prints; steady logs shows the output of every workspace", "services.*", "attach"),
	group(Noted, "it is for the workbench of developers", "services.*", "develop"),
	group(Refused, "volumes keep the labels of the top-level volumes section: expected them there", "services.*.volumes.[]", "volume.labels"),
	group(Refused, "folders inside a volume need a newer engine than is asked for: expected the whole volume", "services.*.volumes.[]", "volume.subpath"),
	group(Refused, "mounting an image needs a newer engine than is asked for: expected a volume", "services.*.volumes.[]", "image"),
	group(Refused, "it needs a newer engine than is asked for: expected the name left to the engine", "services.*.networks.*", "interface_name"),
	group(Refused, "a workspace is always found under its own name: expected another network", "services.*.networks.*", "use_service_name_alias"),
	group(Refused, "it is for Windows: expected a Linux service", "services.*", "credential_spec"),
	group(Refused, "containers of other owners are not touched: expected a service of this file under depends_on", "services.*", "external_links"),
	group(Refused, "models run through a plugin of the docker command: expected a service with the model's server", "services.*", "models"),
	group(Refused, "providers are programs of the docker command: expected a service with an image", "services.*", "provider"),
	group(Refused, "nothing runs in a container but what its image starts: expected a service of its own that others wait for with service_completed_successfully", "services.*", "pre_start"),
	group(Applied, "", "services.*", "post_start pre_stop"),
	group(Applied, "", "services.*.post_start.[]", "command environment environment.* privileged user working_dir"),
	group(Applied, "", "services.*.pre_stop.[]", "command environment environment.* privileged user working_dir"),
	group(Noted, "a release names the image, and the next release a newer one", "services.*", "pull_refresh_after"),
	group(Refused, "the engine has no such setting: expected umask in the entrypoint", "services.*", "umask"),
	group(Refused, "it hands the engine, and so the host, to the container: expected a bind of the socket written out", "services.*", "use_api_socket"),
)

var deployAttributes = slices.Concat(
	group(Applied, "", "services.*.deploy", `mode replicas resources resources.limits resources.limits.cpus resources.limits.memory
		resources.limits.pids resources.reservations resources.reservations.memory resources.reservations.devices
		restart_policy restart_policy.condition restart_policy.max_attempts update_config update_config.monitor
		update_config.order placement`),
	group(Applied, "", "services.*.deploy.resources.reservations.devices.[]", "capabilities count device_ids driver options options.*"),
	group(Noted, "there is no scheduler that places by it; limits bound a workspace", "services.*.deploy", "resources.reservations.cpus"),
	group(Noted, "the engine has its own pause between restarts", "services.*.deploy", "restart_policy.delay restart_policy.window"),
	group(Noted, "the fleet's waves, soak and failure limits decide how an update goes; one that fails goes back", "services.*.deploy",
		"update_config.delay update_config.failure_action update_config.max_failure_ratio update_config.parallelism rollback_config"),
	group(Noted, "they are of a swarm service, not of its containers; labels of the service itself are kept", "services.*.deploy", "labels"),
	group(Noted, "workspaces are found by name, each by itself", "services.*.deploy", "endpoint_mode"),
	group(Noted, "all workspaces of a bundle are on one host", "services.*.deploy.placement", "max_replicas_per_node preferences"),
	group(Refused, "which hosts run a bundle is said in fleet.yaml: expected tags and bundles there", "services.*.deploy.placement", "constraints"),
	group(Refused, "there is no scheduler that counts them: expected devices", "services.*.deploy", "resources.reservations.generic_resources"),
)

var buildAttributes = slices.Concat(
	group(Applied, "", "services.*.build", `args args.* context dockerfile dockerfile_inline extra_hosts extra_hosts.* labels labels.*
		network no_cache platforms pull shm_size tags target`),
	group(Noted, "the host keeps its own cache of builds", "services.*.build", "cache_from cache_to"),
	group(Noted, "images built on a host stay there", "services.*.build", "provenance sbom"),
	group(Refused, "a build has one folder: expected everything it copies in the context", "services.*.build", "additional_contexts"),
	group(Refused, "it lifts the bounds of a build: expected a build without it", "services.*.build", "entitlements privileged"),
	group(Refused, "it is for Windows: expected no isolation", "services.*.build", "isolation"),
	group(Refused, "a build on the host is given no key or secret: expected an image built elsewhere and pulled", "services.*.build", "secrets ssh"),
	group(Refused, "the engine's builder has no such setting: expected no_cache, or a build without it", "services.*.build", "no_cache_filter ulimits"),
)

var resourceAttributes = slices.Concat(
	group(Applied, "", "networks.*", `attachable driver driver_opts driver_opts.* enable_ipv4 enable_ipv6 external external.name internal ipam ipam.config
		ipam.config.[].aux_addresses ipam.config.[].aux_addresses.* ipam.config.[].gateway ipam.config.[].ip_range
		ipam.config.[].subnet ipam.driver ipam.options ipam.options.* labels labels.* name`),
	group(Applied, "", "volumes.*", "driver driver_opts driver_opts.* external external.name labels labels.* name"),
	group(Applied, "", "configs.*", "content environment file name"),
	group(Applied, "", "secrets.*", "environment external external.name file name"),
	group(Noted, "configs and secrets are files here, which have no labels", "configs.*", "labels"),
	group(Noted, "configs and secrets are files here, which have no labels", "secrets.*", "labels"),
	group(Refused, "there is no store of configs: expected file or content", "configs.*", "external"),
	group(Refused, "templates are not filled in: expected the finished text under content or file", "configs.*", "template_driver"),
	group(Refused, "secrets come from the host's own store: expected external: true", "secrets.*", "driver driver_opts template_driver"),
)

func group(how How, why, prefix, keys string) []Attribute {
	var out []Attribute
	for key := range strings.FieldsSeq(keys) {
		if prefix != "" {
			key = prefix + "." + key
		}
		out = append(out, Attribute{key, how, why})
	}
	return out
}

var verdicts = func() map[string]Attribute {
	out := map[string]Attribute{}
	for _, a := range attributes {
		out[a.Path] = a
	}
	return out
}()

// free are the paths below which users choose the names.
var free = func() map[string]bool {
	out := map[string]bool{}
	for _, a := range attributes {
		for p := a.Path; strings.Contains(p, "."); {
			i := strings.LastIndexByte(p, '.')
			if p[i+1:] == "*" {
				out[p[:i]] = true
			}
			p = p[:i]
		}
	}
	return out
}()

// attributesUsed lists the attributes that the files use, in the form of the table.
func (l *load) attributesUsed() []string {
	out := map[string]bool{}
	for _, s := range l.order {
		walk(s.top, nil, func(at []string, _, _ *yaml.Node) {
			if p, ok := pattern(at); ok {
				out[p] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(out))
}

// pattern turns a path of a file into one of the table. Not ok for notes of the
// user's own (x-...) and for what the table does not go down to.
func pattern(at []string) (string, bool) {
	p := ""
	for _, part := range at {
		switch {
		case free[p]:
			part = "*"
		case strings.HasPrefix(part, "x-"):
			return "", false
		case p != "" && part != "" && strings.Trim(part, "0123456789") == "":
			part = "[]"
		}
		if p != "" {
			part = p + "." + part
		}
		p = part
		if a, ok := verdicts[p]; ok && a.How != Applied {
			return p, true
		}
	}
	_, ok := verdicts[p]
	return p, ok
}

// checkAttributes refuses and notes what the merged model has.
func (l *load) checkAttributes() {
	below(l.model, nil, func(_ any, at []string) bool {
		p, known := pattern(at)
		last := at[len(at)-1]
		switch a := verdicts[p]; {
		case !known:
			return !strings.HasPrefix(last, "x-")
		case a.How == Refused:
			l.addf(at, "%s is refused: %s", last, a.Why)
		case a.How == Noted:
			l.warnf(at, "%s is without effect: %s", last, a.Why)
		}
		return verdicts[p].How == Applied
	})
}

// below calls fn for every value below one of the model, in order of keys. What fn says
// no to is not gone into.
func below(v any, at []string, fn func(v any, at []string) bool) {
	visit := func(v any, step string) {
		if next := append(at[:len(at):len(at)], step); fn(v, next) {
			below(v, next, fn)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			visit(v[k], k)
		}
	case []any:
		for i := range v {
			visit(v[i], strconv.Itoa(i))
		}
	}
}

// inventory is what the specification has, by the path above it. It takes
// milliseconds, which most commands need not pay at their start.
var inventory = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for _, p := range schema.AttributePaths() {
		parts := p.Parts()
		above := strings.Join(parts[:len(parts)-1], ".")
		out[above] = append(out[above], parts[len(parts)-1])
	}
	for _, keys := range out {
		slices.Sort(keys)
	}
	return out
})

// checkKeys reports every key that the specification does not have, in each file
// by itself, so that it has a place. All else the library checks after merging.
func (l *load) checkKeys() {
	for _, s := range l.order {
		l.keysBelow(s, s.top, "", map[*yaml.Node]bool{})
	}
}

func (l *load) keysBelow(s *source, n *yaml.Node, at string, seen map[*yaml.Node]bool) {
	n = follow(n)
	known := inventory()[at]
	if at != "" {
		at += "."
	}
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			l.keysBelow(s, c, at+"[]", seen)
		}
		return
	}
	for _, e := range entries(n) {
		key := e[0].Value
		switch {
		case slices.Contains(known, "*") && !slices.Contains(known, key):
			l.keysBelow(s, e[1], at+"*", seen)
		case slices.Contains(known, key):
			l.keysBelow(s, e[1], at+key, seen)
		case len(known) == 0 || strings.HasPrefix(key, "x-") || seen[e[0]]:
		default:
			seen[e[0]] = true
			words := "expected one of " + strings.Join(known, ", ")
			if near := prose.Nearest(key, known); len(near) > 0 {
				words = fmt.Sprintf("expected %s, or x-%s for a note of your own", prose.Either(near), key)
			}
			l.at(s, e[0], false, "unknown key %q: %s", key, words)
		}
	}
}
