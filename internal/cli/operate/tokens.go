package operate

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
)

func (a verbs) operatorCmd() *cobra.Command {
	return command.Group(command.GroupMore, "operator", "Make and withdraw operators' tokens",
		"  steady operator create ci --role releaser\n  steady operator list", a.operatorList(), a.operatorCreate(), a.operatorRevoke())
}

func (a verbs) operatorList() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List the operators' tokens, and who is logged in with a browser",
		Long: `Lists the operators' tokens with when each was made, when it ends, and when it was
last used. The last use is exact while the server runs and known to the day after
it was restarted. Below them are the logins of browsers, each with the token that
it was opened with; steady operator revoke ends one as well.`,
		Example: "  steady operator list",
	}
	return command.Shows(a.Env, list, func(ctx context.Context, c *operator.Client, _ []string) ([]operator.Token, error) {
		all, err := c.Tokens(ctx)
		return command.NonNil(all), err
	}, func(all []operator.Token) error {
		var tokens, logins [][]string
		for _, t := range all {
			created, ends := "unknown", t.Expires.String()
			if t.CreatedAt != 0 {
				created = t.CreatedAt.String()
			}
			if t.Expires.Reached(a.Wall()) {
				ends = "ENDED " + ends
			}
			if t.Parent == "" {
				tokens = append(tokens, []string{t.ID, t.Name, string(t.Role), created, ends, t.LastUsed.String()})
			} else {
				logins = append(logins, []string{t.ID, t.Name, t.Parent, ends, t.LastUsed.String()})
			}
		}
		if err := a.Table([]string{"id", "name", "role", "created", "ends", "last used"}, tokens); err != nil || len(logins) == 0 {
			return err
		}
		a.Printf("\nLogged in with a browser:\n")
		return a.Table([]string{"id", "name", "with token", "ends", "last used"}, logins)
	})
}

type madeOperator struct {
	operator.MadeToken
	// Context is the file that was written.
	Context string `json:"context"`
}

func (a verbs) operatorCreate() *cobra.Command {
	var role, life, out string
	create := &cobra.Command{
		Use: "create NAME", Short: "Make an operator's token, with the file that its bearer needs",
		Long: `Makes a token and writes the context file that its bearer needs: where the server
is, the authority of its certificate, and the token, readable by you alone. The
secret is kept nowhere else. STEADY_CONTEXT=FILE steady status works at once.

A token ends after --life; steady operator list says when each does.`,
		Example: "  steady operator create ann --role operator\n  steady operator create ci --role releaser --life 720h --out ci-context.json",
	}
	f := create.Flags()
	f.StringVar(&role, "role", string(operator.Viewer), "viewer, operator, releaser or admin")
	f.StringVar(&life, "life", access.DefaultLife.String(), fmt.Sprintf("how long the token is good, %s to %s", access.MinLife, access.MaxLife))
	f.StringVar(&out, "out", "", "the context file to write (default NAME.json)")
	command.Complete(create, "role", string(operator.Viewer), string(operator.Operator), string(operator.Releaser), string(operator.Admin))
	return a.PrintsData(a.Talk(create, func(ctx context.Context, c *operator.Client, args []string) error {
		d, err := clock.ParseDuration(life)
		if err != nil || d < access.MinLife || d > access.MaxLife {
			return exit.Badf("--life %s: expected a duration from %s to %s", life, access.MinLife, access.MaxLife)
		}
		if out == "" {
			out = args[0] + ".json"
		}
		if _, err := os.Lstat(out); err == nil {
			return exit.Badf("%s is there already; give another file with --out", out)
		}
		where, err := a.Context()
		if err != nil {
			return err
		}
		where.Token = ""
		if err := command.WriteContext(out, where); err != nil { // before there is a secret that nobody could keep
			return exit.Bad(fmt.Errorf("no token was made, for its file cannot be written: %w; give another one with --out", err))
		}
		made, err := c.CreateToken(ctx, operator.NewToken{Name: args[0], Role: operator.Role(role), Life: d})
		if err != nil {
			return errors.Join(err, os.Remove(out))
		}
		where.Token = made.Secret
		if err := command.WriteContext(out, where); err != nil {
			return fmt.Errorf("the token %s was made and its file was not written: %w; steady operator revoke %[1]s", made.ID, err)
		}
		return a.Print(madeOperator{made, out}, func() error {
			a.Printf("Token %s: %s, %s, good until %s\nWrote %s, which holds the secret: bring it to its bearer over a safe channel.\nNext, there:\n  %s=%s steady status\n",
				made.ID, made.Name, made.Role, made.Expires, out, command.EnvContext, out)
			return nil
		})
	}))
}

func (a verbs) operatorRevoke() *cobra.Command {
	var force bool
	revoke := &cobra.Command{
		Use: "revoke ID", Short: "Withdraw an operator's token",
		Long: `Withdraws an operator's token; it is refused from now on, and so are the browsers that
logged in with it. The ID of a login ends that one alone. The last admin's token
is only withdrawn with --force: nobody could make another through the server then,
and steady server recover-admin on its machine is the only way back in.`,
		Example: "  steady operator revoke 5f0c2b9e71d4a386\n  steady operator revoke 5f0c2b9e71d4a386 -o json",
	}
	revoke.Flags().BoolVar(&force, "force", false, "also the token of the last admin")
	return command.Shows(a.Env, revoke, func(ctx context.Context, c *operator.Client, args []string) (revoked, error) {
		return revoked{ID: args[0], Revoked: true}, c.RevokeToken(ctx, args[0], force)
	}, func(r revoked) error { a.Printf("Revoked %s\n", r.ID); return nil })
}

type revoked struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked"`
}
