package operate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

type overrideCommands struct{ *command.Env }

// Command returns steady override.
func Command(e *command.Env) *cobra.Command {
	a := overrideCommands{e}
	return command.Group(command.GroupWatch, "override", "Sign, bring and list operators' overrides",
		"  steady override list\n  steady override sign --action pause --rollout stable@v2 --release release -o pause.json\n  steady override push overrides/*.json",
		a.list(), a.show(), a.push(), a.sign())
}

func (a overrideCommands) list() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the signed overrides in force", Example: "  steady override list"}
	return command.Lists(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.Override, error) {
		return c.Overrides(ctx)
	},
		[]string{"id", "action", "about", "signed", "reason"}, func(o operator.Override) []string {
			return []string{o.ID, string(o.Action), about(o.Override), o.IssuedAt.String(), o.Reason}
		})
}

func about(o fleet.Override) string {
	switch {
	case o.Action == fleet.OverrideRemove:
		return fmt.Sprintf("host %s, incarnation %d, workloads %s", o.Host, o.Incarnation, o.Workloads)
	case o.Bundle != "" && o.Host != "":
		return o.Bundle.Short() + " on " + o.Host
	case o.Bundle != "":
		return o.Bundle.Short() + " on channel " + o.Channel
	case o.Wave != "":
		return "wave " + o.Wave + " of " + fleet.RolloutName(o.Channel, o.Manifest.Short())
	case o.Rollout != "":
		return o.Rollout
	case o.Manifest != "":
		return fleet.RolloutName(o.Channel, o.Manifest.Short())
	}
	return "channel " + o.Channel
}

func (a overrideCommands) show() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a signed override in force, or keep it in a file",
		Example: "  steady override show pause-m8x2k1a0\n  steady override show pause-m8x2k1a0 --save overrides/pause.json",
	}
	cmd.Flags().StringVar(&file, "save", "", "keep what was signed in this file, for an empty server")
	return command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, args []string) (operator.Override, error) {
		o, err := c.Override(ctx, args[0])
		if err == nil && file != "" {
			err = Write(file, o.Signed)
		}
		return o, err
	}, func(o operator.Override) error {
		a.Printf("Override %s: %s of %s\n  %s\n", o.ID, o.Action, about(o.Override), o.Reason)
		a.Printf("  signed %s, is accepted until %s, key epoch %d\n", o.IssuedAt, o.NotAfter, o.Epoch)
		a.Printf("  manifest %s, bundle %s\n", command.Short(string(o.Manifest)), command.Short(string(o.Bundle)))
		return nil
	})
}

func (a overrideCommands) push() *cobra.Command {
	cmd := &cobra.Command{
		Use: "push FILE...", Short: "Bring signed overrides to the server",
		Long: `Brings signed overrides to the server, in the order of signing. One that is in force
already changes nothing, so all that are kept in a repository can be brought to an
empty server, before or after the release. One that a later one has replaced, or
that has passed its time, is refused and named; the others are brought all the same.`,
		Example: "  steady override push overrides/*.json",
	}
	return a.Talk(cmd, func(ctx context.Context, c *operator.Client, files []string) error {
		failed := 0
		for _, file := range files {
			env, err := os.ReadFile(file)
			if err != nil {
				return exit.Bad(err)
			}
			p, err := c.PushOverride(ctx, env)
			switch {
			case err != nil:
				failed++
				a.Warn("%s: %v", file, err)
			case p.News:
				a.Printf("Override %s: %s of %s\n", p.ID, p.Action, about(p.Override.Override))
			default:
				a.Printf("Override %s was in force already\n", p.ID)
			}
		}
		if failed > 0 {
			return fmt.Errorf("%d of %d overrides were refused", failed, len(files))
		}
		return nil
	})
}

type signOptions struct {
	incarnation                                                                                         uint64
	keys, action, channel, rollout, release, manifest, wave, bundle, host, workloads, reason, add, file string
	Flags
}

func (a overrideCommands) sign() *cobra.Command {
	var o signOptions
	cmd := &cobra.Command{
		Use: "sign", Short: "Sign an override to a file, without a server",
		Long: `Signs an override to a file, without a server: pause, resume, cancel and rollback of a
rollout, named by its digest or found in a release folder; quarantine and unquarantine
of a bundle on a channel; freeze and unfreeze of a channel; promote of a wave; remove
of a host. Where the root asks for several operators, the others add their signatures with --add.

To hold takes one operator, and so does to remove a host whose data stays. To loosen
(resume, unquarantine, unfreeze, promote) and to wipe takes two where the root
names two. break-glass opens every wave of a rollout at once and always takes two;
budgets, quarantines, holds, windows and controls stay.`,
		Example: "  steady override sign --action pause --rollout stable@v2 --release release -o pause.json\n" +
			"  steady override sign --action quarantine --channel stable --bundle sha256:3fa9... -o bad.json --reason 'CVE-2031-1234'\n" +
			"  steady override sign --add pause.json -o pause-by-two.json --keys /media/usb/keys",
		RunE: func(*cobra.Command, []string) error { return a.signed(o) },
	}
	f := cmd.Flags()
	names := make([]string, len(fleet.OverrideActions))
	for i, action := range fleet.OverrideActions {
		names[i] = string(action)
	}
	f.StringVar(&o.action, "action", "", strings.Join(names, ", "))
	command.Complete(cmd, "action", names...)
	f.StringVar(&o.rollout, "rollout", "", "rollout, CHANNEL@REF")
	f.StringVar(&o.manifest, "manifest", "", "digest of the rollout's manifest")
	f.StringVar(&o.wave, "wave", "", "wave to promote")
	f.StringVar(&o.release, "release", "", "release folder to find the manifest in, instead of --manifest")
	f.StringVar(&o.channel, "channel", "", "channel of a bundle, or to freeze")
	f.StringVar(&o.bundle, "bundle", "", "digest of a bundle")
	f.StringVar(&o.host, "host", "", "the host to remove; or quarantine a bundle, or end that, on one host alone")
	f.Uint64Var(&o.incarnation, "incarnation", 0, "incarnation of the host to remove, as steady host show names it")
	f.StringVar(&o.workloads, "workloads", "", "what becomes of what a removed host runs: keep, stop or wipe")
	f.StringVar(&o.reason, "reason", command.NoReason, "why, for the log")
	f.StringVar(&o.add, "add", "", "add a signature to this file instead")
	f.StringVarP(&o.file, "out", "o", "", "file to write, which must not exist")
	f.StringVar(&o.keys, "keys", "keys", "folder with the override key and the roots")
	f.StringVar(&o.life, "life", "", "for how long hosts accept it, such as 24h (default 24h for what loosens, 2160h for what holds)")
	return cmd
}

