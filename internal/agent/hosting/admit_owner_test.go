package hosting_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

func delegating(b spec.Bounds) *fleet.Delegation {
	return &fleet.Delegation{Kinds: spec.Kinds, Bounds: b}
}

func owned(e wire.ManagedEntry, by spec.Owner) wire.ManagedEntry {
	e.Owner = by
	return e
}

// An entry of an owner whom the declaration does not let in, or whom this host does not know,
// is refused alone.
func TestAdmitTakesTheOwnersThatAreDeclared(t *testing.T) {
	session := spec.SessionOwner("lab")
	for name, c := range map[string]struct {
		owner  spec.Owner
		bounds spec.Bounds
		words  string // empty: it is taken
	}{
		"operators":            {spec.Operators, spec.Bounds{}, ""},
		"a session":            {session, spec.Bounds{Owners: []string{"session"}}, ""},
		"no session":           {session, spec.Bounds{}, `expected "owners: [session]" in bounds`},
		"a session, unsigned":  {session, spec.Bounds{Owners: []string{"session"}, RequireSigned: true}, "requireSigned"},
		"one of later":         {"robot/r", spec.Bounds{Owners: []string{"session", "robot"}}, `owner "robot/r" is not known`},
		"a session of no name": {"session", spec.Bounds{Owners: []string{"session"}}, "is not known"},
		"another's name":       {"session/../x", spec.Bounds{Owners: []string{"session"}}, "is not known"},
		"a long one":           {spec.Owner(strings.Repeat("x", 1<<20)), spec.Bounds{Owners: []string{"session"}}, "is not known"},
	} {
		verified := false
		in := hosting.AdmitInput{Doc: wire.Managed{Entries: []wire.ManagedEntry{owned(entry("volume", "v", `{}`), c.owner)}}, Delegation: delegating(c.bounds),
			Verify: func(json.RawMessage) (hosting.SignedEntry, error) {
				verified = true
				return hosting.SignedEntry{Kind: "volume", Name: "v", Spec: json.RawMessage(`{}`)}, nil
			}}
		in.Doc.Entries[0].Envelope = json.RawMessage(`{}`)
		got := hosting.Admit(in)
		if c.words == "" {
			if len(got.Refused) > 0 || len(got.Layer.Set.Volumes) != 1 {
				t.Errorf("%s: %+v", name, got.Refused)
			}
			continue
		}
		if verified || len(got.Layer.Set.Volumes) != 0 || len(got.Refused) != 1 || got.Refused[0].Code != managed.OutOfBounds ||
			!strings.Contains(got.Refused[0].Message, c.words) || len(got.Refused[0].Message) > 500 {
			t.Errorf("%s: verified %v, %+v", name, verified, got)
		}
	}
}
