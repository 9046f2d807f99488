// Command steady-agent is the agent alone, for small hosts: a package of its own because
// a binary that links no server and builds no releases is half as large.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/steadyfleet/steady/internal/cli/agentcmd"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

// gcPercent is how much the heap may grow between collections: on small hosts
// memory is dearer than the little CPU of an agent at rest. GOGC overrides it.
const gcPercent = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd := agentcmd.New("steady-agent")
	cmd.Version = agentcmd.Version()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(exit.Flags)
	code := exit.Report(ctx, os.Stderr, "steady-agent", false, cmd.ExecuteContext(ctx))
	stop()
	os.Exit(code)
}
