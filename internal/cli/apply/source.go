package apply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

type source struct {
	file     string
	profiles []string
	env      []string

	list []Resource // once read
}

// add gives a command the flags, and has the file read before any server is looked
// for: what is wrong with it is said first.
func (s *source) add(a verbs, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&s.file, "file", "f", "", "file of resources, or Compose file; - is standard input (required)")
	f.StringSliceVar(&s.profiles, "profile", nil, "profile of a Compose file that is active; may be repeated")
	f.StringArrayVar(&s.env, "env", nil, "variable NAME=VALUE for a Compose file; may be repeated")
	cmd.PreRunE = func(_ *cobra.Command, args []string) (err error) {
		s.list, err = s.read(a, args)
		return err
	}
}

// maxFile bounds what is read from standard input.
const maxFile = 8 << 20

// read reads the file; findings go to stderr.
func (s *source) read(a verbs, args []string) ([]Resource, error) {
	host := ""
	if len(args) > 0 {
		host = args[0]
		if err := fleet.CheckName(host); err != nil {
			return nil, exit.Bad(err)
		}
	}
	if s.file == "" {
		return nil, exit.Badf("no file is given; give -f FILE, or -f - for standard input")
	}
	data, err := a.Input(s.file, maxFile)
	if err != nil {
		return nil, exit.Bad(err)
	}
	var list []Resource
	var problems []Problem
	if IsCompose(data) {
		list, problems, err = s.compose(data, host)
	} else {
		list, problems = Read(spec.Known, s.file, data, host)
	}
	if err != nil {
		return nil, exit.Bad(err)
	}
	for _, p := range strictyaml.Sort(problems) {
		fmt.Fprintln(a.Err, p)
	}
	if strictyaml.Fatal(problems) {
		return nil, exit.Badf("nothing was asked of any host: %s is not as expected", s.file)
	}
	return Order(list), nil
}

// ReadFile reads a file of resources, or a Compose file, for one host; findings go
// to stderr.
func ReadFile(e *command.Env, file, host string) ([]Resource, error) {
	s := source{file: file}
	return s.read(verbs{e}, []string{host})
}

func (s *source) compose(data []byte, host string) ([]Resource, []Problem, error) {
	if host == "" {
		return nil, nil, fmt.Errorf("%s is a Compose file, which names no host; give HOST as argument", s.file)
	}
	env := map[string]string{}
	for _, e := range s.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			return nil, nil, fmt.Errorf("--env %q: expected NAME=VALUE", e)
		}
		env[name] = value
	}
	file := s.file
	if file == "-" {
		dir, err := os.MkdirTemp("", "steady-apply-")
		if err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(dir)
		file = filepath.Join(dir, "compose.yaml")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return nil, nil, err
		}
	}
	return ReadCompose(file, ComposeOptions{Host: host, Profiles: s.profiles, Environ: env})
}

// surplus lists what operators set in the managed layers of the hosts of a list and it does
// not name, what needs others first, and what others own there.
func surplus(ctx context.Context, c *operator.Client, list []Resource) (out []Resource, kept []operator.HostResource, err error) {
	named := map[string]bool{}
	var hosts []string
	for i := range list {
		named[list[i].FullName()] = true
		hosts = append(hosts, list[i].Host)
	}
	slices.Sort(hosts)
	for _, h := range slices.Compact(hosts) {
		have, err := c.Resources(ctx, h)
		if err != nil {
			return nil, nil, err
		}
		var more []Resource
		for _, x := range have.Resources {
			r := Resource{Host: h, ID: spec.ID{Kind: x.Kind, Name: x.Name}}
			if x.Layer != event.LayerManaged || !x.Declared || named[r.FullName()] {
				continue
			}
			if x.Owner != spec.Operators {
				kept = append(kept, operator.HostResource{Host: h, Resource: x})
				continue
			}
			full, err := c.ManagedResource(ctx, h, x.Kind, x.Name)
			if err != nil {
				return nil, nil, err
			}
			r.Spec = full.Spec
			more = append(more, r)
		}
		more = Order(more)
		slices.Reverse(more)
		out = append(out, more...)
	}
	return out, kept, nil
}

// consent asks a person before something is removed.
func (a verbs) consent(list []Resource, yes bool) error {
	if len(list) == 0 || yes {
		return nil
	}
	var words []string
	for i := range list {
		words = append(words, list[i].FullName())
	}
	return a.Confirm("Remove "+strings.Join(words, ", "), fmt.Sprintf("%d resources would be removed (%s)", len(list), strings.Join(words, ", ")), "--yes")
}

func (a verbs) removeCmd() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use: "remove HOST KIND/NAME...", GroupID: command.GroupWatch, Short: "Remove resources from the managed layer of a host",
		Long: `Removes resources from the managed layer of a host, in the order given. What a
bundle declares only a release removes.`,
		Example: "  steady remove gpu-1 route/web workspace/web image/web\n  steady remove gpu-1 volume/data --yes --wait",
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask before removing")
	cmd.Flags().BoolVar(&o.allowMass, "allow-mass-change", false, "consent to removing many resources at once")
	o.reason = command.RequiresReason(cmd)
	o.WaitFlags.Add(cmd)
	a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		var list []Resource
		for _, arg := range args[1:] {
			id, err := command.KindName(arg)
			if err != nil {
				return err
			}
			list = append(list, Resource{Host: args[0], ID: id})
		}
		if err := a.consent(list, o.yes); err != nil {
			return err
		}
		return Change(ctx, a.Env, c, *o.reason, o.WaitFlags, func(s *Changes) error { return s.removeAll(ctx, list, o.allowMass) })
	}))
	return a.CompletesWith(cmd, managedNames)
}

// managedNames completes HOST and then what its managed layer has.
func managedNames(ctx context.Context, c *operator.Client, args []string, _ string) ([]string, error) {
	if len(args) == 0 {
		return command.Hosts(ctx, c, "")
	}
	var names []string
	r, err := c.Resources(ctx, args[0])
	for _, x := range r.Resources {
		if x.Layer == event.LayerManaged && x.Owner == spec.Operators {
			names = append(names, x.Kind+"/"+x.Name+"\t"+x.State)
		}
	}
	return names, err
}
