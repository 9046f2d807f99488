package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

// seal signs an entry of a version with the keys of a fleet:
// seal KEYS FLEET HOST KIND/NAME SPEC VERSION ENVELOPE.
func seal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 7 {
		ts.Fatalf("usage: seal KEYS FLEET HOST KIND/NAME SPEC VERSION ENVELOPE")
	}
	signer, err := keyring.Signer(ts.MkAbs(args[0]), trust.RoleOverride)
	ts.Check(err)
	version, err := strconv.ParseUint(args[5], 10, 64)
	ts.Check(err)
	kind, name, _ := strings.Cut(args[3], "/")
	envelope, err := trust.SignManagedEntry(fleet.ManagedEntry{
		Document: fleet.Document{Fleet: args[1], Epoch: 1, Version: version, IssuedAt: 1},
		Host:     args[2], Kind: kind, Name: name, Spec: strings.TrimSpace(ts.ReadFile(args[4])),
	}, signer)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[6]), envelope, 0o644))
}

// put has the server hold a spec with an envelope, as one does that speaks for
// somebody else: put HOST KIND/NAME SPEC ENVELOPE.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: put HOST KIND/NAME SPEC ENVELOPE")
	}
	kind, name, _ := strings.Cut(args[1], "/")
	r := operator.SetResource{Spec: json.RawMessage(ts.ReadFile(args[2])), Envelope: json.RawMessage(ts.ReadFile(args[3]))}
	e := command.New(command.Streams{Out: ts.Stdout(), Err: ts.Stderr(), Getenv: ts.Getenv})
	ts.Check(e.WithClient(func(c *operator.Client) error {
		_, err := c.SetResource(context.Background(), args[0], kind, name, r)
		return err
	}))
}
