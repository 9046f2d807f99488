// Command steady is the server, the agent and the command line in one binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], command.Process())
	stop()
	os.Exit(code)
}
