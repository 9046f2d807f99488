package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
)

type publishOptions struct {
	buildOptions
	keys  string
	watch bool
	again []string // channels
}

type published struct {
	DryRun  bool             `json:"dryRun,omitempty"`
	Server  string           `json:"server"`
	Build   built            `json:"build"`
	Release *releaseView     `json:"release,omitempty"` // nil in a dry run
	Push    *operator.Pushed `json:"push,omitempty"`    // nil in a dry run
	// Opens are the rollouts of the release that the server had not heard of.
	Opens []string `json:"opens,omitempty"`
	// Queued are those of them that do not open yet, with what they wait for.
	Queued []operator.Rollout `json:"queued,omitempty"`
}

func (a *app) releasePublish() *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:   "publish [DIR]",
		Short: "Build, sign and push a release in one step",
		Long: `Builds the fleet folder DIR (default: the present folder), signs the release with
the keys in --keys, and pushes it to the server: what release build, sign and push
do one after the other. Each step says what it did; the first that fails ends it,
and says what is left to do.

The release is built on the newest one that the server has, whoever published that.
It is refused, before anything is written, where the checkout lacks the commit of that
one (--previous server builds on it all the same), and where it gives hosts a bundle
again that the server's newest release took from them, or that they refuse because it
is quarantined or was rolled back: --again CHANNEL says that it is meant.

Where the release key is kept elsewhere, publish stops after the build and says
how to go on. --dry-run builds, looks for the keys and asks the server, and
changes nothing. --watch follows the rollouts that the release opens.`,
		Example: "  steady release publish\n  steady release publish fleet --keys /media/usb/keys --watch\n  steady release publish --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.watch && !a.TableOutput() {
				return exit.Badf("--watch shows rollouts to people; without it, -o prints what was published, and steady rollout watch -o json follows")
			}
			o.root, o.publishes = filepath.Join(o.keys, keyring.RootFile(1)), true
			return a.publish(cmd.Context(), argOr(args, "."), o)
		},
	}
	f := cmd.Flags()
	o.sourceFlags(cmd)
	f.StringVar(&o.where, "previous", "", "previous release: a folder, a URL, server, or none (default: the newest of the server)")
	f.Uint64Var(&o.least, "min-version", 0, "the lowest version of the server's newest release that is accepted, also when its timestamp is stale")
	f.StringSliceVar(&o.again, "again", nil, "channel on which hosts may be given a bundle that was rolled back or is quarantined; may be repeated")
	f.BoolVar(&o.dry, "dry-run", false, "show what would be published, and change nothing")
	f.BoolVar(&o.watch, "watch", false, "follow the rollouts that the release opens to their end")
	keysFlag(cmd, &o.keys)
	a.NamesServer(cmd)
	return a.PrintsData(cmd)
}

func (a *app) publish(ctx context.Context, dir string, o publishOptions) error {
	done, err := a.buildSignPush(ctx, dir, o)
	if err != nil || o.dry {
		return err
	}
	if err := a.Print(done, func() error { return a.showPublished(done, o) }); err != nil || !o.watch {
		return err
	}
	return a.WithClient(func(c *operator.Client) error { return a.watchOpened(ctx, c, done.Opens) })
}

