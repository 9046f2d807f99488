package operate

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
)

func (a verbs) uiCmd() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use: "ui", GroupID: command.GroupWatch, Short: "Open the web UI in a browser, logged in",
		Long: `Prints a link to the server's web UI that logs a browser in, and opens it where there
is a browser. The link is good once, within a minute; the login that it opens may
what your token may, for twelve hours at most, and ends with the token.

The server's certificate is of the fleet's own authority, which browsers do not know:
compare the fingerprint that yours shows with the printed one before you go on.

Other users of this machine can see what programs are called with: give --no-browser
where you do not trust them, and paste the link.`,
		Example: "  steady ui\n  steady ui --no-browser\n  steady ui -o json",
	}
	cmd.Flags().BoolVar(&quiet, "no-browser", false, "print the link alone")
	return command.Shows(a.Env, cmd, func(ctx context.Context, c *operator.Client, _ []string) (operator.UILink, error) {
		return c.UILink(ctx)
	}, func(l operator.UILink) error {
		a.Printf("%s\nGood once, until %s. The server's certificate (SHA-256):\n%s\n", l.URL, l.Expires, Fingerprint(l.Certificate))
		if open := a.browser(); open != nil && !quiet {
			if err := start(exec.Command(open[0], append(open[1:], l.URL)...)); err != nil {
				a.Warn("no browser was opened: %v", err)
			}
		}
		return nil
	})
}

// browser is the command that opens a link on this machine, or nil without a screen.
func (a verbs) browser() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if a.Getenv("DISPLAY") == "" && a.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	return []string{"xdg-open"}
}

// start begins what outlives this command.
func start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// Fingerprint writes a digest in hex as browsers show those of certificates.
func Fingerprint(hex string) string {
	var b strings.Builder
	for i := 0; i+1 < len(hex); i += 2 {
		fmt.Fprintf(&b, "%s:", hex[i:i+2])
	}
	return strings.ToUpper(strings.TrimSuffix(b.String(), ":"))
}
