package cli

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/release"
)

func (a *app) releasePush() *cobra.Command {
	cmd := &cobra.Command{
		Use: "push [DIR]", Short: "Send a signed release to the server",
		Long: `Packs a signed release folder and sends it. The server verifies every byte
before it accepts the release, and opens a rollout for each channel whose plan
changed. The same release again changes nothing.`,
		Example: "  steady release push\n  steady release push /tmp/release --server https://steady.example:8443",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
	}
	return a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
		defer cancel()
		dir := releaseDir(args)
		if !isSigned(dir) {
			return exit.Badf("%s is no signed release folder; run steady release build and steady release sign", dir)
		}
		packed := release.Pack(os.DirFS(dir))
		defer packed.Close()
		p, err := c.Push(ctx, packed)
		if refusal, ok := errors.AsType[*operator.Error](err); ok && refusal.Status == http.StatusUnprocessableEntity {
			return exit.With(exit.Refused, err) // it arrived whole and did not verify
		}
		if err != nil {
			return err
		}
		return a.Print(p, func() error {
			a.Say("Release %s, version %d: %s\n", p.Ref, p.Version, p.Outcome)
			if p.Outcome == "accepted" {
				a.Say("Next: steady rollout list, then steady rollout watch ROLLOUT\n")
			}
			return nil
		})
	}))
}
