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
	"github.com/steadyfleet/steady/internal/disk"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.recoverAdmin(cmd.Context(), data, name)
			if err != nil {
				return err
			}
			return a.Print(r, func() error { a.showRecovered(r); return nil })
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data folder of the server (required)")
	cmd.Flags().StringVar(&name, "name", "admin", "name of the new token")
	return a.PrintsData(cmd)
}

func (a *app) recoverAdmin(ctx context.Context, data, name string) (r recovered, err error) {
	dir, err := command.StoreFolder(data)
	if err != nil {
		return r, err
	}
	token, err := control.NewRecovery(name, whoami())
	if err != nil {
		return r, exit.Badf("--name: %w", err)
	}
	r.ID = token.ID
	unlock, err := lockData(data)
	switch {
	case errors.Is(err, disk.ErrLocked):
		r.Running = true
		err = token.Request(ctx, data)
	case err == nil:
		defer func() { err = errors.Join(err, unlock()) }()
		err = a.appendRecovery(ctx, token, dir)
	}
	if err != nil {
		return r, err
	}
	if r.Token, err = token.WriteSecret(data); err != nil {
		return r, err
	}
	path := filepath.Join(data, operatorFile)
	err = command.ChangeToken(path, token.Secret)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, err
	}
	r.Context = path
	return r, control.GiveToOwner(path)
}

// appendRecovery records the token in the log of a stopped server.
func (a *app) appendRecovery(ctx context.Context, token *control.Recovery, dir string) (err error) {
	s, err := embedded.Open(ctx, dir, embedded.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return token.Append(ctx, s, a.Wall())
}

// whoami names who asks, for the log.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("%s (uid %d) on the server's machine", name, os.Getuid())
}

func (a *app) showRecovered(r recovered) {
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
}
