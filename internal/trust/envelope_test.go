package trust

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestPAEVector(t *testing.T) {
	// The example of the DSSE specification, protocol.md.
	got := string(PAE("http://example.com/HelloWorld", []byte("hello world")))
	if want := "DSSEv1 29 http://example.com/HelloWorld 11 hello world"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestEnvelopeShapeIsRefused(t *testing.T) {
	k := signer(t, "a")
	good := testkit.Value(Sign("steady/x", []byte(`{}`), k))(t)
	text := string(good)
	many := wireEnvelope{Payload: "e30=", PayloadType: "steady/x"}
	for i := range MaxSignatures + 1 {
		many.Signatures = append(many.Signatures, wireSignature{KeyID: strings.Repeat("a", i+1), Sig: "e30="})
	}
	tooMany := testkit.Value(json.Marshal(many))(t)
	for name, raw := range map[string]string{
		"trailing data":      text + "{}",
		"trailing text":      text + "x",
		"duplicate key":      strings.Replace(text, `{"payload"`, `{"payload":"e30=","payload"`, 1),
		"escaped duplicate":  strings.Replace(text, `{"payload"`, `{"p\u0061yload":"e30=","payload"`, 1),
		"other case":         strings.Replace(text, `{"payload"`, `{"Payload":"e30=","payload"`, 1),
		"no signatures":      `{"payload":"e30=","payloadType":"steady/x","signatures":[]}`,
		"too many":           string(tooMany),
		"same key twice":     strings.Replace(text, `"signatures":[`, `"signatures":[`+text[strings.Index(text, `[`)+1:len(text)-2]+`,`, 1),
		"unpadded base64":    strings.Replace(text, `"e30="`, `"e30"`, 1),
		"loose base64":       strings.Replace(text, `"e30="`, `"e31="`, 1),
		"newline in base64":  strings.Replace(text, `"e30="`, `"e3\n0="`, 1),
		"not JSON":           "steady",
		"array":              "[" + text + "]",
		"deep":               strings.Repeat(`{"payload":`, 1000) + "1" + strings.Repeat("}", 1000),
		"over the cap":       text + strings.Repeat(" ", MaxEnvelope),
		"invalid UTF-8":      strings.Replace(text, "steady/x", "steady/\xff", 1),
		"payload of no type": strings.Replace(text, "steady/x", "", 1),
	} {
		if _, err := ParseEnvelope([]byte(raw)); CodeOf(err) != Malformed {
			t.Errorf("%s: got %v, want Malformed", name, err)
		}
	}
	if _, err := ParseEnvelope(nil); CodeOf(err) != ManifestMissing {
		t.Errorf("empty: got %v", err)
	}
	if _, err := ParseEnvelope([]byte(strings.Replace(text, `{"payload"`, `{"hint":1,"payload"`, 1))); err != nil {
		t.Errorf("an unknown field is ignored: %v", err)
	}
	if _, err := AddSignatures(good, k); CodeOf(err) != Malformed {
		t.Errorf("one key signs twice: %v", err)
	}
}

// TestNoTypePassesForAnother offers each envelope wherever another is expected.
func TestNoTypePassesForAnother(t *testing.T) {
	// One key for every role: only the type can tell the documents apart.
	k := keys{}
	for _, role := range Roles() {
		k[role] = signer(t, "all")
	}
	root := k.root(t, 1, 1)
	r := newRelease(t, k, 1, 1)
	v := begin(t, root)
	a := testkit.Value(r.accept(v, day0))(t)
	docs := map[string][]byte{
		TypeRoot: k.root(t, 1, 2), fleet.TypeTimestamp: r.timestamp,
		fleet.TypeResolved: r.resolved, fleet.TypeManifest: r.manifest,
		// A payload that claims another type than its envelope.
		"lying": envelope(t, fleet.TypeManifest, r.resolvedDoc, k[RoleRelease]),
	}
	calls := map[string]func([]byte) error{
		TypeRoot:            func(b []byte) error { _, err := v.Root(b); return err },
		fleet.TypeTimestamp: func(b []byte) error { _, _, err := v.Timestamp(b, day0); return err },
		fleet.TypeResolved:  func(b []byte) error { _, _, err := v.Resolved(b, a.timestamp); return err },
		fleet.TypeManifest:  func(b []byte) error { _, _, err := v.Manifest(b, a.resolved); return err },
	}
	for want, call := range calls {
		for is, raw := range docs {
			if err := call(raw); (err == nil) != (is == want) {
				t.Errorf("%s offered as %s: %v", is, want, err)
			}
		}
	}
	plain := map[string][]byte{fleet.TypeRoster: r.roster, fleet.TypeRevocations: r.revocations,
		fleet.TypeBundle: r.bundle, fleet.TypeBudget: r.budget}
	for is, raw := range plain {
		for want := range plain {
			if err := offerPlain(t, k, r, want, raw); (err == nil) != (is == want) {
				t.Errorf("%s named as %s: %v", is, want, err)
			}
		}
	}
}

// offerPlain signs parents that name raw where a document of type want belongs.
func offerPlain(t *testing.T, k keys, r release, want string, raw []byte) error {
	t.Helper()
	d := digestOf(raw)
	switch want {
	case fleet.TypeRoster:
		r.resolvedDoc.Roster, r.roster = d, raw
	case fleet.TypeRevocations:
		r.resolvedDoc.Revocations, r.revocations = d, raw
	case fleet.TypeBudget:
		r.manifestDoc.Budgets = slices.Clone(r.manifestDoc.Budgets)
		r.manifestDoc.Budgets[0].Members, r.budget = d, raw
	case fleet.TypeBundle:
		leaf := fleet.Leaf{Host: "web-1", Wave: 1, Target: d}
		r.leaves = slices.Clone(r.leaves)
		r.leaves[1], r.bundle = canonical(t, leaf), raw
		b, err := ReadBundle(raw)
		if err != nil {
			return err
		}
		if len(b.Files) == 0 {
			t.Fatal("the bundle of the fixture has files")
		}
	}
	r = r.relink(t, k)
	_, err := r.accept(begin(t, k.root(t, 1, 1)), day0)
	return err
}
