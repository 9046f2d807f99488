package hosting

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// AdmitInput is what Admit decides on.
type AdmitInput struct {
	Doc        wire.Managed
	Delegation *fleet.Delegation
	// Bundles are what the signed bundles of the host declare: of the generation
	// that runs and of the one that may come back. Nil ones are none.
	Bundles []*spec.Set
	// Ahead is by how much the host's own clock, which ends resources, is ahead of the
	// wall clock, by which the server says when.
	Ahead clock.Duration
	// Title gives names on the engine; nil adds nothing.
	Title spec.NameMapper
	// Verify checks an operator's signature of an entry for this host and says
	// what was signed. Without it nothing is signed.
	Verify func(envelope json.RawMessage) (SignedEntry, error)
}

// SignedEntry is the entry that an operator signed.
type SignedEntry struct {
	Kind, Name string
	Spec       json.RawMessage
	NotAfter   clock.Instant
}

// Admitted is what of a layer a host takes.
type Admitted struct {
	Layer deploy.Layer
	// BundleRequests are verbs for resources of the bundle that runs.
	BundleRequests []deploy.LayerRequest
	// Refused is the rest, in order of kind and name.
	Refused []Refusal
}

// Refusal says why an entry, or the verb of one, is not taken.
type Refusal struct {
	Kind    string
	Name    string
	Actor   string // who set it, as the server says
	Code    managed.Code
	Message string
	// Version is that of the layer which set it or asked for the verb.
	Version uint64
}

// Bounds of what is taken and repeated.
const (
	maxEntries  = managed.MaxEntries
	maxRequests = managed.MaxRequests // of the bundle
	maxNonce    = 128
	maxText     = 64
	maxFindings = 8 // findings of one refusal
)

// Admit takes of a layer what the delegation and the bounds of the managed layer
// allow. Every entry stands for itself, and the order of entries does not matter.
// It is total: any document gives a valid set.
func Admit(in AdmitInput) Admitted {
	a := &admission{in: in, title: in.Title, taken: map[string]claim{}, entries: map[spec.ID]wire.ManagedEntry{}}
	if in.Delegation != nil {
		a.bounds = in.Delegation.Bounds
		a.bounds.Kinds = in.Delegation.Kinds
	}
	if a.title == nil {
		a.title = func(t string) string { return t }
	}
	for _, b := range in.Bundles {
		if b != nil {
			for what, c := range a.claims(b) {
				if other, twice := a.taken[what]; !twice || other.shared {
					a.taken[what] = c
				}
			}
		}
	}
	for _, group := range a.grouped() {
		a.group(group)
	}
	a.prune()
	a.bounds.Confine(&a.set)
	a.complete()
	return a.out
}

type admission struct {
	in      AdmitInput
	bounds  spec.Bounds
	title   spec.NameMapper
	taken   map[string]claim // by the bundles
	entries map[spec.ID]wire.ManagedEntry
	set     spec.Set
	out     Admitted
}

func (a *admission) refuse(e wire.ManagedEntry, code managed.Code, format string, args ...any) {
	a.out.Refused = append(a.out.Refused, Refusal{Kind: cut(e.Kind), Name: cut(e.Name), Actor: cut(e.Actor), Code: code,
		Message: fmt.Sprintf(format, args...), Version: max(e.Version, e.Requested)})
}

func (a *admission) refuseOutside(e wire.ManagedEntry, why string) {
	a.refuse(e, managed.OutOfBounds, "%s: %s; change it, or the bounds of \"managed\" of this host in fleet.yaml and roll out the release", id(e), why)
}

func cut(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}

// grouped sorts the entries by kind and name and joins those of one resource.
func (a *admission) grouped() [][]wire.ManagedEntry {
	all := slices.Clone(a.in.Doc.Entries)
	slices.SortStableFunc(all, byName)
	var out [][]wire.ManagedEntry
	for i, e := range all {
		if i > 0 && all[i-1].Kind == e.Kind && all[i-1].Name == e.Name {
			out[len(out)-1] = append(out[len(out)-1], e)
			continue
		}
		out = append(out, []wire.ManagedEntry{e})
	}
	return out
}

