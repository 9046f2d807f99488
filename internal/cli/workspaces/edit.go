package workspaces

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/spec"
)

func (a verbs) editCmd() *cobra.Command {
	var f watch.WaitFlags
	cmd := &cobra.Command{
		Use: "edit HOST/NAME", Short: "Change a workspace in your editor",
		Long: `Opens a workspace of the managed layer as YAML in $VISUAL, $EDITOR or vi, and sets
what was saved if it changed. What cannot be set is kept in a file.`,
		Example: "  steady workspace edit gpu-1/web\n  EDITOR=nano steady workspace edit gpu-1/web --wait",
	}
	reason := command.RequiresReason(cmd)
	f.Add(cmd)
	return a.PrintsData(a.OnResource(cmd, spec.KindWorkspace, func(ctx context.Context, c *operator.Client, host, name string) error {
		return a.edit(ctx, c, host, name, *reason, f)
	}))
}

func (a verbs) edit(ctx context.Context, c *operator.Client, host, name, reason string, f watch.WaitFlags) error {
	const kind = spec.KindWorkspace
	before, err := c.ManagedResource(ctx, host, kind, name)
	if err != nil {
		return err
	}
	was := apply.Resource{Host: host, ID: spec.ID{Kind: kind, Name: name}, Spec: before.Spec}
	text, err := apply.Write(spec.Known, &was)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "steady-edit-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, host+"."+name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	kept := func(err error) error {
		return fmt.Errorf("%w\nwhat you wrote is kept in %s; steady apply -f sets it", err, file)
	}
	if err := a.Editor(ctx, file); err != nil {
		return kept(err)
	}
	list, err := apply.ReadFile(a.Env, file, host)
	if err != nil {
		return exit.Bad(kept(err))
	}
	if len(list) != 1 || list[0].ID != was.ID {
		return exit.Bad(kept(fmt.Errorf("the file is no longer of %s alone", was.ID)))
	}
	if bytes.Equal(compact(list[0].Spec), compact(before.Spec)) {
		a.Printf("Nothing changed\n")
		return os.RemoveAll(dir)
	}
	s, err := apply.Begin(ctx, a.Env, c, reason)
	if err == nil {
		s.NotAfter, s.Version = before.NotAfter, before.Version
		_, err = s.Set(ctx, list[0])
	}
	if err != nil {
		return kept(err)
	}
	if !s.Done() {
		a.Warn("what you wrote is kept in %s; steady apply -f sets it", file)
		return s.Finish(ctx, f)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return s.Finish(ctx, f)
}

func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
