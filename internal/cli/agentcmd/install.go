package agentcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/agent/sockets"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/identity"
)

// enrolWithin is how long an installation waits for the server.
const enrolWithin = time.Minute

// booted is there where systemd runs the machine: sd_booted(3).
const booted = "/run/systemd/system"

// installer puts an agent onto a host, or takes it away. Each step says what it
// did; one that finds its work done says so and changes nothing.
type installer struct {
	layout
	use    string // how the command is called, for what to run next
	print  bool   // say what would be done
	out    io.Writer
	json   bool // print the result as data, at the end
	result outcome
}

type step struct {
	What   string `json:"what"`
	On     string `json:"on"`
	Result string `json:"result,omitempty"`
}

// outcome is what install and uninstall print with -o json.
type outcome struct {
	Host   string   `json:"host,omitempty"`
	Fleet  string   `json:"fleet,omitempty"`
	DryRun bool     `json:"dryRun,omitempty"`
	Steps  []step   `json:"steps"`
	Notes  []string `json:"notes"` // what there is to know and to do next
}

func install(use string) *cobra.Command {
	i := installer{use: use}
	cmd := &cobra.Command{
		Use:   "install TOKEN [-- AGENT-FLAGS...]",
		Short: "Install the agent of this host as a service, and enrol the host",
		Long: `Makes this machine a host of a fleet: copies this program to /usr/local/bin, makes
the state folder /var/lib/steady, enrols the host with the token, writes the systemd
unit steady-agent.service, and starts it. Where systemd does not run, it says what to
run instead. TOKEN is the token, or a file with it, or - for standard input; it carries
the address and the authority of the server, so nothing else has to be given.

Flags after -- are the agent's own, such as --http :80. It may be repeated, with a new
program to update the agent, or with other flags: what is done already stays, the host
keeps its identity, and containers run on. --print says what would be done.

--root names another folder as the host's /, for images and tests: nothing is
written outside it, and no service is started.`,
		Example: "  sudo steady " + use + " install edge-1.token\n  sudo steady " + use + " install edge-1.token -- --http :80 --https :443\n  steady " + use + " install edge-1.token --print\n  sudo steady " + use + " install edge-1.token -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return exit.Accepts(cmd, args, 1, 1)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			i.out, i.Args = cmd.OutOrStdout(), args[1:]
			if err := i.checkArgs(cmd.Parent()); err != nil {
				return err
			}
			return i.end(i.install(cmd.Context(), args[0], cmd.InOrStdin()))
		},
	}
	i.flags(cmd)
	return cmd
}

// checkArgs refuses what the agent would not start with, and what the installation
// decides itself.
func (i *installer) checkArgs(of *cobra.Command) error {
	f := of.Flags()
	if err := f.Parse(i.Args); err != nil {
		return exit.Badf("after --: %w; %s --help shows the agent's flags", err, i.verb())
	}
	if f.NArg() > 0 {
		return exit.Badf("after --: %q is no flag of the agent; %s --help shows them", f.Arg(0), i.verb())
	}
	for _, own := range []string{"state", "root", "token", "server"} {
		if f.Changed(own) {
			return exit.Badf("after --: --%s is set by the installation; leave it out", own)
		}
	}
	return nil
}

// verb is how the agent's command is called.
func (i *installer) verb() string {
	if i.Program == "steady" {
		return "steady " + i.use
	}
	return i.Program
}

func uninstall(use string) *cobra.Command {
	i := installer{use: use}
	purge := false
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the agent of this host and remove its service and program",
		Long: `Stops and disables steady-agent.service, and removes the unit and the program from
/usr/local/bin. What the agent brought to the host stays: files, and containers that
run. The state folder with the host's identity stays too, so that install brings the
same host back; --purge removes it, after which the host needs a new token.

The server does not learn of it. To retire the host there: steady host decommission HOST.`,
		Example: "  sudo steady " + use + " uninstall\n  sudo steady " + use + " uninstall --purge",
		RunE: func(cmd *cobra.Command, _ []string) error {
			i.out = cmd.OutOrStdout()
			return i.end(i.uninstall(cmd.Context(), purge))
		},
	}
	i.flags(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the state folder as well: the host's identity, secrets and kept files")
	return cmd
}

func (i *installer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&i.Root, "root", "/", "folder that is the host's /")
	cmd.Flags().BoolVar(&i.print, "print", false, "show what would be done, and change nothing")
	cmd.Flags().VarP((*asJSON)(&i.json), "output", "o", "output format: table or json")
	i.Program = "steady"
	if i.use == "steady-agent" {
		i.Program = i.use
	}
}

// asJSON is the value of -o, of which the agent alone knows two formats.
type asJSON bool

func (f *asJSON) String() string {
	if *f {
		return "json"
	}
	return "table"
}