// group looks at what the document says of one resource.
func (a *admission) group(g []wire.ManagedEntry) {
	e := g[0]
	if len(g) > 1 {
		a.refuse(wire.ManagedEntry{Kind: e.Kind, Name: e.Name}, managed.Invalid, "%s is there %d times: expected once", id(e), len(g))
		return
	}
	if spec.Known.Kind(e.Kind) == nil {
		a.refuse(e, managed.NotDelegated, "this host knows no kind %s: expected one of %s", quote(e.Kind), strings.Join(spec.Known.Names(), ", "))
		return
	}
	if err := a.in.Delegation.RequireKind("", e.Kind); err != nil {
		a.refuse(e, managed.NotDelegated, "%v", err)
		return
	}
	if err := fleet.CheckName(e.Name); err != nil {
		a.refuse(e, managed.Invalid, "name %s: expected 1 to 63 of a-z 0-9 . _ - starting with a letter or digit", quote(e.Name))
		return
	}
	if len(a.entries) >= maxEntries || len(a.out.BundleRequests) >= maxRequests {
		a.refuse(e, managed.Full, "the layer has more than %d resources or %d verbs; remove some", maxEntries, maxRequests)
		return
	}
	if err := a.bounds.CheckOwner(e.Owner); err != nil {
		a.refuseOutside(e, err.Error())
		return
	}
	if len(e.Spec) == 0 || string(e.Spec) == "null" {
		a.request(e)
		return
	}
	a.resource(e)
}

func id(e wire.ManagedEntry) string { return cut(e.Kind) + "/" + cut(e.Name) }

// declared finds the bundle that declares a resource; the first is the one that
// runs.
func (a *admission) declared(id spec.ID) (running, any bool) {
	for i, b := range a.in.Bundles {
		if b.Has(id) {
			running, any = running || i == 0, true
		}
	}
	return running, any
}

// resource takes an entry that sets a resource, if it may stand alone.
func (a *admission) resource(e wire.ManagedEntry) {
	rid := spec.ID{Kind: e.Kind, Name: e.Name}
	if _, is := a.declared(rid); is {
		a.refuse(e, managed.Clash, "%s is declared by the bundle of this host; choose another name, or change the bundle and release it", rid)
		return
	}
	if e.NotAfter < 0 {
		a.refuse(e, managed.Invalid, "%s: notAfter is %d: expected milliseconds since 1970", rid, e.NotAfter)
		return
	}
	one, err := a.read(e)
	if err != nil {
		a.refuse(e, managed.Invalid, "%s: %v", rid, err)
		return
	}
	for i := range one.Volumes {
		one.Volumes[i].Owner = e.Owner
	}
	for i := range one.Workspaces { // no entry names a copy of the bundle, or of another owner
		for j := range one.Workspaces[i].Contents {
			if c := &one.Workspaces[i].Contents[j]; c.Shared != "" {
				c.Shared = fmt.Sprintf("managed %s %s", e.Owner, c.Shared)
			}
		}
	}
	if findings := a.outside(one, e.Owner); len(findings) > 0 {
		a.refuseOutside(e, listed(findings))
		return
	}
	if findings := a.clashes(one); len(findings) > 0 {
		a.refuse(e, managed.Clash, "%s: %s; choose another, or change the bundle and release it", rid, listed(findings))
		return
	}
	a.entries[rid] = e
	a.set.Add(one)
}

// read decodes an entry's resource and checks its signature where the host asks
// for one.
func (a *admission) read(e wire.ManagedEntry) (*spec.Set, error) {
	one, value, err := a.readSpec(e.Kind, e.Name, e.Spec)
	if err != nil || !a.bounds.RequireSigned {
		return one, err
	}
	if len(e.Envelope) == 0 || a.in.Verify == nil {
		return nil, errors.New("this host accepts only entries that an operator signed (requireSigned): steady apply -f FILE --sign KEYS")
	}
	signed, err := a.in.Verify(e.Envelope)
	if err != nil {
		return nil, fmt.Errorf("the signature: %w", err)
	}
	if signed.Kind != e.Kind || signed.Name != e.Name || signed.NotAfter != e.NotAfter {
		return nil, fmt.Errorf("what was signed is %s until %d, not this", cut(signed.Kind+"/"+signed.Name), signed.NotAfter)
	}
	one, was, err := a.readSpec(signed.Kind, signed.Name, signed.Spec)
	if err == nil && string(was) != string(value) {
		err = errors.New("what was signed is another spec")
	}
	return one, err
}

func (a *admission) readSpec(kind, name string, raw json.RawMessage) (*spec.Set, json.RawMessage, error) {
	if err := wire.Check(raw); err != nil {
		return nil, nil, fmt.Errorf("the spec cannot be read: %w", err)
	}
	return spec.Known.Read(kind, name, raw)
}

// outside says what of a set of an owner is out of bounds. How many there may be is looked at
// in the whole set.
func (a *admission) outside(one *spec.Set, owner spec.Owner) []string {
	b := a.bounds
	b.MaxWorkspaces = 0
	var out []string
	for _, p := range append(b.CheckSet(one), owner.CheckSet(one)...) {
		if len(p.Path) > 2 {
			out = append(out, strings.Join(p.Path[2:], ".")+": "+p.Message)
		} else {
			out = append(out, p.Message)
		}
	}
	return out
}

