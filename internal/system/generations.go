package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// KeepWayBack keeps from collection what this host goes back to if the system that comes next
// fails, so that going back needs no network: back, which is the path of the bundle that it would
// go back to, or where that has none what the profile was at before the agent first touched it.
// A profile may be at another path meanwhile, of a system that was staged or failed.
func (h Host) KeepWayBack(ctx context.Context, bundle digest.Digest, n *fleet.Nix, back string) error {
	if err := os.MkdirAll(h.Systems, 0o700); err != nil {
		return err
	}
	if back == "" {
		rec, begun, err := (&nixes{host: h}).read(n.Name)
		if err != nil {
			return err
		}
		if back = rec.FromPath; !begun {
			if _, back, err = current(n.Profile); err != nil {
				return err
			}
		}
	}
	if _, lost := os.Lstat(back); back == "" || back == n.Path || lost != nil {
		return nil
	}
	if err := h.root(ctx, bundle, n.Name+".back", back); err != nil {
		return fmt.Errorf("keep %s, which the host may have to go back to: %w", back, err)
	}
	return nil
}

// generationsOf lists the generations of a profile with their paths, newest first.
func generationsOf(profile string) ([]generationAt, error) {
	entries, err := os.ReadDir(filepath.Dir(profile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []generationAt
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), filepath.Base(profile)+"-")
		n, err := strconv.Atoi(strings.TrimSuffix(number, "-link"))
		if !ours || err != nil {
			continue
		}
		if to, err := os.Readlink(generationLink(profile, n)); err == nil {
			out = append(out, generationAt{n, to})
		}
	}
	slices.SortFunc(out, func(a, b generationAt) int { return b.number - a.number })
	return out, nil
}

type generationAt struct {
	number int
	path   string
}

// surplus lists, oldest first, the generations beyond the newest ones that are to be kept, but for
// those that are needed whatever their age: what the profile is at, what runs, what was booted,
// what is desired and what the host may have to go back to.
func (m *nixes) surplus(n *fleet.Nix, o *NixObserved) ([]int, error) {
	if n.KeepGenerations == 0 {
		return nil, nil
	}
	all, err := generationsOf(n.Profile)
	if err != nil {
		return nil, err
	}
	needed := []string{o.Path, n.Path, o.Running, o.Record.Path}
	for _, link := range []string{n.BootedLink(), m.base(n.Name) + ".back", m.base(n.Name) + ".next"} {
		if to, err := filepath.EvalSymlinks(link); err == nil {
			needed = append(needed, to)
		}
	}
	var out []int
	for i, g := range all {
		if i >= n.KeepGenerations && !slices.Contains(needed, g.path) {
			out = append(out, g.number)
		}
	}
	slices.Sort(out)
	return out, nil
}

// prune deletes generations, once for each run: the system is in effect whether that works or
// not. What only they had is left to the host's own collection.
func (m *nixes) prune(ctx context.Context, d SystemDesired, a Prune) error {
	rec, _, err := m.read(d.Nix.Name)
	if err != nil {
		return err
	}
	rec.Pruned = a.Run
	if err := m.write(d.Nix.Name, rec); err != nil {
		return err
	}
	argv := []string{"nix-env", "--profile", d.Nix.Profile, "--delete-generations"}
	for _, n := range a.Generations {
		argv = append(argv, strconv.Itoa(n))
	}
	if err := m.host.nix(ctx, d.Bundle, Command{Argv: argv}); err != nil {
		m.host.Log.Warn("old generations were not deleted; the next release tries again", "profile", d.Nix.Profile, "error", err)
		return nil
	}
	m.host.Log.Info("old generations were deleted", "profile", d.Nix.Profile, "generations", a.Generations)
	return nil
}
