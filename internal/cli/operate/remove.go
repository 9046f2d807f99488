package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

func (a verbs) hostRemove() *cobra.Command {
	var f Flags
	var workloads string
	cmd := &cobra.Command{
		Use: "remove HOST", Short: "Sign that a host leaves the fleet, and what becomes of what it runs",
		Long: `Signs an override that takes a host out of the fleet without a release, and brings
it to the server. The host takes nothing more, ends what it is in the middle of, and
then, by --workloads: keep leaves what runs as it is; stop removes files, undoes steps,
stops containers and keeps them; wipe deletes containers, networks, files, and volumes
with their data. It reports when that is done: steady host show.

It is of this enrolment of the host alone: one that enrols again under the name stays.
Nothing brings a wiped host back, so wipe takes two operators where the root names two:
steady override sign --action remove signs it to a file for both. The same stands in
fleet.yaml under removed:, where it goes through the waves and budgets of a rollout.`,
		Example: "  steady host remove edge-9 --workloads stop --reason 'sold'\n  steady host remove edge-10 --workloads wipe --sign /media/usb/keys --reason 'returned to the vendor'",
	}
	cmd.Flags().StringVar(&workloads, "workloads", "", "keep, stop or wipe (required)")
	command.Complete(cmd, "workloads", string(fleet.Keep), string(fleet.Stop), string(fleet.Wipe))
	reason := command.RequiresReason(cmd)
	cmd.Flags().StringVar(&f.Keys, "sign", "keys", "folder with the override key and the roots")
	f.kept(cmd)
	return a.HostNames(a.PrintsData(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		w := fleet.Workloads(workloads)
		if !w.Way() {
			return exit.Badf("--workloads %q: expected keep, stop or wipe", workloads)
		}
		h, err := c.Host(ctx, args[0])
		if err != nil {
			return err
		}
		p, err := Push(ctx, a.Env, c, f, fleet.Override{Action: fleet.OverrideRemove, Host: args[0],
			Incarnation: h.Incarnation, Workloads: w, Reason: *reason})
		if err != nil {
			return err
		}
		return a.Print(p, func() error {
			a.Printf("Host %s, incarnation %d, leaves the fleet, workloads %s, by override %s\n", h.Name, h.Incarnation, w, p.ID)
			a.Printf("Next: steady host show %s says when that is done; then steady host decommission %s, and remove it from fleet.yaml\n", h.Name, h.Name)
			return nil
		})
	})))
}
