package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/simulate"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/trust"
)

// signedMark is the file that only a signed release folder has.
const signedMark = "timestamp.json"

func (a *app) releaseCmd() *cobra.Command {
	return command.Group(command.GroupDeclare, "release", "Build, simulate, sign, verify and push releases",
		"  steady release publish\n  steady release build && steady release sign && steady release push\n  steady release verify release --root keys/1.root.json",
		a.releaseBuild(), simulate.Simulate(a.Env), a.releaseSign(), a.releaseRefresh(), a.releaseVerify(), a.releasePush(), a.releasePublish(), a.releaseRollback())
}

type releaseView struct {
	Fleet    string            `json:"fleet"`
	Ref      string            `json:"ref"`
	Version  uint64            `json:"version"`
	Epoch    uint64            `json:"epoch"`
	IssuedAt clock.Instant     `json:"issuedAt"`
	Resolved string            `json:"resolved"`
	Hosts    int               `json:"hosts"`
	Files    int               `json:"files"`
	Absent   int               `json:"absentStorePaths,omitempty"` // that the server has to have
	Channels []channelView     `json:"channels"`
	Fresh    clock.Instant     `json:"timestampIssuedAt"`
	Problems []release.Problem `json:"warnings,omitempty"`
}

type channelView struct {
	Compliance *release.Compliance `json:"compliance,omitempty"`
	Channel    string              `json:"channel"`
	Rollout    string              `json:"rollout"`
	Manifest   string              `json:"manifest"`
	Hosts      int                 `json:"hosts"`
	Waves      int                 `json:"waves"`
	Fresh      bool                `json:"fresh"`
	StaleAt    clock.Instant       `json:"staleAt"`
}

func viewRelease(v *release.Verified, now clock.Instant) releaseView {
	r, stamp := v.Resolved.Value(), v.Timestamp.Value()
	view := releaseView{
		Fleet: r.Fleet, Ref: r.Ref, Version: r.Version, Epoch: r.Epoch, IssuedAt: r.IssuedAt,
		Resolved: string(v.Resolved.Digest()), Hosts: len(v.Roster.Value().Hosts), Files: len(v.Names), Absent: len(v.Absent), Fresh: stamp.IssuedAt,
	}
	for name, c := range r.Channels {
		cv := channelView{Channel: name, StaleAt: stamp.IssuedAt.Add(c.FreshnessWindow)}
		cv.Fresh = !cv.StaleAt.Reached(now)
		if ms := v.Manifests[name]; len(ms) > 0 {
			m := ms[0].Header.Value()
			cv.Rollout, cv.Manifest = m.Rollout(), string(ms[0].Header.Digest())
			cv.Hosts, cv.Waves = m.LeafCount, len(m.Waves)
			cv.Compliance = v.Evaluate(name)
		}
		view.Channels = append(view.Channels, cv)
	}
	slices.SortFunc(view.Channels, func(x, y channelView) int { return cmp.Compare(x.Channel, y.Channel) })
	return view
}

// printRelease shows a release, for people with what it means at the end.
func (a *app) printRelease(v *release.Verified, format string, args ...any) error {
	view := viewRelease(v, a.Wall())
	return a.Print(view, func() error {
		if err := a.showRelease(view); err != nil {
			return err
		}
		a.Printf(format, args...)
		return nil
	})
}

func (a *app) showRelease(v releaseView) error {
	a.Printf("Release %s of fleet %s, version %d: %s, %s, timestamp of %s\n",
		v.Ref, v.Fleet, v.Version, prose.Count(v.Hosts, "host"), prose.Count(v.Files, "file"), prose.Date(v.Fresh))
	if v.Absent > 0 {
		a.Printf("  %s of its systems not in the folder: the server has to have them\n", prose.Count(v.Absent, "store path"))
	}
	var rows [][]string
	for _, c := range v.Channels {
		fresh := "until " + prose.Date(c.StaleAt)
		if !c.Fresh {
			fresh = "stale since " + prose.Date(c.StaleAt)
		}
		rows = append(rows, []string{c.Channel, c.Rollout, fmt.Sprint(c.Hosts), fmt.Sprint(c.Waves), fresh})
	}
	for _, c := range v.Channels {
		if c.Compliance != nil {
			a.Printf("  channel %s: %s, %d failed\n", c.Channel, prose.Count(c.Compliance.Controls, "control"), len(c.Compliance.Failures))
		}
	}
	return a.Table([]string{"channel", "rollout", "hosts", "waves", "fresh"}, rows)
}

