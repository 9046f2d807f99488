package stream

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// Check refuses what the host's signed declaration does not allow, with the line
// that would, and what is malformed. A plan shows no more than the host reports
// of kinds that it leaves to the server, so these need no allowance of their own.
func Check(r wire.StreamRequest, d *fleet.Delegation) error {
	kind, name, _ := strings.Cut(r.Resource, "/")
	var err error
	switch r.Kind {
	case wire.StreamLogs:
		err = cmp.Or(d.RequireAllowance("", fleet.AllowLogs), is(r, kind, spec.KindWorkspace))
	case wire.StreamOutput:
		err = cmp.Or(d.RequireAllowance("", fleet.AllowLogs), is(r, kind, spec.KindImage))
	case wire.StreamExec:
		err = cmp.Or(d.RequireAllowance("", fleet.AllowExec), is(r, kind, spec.KindWorkspace), command(r.Args))
	case wire.StreamOrphans, wire.StreamPrune:
		err = cmp.Or(d.RequireAllowance("", fleet.AllowPrune), is(r, kind, "host"))
	case wire.StreamDiscard:
		err = cmp.Or(is(r, kind, spec.KindVolume), acceptsSessions(d))
	case wire.StreamPlan:
		if !d.Manages(kind) && !d.Allows(fleet.AllowLogs) {
			err = d.RequireKind("", kind)
		}
		if err != nil && spec.Known.Kind(kind) == nil {
			err = fmt.Errorf("unknown kind %q: expected one of %s", kind, strings.Join(spec.Kinds, ", "))
		}
	default:
		err = fmt.Errorf("this agent knows no streams of kind %q; a newer one may", r.Kind)
	}
	if err == nil {
		err = fleet.CheckName(name)
	}
	if err == nil && (r.Args.Tail < 0 || r.Args.Since < 0 || r.Args.After < 0) {
		err = fmt.Errorf("tail is %d, since %d and after %d: expected 0 or more", r.Args.Tail, r.Args.Since, r.Args.After)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

// acceptsSessions refuses what is of sessions where the declaration lets none in.
func acceptsSessions(d *fleet.Delegation) error {
	if d == nil {
		return errors.New("the declaration of this host leaves nothing to the server")
	}
	return d.Bounds.CheckOwner(spec.SessionOwner("any"))
}

func is(r wire.StreamRequest, kind, want string) error {
	if kind == want {
		return nil
	}
	return fmt.Errorf("%q has no %s: expected a resource of kind %s, such as %s/web", r.Resource, r.Kind, want, want)
}

func command(a wire.StreamArgs) error {
	size := len(a.User) + len(a.WorkDir)
	for _, s := range a.Argv {
		size += len(s)
	}
	switch {
	case len(a.Argv) == 0 || a.Argv[0] == "":
		return errors.New("there is no command to run")
	case len(a.Argv) > maxArgv || size > maxArgs:
		return fmt.Errorf("the command has %d arguments and %d bytes: expected at most %d and %d", len(a.Argv), size, maxArgv, maxArgs)
	case a.Rows < 0 || a.Rows > 4096 || a.Cols < 0 || a.Cols > 4096:
		return fmt.Errorf("the terminal has %d rows and %d columns: expected at most 4096", a.Rows, a.Cols)
	}
	return nil
}
