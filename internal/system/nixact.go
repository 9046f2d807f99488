package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// nixes is the driver nix. It changes a profile with Nix's own commands, and reads
// it from the links that Nix keeps.
type nixes struct{ host Host }

func (m *nixes) Observe(ctx context.Context, r engine.Resource[SystemDesired]) (NixObserved, error) {
	n := r.Desired.Nix
	o := NixObserved{Boot: m.host.BootID}
	var err error
	if o.Record, o.Begun, err = m.read(n.Name); err != nil {
		return o, err
	}
	if o.State, o.Exit, o.Tail, err = m.state(n.Name, o.Record); err != nil {
		return o, err
	}
	if _, o.Path, err = current(n.Profile); err != nil {
		return o, err
	}
	if o.Path != n.Path {
		if o.Back, err = generationOf(n.Profile, n.Path); err != nil {
			return o, err
		}
	}
	_, err = os.Lstat(n.Path)
	o.Present = err == nil
	if p, err := filepath.EvalSymlinks(n.Running); err == nil && p != n.Running {
		o.Running = p
	}
	o.Pending = pendingBoot(n.BootedLink(), n.Path)
	if o.Surplus, err = m.surplus(n, &o); err != nil {
		return o, err
	}
	run, _, err := m.host.Ledger.Step(ctx, n.Name)
	o.Staged = StagedBoot(run) == m.host.BootID && run != ""
	return o, err
}

// current is the generation that a profile is at, and its store path.
func current(profile string) (generation int, path string, err error) {
	link, err := os.Readlink(profile)
	if errors.Is(err, os.ErrNotExist) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("profile %s is not a link, as Nix makes it: %w", profile, err)
	}
	number, _ := strings.CutPrefix(filepath.Base(link), filepath.Base(profile)+"-")
	generation, err = strconv.Atoi(strings.TrimSuffix(number, "-link"))
	if err != nil {
		return 0, "", fmt.Errorf("profile %s points at %s: expected a generation of its own", profile, link)
	}
	path, err = os.Readlink(generationLink(profile, generation))
	if err != nil {
		return 0, "", fmt.Errorf("generation %d of profile %s: %w", generation, profile, err)
	}
	return generation, path, nil
}

func generationLink(profile string, n int) string { return fmt.Sprintf("%s-%d-link", profile, n) }

// generationOf is the newest generation of a profile that is the store path; 0 if
// there is none.
func generationOf(profile, path string) (int, error) {
	all, err := generationsOf(profile)
	for _, g := range all {
		if g.path == path {
			return g.number, err
		}
	}
	return 0, err
}