// buildSignPush has the release folder for itself.
func (a *app) buildSignPush(ctx context.Context, dir string, o publishOptions) (done published, err error) {
	where, err := a.Context() // before anything is written
	if err != nil {
		return done, err
	}
	at := filepath.Dir(filepath.Clean(o.out))
	switch lock, err := disk.TryLockFolder(at); {
	case errors.Is(err, disk.ErrLocked):
		return done, fmt.Errorf("another steady release publish is writing a release in the folder %s; wait until it ends", at)
	case err == nil:
		defer lock.Release()
	} // no lock where the folder is still to be made, or on a network file system without locks of folders
	done = published{DryRun: o.dry, Server: where.Server}
	o.check = func(rel *release.Release, _ *release.Verified) error { return a.foresee(ctx, rel, o.again) }
	if done.Build, err = a.buildRelease(ctx, dir, o.buildOptions); err != nil {
		return done, err
	}
	if a.TableOutput() {
		a.Printf("1/3 Build: release %s of fleet %s, version %d, in %s\n", done.Build.Ref, done.Build.Fleet, done.Build.Version, o.out)
		a.showChanges(done.Build)
	}
	signing, err := a.signing(o.keys)
	if err != nil {
		return done, notSigned(o, err)
	}
	if o.dry {
		return done, a.rehearse(ctx, done, o)
	}
	v, err := release.Sign(o.out, signing)
	if err != nil {
		return done, err
	}
	view := viewRelease(v, a.Wall())
	done.Release = &view
	if a.TableOutput() {
		a.Printf("2/3 Sign: with the keys in %s, and verified\n", o.keys)
	}
	err = a.WithClient(func(c *operator.Client) error {
		before, err := c.Status(ctx)
		if err != nil {
			return err
		}
		done.Opens = newRollouts(before.Channels, view.Channels)
		p, err := a.pushRelease(ctx, c, o.out, false)
		done.Push = &p
		if err == nil {
			done.Queued, err = queuedOf(ctx, c, done.Opens)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("the release is signed in %s and not pushed: %w\nOnce that is mended: steady release push%s", o.out, err, dirHint(o.out))
	}
	return done, err
}

// newRollouts names the rollouts of a release that a server does not have. What the
// build calls changed is something else: its previous release may never have been pushed.
func newRollouts(server []operator.ChannelState, release []channelView) (names []string) {
	for _, c := range release {
		known := slices.ContainsFunc(server, func(s operator.ChannelState) bool {
			return s.Name == c.Channel && (s.Rollout == c.Rollout || s.Queued == c.Rollout)
		})
		if c.Rollout != "" && !known {
			names = append(names, c.Rollout)
		}
	}
	return names
}

// notSigned says what is left to do where a key is kept elsewhere.
func notSigned(o publishOptions, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || o.dry {
		return err
	}
	return exit.Badf("the release is built in %s and not signed: %w\nWhere the keys are: steady release sign %s --keys KEYS; then steady release push%s", o.out, err, o.out, dirHint(o.out))
}

// rehearse is the end of a dry run: the keys are there, so the server is asked.
func (a *app) rehearse(ctx context.Context, done published, o publishOptions) error {
	err := a.WithClient(func(c *operator.Client) error {
		_, err := c.Status(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(done, func() error {
		a.Printf("2/3 Sign: would be signed with the keys in %s\n3/3 Push: would go to %s, which answers\n", o.keys, done.Server)
		a.Printf("Nothing was changed. Next: steady release publish\n")
		return nil
	})
}

func (a *app) showPublished(done published, o publishOptions) error {
	a.Printf("3/3 Push: release %s, version %d: %s by %s\n", done.Push.Ref, done.Push.Version, done.Push.Outcome, done.Server)
	switch {
	case len(done.Opens) == 0:
		a.Printf("It opens no rollout: the server has those of every channel already.\n")
	case !o.watch:
		opens := slices.DeleteFunc(slices.Clone(done.Opens), func(name string) bool {
			return slices.ContainsFunc(done.Queued, func(r operator.Rollout) bool { return r.Name == name })
		})
		if len(opens) > 0 {
			a.Printf("It opens %s. Next: steady rollout watch %s\n", strings.Join(opens, ", "), opens[0])
		}
	}
	a.showQueued(done.Queued)
	return nil
}

const (
	// openWithin is how long a rollout may take to open: the planner runs as soon
	// as a release was accepted, and what is not open then is queued.
	openWithin = 3 * time.Second
	retryAfter = 100 * time.Millisecond
)

// watchOpened follows the rollouts of a release, one after the other.
func (a *app) watchOpened(ctx context.Context, c *operator.Client, rollouts []string) error {
	ended := true
	for _, name := range rollouts {
		open, err := opened(ctx, c, name)
		if err != nil {
			return err
		}
		if !open {
			a.Printf("Rollout %s waits for its turn. Next: steady status says behind what, steady rollout watch %s follows it then\n", name, name)
			ended = false
			continue
		}
		r, err := watch.Watch(ctx, c, name, watch.On(a.Out, a.Screen(), false))
		if err != nil {
			return command.RemoteError(err)
		}
		ended = ended && r.Converged()
	}
	if !ended {
		return exit.Silently(exit.Failed)
	}
	return nil
}

// opened waits for a rollout to open, and reports whether it did.
func opened(ctx context.Context, c *operator.Client, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	for {
		r, err := c.Rollout(ctx, name)
		refusal, is := errors.AsType[*operator.Error](err)
		switch {
		case err == nil && r.Status != operator.Queued:
			return true, nil
		case err == nil && r.Blocked != "", ctx.Err() == context.DeadlineExceeded:
			return false, nil
		case err != nil && (!is || refusal.Status != http.StatusNotFound):
			return false, err
		}
		_ = watch.Pause(ctx, retryAfter) // the next answer says that time is over
	}
}

func (a *app) releasePush() *cobra.Command {
	var restored bool
	cmd := &cobra.Command{
		Use: "push [DIR]", Short: "Send a signed release to the server",
		Long: `Packs a signed release folder and sends it. The server verifies every byte
before it accepts the release, and opens a rollout for each channel whose plan
changed. The same release again changes nothing. Of the store paths of systems only those
are sent that the server does not have; where the connection is torn off the same push
goes on from what arrived.

A release that was built on another one than the server's newest is refused: it would
undo what was published since. Only a server that was restored from a backup may lack
the base: with --restored it accepts a release that follows its newest one by others.`,
		Example: "  steady release push\n  steady release push /tmp/release --server https://steady.example:8443\n  steady release push --restored",
	}
	cmd.Flags().BoolVar(&restored, "restored", false, "the server was restored and lacks releases that this one follows")
	return a.PrintsData(a.Stream(cmd, func(ctx context.Context, c *operator.Client, args []string) error {
		p, err := a.pushRelease(ctx, c, releaseDir(args), restored)
		if err != nil {
			return err
		}
		return a.Print(p, func() error {
			a.Printf("Release %s, version %d: %s\n", p.Ref, p.Version, p.Outcome)
			if p.Outcome == "accepted" {
				a.Printf("Next: steady rollout list, then steady rollout watch ROLLOUT\n")
			}
			return a.printQueued(ctx, c)
		})
	}))
}

// printQueued says of rollouts that have not opened what they wait for.
func (a *app) printQueued(ctx context.Context, c *operator.Client) error {
	rollouts, err := c.Rollouts(ctx)
	if err != nil {
		return err
	}
	a.showQueued(waiting(rollouts))
	return nil
}

// waiting are the rollouts that have not opened.
func waiting(rollouts []operator.Rollout) []operator.Rollout {
	return slices.DeleteFunc(slices.Clone(rollouts), func(r operator.Rollout) bool {
		return r.Status != operator.Queued || r.Blocked == ""
	})
}

// queuedOf waits until the planner has seen to what a release opens, and returns those of
// the rollouts that it does not open yet.
func queuedOf(ctx context.Context, c *operator.Client, names []string) ([]operator.Rollout, error) {
	for _, name := range names {
		if _, err := opened(ctx, c, name); err != nil {
			return nil, err
		}
	}
	rollouts, err := c.Rollouts(ctx)
	return slices.DeleteFunc(waiting(rollouts), func(r operator.Rollout) bool { return !slices.Contains(names, r.Name) }), err
}

func (a *app) showQueued(rollouts []operator.Rollout) {
	for _, r := range rollouts {
		a.PrintFolded("%s\n", fmt.Sprintf("%s waits since %s: %s", r.Name, r.QueuedAt, r.Blocked))
		if b := r.Behind; b != "" {
			a.PrintFolded("%s\n", fmt.Sprintf("  where %s is what is to be undone, this is faster: steady rollout rollback %s --reason R sends its hosts back at once", b, b))
		}
	}
}

// pushWithin bounds how long a release may travel.
const pushWithin = 15 * time.Minute

func (a *app) pushRelease(ctx context.Context, c *operator.Client, dir string, restored bool) (operator.Pushed, error) {
	if !isSigned(dir) {
		return operator.Pushed{}, exit.Badf("%s is no signed release folder; run steady release build and steady release sign", dir)
	}
	if err := a.sendNars(ctx, c, dir); err != nil { // which take as long as they arrive
		return operator.Pushed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	packed := release.PackWithoutNars(os.DirFS(dir))
	defer packed.Close()
	push := c.Push
	if restored {
		push = c.PushRestored
	}
	p, err := push(ctx, packed)
	if refusal, ok := errors.AsType[*operator.Error](err); ok && (refusal.Status == http.StatusUnprocessableEntity || refusal.Status == http.StatusConflict) {
		return p, exit.With(exit.Refused, err) // it arrived whole, and did not verify or has another base
	}
	if err == nil {
		a.noteAccepted(dir, c.URL())
	}
	return p, err
}
