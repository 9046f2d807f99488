package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/agent/sockets"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

// keepSockets is the process that an agent starts to keep its routes' addresses open.
func keepSockets(use string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "keep-sockets", Hidden: true, Short: "Keep the addresses of routes open while the agent restarts",
		Long:    "Keeps the addresses of routes open while the agent restarts. The agent starts this by\nitself; see its --keep-sockets.",
		Example: "  steady " + use + " keep-sockets --state /var/lib/steady", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return sockets.Keep(cmd.Context()) },
	}
	cmd.Flags().String("state", "", "state folder of the agent, for whoever lists processes")
	return cmd
}

// routeSockets are the agent's listening sockets over all that once opens.
type routeSockets struct {
	o         sockets.Options
	set       *sockets.Set
	interrupt chan os.Signal
}

// routeSockets takes them from the flags.
func (o options) routeSockets(log *slog.Logger, wait time.Duration) (*routeSockets, error) {
	r := &routeSockets{interrupt: make(chan os.Signal, 1)}
	if o.hosting.Engine != "" { // there are no routes without containers
		r.o.Addresses = slices.Concat(o.hosting.HTTP, o.hosting.HTTPS)
	}
	for i, a := range r.o.Addresses {
		if slices.Contains(r.o.Addresses[:i], a) {
			return nil, exit.Badf("--http and --https have %s twice; give each address once", a)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("where this program is: %w", err)
	}
	r.o.Dir, r.o.Keep, r.o.Log, r.o.Command = o.state, wait, log, []string{self, "keep-sockets", "--state", o.state}
	if o.use != "steady-agent" {
		r.o.Command = []string{self, o.use, "keep-sockets", "--state", o.state}
	}
	signal.Notify(r.interrupt, os.Interrupt)
	return r, nil
}

// open takes over what an earlier agent left, once this process has the state folder.
func (r *routeSockets) open(ctx context.Context) {
	if r.set != nil {
		return
	}
	var err error
	if r.set, err = sockets.Open(ctx, r.o); err != nil {
		r.o.Log.Warn("routes", "error", err)
	}
}

func (r *routeSockets) bind(ctx context.Context, address string) (net.Listener, error) {
	return r.set.Listen(ctx, address)
}

// close leaves the addresses to the next agent, unless somebody ended this one by hand.
func (r *routeSockets) close() error {
	signal.Stop(r.interrupt)
	if r.set == nil {
		return nil
	}
	if err := r.set.Close(len(r.interrupt) > 0); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("routes: %w", err)
	}
	return nil
}
