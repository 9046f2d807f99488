package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/wire"
)

// Version names this build: the module's version, or the commit it is of.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func (a *app) versionCmd() *cobra.Command {
	return a.printsData(&cobra.Command{
		Use:     "version",
		GroupID: groupMore,
		Short:   "Print the version",
		Example: "  steady version\n  steady version -o json",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Protocol string `json:"protocol"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{Version(), wire.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return a.print(v, func() error {
				a.say("steady %s, agent protocol %s, %s, %s\n", v.Version, v.Protocol, v.Go, v.Platform)
				return nil
			})
		},
	})
}
