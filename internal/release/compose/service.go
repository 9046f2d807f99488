package compose

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
)

func (l *load) service(s *types.ServiceConfig) {
	x := l.steadyOf(s)
	w := spec.Workspace{Name: s.Name, Title: s.ContainerName, Image: l.imageOf(s, &x)}
	l.process(&w, s)
	l.isolation(&w, s)
	l.limits(&w, s)
	l.hardware(&w, s)
	l.ports(&w, s)
	l.mounts(&w, s)
	l.contents(&w, s)
	l.attach(&w, s)
	l.links(&w, s)
	l.hooks(&w, s)
	l.dependencies(&w, s)
	l.deploy(&w, s)
	l.applySteady(&w, s, &x)
	names := l.replicas(s)
	if len(names) == 0 && !l.fatal() {
		l.warnf([]string{"services", s.Name}, "service %q has no replicas and is left out: expected some, or x-steady: {state: stopped} to keep it", s.Name)
	}
	for i, name := range names {
		one, err := copied(&w)
		if err != nil {
			l.addf([]string{"services", s.Name}, "the service does not encode: %v: expected plain values", err)
			return
		}
		one.Name = name
		if written := l.names.back("services", s.Name); l.former[written] != "" && one.Title == "" {
			one.Title = strings.Replace(name, s.Name, l.o.Prefix+hostName(written), 1)
		}
		l.composeLabels(&one, s, i+1)
		l.times[name] = fleet.Times{Stop: l.where("services", s.Name, "stop_grace_period"), Start: l.where("services", s.Name, "healthcheck")}
		for i := range one.Networks {
			if name != s.Name {
				one.Networks[i].Aliases = append(one.Networks[i].Aliases, s.Name)
			}
		}
		l.set.Workspaces = append(l.set.Workspaces, one)
	}
	l.routesOf(s, names, &x)
}

// composeLabels sets the labels of docker compose, by which schedulers, proxies and log
// shippers find the containers of a project and a service.
func (l *load) composeLabels(w *spec.Workspace, s *types.ServiceConfig, number int) {
	if w.Labels == nil {
		w.Labels = map[string]string{}
	}
	w.Labels["com.docker.compose.project"] = l.env[projectVariable]
	written := l.names.back("services", s.Name)
	w.Labels["com.docker.compose.service"] = cmp.Or(l.former[written], written) // which an engine changes on no container
	w.Labels["com.docker.compose.container-number"] = strconv.Itoa(number)
	w.Labels["com.docker.compose.oneoff"] = "False"
}