// Set implements pflag.Value.
func (f *asJSON) Set(s string) error {
	if s != "table" && s != "json" {
		return errors.New("expected table or json")
	}
	*f = s == "json"
	return nil
}

// Type implements pflag.Value.
func (*asJSON) Type() string { return "string" }

// did says that a step was taken, or would be.
func (i *installer) did(what, on, format string, args ...any) {
	result := fmt.Sprintf(format, args...)
	i.result.Steps = append(i.result.Steps, step{what, on, result})
	if result != "" {
		on += ": " + result
	}
	i.printf("  %-9s %s", what, on)
}

func (i *installer) note(format string, args ...any) {
	i.result.Notes = append(i.result.Notes, fmt.Sprintf(format, args...))
	i.printf(format, args...)
}

func (i *installer) printf(format string, args ...any) {
	if !i.json {
		fmt.Fprintf(i.out, format+"\n", args...)
	}
}

// end prints the outcome as data where that was asked for.
func (i *installer) end(err error) error {
	if err != nil || !i.json {
		return err
	}
	i.result.DryRun = i.print
	i.result.Host, i.result.Fleet = i.Host, i.Fleet
	if host, fleet, ok := strings.Cut(i.Host, " of fleet "); ok { // as the unit names it
		i.result.Host, i.result.Fleet = host, fleet
	}
	e := json.NewEncoder(i.out)
	e.SetIndent("", "  ")
	return e.Encode(i.result)
}

// prepare resolves the root folder and refuses what cannot be done.
func (i *installer) prepare() error {
	root, err := filepath.Abs(i.Root)
	if err != nil {
		return exit.Badf("--root: %w", err)
	}
	if i.Root = root; i.Whole() && !i.print && os.Geteuid() != 0 {
		return exit.With(exit.Refused, fmt.Errorf("the agent is a service of the whole machine: run this as root, with sudo; or give --root DIR, or --print to see what would be done"))
	}
	return nil
}

func (i *installer) install(ctx context.Context, token string, in io.Reader) error {
	if err := i.prepare(); err != nil {
		return err
	}
	raw, err := tokenFrom(token, in)
	if err != nil {
		return err
	}
	text, err := identity.ParseTokenText(raw)
	if err != nil {
		return err
	}
	t, err := text.Unverified()
	if err != nil {
		return err
	}
	i.Host, i.Fleet = t.Host, t.Fleet
	unit, err := i.unit()
	if err != nil {
		return err
	}
	before, err := os.ReadFile(i.Unit())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if was, is := hostOf(string(before)), hostOf(unit); was != "" && was != is {
		return exit.Badf("the agent installed here is of host %s, and the token is for host %s; to make this machine another host: %s uninstall --purge", was, is, i.verb())
	}
	i.note("Host %s of fleet %s, server %s", t.Host, t.Fleet, text.Server)
	if err := i.enrol(ctx, raw, t); err != nil { // first: it is what may be refused
		return err
	}
	program, err := i.copyProgram()
	if err != nil {
		return err
	}
	service, err := i.write(i.Unit(), []byte(unit), 0o644)
	if err != nil {
		return err
	}
	if i.print {
		i.note("\n%s", unit)
	}
	return i.start(ctx, program, service)
}

// tokenFrom is readToken, and - for standard input.
func tokenFrom(token string, in io.Reader) (string, error) {
	if token != "-" {
		return readToken(token)
	}
	raw, err := io.ReadAll(io.LimitReader(in, identity.MaxTokenText))
	if err != nil {
		return "", err
	}
	return readToken(strings.TrimSpace(string(raw)))
}

// copyProgram puts this program where the service finds it, and reports whether
// another one was there.
func (i *installer) copyProgram() (changed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	if at, err := filepath.EvalSymlinks(i.Binary()); err == nil && at == self {
		i.did("program", i.Binary(), "this one")
		return false, nil
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		return false, err
	}
	return i.write(i.Binary(), raw, 0o755)
}

// write puts a file in place at once, and reports whether that changed it.
func (i *installer) write(path string, content []byte, mode fs.FileMode) (changed bool, err error) {
	what := "unit"
	if mode&0o100 != 0 {
		what = "program"
	}
	before, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(before, content):
		i.did(what, path, "unchanged")
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case i.print:
		i.did(what, path, "would be written")
		return true, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	if err := disk.Replace(path, content, mode); err != nil {
		return false, err
	}
	i.did(what, path, "written")
	return true, nil
}

