package hosting_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/digest"
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

// Where two cannot both be, an operator's stays, whatever the names.
func TestWhatOperatorsSetStays(t *testing.T) {
	b := spec.Bounds{Images: []string{"*"}, Ports: &spec.PortRange{From: 1, To: 65535}, MaxWorkspaces: 2, Owners: []string{"session"}}
	port := func(name string) wire.ManagedEntry {
		return entry("workspace", name, `{"image":"tool","ports":[{"hostPort":81,"port":80}]}`)
	}
	plain := func(name string) wire.ManagedEntry { return entry("workspace", name, `{"image":"tool"}`) }
	session := func(e wire.ManagedEntry) wire.ManagedEntry { return owned(e, spec.SessionOwner("lab")) }
	for name, c := range map[string]struct {
		entries []wire.ManagedEntry
		refused []string
		words   string
	}{
		"before it":       {[]wire.ManagedEntry{session(port("a")), port("b")}, []string{"a"}, "workspace/a gives way to workspace/b, which operators set"},
		"after it":        {[]wire.ManagedEntry{port("a"), session(port("b"))}, []string{"b"}, "81"},
		"around it":       {[]wire.ManagedEntry{session(port("a")), port("b"), session(port("c"))}, []string{"a", "c"}, "81"},
		"one too many":    {[]wire.ManagedEntry{session(plain("a")), plain("b"), plain("c")}, []string{"a"}, "gives way"},
		"operators' own":  {[]wire.ManagedEntry{session(plain("a")), port("b"), port("c")}, []string{"c"}, "81"},
		"it needs theirs": {[]wire.ManagedEntry{session(plain("a")), entry("route", "r", `{"host":"x.example","workspace":"a","port":80}`)}, nil, ""},
	} {
		bounds := b
		if name == "around it" || name == "operators' own" {
			bounds.MaxWorkspaces = 0
		}
		bounds.Routes = &spec.RouteBounds{Hosts: []string{"*"}}
		got := hosting.Admit(hosting.AdmitInput{Doc: wire.Managed{Entries: append(c.entries, entry("image", "tool", image))}, Delegation: delegating(bounds)})
		var refused []string
		words := ""
		for _, r := range got.Refused {
			refused = append(refused, r.Name)
			words += r.Message + "\n"
		}
		if d := cmp.Diff(c.refused, refused); d != "" || !strings.Contains(words, c.words) {
			t.Errorf("%s: %s\n%s", name, d, words)
		}
	}
}

// drawOwners is a layer of several owners who want the same ports, names and routes. What
// operators set needs nothing of others.
func drawOwners(t *rapid.T) hosting.AdmitInput {
	in := hosting.AdmitInput{Delegation: delegating(spec.Bounds{Images: []string{"*"}, Ports: &spec.PortRange{From: 1, To: 65535},
		Routes: &spec.RouteBounds{Hosts: []string{"*"}}, MaxWorkspaces: rapid.IntRange(0, 4).Draw(t, "most"), Owners: []string{"session"}})}
	owner := rapid.SampledFrom([]spec.Owner{spec.Operators, spec.SessionOwner("s"), spec.SessionOwner("t")})
	in.Doc.Entries = append(in.Doc.Entries, entry("image", "tool", image))
	var theirs []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		fields := rapid.SampledFrom([]string{``, `,"ports":[{"hostPort":81,"port":80}]`, `,"title":"same"`}).Draw(t, "workspace")
		e := owned(entry("workspace", name, `{"image":"tool"`+fields+`}`), owner.Draw(t, "owner"))
		if e.Owner == spec.Operators {
			theirs = append(theirs, name)
		}
		in.Doc.Entries = append(in.Doc.Entries, e)
	}
	for _, name := range []string{"a", "b", "c"} {
		serves, by := rapid.SampledFrom([]string{"a", "c", "e"}).Draw(t, "serves"), owner.Draw(t, "owner")
		if by == spec.Operators && !slices.Contains(theirs, serves) {
			continue
		}
		in.Doc.Entries = append(in.Doc.Entries, owned(entry("route", name, `{"host":"x.example","workspace":"`+serves+`","port":80}`), by))
	}
	return in
}

// TestS54OthersCostOperatorsNothing: of what operators set and that stands without others'
// entries, a host takes everything with them, too.
func TestS54OthersCostOperatorsNothing(t *testing.T) {
	clashes := 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawOwners(t)
		with := hosting.Admit(in)
		in.Doc.Entries = slices.DeleteFunc(slices.Clone(in.Doc.Entries), func(e wire.ManagedEntry) bool { return e.Owner != spec.Operators })
		alone := hosting.Admit(in)
		for _, id := range alone.Layer.Set.IDs() {
			if !with.Layer.Set.Has(id) {
				t.Fatalf("%s is out for others' sake: %+v", id, with.Refused)
			}
		}
		if len(with.Refused) > len(alone.Refused) {
			clashes++
		}
	})
	if clashes == 0 {
		t.Fatal("nothing of others was refused: the draws show nothing")
	}
}

