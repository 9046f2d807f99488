package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/attach"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/document"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/settle"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/deploy"
)

func (a verbs) imageCmd() *cobra.Command {
	const kind = container.KindImage
	asks := a.asks(kind, map[string]string{
		deploy.Cancel: "Cancel a build or pull that is under way", deploy.Retry: "Try again what failed or was cancelled, now",
	})
	return command.Group(command.GroupWatch, kind, "Build, pull and watch single images",
		"  steady image list gpu-1\n  steady image build gpu-1/app --dockerfile Dockerfile -f\n  steady image output -f gpu-1/app",
		append([]*cobra.Command{a.listCmd(kind), a.showCmd(kind), a.buildCmd(), a.outputCmd(), a.removeCmd(kind)}, asks...)...)
}

func (a verbs) outputCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "output HOST/NAME", Short: "Show the output of an image's builds and pulls",
		Example: "  steady image output gpu-1/app\n  steady image output -f gpu-1/app",
		Args:    exit.Args(cobra.ExactArgs(1)),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is under way until it ends")
	return a.ResourceNames(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		host, name, err := command.OnHost(args[0])
		if err != nil {
			return err
		}
		s, err := c.Output(ctx, host, name, follow)
		if err != nil {
			return err
		}
		return attach.Copy(ctx, s, a.Out, a.Err)
	}), container.KindImage)
}

type buildOptions struct {
	dockerfile, ref, target, platform string
	args                              []string
	pull, noCache, follow             bool
	reason                            *string
	settle.Flags
}

func (a verbs) buildCmd() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use: "build HOST/NAME", Short: "Build an image on a host, from a Dockerfile or again",
		Long: `Builds an image on a host. With --dockerfile the image is set to be built from that
text; it has no build context, because resources that are set one by one carry no
files: COPY of local files takes a bundle in a release. Without it an image that
the host has is built again. With -f its output is shown while it comes.`,
		Example: "  steady image build gpu-1/app --dockerfile Dockerfile -f\n  steady image build gpu-1/app --wait",
		Args:    exit.Args(cobra.ExactArgs(1)),
	}
	f := cmd.Flags()
	f.StringVar(&o.dockerfile, "dockerfile", "", "file with the Dockerfile; - is standard input")
	f.StringVar(&o.ref, "ref", "", "further name of the image, such as registry.example/app:1")
	f.StringVar(&o.target, "target", "", "stage to build")
	f.StringVar(&o.platform, "platform", "", "platform to build for, such as linux/arm64")
	f.StringArrayVar(&o.args, "arg", nil, "build argument NAME=VALUE; may be repeated")
	f.BoolVar(&o.pull, "pull", false, "ask registries for newer base images")
	f.BoolVar(&o.noCache, "no-cache", false, "take nothing from the cache")
	f.BoolVarP(&o.follow, "follow", "f", false, "show the output until the build ends")
	o.reason = command.TakesReason(cmd)
	o.Flags.Add(cmd)
	return a.ResourceNames(a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		host, name, err := command.OnHost(args[0])
		if err != nil {
			return err
		}
		for _, flag := range []string{"ref", "target", "platform", "arg", "pull", "no-cache"} {
			if o.dockerfile == "" && cmd.Flags().Changed(flag) {
				return exit.Badf("--%s is of a build from --dockerfile; give that too, or leave --%s out to build again what is set", flag, flag)
			}
		}
		return a.build(ctx, c, host, name, o)
	})), container.KindImage)
}

func (a verbs) build(ctx context.Context, c *operator.Client, host, name string, o buildOptions) error {
	id := container.ID{Kind: container.KindImage, Name: name}
	var from *document.Resource
	if o.dockerfile != "" {
		r, err := o.image(a, host, name)
		if err != nil {
			return exit.Bad(err)
		}
		from = &r
	}
	var old skipping
	if o.follow {
		old.left = kept(ctx, c, host, name)
		old.w = a.Out
	}
	s, err := apply.Begin(ctx, a.Env, c, *o.reason)
	if err != nil {
		return err
	}
	if from != nil {
		err = s.Set(ctx, *from)
	} else {
		err = s.Ask(ctx, host, id, deploy.Build)
	}
	if err != nil || !s.Done() || !o.follow {
		if err != nil {
			return err
		}
		return s.Finish(ctx, o.Flags)
	}
	o.Wait = true
	return s.FinishWith(ctx, o.Flags, a.following(ctx, c, host, name, &old))
}

// image is the resource that the flags say.
func (o *buildOptions) image(a verbs, host, name string) (document.Resource, error) {
	var text []byte
	var err error
	if o.dockerfile == "-" {
		text, err = io.ReadAll(io.LimitReader(a.In, container.MaxText+1))
	} else {
		text, err = os.ReadFile(o.dockerfile)
	}
	if err != nil {
		return document.Resource{}, err
	}
	if len(text) == 0 {
		return document.Resource{}, fmt.Errorf("%s is empty: expected a Dockerfile", o.dockerfile)
	}
	b := container.Build{Inline: string(text), Target: o.target, Platform: o.platform, Pull: o.pull, NoCache: o.noCache}
	for _, arg := range o.args {
		k, v, err := words("arg", arg)
		if err != nil {
			return document.Resource{}, err
		}
		if b.Args == nil {
			b.Args = map[string]string{}
		}
		b.Args[k] = v
	}
	return document.Of(host, container.KindImage, name, &container.Image{Name: name, Ref: o.ref, Build: &b})
}

// kept counts the bytes of output that are there before: they are of an earlier
// build.
func kept(ctx context.Context, c *operator.Client, host, name string) int {
	s, err := c.Output(ctx, host, name, false)
	if err != nil {
		return 0 // a host that shows no logs says so when its output is asked for
	}
	defer s.Close()
	n := new(counter)
	if _, err := s.Copy(n, n); err != nil {
		return 0
	}
	return int(*n)
}

type counter int

func (n *counter) Write(b []byte) (int, error) {
	*n += counter(len(b))
	return len(b), nil
}

// skipping leaves out the first bytes.
type skipping struct {
	w    io.Writer
	left int
}

func (s *skipping) Write(b []byte) (int, error) {
	n := min(s.left, len(b))
	s.left -= n
	if n < len(b) {
		if _, err := s.w.Write(b[n:]); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// following shows the output as soon as the build began, and at the latest when
// it ended. Its lines are the progress.
func (a verbs) following(ctx context.Context, c *operator.Client, host, name string, w *skipping) settle.View {
	shown := false
	return func(all []settle.Outcome, _ *settle.Outcome) error {
		ended, _ := settle.Ended(all[0].State)
		if shown || !all[0].Fresh || !ended && all[0].State != string(container.ImageBuilding) {
			return nil
		}
		shown = true
		s, err := c.Output(ctx, host, name, true)
		if refusal, ok := errors.AsType[*operator.Error](err); ok {
			a.Warn("its output is not shown: %v", refusal)
			return nil
		}
		if err != nil {
			return err
		}
		return attach.Copy(ctx, s, w, a.Err)
	}
}