type buildOptions struct {
	previousOptions
	out, ref, root string
	dry            bool // nothing is written
	lock           bool
	all            bool     // every warning, not a line for each class
	untracked      []string // what is read although git does not track it
	removals       []string
	// publishes takes the newest release of the server as the base.
	publishes bool
	// check looks at the release before it is written.
	check func(rel *release.Release, base *release.Verified) error
}

// sourceFlags are those of what a release is built from.
func (o *buildOptions) sourceFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.lockFlag(cmd)
	f.StringVar(&o.out, "out", "release", "release folder to write")
	f.StringVar(&o.ref, "ref", "", "name of the release (default: the git commit of a clean checkout, else the plan's hash)")
	f.BoolVar(&o.all, "all", false, "print every warning; without it more than 10 are one line for each kind")
	f.StringSliceVar(&o.untracked, "untracked", nil, "file or folder that is read although git does not track it; \".\" is all of the fleet folder")
	f.StringArrayVar(&o.removals, "allow-removal", nil, "hosts of a channel or resources of a bundle that may all be removed at once, as the refusal names them; may be repeated")
}

func (a *app) releaseBuild() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Resolve a fleet folder into an unsigned release",
		Long: `Reads fleet.yaml and the bundles in DIR (default: the present folder), checks
them, and writes a release folder. Findings are printed one per line as
file:line:column: message; one that is more than a warning ends the build with
code 2 and nothing is written. Images are named by the digests in images.lock;
no registry is asked.

In a git checkout it reads what git tracks, so that a commit gives the same release
on every machine: files that are not in git are named in a warning and left out, unless
--untracked names them. Elsewhere it reads all but folders without a file.

The version follows that of the previous release: the signed one that --out
holds, which is then kept as OUT.previous, or what --previous names: a release
folder, the URL of a packed release, "none", or "server" for the newest release
that the server has, which is verified from the newest root beside --root on.`,
		Example: "  steady release build\n  steady release build fleet --out /tmp/release --ref v2\n  steady release build --previous ../last-release\n  steady release build --previous server",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := argOr(args, ".")
			if err := o.chosen(cmd); err != nil {
				return err
			}
			return a.build(cmd.Context(), dir, o)
		},
	}
	o.sourceFlags(cmd)
	o.previousOptions.flags(a, cmd, "", "previous release: a folder, a URL, server, or none (default: the one in --out)")
	cmd.Flags().StringVar(&o.root, "root", filepath.Join("keys", keyring.RootFile(1)), "root of trust that the previous release must have")
	return a.PrintsData(cmd)
}

type built struct {
	OK         bool                 `json:"ok"`
	Fleet      string               `json:"fleet,omitempty"`
	Ref        string               `json:"ref,omitempty"`
	Version    uint64               `json:"version,omitempty"`
	Changed    []string             `json:"changed"`
	Compliance []release.Compliance `json:"compliance,omitempty"`
	Expected   []release.Expected   `json:"expected,omitempty"`
	Again      []release.Again      `json:"again,omitempty"`
	Out        string               `json:"out,omitempty"`
	Files      int                  `json:"files,omitempty"`
	Problems   []release.Problem    `json:"problems"`
}