// Sessions name secrets of their own alone, whatever the bounds leave to operators, and operators none of a session.
// The owner of a volume is what the entry says, not its spec.
func TestAdmitTakesSecretsOfTheSessionAlone(t *testing.T) {
	lab := spec.SessionOwner("lab")
	naming := func(secret string) wire.ManagedEntry {
		return entry("workspace", "w", `{"image":"tool","env":[{"name":"A","secret":"`+secret+`"}]}`)
	}
	for name, c := range map[string]struct {
		entry wire.ManagedEntry
		words string // empty: it is taken
	}{
		"its own":             {owned(naming("session/lab/1/p/q/password"), lab), ""},
		"another session's":   {owned(naming("session/other/1/p/q/password"), lab), "is not of session lab"},
		"the host's":          {owned(naming("db"), lab), `secret "db" is not of session lab`},
		"operators, host's":   {naming("db"), ""},
		"operators, other":    {naming("unnamed"), "is not allowed here"},
		"operators, session":  {naming("session/lab/1/p/q/password"), "is of session lab"},
		"operators, kept":     {entry("volume", "w", `{"keep":1000}`), "keep is for volumes of sessions"},
		"a session, kept":     {owned(entry("volume", "w", `{"keep":1000}`), lab), ""},
		"a session, too long": {owned(entry("volume", "w", `{"keep":2592000001}`), lab), "expected at most"},
	} {
		got := hosting.Admit(hosting.AdmitInput{Doc: wire.Managed{Entries: []wire.ManagedEntry{c.entry, entry("image", "tool", image)}},
			Delegation: delegating(spec.Bounds{Images: []string{"*"}, Secrets: []string{"db"}, Owners: []string{"session"}})})
		words := ""
		for _, r := range got.Refused {
			words += r.Message
		}
		if (c.words == "") != (words == "") || !strings.Contains(words, c.words) {
			t.Errorf("%s: %q", name, words)
		}
	}
	got := hosting.Admit(hosting.AdmitInput{Doc: wire.Managed{Entries: []wire.ManagedEntry{
		entry("volume", "a", `{"owner":"session/lab"}`), owned(entry("volume", "b", `{"owner":"session/other"}`), lab)}},
		Delegation: delegating(spec.Bounds{Owners: []string{"session"}})})
	if v := got.Layer.Set.Volumes; len(v) != 2 || v[0].Owner != spec.Operators || v[1].Owner != lab {
		t.Errorf("%+v", got)
	}
	none := hosting.Admit(hosting.AdmitInput{Doc: wire.Managed{Entries: []wire.ManagedEntry{owned(naming("session/lab/1/p/q/password"), lab)}}, Delegation: delegating(spec.Bounds{})})
	if len(none.Layer.Set.Workspaces) != 0 {
		t.Errorf("%+v", none)
	}
}

// TestNoEntryNamesACopyOfAnother: copies of files that workspaces share are told apart by owner, so that no entry of the
// managed layer reads or writes one of the bundle or of another owner.
func TestNoEntryNamesACopyOfAnother(t *testing.T) {
	b := spec.Blob{Digest: digest.Of([]byte("x")), Size: 1}
	text := `{"image":"app","contents":[{"target":"/x","blob":{"digest":"` + string(b.Digest) + `","size":1},"writable":true,"shared":"site"}]}`
	names := map[string]bool{"site": true}
	for _, owner := range []spec.Owner{spec.Operators, spec.SessionOwner("lab"), spec.SessionOwner("other")} {
		got := hosting.Admit(hosting.AdmitInput{Delegation: delegating(spec.Bounds{Images: []string{"app"}, Owners: []string{"session"}}),
			Doc: wire.Managed{Entries: []wire.ManagedEntry{owned(entry("image", "app", `{"ref":"app:1","pull":{}}`), owner), owned(entry("workspace", "w", text), owner)}}})
		if len(got.Layer.Set.Workspaces) != 1 {
			t.Fatalf("%s: %+v", owner, got.Refused)
		}
		name := got.Layer.Set.Workspaces[0].Contents[0].Shared
		if names[name] {
			t.Errorf("%q: the copy is named %q, as another's is", owner, name)
		}
		names[name] = true
	}
}
