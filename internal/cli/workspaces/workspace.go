// Package workspaces holds the verbs on single workspaces and images of the
// managed layer.
package workspaces

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
)

type verbs struct{ *command.Env }

// Verbs returns the commands. Those of images take in the ones that are given.
func Verbs(e *command.Env, ofImages ...*cobra.Command) []*cobra.Command {
	a := verbs{e}
	const kind = spec.KindWorkspace
	asks := a.requests(kind, map[string]string{
		spec.VerbStart: "Start a stopped workspace", spec.VerbStop: "Stop a workspace and keep what it stores",
		spec.VerbRestart: "Stop and start a workspace", spec.VerbRedeploy: "Replace the container of a workspace by a new one like it",
		spec.VerbRetry: "Try again what failed, now",
	})
	workspaces := command.Group(command.GroupWatch, kind, "Create, change and steer single workspaces",
		"  steady workspace list gpu-1\n  steady workspace create gpu-1/web --image nginx:1 --port 8080:80\n  steady workspace stop gpu-1/web",
		append([]*cobra.Command{a.listCmd(kind), a.showCmd(kind), a.createCmd(), a.editCmd(), a.removeCmd(kind), a.snapshotCmd()}, asks...)...)
	return []*cobra.Command{workspaces, a.imageCmd(ofImages)}
}

// requests makes a command for each verb that the server takes for a kind.
func (a verbs) requests(kind string, short map[string]string) []*cobra.Command {
	var out []*cobra.Command
	for _, verb := range spec.Known.Kind(kind).VerbNames() {
		if short[verb] != "" && slices.Contains(managed.Verbs(), verb) {
			out = append(out, a.requestCmd(kind, verb, short[verb]))
		}
	}
	return out
}

func (a verbs) requestCmd(kind, verb, short string) *cobra.Command {
	var f watch.WaitFlags
	cmd := &cobra.Command{
		Use: verb + " HOST/NAME", Short: short,
		Example: "  steady " + kind + " " + verb + " gpu-1/web",
	}
	follow := false
	if kind == spec.KindImage && verb == spec.VerbRetry {
		cmd.Flags().BoolVarP(&follow, "follow", "f", false, shownUntil)
	}
	reason := command.RequiresReason(cmd)
	f.Add(cmd)
	return a.PrintsData(a.OnResource(cmd, kind, func(ctx context.Context, c *operator.Client, host, name string) error {
		return a.started(ctx, c, host, name, *reason, follow, f, func(s *apply.Changes) error {
			return s.Request(ctx, host, spec.ID{Kind: kind, Name: name}, verb)
		})
	}))
}

func (a verbs) removeCmd(kind string) *cobra.Command {
	var f watch.WaitFlags
	var allowMass bool
	cmd := &cobra.Command{
		Use: "rm HOST/NAME", Short: "Remove " + kind + " NAME from the managed layer of a host",
		Example: "  steady " + kind + " rm gpu-1/web --wait",
	}
	if kind == spec.KindWorkspace {
		cmd.Long = "Removes a workspace with its container. Named volumes, the image and routes stay;\nsteady remove takes them as well."
	}
	cmd.Flags().BoolVar(&allowMass, "allow-mass-change", false, "consent although many resources were removed just before")
	reason := command.RequiresReason(cmd)
	f.Add(cmd)
	return a.PrintsData(a.OnResource(cmd, kind, func(ctx context.Context, c *operator.Client, host, name string) error {
		return apply.Change(ctx, a.Env, c, *reason, f, func(s *apply.Changes) error {
			s.AllowMass = allowMass
			return s.Remove(ctx, apply.Resource{Host: host, ID: spec.ID{Kind: kind, Name: name}})
		})
	}))
}

// current is a resource of the managed layer, nil if there is none.
func current(ctx context.Context, c *operator.Client, host, kind, name string) (*operator.ManagedResource, error) {
	r, err := c.ManagedResource(ctx, host, kind, name)
	if refusal, ok := errors.AsType[*operator.Error](err); ok && refusal.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

type snapshotOptions struct {
	name   string
	live   bool
	keep   []string
	reason *string
	watch.WaitFlags
}

func (a verbs) snapshotCmd() *cobra.Command {
	var o snapshotOptions
	cmd := &cobra.Command{
		Use: "snapshot HOST/NAME", Short: "Capture a running workspace as an image",
		Long: `Captures a running workspace as an image of its host, without secrets. Taking it
again under the same name replaces it. Workspaces run from it with the image
snapshot/NAME.`,
		Example: "  steady workspace snapshot gpu-1/web --wait\n  steady workspace snapshot gpu-1/web --as before-upgrade --live",
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "as", "", "name of the snapshot (default: that of the workspace)")
	f.BoolVar(&o.live, "live", false, "do not pause the workspace meanwhile")
	f.StringSliceVar(&o.keep, "keep", nil, "environment names that are kept although they look like secrets")
	o.reason = command.RequiresReason(cmd)
	o.WaitFlags.Add(cmd)
	return a.PrintsData(a.OnResource(cmd, spec.KindWorkspace, func(ctx context.Context, c *operator.Client, host, name string) error {
		return a.snapshot(ctx, c, host, name, o)
	}))
}

// snapshot sets the snapshot with the take after the last one.
func (a verbs) snapshot(ctx context.Context, c *operator.Client, host, name string, o snapshotOptions) error {
	value := spec.Snapshot{Name: cmp.Or(o.name, name), Workspace: name, Take: 1, Live: o.live, Keep: o.keep}
	before, err := current(ctx, c, host, spec.KindSnapshot, value.Name)
	if err != nil {
		return err
	}
	if before != nil {
		set, _, err := spec.Known.Read(spec.KindSnapshot, value.Name, before.Spec)
		if err != nil {
			return err
		}
		old := set.Snapshots[0]
		if old.Workspace != name {
			return exit.Badf("snapshot %s on %s is of workspace %s; give another name with --as", value.Name, host, old.Workspace)
		}
		value.Take = old.Take + 1
		if len(o.keep) == 0 {
			value.Keep = old.Keep
		}
	}
	r, err := apply.Of(host, spec.KindSnapshot, value.Name, &value)
	if err != nil {
		return exit.Bad(err)
	}
	return apply.Change(ctx, a.Env, c, *o.reason, o.WaitFlags, func(s *apply.Changes) error {
		if s.Create = before == nil; before != nil {
			s.Version = before.Version
		}
		_, err := s.Set(ctx, r)
		return err
	})
}

func describe(flag, text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", "", exit.Badf("--%s %q: expected NAME=VALUE", flag, text)
	}
	return name, value, nil
}
