// Package agentcmd is the command that runs a host's agent. It is apart from the
// other verbs so that the agent alone makes a small binary.
package agentcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/identity"
)

type options struct {
	state, root, token, server, renamed string
	log                                 Log
	resync                              string
	reboot, bootID                      string
	engine                              string
	hosting                             hosting.Config
	keepSockets                         string
	use                                 string
}

// New returns the command under the given name, such as agent.
func New(use string) *cobra.Command {
	o := options{use: use}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Run the agent of this host",
		Long: `Runs the agent of this host. At the first start it enrols with a token (see
steady token create); the identity is kept in the state folder and renewed by
itself. The agent checks every signature itself: the server can hold nothing over
it that was not signed for this host.

Files go below --root, and commands run in it. Containers run on the engine of
--engine, under names that begin with --prefix, so that agents can share one.
Routes are served on --http and --https by the agent itself; their addresses stay open while
it restarts, so that nobody is refused. Ctrl-C closes them. Secrets, registry credentials
and certificates stay in folders of the host. One line of JSON on stdout says
when the agent runs; its log goes to stderr.`,
		Example: "  steady " + use + " --state /var/lib/steady --token web-1.token\n  steady " + use + " --state ./web-1/state --root ./web-1/root --token steady1.eyJlb...",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.AddCommand(keygen(use), install(use), uninstall(use), keepSockets(use))
	if use == "steady-agent" {
		cmd.AddCommand(versionCmd())
		for _, c := range append(cmd.Commands(), cmd) {
			c.Example = strings.ReplaceAll(c.Example, "steady steady-agent", "steady-agent")
		}
	}
	f := cmd.Flags()
	f.StringVar(&o.state, "state", "", "state folder of the agent (required)")
	f.StringVar(&o.root, "root", "/", "folder below which files are kept and commands run")
	f.StringVar(&o.token, "token", "", "enrolment token or a file with it, for the first start")
	f.StringVar(&o.renamed, "renamed-from", "", "the name that this host had, when the token is for its new one and does not say so: what runs goes on, with its data")
	f.StringVar(&o.server, "server", "", "URL of the server (default: that of the token)")
	f.StringVar(&o.resync, "resync", "30s", "how often every resource is observed even if nothing happened")
	f.StringVar(&o.reboot, "reboot-command", strings.Join(daemon.DefaultReboot, " "), "program and arguments that reboot the machine, once a reboot was granted; run without a shell")
	f.StringVar(&o.bootID, "boot-id-file", "", "file that names the boot of the machine, for containers and tests (default: what the kernel says)")
	f.StringVar(&o.engine, "engine", "auto", "container engine: a socket or URL, none, or auto for the unix:// socket of DOCKER_HOST, else "+dockerapi.DefaultSocket+", if it is there")
	f.StringVar(&o.hosting.Prefix, "prefix", "", "what names on the engine begin with (default: the host's name and a dot)")
	f.StringSliceVar(&o.hosting.HTTP, "http", nil, "addresses on which routes are served over HTTP, such as :80")
	f.StringSliceVar(&o.hosting.HTTPS, "https", nil, "addresses on which routes are served over HTTPS, such as :443")
	f.StringVar(&o.keepSockets, "keep-sockets", "2m", "how long the addresses of --http and --https stay open while no agent runs; 0s closes them with the agent")
	f.StringVar(&o.hosting.Secrets, "secrets", "", "folder of the host's secrets and registry credentials (default: STATE/secrets)")
	f.StringVar(&o.hosting.Certificates, "certificates", "", "folder with NAME.crt and NAME.key of routes (default: STATE/certificates)")
	o.log.Flags(f)
	exit.CheckArgs(cmd)
	return cmd
}

// versionCmd prints the version: the agent alone has no other verbs.
func versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  steady-agent version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "steady-agent %s\n", Version())
			return err
		},
	}
}

// ready is the line on stdout that says that the agent runs.
type ready struct {
	Ready bool   `json:"ready"`
	Host  string `json:"host"`
	Fleet string `json:"fleet"`
	State string `json:"state"`
	Root  string `json:"root"`
}

// fullPause is how long an agent waits between looks at a full disk.
const fullPause = 5 * time.Second

