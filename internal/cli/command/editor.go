package command

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"

	"github.com/steadyfleet/steady/internal/cli/exit"
)

// Editor opens a file in the person's editor, and waits until it is closed.
func (e *Env) Editor(ctx context.Context, file string) error {
	editor := cmp.Or(e.Getenv("VISUAL"), e.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", file) // with the words that it may have
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.In, e.Out, e.Err
	if err := cmd.Run(); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("the editor %q ended with an error: %w", editor, err))
	}
	return nil
}
