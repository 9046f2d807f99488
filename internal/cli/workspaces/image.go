package workspaces

import (
	"cmp"
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

func (a verbs) imageCmd(more []*cobra.Command) *cobra.Command {
	const kind = spec.KindImage
	asks := a.requests(kind, map[string]string{
		spec.VerbCancel: "Cancel a build or pull that is under way", spec.VerbRetry: "Try again what failed or was cancelled, now",
	})
	return command.Group(command.GroupWatch, kind, "Lock the fleet's images; build, pull and watch single ones",
		"  steady image lock\n  steady image list gpu-1\n  steady image build gpu-1/app --dockerfile Dockerfile -f\n  steady image output -f gpu-1/app",
		append([]*cobra.Command{a.listCmd(kind), a.showCmd(kind), a.buildCmd(), a.outputCmd(), a.removeCmd(kind)}, append(asks, more...)...)...)
}

func (a verbs) outputCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "output HOST/NAME", Short: "Show the output of an image's builds and pulls",
		Example: "  steady image output gpu-1/app\n  steady image output -f gpu-1/app",
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is under way until it ends")
	return a.OnResource(cmd, spec.KindImage, func(ctx context.Context, c *operator.Client, host, name string) error {
		s, err := c.Output(ctx, host, name, operator.OutputQuery{Follow: follow})
		if err != nil {
			return err
		}
		out := &counting{w: a.Out}
		if err := command.Copy(ctx, s, out, a.Err); err != nil || out.lines > 0 {
			return err
		}
		return a.nothing(ctx, c, host, name)
	})
}

func (a verbs) nothing(ctx context.Context, c *operator.Client, host, name string) error {
	have, err := c.Resources(ctx, host)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(have.Resources, func(x operator.Resource) bool { return x.Kind == spec.KindImage && x.Name == name }) {
		return exit.With(exit.NotFound, fmt.Errorf("host %s has no image %s; steady image list %s shows those that it has", host, name, host))
	}
	a.Warn("host %s keeps no output of image %s: nothing was built or pulled for it yet", host, name)
	return nil
}

type buildOptions struct {
	dockerfile, ref, target, platform string
	args                              []string
	pull, noCache, follow             bool
	reason                            *string
	watch.WaitFlags
}

// shownUntil says what --follow does where something is asked of an image.
const shownUntil = "show the output until it ends"

func (a verbs) buildCmd() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use: "build HOST/NAME", Short: "Build an image on a host, from a Dockerfile or again",
		Long: `Builds an image on a host. With --dockerfile the image is set to be built from that
text; it has no build context, because resources that are set one by one carry no
files: COPY of local files takes a bundle in a release. Without it an image that
the host has is built again, and so is one that is set to that text already. With
-f its output is shown while it comes.`,
		Example: "  steady image build gpu-1/app --dockerfile Dockerfile -f\n  steady image build gpu-1/app --wait",
	}
	f := cmd.Flags()
	f.StringVar(&o.dockerfile, "dockerfile", "", "file with the Dockerfile; - is standard input")
	f.StringVar(&o.ref, "ref", "", "further name of the image, such as registry.example/app:1")
	f.StringVar(&o.target, "target", "", "stage to build")
	f.StringVar(&o.platform, "platform", "", "platform to build for, such as linux/arm64")
	f.StringArrayVar(&o.args, "arg", nil, "build argument NAME=VALUE; may be repeated")
	f.BoolVar(&o.pull, "pull", false, "ask registries for newer base images")
	f.BoolVar(&o.noCache, "no-cache", false, "take nothing from the cache")
	f.BoolVarP(&o.follow, "follow", "f", false, shownUntil)
	o.reason = command.RequiresReason(cmd)
	o.WaitFlags.Add(cmd)
	return a.PrintsData(a.OnResource(cmd, spec.KindImage, func(ctx context.Context, c *operator.Client, host, name string) error {
		for _, flag := range []string{"ref", "target", "platform", "arg", "pull", "no-cache"} {
			if o.dockerfile == "" && cmd.Flags().Changed(flag) {
				return exit.Badf("--%s is of a build from --dockerfile; give that too, or leave --%s out to build again what is set", flag, flag)
			}
		}
		return a.build(ctx, c, host, name, o)
	}))
}

func (a verbs) build(ctx context.Context, c *operator.Client, host, name string, o buildOptions) error {
	id := spec.ID{Kind: spec.KindImage, Name: name}
	var from *apply.Resource
	if o.dockerfile != "" {
		r, err := o.image(a, host, name)
		if err != nil {
			return exit.Bad(err)
		}
		from = &r
	}
	asked := func(s *apply.Changes) error {
		if from == nil {
			return s.Request(ctx, host, id, spec.VerbBuild)
		}
		changed, err := s.Set(ctx, *from)
		if err != nil || changed || !s.Done() {
			return err
		}
		return s.Request(ctx, host, id, spec.VerbBuild) // it is set already: build it again
	}
	return a.started(ctx, c, host, name, *o.reason, o.follow, o.WaitFlags, asked)
}

// started asks for a build or a pull, and waits for it or shows its output.
func (a verbs) started(ctx context.Context, c *operator.Client, host, name, reason string, follow bool, flags watch.WaitFlags, ask func(*apply.Changes) error) error {
	var f *follower
	if follow {
		var err error
		if f, err = a.follow(ctx, c, host, name); err != nil {
			return err
		}
	}
	s, err := apply.Begin(ctx, a.Env, c, reason)
	if err == nil {
		err = ask(s)
	}
	if err != nil {
		return err
	}
	if f == nil || !s.Done() {
		return s.Finish(ctx, flags)
	}
	flags.Wait = true
	return cmp.Or(s.FinishWith(ctx, flags, f.show), f.end(ctx))
}

// image is the resource that the flags say.
func (o *buildOptions) image(a verbs, host, name string) (apply.Resource, error) {
	text, err := a.Input(o.dockerfile, spec.MaxText)
	if err != nil {
		return apply.Resource{}, err
	}
	if len(text) == 0 {
		return apply.Resource{}, fmt.Errorf("%s is empty: expected a Dockerfile", o.dockerfile)
	}
	b := spec.Build{Inline: string(text), Target: o.target, Platform: o.platform, Pull: o.pull, NoCache: o.noCache}
	for _, arg := range o.args {
		k, v, err := describe("arg", arg)
		if err != nil {
			return apply.Resource{}, err
		}
		if b.Args == nil {
			b.Args = map[string]string{}
		}
		b.Args[k] = v
	}
	return apply.Of(host, spec.KindImage, name, &spec.Image{Name: name, Ref: o.ref, Build: &b})
}