// run runs the agent, and again after the disk was full: what failed was not
// kept, so that going on is going on from the last state that was.
func run(ctx context.Context, o options, out, errOut io.Writer) (err error) {
	cfg, routes, err := o.config(errOut)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, routes.close()) }()
	stop := func() {}
	defer func() { stop() }()
	for said := false; ; {
		err := once(ctx, cfg, o, out, routes, &said, func() { stop() })
		if ctx.Err() != nil || !daemon.DiskFull(err) {
			return err
		}
		cfg.Log.Error("the disk of the state folder is full; going on once there is room", "state", cfg.StateDir, "error", err)
		stop()
		stop = serveRoutes(ctx, cfg, routes)
		if uplink.Pause(ctx, fullPause) != nil {
			return nil
		}
	}
}

// serveRoutes keeps the host's routes served while the agent waits for room, until stop.
func serveRoutes(ctx context.Context, cfg daemon.Config, routes *routeSockets) (stop func()) {
	routes.open(ctx)
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	served.Go(func() {
		if err := daemon.ServeRoutes(ctx, cfg); err != nil && ctx.Err() == nil {
			cfg.Log.Error("routes are not served while the disk is full", "error", err)
		}
	})
	return func() {
		cancel()
		served.Wait()
	}
}

// once runs the agent until it ends, and says the first time that it runs. Begins is called
// before it does.
func once(ctx context.Context, cfg daemon.Config, o options, out io.Writer, routes *routeSockets, said *bool, begins func()) error {
	a, err := open(ctx, cfg, o)
	if err != nil {
		return err
	}
	begins()
	routes.open(ctx)
	if !*said {
		s := a.Status()
		line, err := json.Marshal(ready{true, s.Host, s.Fleet, cfg.StateDir, cfg.Root})
		if err != nil {
			return errors.Join(err, a.Close())
		}
		fmt.Fprintf(out, "%s\n", line)
		*said = true
	}
	return errors.Join(a.Run(ctx), a.Close())
}

func (o options) config(errOut io.Writer) (daemon.Config, *routeSockets, error) {
	if o.state == "" {
		return daemon.Config{}, nil, exit.Badf("the agent needs a state folder; give --state DIR")
	}
	log, err := o.log.New(errOut)
	if err != nil {
		return daemon.Config{}, nil, err
	}
	resync, err := clock.ParseDuration(o.resync)
	if err != nil {
		return daemon.Config{}, nil, exit.Badf("--resync: %w", err)
	}
	o.hosting.Engine = engineOf(o.engine, os.Getenv("DOCKER_HOST"), log)
	if info, err := os.Stat(o.root); err == nil && !info.IsDir() { // a missing one is made once the host is enrolled
		return daemon.Config{}, nil, exit.Badf("--root: %s is not a folder", o.root)
	}
	if len(strings.Fields(o.reboot)) == 0 {
		return daemon.Config{}, nil, exit.Badf("--reboot-command is empty: expected a program, such as /bin/false where nobody may reboot")
	}
	var source state.Clock
	if o.bootID != "" {
		source = state.SystemClockWithBootID(o.bootID)
	}
	wait, err := clock.ParseDuration(o.keepSockets)
	if err != nil {
		return daemon.Config{}, nil, exit.Badf("--keep-sockets: %w", err)
	}
	routes, err := o.routeSockets(log, wait.Std())
	if err != nil {
		return daemon.Config{}, nil, err
	}
	o.hosting.Bind = routes.bind
	return daemon.Config{
		Reboot: strings.Fields(o.reboot), Clock: source,
		StateDir: o.state, Root: o.root, Server: o.server, Version: Version(), Resync: resync, Hosting: o.hosting,
		Log: log,
	}, routes, nil
}

// engineOf resolves --engine, with the value of DOCKER_HOST for auto: empty is a host
// without containers. It says in the log which it is.
func engineOf(engine, dockerHost string, log *slog.Logger) string {
	const hint = "containers are declined; start the agent with --engine unix:///PATH"
	switch engine {
	case "none":
		log.Info("no container engine", "why", "--engine none")
		return ""
	case "auto":
		engine = dockerapi.DefaultSocket
		if strings.HasPrefix(dockerHost, "unix://") {
			engine = dockerHost
		}
		if _, err := os.Stat(strings.TrimPrefix(engine, "unix://")); err != nil {
			log.Info("no container engine", "looked", engine, "next", hint)
			return ""
		}
	}
	log.Info("container engine", "engine", engine)
	return engine
}

