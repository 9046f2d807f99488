package apply

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/sessionfile"
)

// template has the verbs on templates of sessions.
func (a sessions) template() *cobra.Command {
	return command.Group("", "template", "Templates of sessions: parts with parameters, kept by the server",
		"  steady session template put -f lab.yaml\n  steady session template show lab",
		a.putTemplate(), a.listTemplates(), a.showTemplate(), a.removeTemplate())
}

func (a sessions) putTemplate() *cobra.Command {
	var name, document string
	var version int64
	cmd := &cobra.Command{
		Use: "put", Short: "Set a template, new or again",
		Long: `Reads a template from a file, checks it, and has the server keep it. Whoever set a template
first owns it: others may not change it, but for an admin. Sessions that were made of it stay
as they are.`,
		Example: "  steady session template put -f lab.yaml\n  steady session template put -f lab.yaml --version 3",
	}
	cmd.Flags().Int64Var(&version, "version", 0, "the version that the change was made on, as show prints it: refused if it is another one now")
	a.reads(cmd, func(file string, data []byte) (problems []Problem) {
		name, _, problems = sessionfile.ReadTemplate(file, data, a.Now())
		document = string(data)
		return problems
	})
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, _ []string) error {
		err := c.PutSessionTemplate(ctx, name, operator.PutTemplate{Document: document, Version: version})
		if err == nil {
			a.Printf("Template %s is set. What it takes: steady session template show %s\n", name, name)
		}
		return err
	})
}

func (a sessions) listTemplates() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the templates",
		Example: "  steady session template list\n  steady session template list -o json",
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.SessionTemplate, error) {
		return c.SessionTemplates(ctx)
	}, []string{"template", "parameters", "owner", "updated", "description"}, func(t operator.SessionTemplate) []string {
		var names []string
		for i := range t.Parameters {
			names = append(names, t.Parameters[i].Name)
		}
		return []string{t.Name, strings.Join(names, ", "), t.Owner, local(t.Updated), t.Description}
	})
}

// templateNames completes the name of a template.
func (a sessions) templateNames(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	return a.CompletesWith(cmd, func(ctx context.Context, c *operator.Client, args []string, _ string) (names []string, err error) {
		all, err := c.SessionTemplates(ctx)
		for i := range all {
			names = append(names, all[i].Name+"\t"+all[i].Description)
		}
		return names, err
	})
}

func (a sessions) showTemplate() *cobra.Command {
	document := false
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show what a template takes, or its document",
		Example: "  steady session template show lab\n  steady session template show lab --document > lab.yaml",
	}
	cmd.Flags().BoolVar(&document, "document", false, "print the template as it was written")
	return a.templateNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.SessionTemplate, error) {
		return c.SessionTemplate(ctx, args[0])
	}, func(t operator.SessionTemplate) error {
		if document {
			a.Printf("%s", t.Document)
			return nil
		}
		a.Printf("Template %s of %s, version %d, set %s\n", t.Name, t.Owner, t.Version, local(t.Updated))
		if t.Description != "" {
			a.Printf("%s\n", t.Description)
		}
		a.Printf("\n")
		var rows [][]string
		for i := range t.Parameters {
			p := &t.Parameters[i]
			rows = append(rows, []string{p.Name, string(p.Type), defaultOf(p), p.Bounds(), p.Description})
		}
		return a.Table([]string{"parameter", "type", "default", "allowed", "description"}, rows)
	}))
}

func defaultOf(p *session.Parameter) string {
	if p.Default == nil {
		return "(required)"
	}
	return fmt.Sprint(p.Default)
}

func (a sessions) removeTemplate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove NAME", Short: "Remove a template; sessions made of it stay",
		Example: "  steady session template remove lab",
	}
	return a.templateNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		err := c.RemoveSessionTemplate(ctx, args[0])
		if err == nil {
			a.Printf("Template %s is removed\n", args[0])
		}
		return err
	}))
}

// quota has the verbs on quotas.
func (a sessions) quota() *cobra.Command {
	return command.Group("", "quota", "Quotas: what the sessions of one owner may take at a time",
		"  steady session quota set everybody --sessions 3 --gpus 2\n  steady session quota list",
		a.listQuotas(), a.setQuota())
}