func (a overrideCommands) signed(o signOptions) error {
	if o.file == "" {
		return exit.Badf("--out says which file to write")
	}
	if o.add != "" {
		return a.addSignature(o)
	}
	word, err := o.override()
	if err != nil {
		return err
	}
	life, err := o.duration()
	if err != nil {
		return err
	}
	s, err := Seal(o.keys, word, life, a.Wall())
	if err != nil {
		return err
	}
	if err := Write(o.file, s.Envelope); err != nil {
		return err
	}
	a.Printf("Signed %s of %s as %s, accepted until %s, in %s\n", s.Action, about(s.Override), s.ID, s.NotAfter, o.file)
	a.next(s.Missing, o.file)
	return nil
}

func (a overrideCommands) next(missing error, file string) {
	if missing != nil {
		a.Printf("Next: %v; another operator: steady override sign --add %s -o FILE --keys KEYS\n", missing, file)
		return
	}
	a.Printf("Next: steady override push %s\n", file)
}

func (a overrideCommands) addSignature(o signOptions) error {
	env, err := os.ReadFile(o.add)
	if err != nil {
		return exit.Bad(err)
	}
	signer, v, err := keyring.SignerUnderRoot(o.keys, trust.RoleOverride)
	if err != nil {
		return exit.Bad(err)
	}
	e, err := trust.ParseEnvelope(env)
	if err != nil {
		return exit.Badf("%s: %w", o.add, err)
	}
	if e.PayloadType != fleet.TypeOverride { // this key signs nothing unseen
		return exit.Badf("%s contains a %q, not an override", o.add, e.PayloadType)
	}
	var word fleet.Override
	if err := trust.Decode(e.Payload, trust.MaxOverride, &word); err != nil {
		return exit.Badf("%s: %w", o.add, err)
	}
	if err := word.Check(); err != nil {
		return exit.Badf("%s: %w", o.add, err)
	}
	if env, err = trust.AddSignatures(env, signer); err != nil {
		return exit.Bad(err)
	}
	if err := Write(o.file, env); err != nil {
		return err
	}
	a.Printf("Added a signature to %s of %s, %s: %s\n", word.Action, about(word), word.ID, word.Reason)
	_, missing := v.Override(env, a.Wall())
	a.next(missing, o.file)
	return nil
}

// override is what the flags say, without a head.
func (o *signOptions) override() (fleet.Override, error) {
	word := fleet.Override{Action: fleet.OverrideAction(o.action), Channel: o.channel, Rollout: o.rollout, Wave: o.wave, Host: o.host,
		Incarnation: o.incarnation, Workloads: fleet.Workloads(o.workloads), Reason: o.reason}
	if !slices.Contains(fleet.OverrideActions, word.Action) {
		return word, exit.Badf("--action %q: expected one of %v", o.action, fleet.OverrideActions)
	}
	for _, d := range []struct {
		flag, text string
		into       *digest.Digest
	}{{"manifest", o.manifest, &word.Manifest}, {"bundle", o.bundle, &word.Bundle}} {
		if d.text == "" {
			continue
		}
		parsed, err := digest.Parse(d.text)
		if err != nil {
			return word, exit.Badf("--%s: %w", d.flag, err)
		}
		*d.into = parsed
	}
	if o.rollout != "" && word.Channel == "" {
		word.Channel, _, _ = strings.Cut(o.rollout, "@")
	}
	if o.release == "" {
		return word, nil
	}
	if o.rollout == "" || o.manifest != "" {
		return word, exit.Badf("--release finds the manifest of --rollout, instead of --manifest")
	}
	raw, err := os.ReadFile(filepath.Join(o.release, "rollouts", filepath.Base(o.rollout)+".json"))
	if err != nil {
		return word, exit.Badf("--release: %w", err)
	}
	e, err := trust.ParseEnvelope(raw)
	if err != nil {
		return word, exit.Badf("--release: %w; sign the release first", err)
	}
	word.Manifest = digest.Of(e.Payload)
	return word, nil
}
