package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// Config says where an agent keeps its state and how it runs. Agents share
// nothing in a process: any number of them may run in one.
type Config struct {
	// StateDir holds agent.db, blobs, keys and kept files. One agent at a time
	// may have it open.
	StateDir string
	// Root is the folder below which files are kept and in which commands run;
	// the default is "/".
	Root string
	// Server is the base URL of the server; the default is the one of Enrol.
	Server string
	// Version is reported in heartbeats.
	Version string
	// Log takes what happens; the default discards.
	Log *slog.Logger
	// Clock is the host's clock; the default is state.SystemClock.
	Clock state.Clock
	// Hosting says where containers run and where the router listens.
	Hosting hosting.Config
	// Resync is how often every resource is checked without a trigger; the
	// default is 30 s.
	Resync clock.Duration
	// Reboot is the command that reboots the machine; the default is DefaultReboot.
	Reboot []string
	// Light keeps an agent small for benchmarks with thousands in one process:
	// one worker, and a database that does not wait for the disk. Never in
	// production: a power cut may then forget what was acknowledged.
	Light bool
	// Driver is the driver of package database/sql for the database of the state
	// folder; the default is state.Driver.
	Driver string
	// Machine is the root folder in which /proc and /sys tell what the host is; the default is
	// that of this machine.
	Machine fs.FS
	// Dial replaces the network; the default is net.Dialer.
	Dial uplink.Dialer
}

func (c Config) withDefaults() (Config, error) {
	if c.StateDir == "" {
		return c, errors.New("the agent needs a state folder")
	}
	if c.Root == "" {
		c.Root = "/"
	}
	var err error
	if c.StateDir, err = filepath.Abs(c.StateDir); err != nil {
		return c, fmt.Errorf("state folder: %w", err)
	}
	if c.Root, err = filepath.Abs(c.Root); err != nil {
		return c, fmt.Errorf("root folder: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = state.SystemClock()
	}
	if len(c.Reboot) == 0 {
		c.Reboot = DefaultReboot
	}
	if c.Machine == nil {
		c.Machine = os.DirFS("/")
	}
	if c.Resync == 0 {
		c.Resync = 30 * clock.Second
	}
	if c.Resync < clock.Second {
		return c, fmt.Errorf("resync every %s is too often; use 1s or more", c.Resync)
	}
	return c, nil
}
