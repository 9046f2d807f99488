package agentcmd

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/identity"
)

// enrolWithin is how long an installation waits for the server.
const enrolWithin = time.Minute

// nixModule is what examples/nix/module.nix is.
//
//go:embed module.nix
var nixModule string

func install(use string) *cobra.Command {
	i := installer{use: use}
	nix := false
	cmd := &cobra.Command{
		Use:   "install [TOKEN] [-- AGENT-FLAGS...]",
		Short: "Install the agent of this host as a service, and enrol the host",
		Long: `Makes this machine a host of a fleet: copies this program to /usr/local/bin, writes
the service steady-agent for systemd or OpenRC, enrols the host with the token, with
its identity in /var/lib/steady, and starts the service. TOKEN is the token, or a file
with it, or - for standard input; it carries the address and the authority of the
server, so nothing else has to be given. A host that is enrolled needs none.

The token is used last. Where something else cannot be done, such as on a machine that
neither of the two runs or whose folders cannot be written, nothing is changed and the
reason is said with what to do instead. NixOS makes its services of its configuration:
there --nix prints the module for it.

Flags after -- are the agent's own, such as --http :80. Repeat it with a new program to
update the agent: its flags stay, the host keeps its identity, and containers run on.
Other flags after -- take the place of all that there were, none after -- removes
them; what that changes is said. --print says what would be done.

--root names another folder as the host's /, such as the disk of one host, or for
tests: nothing is written outside it, and no service is enabled or started. The server
has to answer there too. An image of many hosts has the program alone: each enrols
itself.`,
		Example: "  sudo steady " + use + " install edge-1.token\n  sudo steady " + use + " install edge-1.token -- --http :80 --https :443\n  sudo ./steady " + use + " install        # the new program, as an update\n  steady " + use + " install edge-1.token --print\n  steady " + use + " install --nix > steady-agent.nix\n  sudo steady " + use + " install edge-1.token -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return exit.Accepts(cmd, args, 0, 1)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			i.out = cmd.OutOrStdout()
			if nix {
				_, err := io.WriteString(i.out, nixModule)
				return err
			}
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				i.given, i.Args, args = true, args[n:], args[:n]
			}
			if err := i.checkArgs(cmd.Parent()); err != nil {
				return err
			}
			token := ""
			if len(args) > 0 {
				token = args[0]
			}
			return i.end(i.install(cmd.Context(), token, cmd.InOrStdin()))
		},
	}
	i.flags(cmd)
	cmd.Flags().BoolVar(&nix, "nix", false, "print the module for NixOS, and change nothing")
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
	for _, a := range i.Args {
		if strings.ContainsAny(a, "\n\r\x00") {
			return exit.Badf("after --: %q has more than one line", a)
		}
	}
	return nil
}

// install does what may fail before it uses the token, and takes it back where the
// token is refused.
func (i *installer) install(ctx context.Context, token string, in io.Reader) error {
	if err := i.prepare(); err != nil {
		return err
	}
	if err := i.refuse(token); err != nil {
		return err
	}
	if !i.print {
		if err := writable(i.at(programs), filepath.Dir(i.at(i.services().Declared)), i.State()); err != nil {
			return err
		}
	}
	raw, err := i.identify(ctx, token, in)
	if err != nil {
		return err
	}
	before, err := i.services().before(i.layout)
	if err != nil && !(before.There && i.given) { // what cannot be read cannot be kept
		return exit.Bad(err)
	}
	if is := i.Host + " of fleet " + i.Fleet; before.Host != "" && before.Host != is {
		return exit.Badf("the agent installed here is of host %s, and the token is for host %s; to make this machine another host: %s uninstall --purge", before.Host, is, i.verb())
	}
	flags, err := i.settle(before)
	if err != nil {
		return err
	}
	text, err := i.services().declare(i.layout)
	if err != nil {
		return exit.Bad(err)
	}
	changed, err := i.put(ctx, text, before, flags)
	if err == nil {
		err = i.enrol(ctx, raw)
	}
	if err != nil {
		return i.takeBack(context.WithoutCancel(ctx), err)
	}
	if i.print {
		i.note("\n%s", text)
	}
	if err := i.start(ctx, changed); err != nil {
		return err
	}
	return i.retire(before)
}

// identify finds out which host this is to be, and returns the token if there is one.
func (i *installer) identify(ctx context.Context, token string, in io.Reader) (raw string, err error) {
	if token == "" {
		return "", i.whoIsHere(ctx)
	}
	if raw, err = tokenFrom(token, in); err != nil {
		return "", err
	}
	text, err := identity.ParseTokenText(raw)
	if err != nil {
		return "", err
	}
	t, err := text.Unverified()
	if err != nil {
		return "", err
	}
	if err := cmp.Or(fleet.CheckName(t.Host), fleet.CheckName(t.Fleet)); err != nil {
		return "", exit.Badf("the token: %w", err) // it is written down before it is verified
	}
	i.Host, i.Fleet, i.expires = t.Host, t.Fleet, t.Expires
	i.note("Host %s of fleet %s, server %s", t.Host, t.Fleet, text.Server)
	return raw, nil
}