// open opens the state folder and enrols first where that is still to do.
func open(ctx context.Context, cfg daemon.Config, o options) (*daemon.Agent, error) {
	a, err := daemon.Open(cfg)
	if next, _ := claimed(o.token); err == nil && o.token != "" && a.Status().Host == cmp.Or(o.renamed, next.RenamedFrom) {
		return again(ctx, a, cfg, o)
	}
	if err == nil && o.token != "" {
		if err := sameHost(a.Status(), o.token); err != nil {
			return nil, errors.Join(err, a.Close())
		}
		if a.Status().Parked != nil {
			return again(ctx, a, cfg, o)
		}
		cfg.Log.Info("this host is enrolled: the token is not used", "state", cfg.StateDir,
			"next", "if the host is to enrol again, stop the agent, move its state folder away and start it with a new token")
	}
	if err == nil || o.token == "" {
		return a, err
	}
	a, eerr := enrol(ctx, cfg, o)
	if errors.Is(eerr, daemon.ErrEnrolled) {
		return nil, err // it could not be opened for another reason
	}
	return a, eerr
}

// again enrols a folder that has an identity.
func again(ctx context.Context, a *daemon.Agent, cfg daemon.Config, o options) (*daemon.Agent, error) {
	if err := a.Close(); err != nil {
		return nil, err
	}
	return enrol(ctx, cfg, o)
}

// enrol trades the token for an identity and opens the folder with it.
func enrol(ctx context.Context, cfg daemon.Config, o options) (*daemon.Agent, error) {
	token, err := readToken(o.token)
	if err != nil {
		return nil, err
	}
	_, err = daemon.Enrol(ctx, daemon.EnrolConfig{StateDir: cfg.StateDir, Server: o.server, Token: token, RenamedFrom: o.renamed, Log: cfg.Log})
	switch {
	case uplink.StatusOf(err) == http.StatusForbidden:
		return nil, exit.With(exit.Refused, err)
	case err != nil:
		return nil, err
	}
	return daemon.Open(cfg)
}

// claimed is what a token says of itself; not told when it is gone or none, which the
// enrolment says where there is one.
func claimed(token string) (t identity.Token, told bool) {
	raw, err := readToken(token)
	if err != nil {
		return t, false
	}
	text, err := identity.ParseTokenText(raw)
	if err != nil {
		return t, false
	}
	t, err = text.Unverified()
	return t, err == nil
}

// sameHost refuses a token of another host than the one that the state folder
// is of: somebody mixed up folders.
func sameHost(s daemon.Status, token string) error {
	t, told := claimed(token)
	if !told || t.Fleet == s.Fleet && t.Host == s.Host {
		return nil
	}
	return exit.Badf("the state folder is of host %s of fleet %s, and the token is for host %s of fleet %s; give each host a folder of its own, or if this is the same machine under its new name: --renamed-from %s",
		s.Host, s.Fleet, t.Host, t.Fleet, s.Host)
}

// readToken takes the token itself or the name of a file with it.
func readToken(token string) (string, error) {
	raw, err := os.ReadFile(token)
	switch {
	case err == nil:
		token = string(raw)
	case !strings.HasPrefix(token, "steady1."):
		return "", exit.Badf("--token %q is neither a token nor a readable file; steady token create HOST makes one", token)
	}
	return strings.TrimSpace(token), nil
}

// eventKey is what keygen prints with -o json.
type eventKey struct {
	State string        `json:"state"`
	Key   digest.Digest `json:"key"`
}

func keygen(use string) *cobra.Command {
	var dir string
	var inJSON asJSON
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
			d, err := daemon.MakeEventKey(cmd.Context(), dir)
			if errors.Is(err, daemon.ErrEnrolled) {
				return exit.Bad(fmt.Errorf("%s: %w", dir, err))
			}
			if err != nil {
				return err
			}
			if inJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(eventKey{dir, d})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), d)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "state", "", "state folder of the agent; it is created (required)")
	cmd.Flags().VarP(&inJSON, "output", "o", "output format: table for the digest alone, or json")
	return cmd
}

// number is the version that this tree is, or is on the way to.
const number = "0.1.0"

// Version names this build: the number and, where it is known, the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return number
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return number + "+" + s.Value[:12]
		}
	}
	return number
}
