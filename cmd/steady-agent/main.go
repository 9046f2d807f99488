// Command steady-agent is the agent alone, for small hosts.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/build"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd := agentcmd.New("steady-agent", build.Version())
	cmd.Version = build.Version()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(exit.Flags)
	code := exit.Report(ctx, os.Stderr, "steady-agent", cmd.ExecuteContext(ctx))
	stop()
	os.Exit(code)
}
