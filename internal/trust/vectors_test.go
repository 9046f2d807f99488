package trust

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

var updateVectors = flag.Bool("update", false, "write testdata/vectors again")

// vector is an attack that worked on another implementation, as bytes: a reader
// of these documents in any language can be held to it.
type vector struct {
	Advisory string `json:"advisory"`
	About    string `json:"about"`
	Fleet    string `json:"fleet"`
	// Root is trusted to begin with; Wall is the time, in milliseconds.
	Root  string        `json:"root"`
	Wall  clock.Instant `json:"wall"`
	Steps []step        `json:"steps"`
}

// step offers one document. Want is the code of the refusal, empty for none.
type step struct {
	About    string `json:"about"`
	Offer    string `json:"offer"` // begin, root, timestamp, resolved or manifest
	Document string `json:"document"`
	Want     Code   `json:"want"`
}

// TestThresholdAdvisories replays every file of testdata/vectors.
func TestThresholdAdvisories(t *testing.T) {
	if *updateVectors {
		writeVectors(t)
	}
	files := testkit.Value(filepath.Glob("testdata/vectors/*.json"))(t)
	if len(files) < 6 {
		t.Fatalf("only %d vectors found", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw := testkit.Value(os.ReadFile(file))(t)
			d := json.NewDecoder(bytes.NewReader(raw))
			d.DisallowUnknownFields()
			var c vector
			testkit.Must(t, d.Decode(&c))
			if c.Advisory == "" || c.About == "" {
				t.Error("it names no advisory")
			}
			taken, refused := c.replay(t)
			if taken == 0 || refused == 0 {
				t.Errorf("%d documents are taken and %d refused: a vector shows the attack and that the honest document passes", taken, refused)
			}
		})
	}
}

func (c *vector) replay(t *testing.T) (taken, refused int) {
	t.Helper()
	s := testkit.Value(Begin(c.Fleet, []byte(c.Root), ""))(t)
	v := testkit.Value(NewVerifier(c.Fleet, s))(t)
	var stamp Verified[fleet.Timestamp]
	var resolved Verified[fleet.Resolved]
	for i, step := range c.Steps {
		raw, s, err := []byte(step.Document), v.state, error(nil)
		switch step.Offer {
		case "begin":
			_, err = Begin(c.Fleet, raw, "")
		case "root":
			s, err = v.Root(raw)
		case "timestamp":
			var got Verified[fleet.Timestamp]
			if got, s, err = v.Timestamp(raw, c.Wall); err == nil {
				stamp = got
			}
		case "resolved":
			var got Verified[fleet.Resolved]
			if got, s, err = v.Resolved(raw, stamp); err == nil {
				resolved = got
			}
		case "manifest":
			_, s, err = v.Manifest(raw, resolved)
		default:
			t.Fatalf("step %d offers a %q", i, step.Offer)
		}
		if CodeOf(err) != step.Want || (err == nil) != (step.Want == "") {
			t.Errorf("step %d, %s: %v, expected %q", i, step.About, err, step.Want)
		}
		if err != nil {
			refused++
			continue
		}
		taken++
		if v, err = v.With(s); err != nil {
			t.Fatal(err)
		}
	}
	return taken, refused
}

// raw encodes a root as it stands, which SignRoot would refuse.
func rawRoot(t testing.TB, r Root, change func(*Root), by ...Signer) []byte {
	t.Helper()
	raw := canonical(t, r)
	var copied Root
	testkit.Must(t, json.Unmarshal(raw, &copied))
	if change != nil {
		change(&copied)
	}
	return envelope(t, TypeRoot, copied, by...)
}

// resign changes the signatures of an envelope as text.
func resign(t testing.TB, env []byte, change func([]wireSignature) []wireSignature) []byte {
	t.Helper()
	var w wireEnvelope
	testkit.Must(t, json.Unmarshal(env, &w))
	w.Signatures = change(w.Signatures)
	out := testkit.Value(json.Marshal(w))(t)
	return out
}

