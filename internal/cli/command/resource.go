package command

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// NoReason is what the log says when an operator gives no reason: stopping
// something must stay one step.
const NoReason = "no reason given"

// RequiresReason adds --reason.
func RequiresReason(cmd *cobra.Command) *string {
	return cmd.Flags().String("reason", NoReason, "why, for the log")
}

// OnHost reads an argument HOST/NAME.
func OnHost(arg string) (host, name string, err error) {
	host, name, ok := strings.Cut(arg, "/")
	if !ok {
		return "", "", exit.Badf("%q: expected HOST/NAME, such as gpu-1/%s", arg, arg)
	}
	for _, n := range []string{host, name} {
		if err := fleet.CheckName(n); err != nil {
			return "", "", exit.Badf("%q: %w; expected HOST/NAME", arg, err)
		}
	}
	return host, name, nil
}

// LayerOf names the layer of a resource, and its owner where that is not the operators.
func LayerOf(r operator.Resource) string {
	if r.Owner == spec.Operators {
		return r.Layer
	}
	return r.Layer + ", " + r.Owner.String()
}

// KindName reads an argument KIND/NAME.
func KindName(arg string) (spec.ID, error) {
	kind, name, _ := strings.Cut(arg, "/")
	for _, k := range spec.Kinds {
		if strings.EqualFold(k, kind) {
			if err := fleet.CheckName(name); err != nil {
				return spec.ID{}, exit.Badf("%q: %w; expected KIND/NAME", arg, err)
			}
			return spec.ID{Kind: k, Name: name}, nil
		}
	}
	return spec.ID{}, exit.Badf("%q: expected KIND/NAME with one of the kinds %s", arg, strings.Join(spec.Kinds, ", "))
}

// Completer completes one argument from the server.
type Completer func(ctx context.Context, c *operator.Client, args []string, typed string) ([]string, error)

// CompletesWith completes the arguments of a command; names that end in a slash
// go on.
func (e *Env) CompletesWith(cmd *cobra.Command, list Completer) *cobra.Command {
	cmd.ValidArgsFunction = e.asking(list)
	return cmd
}

// CompletesFlag has the values of a flag completed by what the server has.
func (e *Env) CompletesFlag(cmd *cobra.Command, flag string, list Completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, e.asking(list)); err != nil {
		panic(err) // the flag is not defined
	}
}

// asking completes with a list of the server.
func (e *Env) asking(list Completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		var names []string
		err := e.WithClient(func(c *operator.Client) (err error) {
			names, err = list(ctx, c, args, typed)
			return err
		})
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		how := cobra.ShellCompDirectiveNoFileComp
		for _, n := range names {
			if n, _, _ = strings.Cut(n, "\t"); strings.HasSuffix(n, "/") {
				how |= cobra.ShellCompDirectiveNoSpace
				break
			}
		}
		return names, how
	}
}

// OnResource makes a command on one resource of a kind, HOST/NAME, without a deadline.
func (e *Env) OnResource(cmd *cobra.Command, kind string, do func(ctx context.Context, c *operator.Client, host, name string) error) *cobra.Command {
	return e.ResourceNames(e.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		host, name, err := OnHost(args[0])
		if err != nil {
			return err
		}
		return do(ctx, c, host, name)
	}), kind)
}

// ResourceNames completes an argument HOST/NAME with resources of a kind.
func (e *Env) ResourceNames(cmd *cobra.Command, kind string) *cobra.Command {
	return e.CompletesWith(cmd, func(ctx context.Context, c *operator.Client, args []string, typed string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		host, _, named := strings.Cut(typed, "/")
		if !named {
			return Hosts(ctx, c, "/")
		}
		r, err := c.Resources(ctx, host)
		var names []string
		for _, x := range r.Resources {
			if x.Kind == kind {
				names = append(names, host+"/"+x.Name+"\t"+x.State)
			}
		}
		return names, err
	})
}
