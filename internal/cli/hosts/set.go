package hosts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// asDefault is the word for what a host does by itself.
const asDefault = "default"

type tuning struct {
	heartbeat, resync     string
	builds, pulls, starts string
	metrics               []string
	reason                *string
}

func (a verbs) setCmd() *cobra.Command {
	var t tuning
	cmd := &cobra.Command{
		Use: "set HOST", Short: "Tune a host: intervals, pools and metrics",
		Long: `Changes the settings of a host that are given and prints all of them. The word
default gives one back to the host. A host takes settings only if its signed
declaration has "allow: [settings]".`,
		Example: "  steady host set gpu-1 --heartbeat 30s --resync 10s\n  steady host set gpu-1 --pulls 2 --builds 1 --starts default\n  steady host set gpu-1 --metrics host,gpu",
	}
	f := cmd.Flags()
	f.StringVar(&t.heartbeat, "heartbeat", "", "how often the host reports, 5s to 10m, or default")
	f.StringVar(&t.resync, "resync", "", "how often it observes every resource even if nothing happened, 1s to 1h, or default")
	f.StringVar(&t.builds, "builds", "", "how many images it builds at once, 1 to 64, or default")
	f.StringVar(&t.pulls, "pulls", "", "how many images it pulls at once, 1 to 64, or default")
	f.StringVar(&t.starts, "starts", "", "how many workspaces it starts at once, 1 to 64, or default")
	f.StringSliceVar(&t.metrics, "metrics", nil, "what it measures: any of host, gpu and workspaces, or none")
	t.reason = command.RequiresReason(cmd)
	command.Complete(cmd, "metrics", "host", "gpu", "workspaces", "none")
	return a.HostNames(command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.HostSettings, error) {
		p, err := t.patch(cmd)
		if err != nil {
			return operator.HostSettings{}, exit.Bad(err)
		}
		return c.Tune(ctx, args[0], p)
	}, func(s operator.HostSettings) error { a.showSettings(cmd.Flags().Arg(0), s); return nil }))
}

func (t *tuning) patch(cmd *cobra.Command) (p operator.SettingsPatch, err error) {
	p.Reason = *t.reason
	given := 0
	for _, d := range []struct {
		flag, text string
		into       **clock.Duration
	}{{"heartbeat", t.heartbeat, &p.HeartbeatInterval}, {"resync", t.resync, &p.ResyncInterval}} {
		if !cmd.Flags().Changed(d.flag) {
			continue
		}
		given++
		v := clock.Duration(0)
		if d.text != asDefault {
			if v, err = clock.ParseDuration(d.text); err != nil {
				return p, fmt.Errorf("--%s: %w; expected a duration, or default", d.flag, err)
			}
			if v == 0 {
				return p, fmt.Errorf("--%s %s: expected more than nothing, or default", d.flag, d.text)
			}
		}
		*d.into = &v
	}
	for _, n := range []struct {
		flag, text string
		into       **int
	}{{"builds", t.builds, &p.Builds}, {"pulls", t.pulls, &p.Pulls}, {"starts", t.starts, &p.Starts}} {
		if !cmd.Flags().Changed(n.flag) {
			continue
		}
		given++
		v := 0
		if n.text != asDefault {
			if _, err := fmt.Sscanf(n.text, "%d", &v); err != nil || fmt.Sprint(v) != n.text || v < 1 {
				return p, fmt.Errorf("--%s %q: expected a number from 1 to 64, or default", n.flag, n.text)
			}
		}
		*n.into = &v
	}
	if cmd.Flags().Changed("metrics") {
		given++
		if err := t.choose(&p); err != nil {
			return p, err
		}
	}
	if given == 0 {
		return p, fmt.Errorf("nothing is given to set; %s --help shows the flags", cmd.CommandPath())
	}
	return p, nil
}

func (t *tuning) choose(p *operator.SettingsPatch) error {
	known := []string{"host", "gpu", "workspaces", "none"}
	for _, m := range t.metrics {
		if !slices.Contains(known, m) || m == "none" && len(t.metrics) > 1 {
			return fmt.Errorf("--metrics %s: expected any of host, gpu and workspaces, or none alone", strings.Join(t.metrics, ","))
		}
	}
	for name, into := range map[string]**bool{"host": &p.HostMetrics, "gpu": &p.GPUMetrics, "workspaces": &p.WorkspaceMetrics} {
		on := slices.Contains(t.metrics, name)
		*into = &on
	}
	return nil
}

func (a verbs) showSettings(host string, s operator.HostSettings) {
	enabled := "yes"
	if s.Enabled != nil && !*s.Enabled {
		enabled = "no, its workspaces are stopped"
	}
	a.Printf("Host %s\n  enabled:   %s\n  heartbeat: %s\n  resync:    %s\n", host, enabled, interval(s.HeartbeatInterval), interval(s.ResyncInterval))
	a.Printf("  at once:   builds %s, pulls %s, starts %s\n", pool(s.Pools.Builds), pool(s.Pools.Pulls), pool(s.Pools.Starts))
	a.Printf("  metrics:   host %s, gpu %s, workspaces %s\n", onOff(s.Metrics.Host), onOff(s.Metrics.GPU), onOff(s.Metrics.Workspaces))
}

func interval(d clock.Duration) string {
	if d == 0 {
		return asDefault
	}
	return d.String()
}

func pool(n int) string {
	if n == 0 {
		return asDefault
	}
	return fmt.Sprint(n)
}

func onOff(b *bool) string {
	switch {
	case b == nil:
		return asDefault
	case *b:
		return "on"
	}
	return "off"
}

func (a verbs) switchCmd(on bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: "disable HOST", Short: "Stop all workspaces of a host until it is enabled again",
		Long: `Stops all workspaces of a host, of its bundle and of its managed layer, and keeps
what they store. A host can be disabled only if its signed declaration has
"allow: [disable]".`,
		Example: "  steady host disable gpu-1 --reason 'power work until noon'",
	}
	if on {
		cmd.Use, cmd.Short, cmd.Long = "enable HOST", "Start the workspaces of a disabled host again", ""
		cmd.Example = "  steady host enable gpu-1"
	}
	reason := command.RequiresReason(cmd)
	return a.HostNames(a.Talk(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		if _, err := c.Tune(ctx, args[0], operator.SettingsPatch{Enabled: &on, Reason: *reason}); err != nil {
			return err
		}
		if on {
			a.Printf("Host %s is enabled; its workspaces start again\n", args[0])
		} else {
			a.Printf("Host %s is disabled; its workspaces stop at its next report\n", args[0])
		}
		return nil
	}))
}
