package convert

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Workspace is the normal form of what is desired. An error names what is not
// known yet, such as an image that has to be made first.
func Workspace(d *spec.Deployment, in Inputs) (diff.Form, error) {
	if in.Image == nil || in.Image.ID == "" {
		return nil, fmt.Errorf("workspace %s: the engine has no image %s: it has to be pulled, built or loaded first", d.Workspace.Name, d.Uses.Image)
	}
	w := &d.Workspace
	f := diff.Form{"name": in.Name, "image": in.Image.ID}
	img := defaultsOf(&in)
	process(f, w, img)
	if err := environment(f, w, img, &in); err != nil {
		return nil, err
	}
	identity(f, w, img, &in)
	health(f, healthOf(w, img))
	set(f, "hooks", hooksOf(w))
	ports(f, w, img)
	if err := desiredMounts(f, d, img, &in); err != nil {
		return nil, err
	}
	if err := desiredNetworks(f, d, &in); err != nil {
		return nil, err
	}
	h := settings(w, &in)
	if err := setNamespaces(h, d, &in); err != nil {
		return nil, err
	}
	set(f, "network-mode", string(h.NetworkMode))
	host(f, h, addresses(w.DNS), &in)
	if err := desiredLinks(f, d); err != nil {
		return nil, err
	}
	return f, nil
}

// process writes what is run. An entrypoint that is set drops the image's command;
// none keeps it, as docker compose does it.
func process(f diff.Form, w *spec.Workspace, img *defaults) {
	entry, command := img.entrypoint, img.command
	switch {
	case w.NoEntry:
		entry = nil
	case w.Entrypoint != nil:
		entry, command = w.Entrypoint, nil
	}
	switch {
	case w.NoCommand:
		command = nil
	case w.Command != nil:
		command = w.Command
	}
	running(f, entry, command, cmp.Or(w.WorkingDir, img.dir), cmp.Or(w.User, img.user), cmp.Or(w.StopSignal, img.signal))
	setBool(f, "tty", w.TTY)
	setBool(f, "stdin", w.StdinOpen)
	if s := graceSeconds(w.StopGrace); s != nil {
		f["stop-grace"] = strconv.Itoa(*s) + "s"
	}
}

func running(f diff.Form, entry, command []string, dir, user, signal string) {
	list(f, "entrypoint", entry)
	list(f, "command", command)
	if dir != "" {
		f["workdir"] = path.Clean(dir)
	}
	set(f, "user", user)
	set(f, "stop-signal", signalName(signal))
}

// graceSeconds rounds up: engines count whole seconds.
func graceSeconds(d *clock.Duration) *int {
	if d == nil {
		return nil
	}
	s := int((*d + clock.Second - 1) / clock.Second)
	return &s
}

func signalName(s string) string {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return s
	}
	return "SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")
}

// environment writes the image's variables under the declared ones.
func environment(f diff.Form, w *spec.Workspace, img *defaults, in *Inputs) error {
	env := environ(img.env)
	for _, e := range w.Env {
		if env[e.Name] = e.Value; e.Unset {
			delete(env, e.Name)
		}
	}
	pairs(f, "env", env, in)
	for _, e := range w.Env {
		if e.Secret == "" {
			continue
		}
		sum, known := in.Variables[e.Secret]
		if !known {
			sum, known = in.Secrets[e.Secret]
		}
		if !known {
			return fmt.Errorf("workspace %s: the host has no secret %s: put it into the host's secret store", w.Name, e.Secret)
		}
		f["env/"+e.Name] = sum
	}
	return nil
}

func identity(f diff.Form, w *spec.Workspace, img *defaults, in *Inputs) {
	labels(f, merged(img.labels, w.Labels), in)
	set(f, "hostname", w.Hostname)
	set(f, "domainname", w.Domainname)
}

// labels writes those that are not the agent's own.
func labels(f diff.Form, all map[string]string, in *Inputs) {
	for k, v := range all {
		if !Managed(k) {
			f["label/"+k] = in.option(k, v)
		}
	}
}

// restart spells a policy; "no" is none.
func restart(policy container.RestartPolicyMode, most int) string {
	switch {
	case policy == "" || policy == container.RestartPolicyDisabled:
		return ""
	case policy == container.RestartPolicyOnFailure && most > 0:
		return string(policy) + ":" + strconv.Itoa(most)
	}
	return string(policy)
}

// healthOf is the healthcheck as engines merge it with the image's, field by
// field; nil without one.
func healthOf(w *spec.Workspace, img *defaults) *container.HealthConfig {
	own := healthConfig(w.Health)
	if own == nil {
		return img.health
	}
	if base := img.health; base != nil {
		if len(own.Test) == 0 {
			own.Test = base.Test
		}
		own.Interval = cmp.Or(own.Interval, base.Interval)
		own.Timeout = cmp.Or(own.Timeout, base.Timeout)
		own.StartPeriod = cmp.Or(own.StartPeriod, base.StartPeriod)
		own.StartInterval = cmp.Or(own.StartInterval, base.StartInterval)
		own.Retries = cmp.Or(own.Retries, base.Retries)
	}
	return own
}

// HealthWait is how long the health check of a workspace may take to pass by its own settings; 0 without one.
func HealthWait(w *spec.Workspace, in *Inputs) clock.Duration {
	h := healthOf(w, defaultsOf(in))
	if h == nil || len(h.Test) == 0 || h.Test[0] == "NONE" {
		return 0
	}
	own := spec.Health{Interval: clock.FromStd(h.Interval), Timeout: clock.FromStd(h.Timeout), StartPeriod: clock.FromStd(h.StartPeriod), Retries: h.Retries}
	return own.Patience()
}

// healthConfig is the declared healthcheck as it is asked for.
func healthConfig(h *spec.Health) *container.HealthConfig {
	switch {
	case h == nil:
		return nil
	case h.Disable:
		return &container.HealthConfig{Test: []string{"NONE"}}
	}
	return &container.HealthConfig{Test: slices.Clone(h.Test), Interval: h.Interval.Std(), Timeout: h.Timeout.Std(),
		StartPeriod: h.StartPeriod.Std(), StartInterval: h.StartInterval.Std(), Retries: h.Retries}
}

func health(f diff.Form, h *container.HealthConfig) {
	if h == nil || len(h.Test) == 0 {
		return // without a test there is no check
	}
	list(f, "health/test", h.Test)
	if h.Test[0] == "NONE" {
		return
	}
	period := func(name string, d time.Duration) {
		if d != 0 {
			f["health/"+name] = d.String()
		}
	}
	period("interval", h.Interval)
	period("timeout", h.Timeout)
	period("start-period", h.StartPeriod)
	period("start-interval", h.StartInterval)
	setInt(f, "health/retries", h.Retries)
}
