package operate

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

// Sealed is an override as it was signed.
type Sealed struct {
	fleet.Override
	Envelope []byte
	// Missing says why the fleet's root does not take it yet: others must sign too.
	Missing error
}

// Seal signs an override with the key of a folder. What it is about is given; its
// head, id and end are filled in. life is for how long it may be taken, zero for
// as long as is usual.
func Seal(keys string, o fleet.Override, life clock.Duration, now clock.Instant) (Sealed, error) {
	signer, v, err := keyring.SignerUnderRoot(keys, trust.RoleOverride)
	if err != nil {
		return Sealed{}, exit.Bad(err)
	}
	usual, _ := o.Action.Life()
	if life == 0 {
		life = usual
	}
	o.Document = fleet.Document{Type: fleet.TypeOverride, Fleet: v.Fleet(), Epoch: v.Epoch(), Version: uint64(now), IssuedAt: now}
	o.ID = string(o.Action) + "-" + strconv.FormatInt(int64(now), 36)
	o.NotAfter = now.Add(life)
	env, err := trust.SignOverride(o, signer)
	if err != nil {
		return Sealed{}, exit.Bad(err)
	}
	_, missing := v.Override(env, now)
	return Sealed{o, env, missing}, nil
}

// Write keeps a signed override in a file that does not exist yet.
func Write(file string, env []byte) error {
	return exit.Bad(disk.Create(file, append(env, '\n'), 0o644))
}

// Flags are those of a verb that can be signed.
type Flags struct {
	Keys, File string
	life       string
}

// Add adds them. The verb is signed when --sign is given.
func (f *Flags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Keys, "sign", "", "sign it with the override key of this folder, an operator's own where there are several: hosts keep to it whoever controls the server, and no token undoes it")
	f.kept(cmd)
}

// AddRequired adds them to a verb that is always signed.
func (f *Flags) AddRequired(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Keys, "keys", "keys", "folder with the override key and the roots")
	f.kept(cmd)
}

func (f *Flags) kept(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.File, "save", "", "keep what was signed in this file too, for an empty server")
	cmd.Flags().StringVar(&f.life, "life", "", "for how long hosts accept it, such as 24h (default 24h for what loosens, 2160h for what holds)")
}

func (f *Flags) duration() (clock.Duration, error) {
	if f.life == "" {
		return 0, nil
	}
	d, err := clock.ParseDuration(f.life)
	if err != nil {
		return 0, exit.Badf("--life: %w", err)
	}
	return d, nil
}

// Push signs an override, keeps it where the flags ask for that, and brings it to
// the server.
func Push(ctx context.Context, e *command.Env, c *operator.Client, f Flags, o fleet.Override) (operator.OverridePushed, error) {
	life, err := f.duration()
	if err != nil {
		return operator.OverridePushed{}, err
	}
	s, err := Seal(f.Keys, o, life, e.Wall())
	if err != nil {
		return operator.OverridePushed{}, err
	}
	if f.File != "" {
		if err := Write(f.File, s.Envelope); err != nil {
			return operator.OverridePushed{}, err
		}
	}
	if s.Missing != nil {
		return operator.OverridePushed{}, exit.Badf("%w: sign it to a file with steady override sign, and have others add their signatures with --add", s.Missing)
	}
	return c.PushOverride(ctx, s.Envelope)
}

// OnRollout is an override on a rollout as the server knows it.
func OnRollout(ctx context.Context, c *operator.Client, action fleet.OverrideAction, id, reason string) (fleet.Override, error) {
	r, err := c.Rollout(ctx, id)
	return fleet.Override{Action: action, Channel: r.Channel, Rollout: r.Name, Manifest: r.Manifest, Reason: reason}, err
}