// writeVectors makes the files again; keys come from fixed seeds, so that the
// same bytes come out.
func writeVectors(t *testing.T) {
	t.Helper()
	k := newKeys(t, "1")
	second, third := signer(t, "second"), signer(t, "third")
	two := func(version uint64, role Role, first Signer, also ...Signer) Root {
		spec := k.spec()
		spec[role] = RoleSpec{Threshold: 2}
		for _, s := range append([]Signer{first}, also...) {
			spec[role] = RoleSpec{Keys: append(spec[role].Keys, s.Public()), Threshold: 2}
		}
		r := testkit.Value(NewRoot(head(TypeRoot, 1, version), day0.Add(365*clock.Day), spec))(t)
		return r
	}
	stamp := func(version, resolved uint64, by ...Signer) []byte {
		return envelope(t, fleet.TypeTimestamp, fleet.Timestamp{Document: head(fleet.TypeTimestamp, 1, version),
			Resolved: digest.Of([]byte{byte(resolved)}), ResolvedVersion: resolved}, by...)
	}
	needsTwo := rawRoot(t, two(1, RoleTimestamp, k[RoleTimestamp], second), nil, k[RoleRoot])
	once := stamp(1, 1, k[RoleTimestamp])
	honest := stamp(1, 1, k[RoleTimestamp], second)
	copies := func(change func(id string) string) []byte {
		return resign(t, once, func(s []wireSignature) []wireSignature {
			return append(s, wireSignature{KeyID: change(s[0].KeyID), Sig: s[0].Sig})
		})
	}
	twice := []step{
		{"one of two keys", "timestamp", string(once), ManifestVerifyFailed},
		{"its signature twice", "timestamp", string(copies(func(id string) string { return id })), Malformed},
		{"again, under the key id in upper case", "timestamp", string(copies(strings.ToUpper)), ManifestVerifyFailed},
		{"again, under the other key's id", "timestamp", string(copies(func(string) string { return second.KeyID() })), ManifestVerifyFailed},
		{"again, under an id that no root knows", "timestamp", string(copies(func(string) string { return third.KeyID() })), ManifestVerifyFailed},
		{"both keys", "timestamp", string(honest), ""},
	}
	base := two(1, RoleRoot, k[RoleRoot], second)
	id := k[RoleRoot].KeyID()
	alias := func(named string) []byte {
		return rawRoot(t, base, func(r *Root) {
			r.Keys[named] = r.Keys[id]
			r.Roles[RoleRoot] = RoleKeys{KeyIDs: []string{id, named}, Threshold: 2}
		}, k[RoleRoot])
	}
	listedTwice := rawRoot(t, base, func(r *Root) {
		r.Roles[RoleRoot] = RoleKeys{KeyIDs: []string{id, id}, Threshold: 2}
	}, k[RoleRoot])
	first := k.root(t, 1, 1)
	threshold := func(role Role, n int) []byte {
		r := testkit.Value(NewRoot(head(TypeRoot, 1, 2), day0.Add(365*clock.Day), k.spec()))(t)
		return rawRoot(t, r, func(r *Root) { r.Roles[role] = RoleKeys{KeyIDs: r.Roles[role].KeyIDs, Threshold: n} }, k[RoleRoot])
	}
	one, next := newRelease(t, k, 1, 1), newRelease(t, k, 1, 2)
	fresh := two(2, RoleRoot, second, third)
	newTwice := resign(t, rawRoot(t, fresh, nil, k[RoleRoot], second), func(s []wireSignature) []wireSignature { return append(s, s[1]) })
	thief := newKeys(t, "thief")
	stolen := testkit.Value(NewRoot(head(TypeRoot, 1, 2), day0.Add(365*clock.Day), thief.spec()))(t)
	after := testkit.Value(NewRoot(head(TypeRoot, 1, 3), day0.Add(365*clock.Day), thief.spec()))(t)
	honestRoot := k.root(t, 1, 2)
	for name, c := range map[string]vector{
		"tuf-GHSA-pwqf-9h7j-7mv8": {Advisory: "tuf GHSA-pwqf-9h7j-7mv8 (CVE-2020-6174)",
			About: "One key's signature counted more than once towards a threshold.", Root: string(needsTwo), Steps: twice},
		"tough-GHSA-5q2r-92f9-4m49": {Advisory: "tough GHSA-5q2r-92f9-4m49 (CVE-2020-15093)",
			About: "One key with two names, or a key named twice, met a threshold of two.", Root: string(first), Steps: []step{
				{"the key under a second name", "begin", string(alias(strings.Repeat("a", 64))), RootInvalid},
				{"the key under its name in upper case", "begin", string(alias(strings.ToUpper(id))), RootInvalid},
				{"the role names the key twice", "begin", string(listedTwice), RootInvalid},
				{"two different keys", "begin", string(rawRoot(t, base, nil, k[RoleRoot], second)), ""},
			}},
		"go-tuf-GHSA-fphv-w9fq-2525": {Advisory: "go-tuf GHSA-fphv-w9fq-2525 (CVE-2026-23992)",
			About: "A threshold of zero or less is met by no signature at all.", Root: string(first), Steps: []step{
				{"threshold 0 of the root role", "root", string(threshold(RoleRoot, 0)), RootInvalid},
				{"threshold 0 of the timestamp role", "root", string(threshold(RoleTimestamp, 0)), RootInvalid},
				{"threshold -1 of the release role", "root", string(threshold(RoleRelease, -1)), RootInvalid},
				{"a threshold above the number of keys", "root", string(threshold(RoleEnrol, 2)), RootInvalid},
				{"threshold 1", "root", string(threshold(RoleOverride, 1)), ""},
			}},
		"go-tuf-CVE-2022-29173": {Advisory: "go-tuf CVE-2022-29173 (GHSA-66x3-6cw3-v5gj)",
			About: "Going back to older metadata was checked for the root alone.", Root: string(first), Steps: []step{
				{"the second timestamp", "timestamp", string(next.timestamp), ""},
				{"the first snapshot under it", "resolved", string(one.resolved), NotListed},
				{"the second snapshot", "resolved", string(next.resolved), ""},
				{"the second manifest", "manifest", string(next.manifest), ""},
				{"the first timestamp", "timestamp", string(one.timestamp), Rollback},
				{"a newer timestamp that names the first snapshot", "timestamp", string(stamp(3, 1, k[RoleTimestamp])), Rollback},
				{"the first manifest", "manifest", string(one.manifest), NotListed},
			}},
		"tuf-GMS-2022-4197": {Advisory: "tuf GMS-2022-4197 (WS-2022-0303)",
			About: "One key of a new root counted more than once towards the new root's own threshold.", Root: string(first), Steps: []step{
				{"one of the two new keys", "root", string(rawRoot(t, fresh, nil, k[RoleRoot], second)), ManifestVerifyFailed},
				{"its signature twice", "root", string(newTwice), Malformed},
				{"both new keys, and not the trusted one", "root", string(rawRoot(t, fresh, nil, second, third)), ManifestVerifyFailed},
				{"both new keys and the trusted one", "root", string(rawRoot(t, fresh, nil, k[RoleRoot], second, third)), ""},
			}},
		"tuf-CVE-2020-15163": {Advisory: "tuf CVE-2020-15163",
			About: "A root that had failed its check was trusted when the next one was checked.", Root: string(first), Steps: []step{
				{"a root of a stranger's keys", "root", string(rawRoot(t, stolen, nil, thief[RoleRoot])), ManifestVerifyFailed},
				{"its successor, signed by that stranger", "root", string(rawRoot(t, after, nil, thief[RoleRoot])), ManifestVerifyFailed},
				{"the honest root of the same version", "root", string(honestRoot), ""},
				{"the stranger's successor again", "root", string(rawRoot(t, after, nil, thief[RoleRoot])), ManifestVerifyFailed},
			}},
	} {
		c.Fleet, c.Wall = testFleet, day0
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		testkit.Must(t, e.Encode(c))
		testkit.Must(t, os.MkdirAll("testdata/vectors", 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join("testdata/vectors", name+".json"), out.Bytes(), 0o644))
	}
}
