package cli

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/wire"
)

func (a *app) versionCmd() *cobra.Command {
	return a.PrintsData(&cobra.Command{
		Use:     "version",
		GroupID: command.GroupMore,
		Short:   "Print the version",
		Example: "  steady version\n  steady version -o json",
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Protocol string `json:"protocol"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{agentcmd.Version(), wire.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return a.Print(v, func() error {
				a.Printf("steady %s, agent protocol %s, %s, %s\n", v.Version, v.Protocol, v.Go, v.Platform)
				return nil
			})
		},
	})
}