// listed joins findings, and says how many more there are.
func listed(findings []string) string {
	if len(findings) <= maxFindings {
		return strings.Join(findings, "; ")
	}
	return strings.Join(findings[:maxFindings], "; ") + fmt.Sprintf("; and %d more", len(findings)-maxFindings)
}

func quote(s string) string { return fmt.Sprintf("%q", cut(s)) }

// request takes a verb for a resource of the bundle. Whether that runs is the
// release's to say.
func (a *admission) request(e wire.ManagedEntry) {
	rid := spec.ID{Kind: e.Kind, Name: e.Name}
	running, _ := a.declared(rid)
	if !running {
		a.refuse(e, managed.Missing, "%s is asked for %s, and the bundle of this host does not declare it", rid, quote(e.Verb))
		return
	}
	if !a.verb(e) {
		return
	}
	if runs(e, a.in.Bundles[0]) {
		a.refuse(e, managed.OutOfBounds, "%s is declared by the bundle of this host, which alone decides whether it runs; change the bundle and release it", rid)
		return
	}
	a.out.BundleRequests = append(a.out.BundleRequests, deploy.LayerRequest{Kind: e.Kind, Name: e.Name, Verb: e.Verb, Nonce: e.Nonce, Version: e.Requested})
}

// runs reports whether a verb would change that a workspace runs or not.
func runs(e wire.ManagedEntry, s *spec.Set) bool {
	if e.Kind != spec.KindWorkspace {
		return false
	}
	if e.Verb != spec.VerbRedeploy && e.Verb != spec.VerbRestart {
		return e.Verb == spec.VerbStart || e.Verb == spec.VerbStop
	}
	return slices.ContainsFunc(s.Workspaces, func(w spec.Workspace) bool {
		return w.Name == e.Name && w.State == spec.Stopped
	})
}

// verb reports whether the verb of an entry may be asked of its kind.
func (a *admission) verb(e wire.ManagedEntry) bool {
	known := spec.Known.Kind(e.Kind).VerbNames()
	switch {
	case !slices.Contains(known, e.Verb):
		a.refuse(e, managed.Invalid, "%s cannot be asked for %s: expected one of %s", id(e), quote(e.Verb), strings.Join(known, ", "))
	case e.Nonce == "" || len(e.Nonce) > maxNonce:
		a.refuse(e, managed.Invalid, "%s is asked for %s with a nonce of %d bytes: expected 1 to %d", id(e), e.Verb, len(e.Nonce), maxNonce)
	default:
		return true
	}
	return false
}

// complete adds to the layer what is asked of the resources that are left, and
// when they end.
func (a *admission) complete() {
	a.set.Normalize()
	a.out.Layer.Set = a.set
	for _, e := range slices.SortedFunc(maps.Values(a.entries), byName) {
		rid := spec.ID{Kind: e.Kind, Name: e.Name}
		if !a.set.Has(rid) {
			continue
		}
		if e.NotAfter != 0 {
			a.out.Layer.Until = append(a.out.Layer.Until, deploy.LayerEnd{Kind: e.Kind, Name: e.Name, Owner: e.Owner,
				NotAfter: max(1, e.NotAfter.Add(a.in.Ahead)), StopFrom: max(1, clock.Earliest(e.StopFrom, e.NotAfter).Add(a.in.Ahead))})
		}
		if e.Version != 0 {
			a.out.Layer.Versions = append(a.out.Layer.Versions, deploy.LayerVersion{Kind: e.Kind, Name: e.Name, Version: e.Version})
		}
		switch {
		case e.Verb == "" || !a.verb(e):
		case a.bounds.RequireSigned && runs(e, &a.set):
			a.refuse(e, managed.OutOfBounds, "%s is signed, which alone decides whether it runs; sign it with another state and set it again", rid)
		default:
			a.out.Layer.Requests = append(a.out.Layer.Requests, deploy.LayerRequest{Kind: e.Kind, Name: e.Name, Verb: e.Verb, Nonce: e.Nonce, Version: e.Requested})
		}
	}
	slices.SortStableFunc(a.out.Refused, func(x, y Refusal) int {
		return strings.Compare(x.Kind+"/"+x.Name, y.Kind+"/"+y.Name)
	})
}

func byName(x, y wire.ManagedEntry) int {
	return strings.Compare(x.Kind+"/"+x.Name, y.Kind+"/"+y.Name)
}
