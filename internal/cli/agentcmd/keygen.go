package agentcmd

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// eventKey is what keygen prints with -o json.
type eventKey struct {
	State string        `json:"state"`
	Key   digest.Digest `json:"key"`
}

func keygen(use string) *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make this host's event key before it enrols, and print its digest",
		Long: `Makes the key that will sign this host's events, and prints the digest of its
public half. The private half never leaves the state folder. A token that names
the digest (steady token create HOST --key DIGEST) enrols this key alone: nobody
else, and no server, can enrol another for this host with it.

Asked again before the host is enrolled, it prints the same digest.`,
		Example: "  steady " + use + " keygen --state /var/lib/steady",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return exit.Badf("the key needs a state folder; give --state DIR")
			}
			if format != "table" && format != "json" {
				return exit.Badf("-o %s: expected table or json", format)
			}
			d, err := daemon.MakeEventKey(cmd.Context(), dir)
			if errors.Is(err, daemon.ErrEnrolled) {
				return exit.Bad(fmt.Errorf("%s: %w", dir, err))
			}
			if err != nil {
				return err
			}
			if format == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(eventKey{dir, d})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), d)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "state", "", "state folder of the agent; it is created (required)")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "output format: table for the digest alone, or json")
	return cmd
}