// enrol trades the token for the host's identity, unless the state folder has one.
func (i *installer) enrol(ctx context.Context, token string, t identity.Token) error {
	if i.print {
		i.did("identity", i.State(), "would be enrolled with the token, which is good until %s", prose.Date(t.Expires))
		return nil
	}
	if err := os.MkdirAll(i.State(), 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, enrolWithin, fmt.Errorf("no server answered within %s", prose.Span(clock.FromStd(enrolWithin))))
	defer cancel()
	made, err := daemon.Enrol(ctx, daemon.EnrolConfig{StateDir: i.State(), Token: token})
	switch {
	case errors.Is(err, state.ErrLocked):
		i.did("identity", i.State(), "kept; the agent that runs has it")
		return nil
	case errors.Is(err, daemon.ErrEnrolled):
		if err := i.sameIdentity(token); err != nil {
			return err
		}
		i.did("identity", i.State(), "kept; the host is enrolled already")
		return nil
	case uplink.StatusOf(err) == http.StatusForbidden:
		return exit.With(exit.Refused, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return exit.With(exit.Unreachable, fmt.Errorf("host %s was not enrolled: %w: %w; mend that and run this again: what is done stays done", t.Host, context.Cause(ctx), err))
	case err != nil:
		return err
	}
	i.did("identity", i.State(), "enrolled as incarnation %d; the token is used up", made.Incarnation)
	return nil
}

// sameIdentity refuses a state folder of another host.
func (i *installer) sameIdentity(token string) error {
	a, err := daemon.Open(daemon.Config{StateDir: i.State(), Root: i.Root})
	if err != nil {
		return err
	}
	return errors.Join(sameHost(a.Status(), token), a.Close())
}

// start has systemd run the agent, or says what to run.
func (i *installer) start(ctx context.Context, program, service bool) error {
	if !i.systemd() {
		why := "systemd does not run here"
		if !i.Whole() {
			why = i.Root + " is not this machine's /"
		}
		i.note("%s: nothing was started. To start the agent, as a service or in a terminal:\n  %s", why, strings.Join(i.Command(), " "))
		return nil
	}
	begin := "start"
	if program || service {
		begin = "restart"
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", unitName}, {begin, unitName}} {
		if err := i.systemctl(ctx, args...); err != nil {
			return err
		}
	}
	if !i.print {
		i.note("The agent runs. Next: journalctl -u steady-agent -f on this host, steady host show %s for operators", i.Host)
	}
	return nil
}

// systemd reports whether it runs this machine, whose agent this is.
func (i *installer) systemd() bool {
	_, err := os.Stat(booted)
	return err == nil && i.Whole()
}

func (i *installer) systemctl(ctx context.Context, args ...string) error {
	line := "systemctl " + strings.Join(args, " ")
	if i.print {
		i.did("service", "would run", "%s", line)
		return nil
	}
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s; see systemctl status %s", line, err, bytes.TrimSpace(out), unitName)
	}
	i.did("service", line, "")
	return nil
}

func (i *installer) uninstall(ctx context.Context, purge bool) error {
	if err := i.prepare(); err != nil {
		return err
	}
	raw, err := os.ReadFile(i.Unit())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	i.Host = hostOf(string(raw))
	if err == nil && i.systemd() {
		if err := i.systemctl(ctx, "disable", "--now", unitName); err != nil {
			return err
		}
	}
	if purge {
		if err := i.unused(); err != nil {
			return err
		}
	}
	if (purge || i.systemd()) && !i.print { // no agent runs: nobody is to wait for the next one
		if err := sockets.Stop(ctx, i.State()); err != nil {
			return err
		}
	}
	for _, path := range []string{i.Unit(), i.Binary()} {
		if err := i.remove(path); err != nil {
			return err
		}
	}
	if err == nil && i.systemd() {
		if err := i.systemctl(ctx, "daemon-reload"); err != nil {
			return err
		}
	}
	if purge {
		if err := i.remove(i.State()); err != nil {
			return err
		}
	} else {
		i.did("kept", i.State(), "the host's identity; --purge removes it")
	}
	i.note("Files and containers that the agent brought stay as they are.")
	if host, _, ok := strings.Cut(i.Host, " of fleet "); ok {
		i.note("To retire the host: steady host decommission %s, where operators are", host)
	}
	return nil
}

// unused refuses to remove a state folder under an agent that runs.
func (i *installer) unused() error {
	if _, err := os.Stat(i.State()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	a, err := daemon.Open(daemon.Config{StateDir: i.State(), Root: i.Root})
	if errors.Is(err, state.ErrLocked) {
		return exit.Badf("an agent still uses %s: stop it, then run this again", i.State())
	}
	if err != nil {
		return nil // there is no identity, or none that can be read: nobody uses it
	}
	return a.Close()
}

func (i *installer) remove(path string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		i.did("absent", path, "")
		return nil
	case err != nil:
		return err
	case i.print:
		i.did("removed", path, "would be")
		return nil
	}
	i.did("removed", path, "")
	return os.RemoveAll(path)
}