func (m *nixes) Act(ctx context.Context, r engine.Resource[SystemDesired], a engine.Action) error {
	n := r.Desired.Nix
	switch a := a.(type) {
	case Realise:
		return m.host.PrepareNix(ctx, r.Desired.Bundle, n)
	case Prune:
		return m.prune(ctx, r.Desired, a)
	case Point:
		return m.point(ctx, r.Desired, a)
	case Start:
		return m.start(n, r.Desired.Bundle, a)
	case Stop:
		return m.stop(n.Name, a.Result)
	case Stage:
		return m.host.Ledger.SetStep(context.WithoutCancel(ctx), n.Name, stagedRun(r.Desired.Run, m.host.BootID, a.Component), false)
	case Forget:
		return errors.Join(m.forget(n.Name), m.host.Ledger.ForgetStep(context.WithoutCancel(ctx), n.Name))
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a Nix system has no action %s", a.ActionName()))
}

// point records where the profile pointed before it moves it.
func (m *nixes) point(ctx context.Context, d SystemDesired, a Point) error {
	n := d.Nix
	rec, begun, err := m.read(n.Name)
	if err != nil {
		return err
	}
	if !begun {
		if rec.From, rec.FromPath, err = current(n.Profile); err != nil {
			return err
		}
	}
	rec.Path, rec.Mode, rec.Run, rec.Why, rec.Intact = a.Path, "", d.Run, "", a.Intact
	if err := m.write(n.Name, rec); err != nil {
		return err
	}
	args := []string{"nix-env", "--profile", n.Profile, "--set", a.Path}
	// A generation may be gone, with Nix's own collection of old ones; the path is there.
	if _, gone := os.Lstat(generationLink(n.Profile, a.Generation)); a.Generation > 0 && gone == nil {
		args = []string{"nix-env", "--profile", n.Profile, "--switch-generation", strconv.Itoa(a.Generation)}
	} else if err := os.MkdirAll(filepath.Dir(n.Profile), 0o755); err != nil {
		return err
	}
	if err := m.host.nix(ctx, d.Bundle, Command{Argv: args}); err != nil {
		return err
	}
	return m.host.Ledger.ForgetStep(context.WithoutCancel(ctx), n.Name) // nothing is staged any more
}

// PrepareNix brings a system into the host's store, out of the bundle or from the
// host's own substituters, and keeps it from being collected. It changes nothing that
// runs.
func (h Host) PrepareNix(ctx context.Context, bundle digest.Digest, n *fleet.Nix) error {
	if n.Closure != nil {
		if err := h.importNix(ctx, bundle, n); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(h.Systems, 0o700); err != nil {
		return err
	}
	if n.Paths != nil {
		if err := h.takePaths(ctx, bundle, n); err != nil {
			return err
		}
	}
	if err := h.root(ctx, bundle, n.Name+".next", n.Path); err != nil {
		return fmt.Errorf("the store of this host does not have %s, nor do its substituters: %w", n.Path, err)
	}
	if _, err := os.Stat(filepath.Join(n.Path, switcher)); err != nil {
		return fmt.Errorf("%s is no system: %w", n.Path, err)
	}
	return nil
}

// root brings a path into the store, if it is not there, and keeps it from being collected. Nix remembers for an
// hour that a cache lacked a path, which may have come since.
func (h Host) root(ctx context.Context, bundle digest.Digest, name, path string) error {
	return h.nix(ctx, bundle, Command{Argv: []string{"nix-store", "--option", "narinfo-cache-negative-ttl", "0",
		"--realise", path, "--add-root", filepath.Join(h.Systems, name), "--indirect"}, Timeout: MaxTimeout})
}

func (h Host) importNix(ctx context.Context, bundle digest.Digest, n *fleet.Nix) error {
	if h.nix(ctx, bundle, Command{Argv: []string{"nix-store", "--check-validity", n.Path}}) == nil {
		return nil
	}
	src, err := h.Content.Blob(ctx, n.Closure.Digest, n.Closure.Size)
	if err != nil {
		return err
	}
	got, err := hashFile(ctx, src)
	if err := errors.Join(err, src.Close()); err != nil {
		return err
	}
	if got != n.Closure.Digest {
		return errors.Join(fmt.Errorf("the stored closure of %s is damaged; it is fetched again", n.Path), h.Content.Damaged(n.Closure.Digest))
	}
	if src, err = h.Content.Blob(ctx, n.Closure.Digest, n.Closure.Size); err != nil {
		return err
	}
	err = h.nix(ctx, bundle, Command{Argv: []string{"nix-store", "--import"}, Stdin: src, Timeout: MaxTimeout})
	return errors.Join(err, src.Close())
}

// nixTimeout bounds a command that changes links only.
const nixTimeout = clock.Minute

func (h Host) nix(ctx context.Context, bundle digest.Digest, c Command) error {
	c.Dir, c.Env = h.Root, nixEnvironment(h, bundle)
	if c.Timeout == 0 {
		c.Timeout = nixTimeout
	}
	out, err := Run(ctx, c)
	switch {
	case err != nil:
		return fmt.Errorf("%w: install Nix, or put it on the agent's PATH", err)
	case !out.OK():
		return fmt.Errorf("%s: %s", strings.Join(c.Argv, " "), out)
	}
	return nil
}

// nixEnvironment adds the agent's own settings of Nix, such as NIX_REMOTE.
func nixEnvironment(h Host, bundle digest.Digest) []string {
	env := Environment(h.Root, h.Name, bundle)
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "NIX_") {
			env = append(env, v)
		}
	}
	return env
}