// copied shares nothing with w, so that one replica can change without another.
func copied(w *spec.Workspace) (out spec.Workspace, err error) {
	raw, err := json.Marshal(w)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

func (l *load) process(w *spec.Workspace, s *types.ServiceConfig) {
	at := func(key string) []string { return []string{"services", s.Name, key} }
	w.Entrypoint, w.NoEntry = s.Entrypoint, s.Entrypoint != nil && len(s.Entrypoint) == 0
	w.Command = s.Command // an empty one is the image's
	w.Env = l.variables(s)
	w.Labels = plainMap(s.Labels)
	w.WorkingDir, w.User, w.GroupAdd = s.WorkingDir, s.User, slices.Clone(s.GroupAdd)
	w.Hostname, w.Domainname = s.Hostname, s.DomainName
	w.Annotation = plainMap(s.Annotations)
	w.Init, w.TTY, w.StdinOpen, w.StopSignal = s.Init, s.Tty, s.StdinOpen, s.StopSignal
	if s.StopGracePeriod != nil {
		d := l.duration(at("stop_grace_period"), s.StopGracePeriod)
		w.StopGrace = &d
	}
	if s.Restart != "" {
		policy, tries, _ := strings.Cut(s.Restart, ":")
		w.Restart.Policy = policy
		if tries != "" {
			n, err := strconv.Atoi(tries)
			if err != nil || n < 0 {
				l.addf(at("restart"), "restart is %q: expected a number of tries after on-failure:", s.Restart)
			}
			w.Restart.Max = n
		}
	}
	if h := s.HealthCheck; h != nil {
		w.Health = l.health(at("healthcheck"), h)
	}
	if w.Logging = l.o.Logging; s.Logging != nil {
		w.Logging = &spec.Logging{Driver: s.Logging.Driver, Options: plainMap(s.Logging.Options)}
	}
	w.Runtime, w.Platform = s.Runtime, s.Platform
}

func (l *load) hooks(w *spec.Workspace, s *types.ServiceConfig) {
	for _, x := range []struct {
		key  string
		list []types.ServiceHook
		to   *[]spec.Hook
	}{{"post_start", s.PostStart, &w.PostStart}, {"pre_stop", s.PreStop, &w.PreStop}} {
		for i, h := range x.list {
			one := spec.Hook{Command: h.Command, User: h.User, WorkingDir: h.WorkingDir, Privileged: h.Privileged}
			env := h.Environment.Resolve(lookup(l.env))
			for _, name := range slices.Sorted(maps.Keys(env)) {
				if v := env[name]; v != nil {
					one.Env = append(one.Env, name+"="+*v)
					continue
				}
				l.unset[name] = true
				l.warnf([]string{"services", s.Name, x.key, strconv.Itoa(i)}, "variable %s has no value and is left out: expected one, in .env or under composeEnv of bundle.yaml", name)
			}
			*x.to = append(*x.to, one)
		}
	}
}

func (l *load) health(at []string, h *types.HealthCheckConfig) *spec.Health {
	if h.Disable || len(h.Test) > 0 && h.Test[0] == "NONE" {
		return &spec.Health{Disable: true}
	}
	out := &spec.Health{
		Test: h.Test, Interval: l.duration(append(at, "interval"), h.Interval), Timeout: l.duration(append(at, "timeout"), h.Timeout),
		StartPeriod: l.duration(append(at, "start_period"), h.StartPeriod), StartInterval: l.duration(append(at, "start_interval"), h.StartInterval),
	}
	if h.Retries != nil {
		out.Retries = int(min(*h.Retries, math.MaxInt32))
	}
	return out
}

// shared turns a namespace mode into ours.
func (l *load) shared(s *types.ServiceConfig, key, mode string) string {
	at := []string{"services", s.Name, key}
	if name, ok := strings.CutPrefix(mode, types.ServicePrefix); ok {
		if names := l.replicasOf(name); len(names) != 1 || names[0] != name {
			l.addf(at, "%s is %q: expected a service of this file with one replica", key, mode)
		}
		return spec.SharePrefix + name
	}
	if name, ok := strings.CutPrefix(mode, types.ContainerPrefix); ok {
		if own, ok := l.ownContainer(name); ok && own != s.Name {
			return l.shared(s, key, types.ServicePrefix+own)
		}
		l.addf(at, "%s is %q, which is no container of this file, and those of other owners are not touched: expected service:NAME", key, mode)
	}
	return mode
}

func (l *load) dependencies(w *spec.Workspace, s *types.ServiceConfig) {
	conditions := map[string]spec.Condition{
		types.ServiceConditionStarted: spec.Started, types.ServiceConditionHealthy: spec.Healthy,
		types.ServiceConditionCompletedSuccessfully: spec.Completed,
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependsOn)) {
		d := s.DependsOn[name]
		c, ok := conditions[d.Condition]
		if !ok {
			l.addf([]string{"services", s.Name, "depends_on", name}, "condition %q is not known: expected service_started, service_healthy or service_completed_successfully", d.Condition)
			continue
		}
		if _, active := l.project.Services[name]; !active && !d.Required {
			continue // its profile is not active
		}
		if other := l.project.Services[name]; c == spec.Healthy && other.HealthCheck == nil {
			l.warnf([]string{"services", s.Name, "depends_on", name}, "waits for %q to be healthy, and the file has no healthcheck of it: where its image has none either, it counts once it has run for %s, which compose refuses: expected a healthcheck, or service_started", name, replace.DefaultMonitor)
		}
		names := l.replicasOf(name)
		if len(names) == 0 && d.Required {
			l.addf([]string{"services", s.Name, "depends_on", name}, "depends on %q, which has no replicas: expected some, or required: false", name)
		}
		for _, n := range names {
			w.DependsOn = append(w.DependsOn, spec.Dependency{Workspace: n, Condition: c, Restart: d.Restart, Required: d.Required})
		}
	}
}