// whoIsHere reads which host this machine is: in its state folder, or, while an agent has that, where its
// service is declared.
func (i *installer) whoIsHere(context.Context) error {
	if _, err := os.Stat(filepath.Join(i.State(), "agent.db")); errors.Is(err, fs.ErrNotExist) {
		return exit.Badf("there is no host in %s yet: give the token that steady token create HOST made, as in %s install HOST.token", i.State(), i.verb())
	}
	d, err := i.services().before(i.layout)
	if err != nil && !d.There {
		return err
	}
	host, of, ok := strings.Cut(d.Host, " of fleet ")
	a, err := daemon.Open(daemon.Config{StateDir: i.State(), Root: i.Root})
	switch {
	case err == nil:
		s := a.Status()
		host, of = s.Host, s.Fleet
		if err := a.Close(); err != nil {
			return err
		}
	case errors.Is(err, state.ErrLocked) && !ok:
		return exit.Badf("an agent runs on %s, and no service says of which host: stop it, then run this again", i.State())
	case !errors.Is(err, state.ErrLocked):
		return exit.Badf("no host is enrolled in %s: %w; give a token", i.State(), err)
	}
	i.Host, i.Fleet = host, of
	i.note("Host %s of fleet %s, enrolled", host, of)
	return nil
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

// put writes program and service, and has the service begin with the machine. It reports whether
// that changed what runs.
func (i *installer) put(ctx context.Context, text string, before declared, flags []string) (bool, error) {
	program, err := i.copyProgram()
	if err != nil {
		return false, err
	}
	if lost := i.services().lost(before.Text, text); len(lost) > 0 {
		kept := i.at(i.services().Declared) + ".replaced"
		if !i.print {
			if err := disk.Replace(kept, []byte(before.Text), 0o644); err != nil {
				return false, err
			}
		}
		i.note("Settings removed: %s. The file that had them is kept as %s; your own belong into %s, which no installation writes.", strings.Join(lost, ", "), kept, i.services().Own)
	}
	if i.ground.runs && !before.There && !i.print {
		i.undo = append(i.undo, func(ctx context.Context) error { return i.run(ctx, i.services().Removed...) })
	}
	service, err := i.write("unit", i.at(i.services().Declared), []byte(text), i.services().Mode)
	if err != nil {
		return false, err
	}
	for _, f := range flags {
		i.note("%s", f)
	}
	if !i.ground.runs {
		return program || service, nil
	}
	if service && !before.There && !i.print {
		i.undo = append(i.undo, func(ctx context.Context) error { return errors.Join(i.run(ctx, i.services().Stop...), i.removeLinks()) })
	}
	return program || service, i.run(ctx, i.services().Enable...)
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
	return i.write("program", i.Binary(), raw, 0o755)
}

// write puts a file in place at once, and reports whether that changed it.
func (i *installer) write(what, path string, content []byte, mode fs.FileMode) (changed bool, err error) {
	before, err := os.ReadFile(path)
	there := err == nil
	switch {
	case there && bytes.Equal(before, content):
		i.did(what, path, "unchanged")
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case i.print:
		i.did(what, path, "would be written")
		return true, nil
	}
	made, err := i.folder(filepath.Dir(path), 0o755)
	if err != nil {
		return false, err
	}
	if err := disk.Replace(path, content, mode); err != nil {
		return false, err
	}
	i.undo = append(i.undo, made, func(context.Context) error {
		if there {
			return disk.Replace(path, before, mode)
		}
		return os.Remove(path)
	})
	i.did(what, path, "written")
	return true, nil
}

// enrol trades the token for the host's identity, unless the state folder has one.
func (i *installer) enrol(ctx context.Context, token string) error {
	switch {
	case token == "":
		i.did("identity", i.State(), "kept; no token is needed")
		return nil
	case i.print:
		i.did("identity", i.State(), "would be enrolled with the token, which is good until %s", prose.Date(i.expires))
		return nil
	}
	made, err := i.folder(filepath.Dir(i.State()), 0o755)
	if err != nil {
		return err
	}
	i.undo = append(i.undo, made)
	ctx, cancel := context.WithTimeoutCause(ctx, enrolWithin, fmt.Errorf("no server answered within %s", prose.Span(clock.FromStd(enrolWithin))))
	defer cancel()
	enrolled, err := daemon.Enrol(ctx, daemon.EnrolConfig{StateDir: i.State(), Token: token, Unmake: true})
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
		return exit.With(exit.Unreachable, fmt.Errorf("host %s was not enrolled: %w: %w; mend that and run this again with the same token", i.Host, context.Cause(ctx), err))
	case err != nil:
		return err
	}
	i.did("identity", i.State(), "enrolled as incarnation %d; the token is used up", enrolled.Incarnation)
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

// start has the agent run, or says what to run.
func (i *installer) start(ctx context.Context, changed bool) error {
	if !i.ground.runs {
		i.note("%s is not this machine's /: nothing was started. What %s starts there once the service is enabled:\n  %s\nTo start the agent from here:\n  %s",
			i.Root, i.services().Name, shellLine(i.Command()), shellLine(i.CommandHere()))
		return nil
	}
	begin := i.services().Start
	if changed {
		begin = i.services().Restart
	}
	if err := i.run(ctx, begin...); err != nil {
		return fmt.Errorf("%w\nThe host is enrolled: once that is mended, %s install needs no token", err, i.verb())
	}
	if !i.print {
		i.note("The agent runs. Next: %s on this host, steady host show %s for operators", i.services().Log, i.Host)
	}
	return nil
}
