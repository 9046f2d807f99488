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
	}
	return a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		p, err := pushRelease(ctx, c, releaseDir(args))
		if err != nil {
			return err
		}
		return a.Print(p, func() error {
			a.Printf("Release %s, version %d: %s\n", p.Ref, p.Version, p.Outcome)
			if p.Outcome == "accepted" {
				a.Printf("Next: steady rollout list, then steady rollout watch ROLLOUT\n")
			}
			return a.printQueued(ctx, c)
		})
	}))
}

// printQueued says of rollouts that have not opened what they wait for.
func (a *app) printQueued(ctx context.Context, c *operator.Client) error {
	rollouts, err := c.Rollouts(ctx)
	if err != nil {
		return err
	}
	for _, r := range rollouts {
		if r.Status == operator.Queued && r.Blocked != "" {
			a.Printf("%s waits since %s: %s\n", r.Name, r.QueuedAt, r.Blocked)
		}
	}
	return nil
}

// pushWithin bounds how long a release may travel.
const pushWithin = 15 * time.Minute

// pushRelease packs a signed release folder and sends it.
func pushRelease(ctx context.Context, c *operator.Client, dir string) (operator.Pushed, error) {
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	if !isSigned(dir) {
		return operator.Pushed{}, exit.Badf("%s is no signed release folder; run steady release build and steady release sign", dir)
	}
	packed := release.Pack(os.DirFS(dir))
	defer packed.Close()
	p, err := c.Push(ctx, packed)
	if refusal, ok := errors.AsType[*operator.Error](err); ok && refusal.Status == http.StatusUnprocessableEntity {
		return p, exit.With(exit.Refused, err) // it arrived whole and did not verify
	}
	return p, err
}
