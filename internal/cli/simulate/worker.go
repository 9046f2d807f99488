package simulate

import (
	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/replay"
)

// Worker returns what a server runs in a process of its own for forecasts and reruns.
func Worker(e *command.Env) *cobra.Command {
	return &cobra.Command{Use: replay.WorkerVerb, Hidden: true, Short: "Play a fleet ahead for a server, by a job that comes in", Args: cobra.NoArgs,
		Example: "  steady play-ahead < job",
		RunE:    func(*cobra.Command, []string) error { return replay.Work(e.In, e.Out, operator.Messages) }}
}
