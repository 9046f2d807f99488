package workspaces

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/spec"
)

type createOptions struct {
	image, pull           string
	command               []string
	env, secretEnv        []string
	ports, volumes        []string
	networks, labels      []string
	routes                []string
	memory, cpus, restart string
	user, workdir, gpus   string
	stopped               bool

	file   string
	end    apply.End
	reason *string
	watch.WaitFlags
}

func (a verbs) createCmd() *cobra.Command {
	var o createOptions
	cmd := &cobra.Command{
		Use: "create HOST/NAME [-- COMMAND...]", Short: "Create a workspace from flags",
		Long: `Creates a workspace in the managed layer of a host, with the image that it runs
from, and the named volumes and networks that it names and the host does not have.
What follows -- is its command. With -f the workspace is read from a file as
steady apply takes it.`,
		Example: "  steady workspace create gpu-1/web --image nginx:1 --port 8080:80 --wait\n  steady workspace create gpu-1/job --image busybox:1 --env A=1 --volume data:/data -- sh -c 'date >/data/now'\n  steady workspace create gpu-1/web --image image/app --route app.example/api:8080 --memory 512m --cpus 1.5\n  steady workspace create gpu-1/lab --image busybox:1 --not-after 8h -- sleep 1d",
	}
	f := cmd.Flags()
	f.StringVar(&o.image, "image", "", "reference of an image to pull, image/NAME for one that the host has, or snapshot/NAME")
	f.StringVar(&o.pull, "pull", "", "when to ask the registry: missing, always or never (default missing)")
	f.StringArrayVar(&o.command, "command", nil, "one argument of the command; may be repeated")
	f.StringArrayVarP(&o.env, "env", "e", nil, "environment variable NAME=VALUE; may be repeated")
	f.StringArrayVar(&o.secretEnv, "secret-env", nil, "environment variable NAME=SECRET from the host's own store; may be repeated")
	f.StringArrayVarP(&o.ports, "port", "p", nil, "[[IP:]HOSTPORT:]PORT[/udp] to publish; may be repeated")
	f.StringArrayVarP(&o.volumes, "volume", "v", nil, "NAME:/PATH[:ro], /HOSTPATH:/PATH[:ro], or /PATH for one without a name; may be repeated")
	f.StringArrayVar(&o.networks, "network", nil, "network to join, as NAME or NAME=ALIAS; may be repeated")
	f.StringArrayVar(&o.labels, "label", nil, "label NAME=VALUE; may be repeated")
	f.StringArrayVar(&o.routes, "route", nil, "[HOSTNAME][/PATH]:PORT that the host's router leads here; may be repeated")
	f.StringVar(&o.memory, "memory", "", "most memory, such as 512m")
	f.StringVar(&o.cpus, "cpus", "", "most CPU time, such as 1.5")
	f.StringVar(&o.restart, "restart", "", "no, always, unless-stopped, on-failure or on-failure:MAX")
	f.StringVar(&o.user, "user", "", "user of the processes")
	f.StringVar(&o.workdir, "workdir", "", "folder that they start in")
	f.StringVar(&o.gpus, "gpus", "", "GPUs: all, or how many")
	f.BoolVar(&o.stopped, "stopped", false, "create it without starting it")
	f.StringVarP(&o.file, "file", "f", "", "read the workspace from a file instead; - is standard input")
	command.Complete(cmd, "pull", string(spec.PullMissing), string(spec.PullAlways), string(spec.PullNever))
	command.Complete(cmd, "restart", "no", "always", "unless-stopped", "on-failure")
	o.end.Add(cmd)
	o.reason = command.RequiresReason(cmd)
	o.WaitFlags.Add(cmd)
	return a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		host, name, err := command.OnHost(args[0])
		if err != nil {
			return err
		}
		if (o.file == "") == (o.image == "") {
			return exit.Badf("expected either --image, or -f FILE; see %s --help", cmd.CommandPath())
		}
		if len(args) > 1 && len(o.command) > 0 {
			return exit.Badf("the command is given twice; leave out --command, or what follows --")
		}
		o.command = append(o.command, args[1:]...)
		return a.create(ctx, c, host, name, o)
	}))
}

func (a verbs) create(ctx context.Context, c *operator.Client, host, name string, o createOptions) error {
	end, err := o.end.At(a.Wall())
	if err != nil {
		return err
	}
	var list []apply.Resource
	if o.file != "" {
		list, err = a.fromFile(host, name, o.file)
	} else {
		list, err = o.resources(host, name)
	}
	if err != nil {
		return exit.Bad(err)
	}
	have, err := c.Resources(ctx, host)
	if err != nil {
		return err
	}
	has := func(r apply.Resource) bool {
		return slices.ContainsFunc(have.Resources, func(x operator.Resource) bool { return x.Declared && x.Kind == r.Kind && x.Name == r.Name })
	}
	return apply.Change(ctx, a.Env, c, *o.reason, o.WaitFlags, func(s *apply.Changes) error {
		s.NotAfter = end
		for _, r := range apply.Order(list) {
			switch {
			case !has(r):
			case r.Kind == spec.KindWorkspace:
				return exit.With(exit.Failed, fmt.Errorf("%s is there already; change it with steady workspace edit %s/%s, or with steady apply", r.FullName(), host, name))
			case r.Kind == spec.KindVolume || r.Kind == spec.KindNetwork:
				continue // it is shared
			}
			s.Create = r.Kind == spec.KindWorkspace
			if _, err := s.Set(ctx, r); err != nil || !s.Done() {
				return err // the rest would lack it
			}
		}
		return nil
	})
}

// fromFile reads a file that holds the workspace and what goes with it.
func (a verbs) fromFile(host, name, file string) ([]apply.Resource, error) {
	list, err := apply.ReadFile(a.Env, file, host)
	if err != nil {
		return nil, err
	}
	id := spec.ID{Kind: spec.KindWorkspace, Name: name}
	if !slices.ContainsFunc(list, func(r apply.Resource) bool { return r.ID == id }) {
		return nil, fmt.Errorf("%s has no %s: expected it", file, id)
	}
	return list, nil
}

// resources are the workspace with what it names.
func (o *createOptions) resources(host, name string) ([]apply.Resource, error) {
	w := spec.Workspace{Name: name, Command: o.command, User: o.user, WorkingDir: o.workdir}
	if o.stopped {
		w.State = spec.Stopped
	}
	p := &parts{host: host, w: &w}
	for _, step := range []func(*parts) error{o.addImage, o.addEnv, o.addPorts, o.addMounts, o.addNetworks, o.addLimits, o.addRestart, o.addGPUs, o.addRoutes} {
		if err := step(p); err != nil {
			return nil, err
		}
	}
	p.add(spec.KindWorkspace, name, &w)
	return p.list, p.err
}

type parts struct {
	host string
	w    *spec.Workspace
	list []apply.Resource
	err  error
}

func (p *parts) add(kind, name string, value any) {
	for _, r := range p.list {
		if r.Kind == kind && r.Name == name {
			return
		}
	}
	r, err := apply.Of(p.host, kind, name, value)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.list = append(p.list, r)
}
