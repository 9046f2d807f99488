package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/bench"
	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/command"
)

func (a *app) benchCmd() *cobra.Command {
	o := bench.Options{Version: agentcmd.Version()}
	cmd := &cobra.Command{
		Use:     "bench",
		GroupID: command.GroupMore,
		Short:   "Measure a server under a fleet of simulated hosts",
		Long: `Runs a server in a process of its own and a fleet of simulated hosts in this
one, and measures enrolment, changes without and with waves and a budget, and
the fleet at rest. The hosts have real keys, certificates, connections,
long-polls, claims and signed events; only their disks and what they change are
missing. It takes about 45 s for 1000 hosts. Nothing leaves this machine.

Below the measurements, the figures stand beside those of another product and
beside what Steady aims for. They do not carry from one machine to another.`,
		Example: "  steady bench --hosts 100\n  steady bench --hosts 1000 --rounds 5 --idle 60s\n  steady bench --hosts 1000 -o json > bench.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = func(line string) { fmt.Fprintln(a.Err, line) }
			r, err := bench.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.Print(r, func() error { return r.Print(a.Out) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Hosts, "hosts", 100, "how many hosts")
	f.IntVar(&o.Rounds, "rounds", 3, "changes without the policy, and as many with it in turn")
	f.DurationVar(&o.Idle, "idle", 10*time.Second, "how long to watch the fleet at rest; 60s is one cycle of long-polls")
	f.BoolVar(&o.Verify, "verify", false, "have the simulated hosts check every signature, as real ones do")
	f.StringVar(&o.Dir, "keep-dir", "", "new folder for all that the run makes, which is kept")
	return a.PrintsData(cmd)
}