func (a *app) build(ctx context.Context, dir string, o buildOptions) error {
	b, err := a.buildRelease(ctx, dir, o)
	if err != nil {
		return err
	}
	return a.Print(b, func() error {
		a.Printf("Built release %s of fleet %s, version %d, in %s (%s, unsigned)\n", b.Ref, b.Fleet, b.Version, b.Out, prose.Count(b.Files, "file"))
		a.showChanges(b)
		a.Printf("Next: steady release sign%s\n", dirHint(b.Out))
		return nil
	})
}

// buildRelease builds the release of a fleet folder and writes it, unless the
// options say dry. What is wrong in the folder is said already.
func (a *app) buildRelease(ctx context.Context, dir string, o buildOptions) (built, error) {
	opts := release.BuildOptions{Ref: o.ref, Now: a.Wall()}
	for _, text := range o.removals {
		r, err := fleet.ParseRemoval(text)
		if err != nil {
			return built{}, exit.Badf("--allow-removal %w", err)
		}
		opts.Removals = append(opts.Removals, r)
	}
	untracked := o.untracked
	if o.lock {
		untracked = append(slices.Clone(untracked), fleetdir.LockFile)
	}
	if o.lock && !o.dry {
		if _, err := a.lock(ctx, dir, lockOptions{}); err != nil {
			return built{}, err
		}
	}
	src, problems := fleetdir.Load(dir, untracked...)
	if release.Fatal(problems) || src == nil {
		return built{}, a.refuseBuild(problems, o.all)
	}
	prev, folder, drop, err := a.previous(ctx, o)
	if err != nil {
		return built{}, err
	}
	defer drop()
	if err := a.contains(dir, src, prev, o); err != nil {
		return built{}, err
	}
	opts.Previous = prev
	if prev != nil {
		opts.Epoch = prev.Resolved.Value().Epoch
	}
	if opts.Epoch, err = newestEpoch(o.root, opts.Epoch); err != nil {
		return built{}, err
	}
	rel, more := release.Build(src, opts)
	problems = release.Join(problems, more)
	if release.Fatal(problems) || rel == nil {
		return built{}, a.refuseBuild(problems, o.all)
	}
	if o.check != nil {
		if err := o.check(rel, prev); err != nil {
			return built{}, err
		}
	}
	if !o.dry {
		keep := ""
		if folder == o.out {
			keep = keptName(o.out) // so that the next build still finds it
		}
		if err := release.WriteKeeping(o.out, rel.Files, keep, rel.NarList()...); err != nil {
			return built{}, err
		}
	}
	if a.TableOutput() {
		a.printProblems(problems, o.all)
		a.printPrevious(folder, o, prev)
	}
	return built{OK: true, Fleet: rel.Fleet, Ref: rel.Ref, Version: rel.Version, Changed: command.NonNil(rel.Changed), Compliance: rel.Compliance, Expected: rel.Expected, Again: rel.Again, Out: o.out, Files: len(rel.Files), Problems: command.NonNil(problems)}, nil
}

// newestEpoch is the key epoch of the newest root beside the first one, where the
// chain is at hand, or that of the previous release.
func newestEpoch(root string, previous uint64) (uint64, error) {
	if _, err := os.Stat(root); err != nil || filepath.Base(root) != keyring.RootFile(1) {
		return previous, nil
	}
	v, err := keyring.Newest(filepath.Dir(root))
	if err != nil {
		return 0, exit.With(exit.Refused, err)
	}
	return max(previous, v.Epoch()), nil
}

// showChanges says what a release changes, by channel.
func (a *app) showChanges(b built) {
	if len(b.Changed) == 0 {
		a.Printf("  No channel's plan changed since the previous release: where that was pushed, this one opens no rollout.\n")
	}
	for _, c := range b.Changed {
		a.Printf("  channel %s changed: rollout %s@%s\n", c, c, b.Ref)
		if words := describeExpected(b.Expected, c, a.Wall()); words != "" {
			a.Printf("    %s\n", words)
		}
	}
	for _, g := range b.Again {
		a.PrintFolded("  %s\n", wayBack(g))
	}
	for _, c := range b.Compliance {
		a.Printf("  channel %s: %s, %d failed\n", c.Channel, prose.Count(c.Controls, "control"), len(c.Failures))
	}
}

