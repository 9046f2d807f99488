package trust

import (
	"reflect"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// takers are the calls of Verifier that take bytes, with the entry points that
// make them.
var takers = map[string][]string{
	"Root": {"next root"}, "Draft": {"root draft"}, "Timestamp": {"timestamp"}, "Resolved": {"resolved"}, "Manifest": {"manifest"},
	"Recall": {"recall"}, "Roster": {"roster"}, "Revocations": {"revocations"}, "Budget": {"budget"}, "Bundle": {"bundle"},
	"HostPlan": {"leaf"}, "Leaves": {"leaves"}, "Blob": {"blob"}, "Content": {"content"}, "ManagedEntry": {"managed"}, "Override": {"override"},
	"Open": {"timestamp", "resolved", "manifest", "managed", "override"}, // is how these open
}

// TestEveryTakerHasAnEntryPoint holds the table to the methods that there are.
func TestEveryTakerHasAnEntryPoint(t *testing.T) {
	points := entryPoints(t)
	typ := reflect.TypeFor[Verifier]()
	for i := range typ.NumMethod() {
		m, takes := typ.Method(i), false
		for j := range m.Type.NumIn() {
			in := m.Type.In(j)
			takes = takes || in == reflect.TypeFor[[]byte]() || in == reflect.TypeFor[[][]byte]()
		}
		if !takes {
			continue
		}
		if len(takers[m.Name]) == 0 {
			t.Errorf("Verifier.%s takes bytes and has no entry point: add one, so that every type is offered to it", m.Name)
		}
		for _, name := range takers[m.Name] {
			if points[name].check == nil {
				t.Errorf("Verifier.%s: there is no entry point %q", m.Name, name)
			}
		}
	}
}

// TestEveryTypeAtEveryEntryPoint offers every document wherever another one is
// expected: as it is, as its bare payload, and signed by the right key as the
// type that is expected while its payload says what it is. One key has every
// role, so that the type alone can tell them apart.
func TestEveryTypeAtEveryEntryPoint(t *testing.T) {
	points := entryPointsOf(t, func(generation string) keys {
		k := keys{}
		for _, role := range Roles() {
			k[role] = signer(t, "all "+generation)
		}
		return k
	})
	key := signer(t, "all 1")
	offered := 0
	for is, doc := range points {
		forms := map[string][]byte{"itself": doc.raw}
		if e, err := ParseEnvelope(doc.raw); err == nil {
			forms["payload"] = e.Payload
		}
		for want, p := range points {
			if p.docType == doc.docType && p.docType != "" || slices.Contains([]string{"leaf", "leaves"}, is) && slices.Contains([]string{"leaf", "leaves"}, want) ||
				slices.Contains([]string{"blob", "content"}, is) && slices.Contains([]string{"blob", "content"}, want) {
				continue
			}
			if e, err := ParseEnvelope(doc.raw); err == nil && p.docType != "" {
				lying := testkit.Value(Sign(p.docType, e.Payload, key))(t)
				forms["lying as "+want] = lying
			}
			if doc.docType != "" && p.docType != "" {
				plain := testkit.Value(Sign(p.docType, doc.raw, key))(t)
				forms["wrapped as "+want] = plain
			}
			for form, raw := range forms {
				offered++
				if err := p.check(raw); err == nil {
					t.Errorf("%s (%s) was taken as %s", is, form, want)
				}
			}
		}
	}
	if least := len(points) * (len(points) - 2); offered < least {
		t.Errorf("only %d documents were offered, expected %d", offered, least)
	}
}

// TestNamedTypesDoNotPassForOthers: also where a signed parent names the digest
// of a document of another type, it is refused by what it says it is.
func TestNamedTypesDoNotPassForOthers(t *testing.T) {
	k := newKeys(t, "1")
	r := newRelease(t, k, 1, 1)
	word := pause()
	word.Type, word.Version = fleet.TypeOverride, uint64(word.IssuedAt)
	docs := map[string][]byte{
		fleet.TypeRoster: r.roster, fleet.TypeRevocations: r.revocations, fleet.TypeBundle: r.bundle, fleet.TypeBudget: r.budget,
		"leaf": r.leaves[1], "blob": r.blob, fleet.TypeOverride: canonical(t, word), fleet.TypeManifest: canonical(t, r.manifestDoc),
		fleet.TypeResolved: canonical(t, r.resolvedDoc), "manifest envelope": r.manifest, "root": k.root(t, 1, 1),
		fleet.TypeControls: canonical(t, fleet.Controls{Type: fleet.TypeControls}),
	}
	for _, want := range []string{fleet.TypeRoster, fleet.TypeRevocations, fleet.TypeBundle, fleet.TypeBudget} {
		for is, raw := range docs {
			if err := offerPlain(t, k, r, want, raw); (err == nil) != (is == want) {
				t.Errorf("%s (%s) named as %s: %v", is, digest.Of(raw).Short(), want, err)
			}
		}
	}
}