func (a sessions) listQuotas() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the quotas",
		Example: "  steady session quota list\n  steady session quota list -o json",
	}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.OwnerQuota, error) {
		return c.SessionQuotas(ctx)
	}, []string{"owner", "sessions", "pods", "cpus", "memory", "gpus", "length", "calls", "version"}, func(q operator.OwnerQuota) []string {
		bound := func(n int64) string {
			if n == 0 {
				return "-"
			}
			return fmt.Sprint(n)
		}
		cpus, memory, length := "-", "-", "-"
		if q.MilliCPU > 0 {
			cpus = fmt.Sprint(float64(q.MilliCPU) / 1000)
		}
		if q.Memory > 0 {
			memory = fmt.Sprintf("%dm", q.Memory>>20)
		}
		if q.Length > 0 {
			length = q.Length.String()
		}
		calls := "any"
		if q.Calls != nil {
			calls = strings.Join(q.Calls, ", ")
		}
		return []string{q.Owner, bound(int64(q.Sessions)), bound(int64(q.Pods)), cpus, memory, bound(int64(q.GPUs)), length, calls, fmt.Sprint(q.Version)}
	})
}

func (a sessions) setQuota() *cobra.Command {
	var q operator.SetQuota
	var keep bool
	var cpus float64
	var memory string
	var length time.Duration
	var calls []string
	cmd := &cobra.Command{
		Use: "set OWNER", Short: "Bound what the sessions of an owner take; needs the role admin", Args: cobra.ExactArgs(1),
		Long: `Bounds the sessions of an owner, the name of an operator's token, whose timeslots overlap. The
owner everybody is all who have no quota of their own. What is not given is not bounded, or, with
--keep, stays as it is; with nothing given there is no quota any more. Sessions that there are stay.`,
		Example: "  steady session quota set ann --sessions 5 --cpus 16 --memory 64g --gpus 2 --length 8h\n  steady session quota set everybody --sessions 1 --calls lms.example\n  steady session quota set ann --gpus 4 --keep\n  steady session quota set ann",
	}
	f := cmd.Flags()
	f.IntVar(&q.Sessions, "sessions", 0, "sessions at a time")
	f.IntVar(&q.Pods, "pods", 0, "pods at a time")
	f.Float64Var(&cpus, "cpus", 0, "CPUs at a time")
	f.StringVar(&memory, "memory", "", "memory at a time, such as 64g")
	f.IntVar(&q.GPUs, "gpus", 0, "GPUs at a time")
	f.DurationVar(&length, "length", 0, "from provisionAt to the end of one session, such as 8h")
	f.StringSliceVar(&calls, "calls", nil, "hosts that jobs may call, such as lms.example; an empty text is none")
	f.BoolVar(&keep, "keep", false, "set the bounds that are given alone; 0 is none")
	f.Int64Var(&q.Version, "version", 0, "the version that the change was made on, as list prints it: refused if it is another one now")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		for _, name := range []string{"sessions", "pods", "cpus", "memory", "gpus", "length", "calls"} {
			if keep && f.Changed(name) {
				q.Only = append(q.Only, cmp.Or(map[string]string{"cpus": "milliCPU"}[name], name))
			}
		}
		if keep && len(q.Only) == 0 {
			return exit.Badf("--keep: give a bound that is set, such as --gpus 4")
		}
		q.MilliCPU, q.Length = int64(cpus*1000), clock.FromStd(length)
		if f.Changed("calls") {
			q.Calls = append([]string{}, calls...)
		}
		if memory != "" {
			if q.Memory, err = spec.ParseSize(memory); err != nil {
				return exit.Badf("--memory: %v", err)
			}
		}
		return nil
	}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		err := c.SetSessionQuota(ctx, args[0], q)
		switch {
		case err != nil:
		case q.IsZero() && !keep:
			a.Printf("%s has no quota of sessions any more\n", args[0])
		default:
			a.Printf("The quota of %s is set; steady session quota list shows all\n", args[0])
		}
		return err
	})
}