// describeExpected reports when a channel's rollout ends.
func describeExpected(expected []release.Expected, channel string, now clock.Instant) string {
	i := slices.IndexFunc(expected, func(e release.Expected) bool { return e.Channel == channel })
	if i < 0 {
		return ""
	}
	e := expected[i]
	words := "it ends " + e.End.Message(now)
	if e.Refresh {
		words += fmt.Sprintf("; sign the timestamp again meanwhile, it lasts %s", e.FreshnessWindow)
	}
	return words
}

func (a *app) refuseBuild(problems []release.Problem, all bool) error {
	err := a.Print(built{Changed: []string{}, Problems: command.NonNil(problems)}, func() error {
		a.printProblems(problems, all)
		return nil
	})
	return cmp.Or(err, exit.Silently(exit.BadInput))
}

// mostWarnings is how many lines of warnings a build prints without --all.
const mostWarnings = 10

func (a *app) printProblems(problems []release.Problem, all bool) {
	most := mostWarnings
	if all {
		most = len(problems)
	}
	lines, left := strictyaml.Brief(problems, most)
	shortened := left > 0
	for _, l := range lines {
		fmt.Fprintln(a.Err, l)
		shortened = shortened || l.More > 0
	}
	switch {
	case left > 0:
		fmt.Fprintf(a.Err, "%s of other kinds; each of them: --all\n", prose.Count(left, "more warning"))
	case shortened:
		fmt.Fprintln(a.Err, "each of them: --all")
	}
}

// previous finds and verifies the release before this one and says which folder it
// is in. Without one it is nil. drop removes what was fetched.
func (a *app) previous(ctx context.Context, o buildOptions) (prev *release.Verified, folder string, drop func(), err error) {
	nothing := func() {}
	folder = o.where
	switch {
	case folder == "" && o.publishes:
		return a.onServer(ctx, o)
	case folder == fromServer:
		trusted, err := trustedBeside(o.root)
		if err != nil {
			return nil, "", nil, err
		}
		prev, _, drop, err = a.newestOf(ctx, trusted, o.previousOptions, o.out)
		return prev, "", drop, err
	case folder == "none":
		return nil, "", nothing, nil
	case folder == "" && isSigned(o.out):
		folder = o.out
	case folder == "" && isSigned(keptName(o.out)):
		folder = keptName(o.out)
	case folder == "":
		return nil, "", nothing, nil
	}
	prev, drop, err = a.verified(ctx, folder, o.root)
	return prev, folder, drop, err
}

// verified takes a release from a folder or a URL and verifies it up to a root.
func (a *app) verified(ctx context.Context, where, root string) (*release.Verified, func(), error) {
	dir, drop, err := a.fetched(ctx, where)
	if err != nil {
		return nil, nil, err
	}
	state, err := trustRoot(root)
	if err != nil {
		drop()
		return nil, nil, fmt.Errorf("the previous release in %s cannot be checked: %w", where, err)
	}
	v, err := release.VerifyDir(dir, state, a.Wall())
	if err != nil {
		drop()
		return nil, nil, fmt.Errorf("previous %s: %w; give another with --previous, or none", where, err)
	}
	return v, drop, nil
}

func isSigned(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, signedMark))
	return err == nil
}

func keptName(out string) string { return filepath.Clean(out) + ".previous" }

// trustRoot reads the root that a person trusts.
func trustRoot(path string) (trust.State, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return trust.State{}, exit.Badf("the root of trust %s does not exist; steady keys init makes it, --root names it", path)
	}
	if err != nil {
		return trust.State{}, err
	}
	s, err := release.Trust(raw)
	if err != nil {
		return s, fmt.Errorf("%s: %w; steady keys init makes one, --root names it", path, err)
	}
	return s, nil
}