// deploy applies what is under deploy besides resources.
func (l *load) deploy(w *spec.Workspace, s *types.ServiceConfig) {
	d := s.Deploy
	if d == nil {
		return
	}
	at := []string{"services", s.Name, "deploy"}
	switch d.Mode {
	case "", "replicated", "global":
	case "replicated-job", "global-job":
		w.State = spec.Once
	default:
		l.addf(append(at, "mode"), "mode %q is not known: expected replicated, global, replicated-job or global-job", d.Mode)
	}
	if p := d.RestartPolicy; p != nil {
		if s.Restart != "" {
			l.warnf(append(at, "restart_policy"), "restart_policy replaces restart: %s: expected one of them", s.Restart)
		}
		w.Restart = spec.Restart{}
		switch p.Condition {
		case "", "any":
			w.Restart.Policy = "always"
		case "none", "no":
			w.Restart.Policy = "no"
		default:
			w.Restart.Policy = p.Condition
		}
		if p.MaxAttempts != nil && *p.MaxAttempts > 0 {
			if w.Restart.Policy == "on-failure" {
				w.Restart.Max = int(min(*p.MaxAttempts, math.MaxInt32))
			} else {
				l.warnf(append(at, "restart_policy", "max_attempts"), "max_attempts has an effect with condition on-failure alone: expected that condition")
			}
		}
	}
	if u := d.UpdateConfig; u != nil {
		w.Update.Order = spec.Order(u.Order)
		monitor := u.Monitor
		w.Update.Monitor = clock.Duration(l.duration(append(at, "update_config", "monitor"), &monitor))
	}
}

// links gives the service its own names for others. On networks every service has
// its plain name anyway; on the engine's own bridge there are no names but links.
func (l *load) links(w *spec.Workspace, s *types.ServiceConfig) {
	bridge := s.NetworkMode == "bridge" || s.NetworkMode == "default"
	at := []string{"services", s.Name, "links"}
	if len(s.Links) > 0 && s.NetworkMode != "" && !bridge {
		l.addf(at, "links under network_mode %q: expected networks, or network_mode bridge", s.NetworkMode)
		return
	}
	for _, link := range s.Links {
		target, alias, ok := strings.Cut(link, ":")
		if !ok {
			alias = target
		}
		target = l.names.of("services", target)
		other, known := l.project.Services[target]
		switch {
		case !known:
			l.addf(at, "link to %q, which is not declared: expected a service", target)
			continue
		case bridge && (other.NetworkMode != "bridge" && other.NetworkMode != "default" || len(l.replicasOf(target)) != 1):
			l.addf(at, "link to %q, which is not on the engine's own bridge or has several replicas: expected one replica with network_mode bridge", target)
			continue
		case !bridge && !slices.ContainsFunc(slices.Collect(maps.Keys(s.Networks)), func(n string) bool { _, on := other.Networks[n]; return on }):
			l.addf(at, "link to %q, which is on none of the networks of %q: expected one network of both", target, s.Name)
			continue
		case !bridge && alias == target:
			continue
		}
		w.Links = append(w.Links, spec.Link{Target: target, Alias: alias})
	}
}

// ownContainer finds the service whose container a reference names: by its
// container_name, or as docker compose would name it.
func (l *load) ownContainer(name string) (service string, ok bool) {
	for key, s := range l.project.Services {
		written := l.names.back("services", key)
		if s.ContainerName == name || name == l.projectName()+"-"+written+"-1" || name == l.env[projectVariable]+"-"+written+"-1" {
			return key, true
		}
	}
	return "", false
}
