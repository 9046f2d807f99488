// Package apply holds the verbs that take a file of resources to the managed
// layers of hosts: apply sets them, plan says before what that would do.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/document"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/settle"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/container"
)

// verbs is one run of the command line.
type verbs struct{ *command.Env }

// Verbs returns the commands.
func Verbs(e *command.Env) []*cobra.Command {
	a := verbs{e}
	return []*cobra.Command{a.applyCmd(), a.planCmd(), a.removeCmd()}
}

const fileHelp = `The file holds resources of the managed layer as YAML or JSON documents, each with
kind, name, spec, and host unless HOST is given:

  kind: Workspace
  host: gpu-1
  name: web
  spec:
    image: web
    ports: [{hostPort: 8080, port: 80, protocol: tcp}]

or it is a Compose file, for HOST. Durations may be written as 10s and sizes as
512m. - reads from standard input.`

type applyOptions struct {
	source
	prune, yes, allowMass bool
	reason                *string
	settle.Flags
}

func (a verbs) applyCmd() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use: "apply -f FILE [HOST]", GroupID: command.GroupWatch, Short: "Set the resources of a file in the managed layer of hosts",
		Long: `Sets resources in the managed layer of hosts, what others need first. Nothing is
set when anything in the file is wrong. A host takes only kinds that its signed
declaration leaves to the server; a refusal says which line of fleet.yaml would.

` + fileHelp,
		Example: "  steady apply -f web.yaml --wait\n  steady apply -f compose.yaml gpu-1\n  steady apply -f web.yaml --prune --yes",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
	}
	o.add(a, cmd)
	f := cmd.Flags()
	f.BoolVar(&o.prune, "prune", false, "remove what the managed layers of these hosts have and the file does not name")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask before removing")
	f.BoolVar(&o.allowMass, "allow-mass-change", false, "consent to removing many resources at once")
	o.reason = command.TakesReason(cmd)
	o.Flags.Add(cmd)
	return a.HostNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		list, err := o.read(a, args)
		if err != nil {
			return err
		}
		return a.apply(ctx, c, list, o)
	})))
}

// Result is what came of one resource.
type Result struct {
	Host   string `json:"host"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Did    string `json:"did"` // set, unchanged, removed or refused
	Error  string `json:"error,omitempty"`
	State  string `json:"state,omitempty"` // with --wait
	Detail string `json:"detail,omitempty"`

	code int
}

// What was done.
const (
	didSet       = "set"
	didUnchanged = "unchanged"
	didRemoved   = "removed"
	didRefused   = "refused"
)

func (a verbs) apply(ctx context.Context, c *operator.Client, list []document.Resource, o applyOptions) error {
	table, err := a.SaysTable()
	if err != nil {
		return err
	}
	var prune []document.Resource
	if o.prune {
		if prune, err = surplus(ctx, c, list); err != nil {
			return err
		}
		if err := a.consent(prune, o.yes); err != nil {
			return err
		}
	}
	s := &setter{verbs: a, client: c, reason: *o.reason, allowMass: o.allowMass, table: table}
	if err := s.begin(ctx); err != nil {
		return err
	}
	for _, r := range list {
		if err := s.set(ctx, r); err != nil {
			return err
		}
	}
	for _, r := range prune {
		if err := s.remove(ctx, r); err != nil {
			return err
		}
	}
	return s.finish(ctx, o.Flags)
}

// setter carries changes to the server one by one. What one host refuses does not
// keep the rest.
type setter struct {
	verbs
	client    *operator.Client
	reason    string
	allowMass bool
	table     bool
	after     uint64
	results   []Result
}

func (s *setter) begin(ctx context.Context) error {
	st, err := s.client.Status(ctx)
	s.after = st.Seq
	return err
}

func (s *setter) set(ctx context.Context, r document.Resource) error {
	ch, err := s.client.SetResource(ctx, r.Host, r.Kind, r.Name, operator.SetResource{Spec: r.Spec, Reason: s.reason})
	did := didUnchanged
	if ch.Changed {
		did = didSet
	}
	return s.note(r, did, err)
}

func (s *setter) remove(ctx context.Context, r document.Resource) error {
	return s.note(r, didRemoved, s.client.RemoveResource(ctx, r.Host, r.Kind, r.Name, s.reason, s.allowMass))
}

// note keeps a result and says it. Only the server's refusals let the rest go on.
func (s *setter) note(r document.Resource, did string, err error) error {
	res := Result{Host: r.Host, Kind: r.Kind, Name: r.Name, Did: did}
	if err != nil {
		if _, refused := errors.AsType[*operator.Error](err); !refused {
			return err
		}
		res.Did, res.Error, res.code = didRefused, err.Error(), codeOf(err)
	}
	s.results = append(s.results, res)
	if !s.table {
		return nil
	}
	screen := term.Of(s.Out, s.Getenv)
	words := screen.Paint(colorOf(res.Did), res.Did)
	if res.Error != "" {
		words += ": " + res.Error
	}
	_, werr := fmt.Fprintf(s.Out, "%s: %s\n", r.Words(), words)
	return werr
}

func colorOf(did string) term.Color {
	switch did {
	case didRefused:
		return term.Bad
	case didUnchanged:
		return term.Faint
	}
	return term.Good
}

func codeOf(err error) int {
	if f, ok := errors.AsType[*exit.Failure](command.RemoteError(err)); ok {
		return f.Code
	}
	return exit.Failed
}

// finish waits if that was asked for, and ends with the code of the first refusal.
func (s *setter) finish(ctx context.Context, f settle.Flags) error {
	var waited error
	if f.Wait {
		waited = s.wait(ctx, f)
	}
	if err := s.Print(command.NonNil(s.results), func() error { return nil }); err != nil {
		return err
	}
	for _, r := range s.results {
		if r.code != 0 {
			return cmp.Or(waited, exit.Silently(r.code))
		}
	}
	return waited
}

func (s *setter) wait(ctx context.Context, f settle.Flags) error {
	var targets []settle.Target
	for _, r := range s.results {
		if r.Did != didRefused {
			targets = append(targets, settle.Target{Host: r.Host, ID: container.ID{Kind: r.Kind, Name: r.Name},
				New: r.Did == didSet, Gone: r.Did == didRemoved})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	outcomes, err := f.For(ctx, s.client, s.after, targets, settle.For(s.Env, s.table))
	for _, o := range outcomes {
		for i := range s.results {
			if r := &s.results[i]; r.Host == o.Host && r.Kind == o.Kind && r.Name == o.Name {
				r.State, r.Detail = o.State, o.Detail
			}
		}
	}
	return err
}
