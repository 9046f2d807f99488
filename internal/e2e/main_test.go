package e2e

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/cli"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/web/browse"
)

// actAsSteady makes this binary the steady command, so that the processes under
// test need no build of their own.
const actAsSteady = "STEADY_E2E_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(actAsSteady) == "" {
		dockertest.Main(browse.Tests{M: m})
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], command.Process())
	stop()
	os.Exit(code)
}
