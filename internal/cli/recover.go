package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
)

type recovered struct {
	ID      string `json:"id"`
	Token   string `json:"tokenFile"`
	Context string `json:"context,omitempty"` // empty before the server has written it
	Running bool   `json:"running"`
}

func (a *app) recoverAdminCmd() *cobra.Command {
	var data, name string
	cmd := &cobra.Command{
		Use: "recover-admin", Short: "Make an admin's token on the server's machine, when none is left",
		Long: `Makes an admin's token for whoever owns the server's data folder, or is root there:
the way back in when every admin's token is lost, revoked or has ended. It works
beside a running server, which takes the request within a second, and on a stopped
one. Either way the log keeps that it was done, by whom and when; other tokens stay
as they are.

The secret is written to DATA/admin.token, and into DATA/operator.json if a server
has written that before.`,
		Example: "  steady server recover-admin --data /var/lib/steady\n  STEADY_CONTEXT=/var/lib/steady/operator.json steady operator list",
	}
	cmd.Flags().StringVar(&data, "data", "", "data folder of the server (required)")
	cmd.Flags().StringVar(&name, "name", "admin", "name of the new token")
	return command.Runs(a.Env, cmd, func(ctx context.Context) (recovered, error) { return a.recoverAdmin(ctx, data, name) }, a.showRecovered)
}

func (a *app) recoverAdmin(ctx context.Context, data, name string) (r recovered, err error) {
	token, err := control.NewRecovery(name, whoami())
	if err != nil {
		return r, exit.Badf("--name: %w", err)
	}
	r.ID = token.ID
	return r, a.asOwner(ctx, data, token, func(running bool) (err error) {
		r.Running = running
		if r.Token, err = token.WriteSecret(data); err != nil {
			return err
		}
		path := filepath.Join(data, operatorFile)
		switch err := command.ChangeToken(path, token.Secret); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		r.Context = path
		return control.GiveToOwner(path)
	})
}

// ownerRequest is what only the owner of a data folder may ask for, of a server that runs and of
// one that does not.
type ownerRequest interface {
	Request(ctx context.Context, dir string) error
	Append(ctx context.Context, log store.Store, now clock.Instant) error
}

// asOwner has a request taken, and calls then while nobody else can begin with the folder that
// no server runs on.
func (a *app) asOwner(ctx context.Context, data string, r ownerRequest, then func(running bool) error) (err error) {
	dir, err := command.StoreFolder(data)
	if err != nil {
		return err
	}
	unlock, err := lockData(data)
	if errors.Is(err, disk.ErrLocked) {
		if err := r.Request(ctx, data); err != nil {
			return err
		}
		return then(true)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := embedded.Open(ctx, dir, embedded.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(r.Append(ctx, s, a.Wall()), s.Close()); err != nil {
		return err
	}
	return then(false)
}

// whoami names who asks, for the log.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("%s (uid %d) on the server's machine", name, os.Getuid())
}

func (a *app) showRecovered(r recovered) error {
	state := "the server is stopped; the token is good from its next start"
	if r.Running {
		state = "the running server took it"
	}
	a.Printf("Admin token %s: %s\nWrote its secret to %s\n", r.ID, state, r.Token)
	if r.Context != "" {
		a.Printf("Next:\n  export %s=%s\n  steady operator list\n", command.EnvContext, r.Context)
	} else {
		a.Printf("Next: start the server; it writes the context file with this token\n")
	}
	return nil
}
