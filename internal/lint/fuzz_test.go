package lint

import (
	"path"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// unfuzzed are the decoders that need no fuzz test, with the reason.
var unfuzzed = map[string]string{
	"internal/cli/apply.ReadFile":              "reads a file and hands its bytes to document.Read, which is fuzzed",
	"internal/cli/apply.ReadCompose":           "hands a file to compose.LoadFile",
	"internal/release/compose.LoadFile":        "opens a folder and hands it to compose.Load, which is fuzzed",
	"internal/control/documents.VerifyRelease": "opens a folder and hands it to release.Verify, which is fuzzed",
	"internal/disk.ReadFile":                   "reads a regular file of a folder and decodes nothing of it",
	"internal/disk.Folder.ReadFile":            "is ReadFile of a name that is there",
	"internal/drivers/caddy.Driver.Read":       "is given a name, and asks the device",
	"internal/drivers/janus.Driver.Read":       "is given a name, and asks the device",
	"internal/identity.LoadAuthority":          "reads a folder of this machine's by LoadKey and ParseCertificate, which are fuzzed",
	"internal/identity.FileKeys.Load":          "is LoadKey, which is fuzzed",
	"internal/identity.ModuleKeys.Load":        "reads a file and hands its bytes to tpm.Module.Read",
	"internal/drivers/netconf.Driver.Read":     "asks a device; FuzzReply tries what reads its answers",
	"internal/keyring.Module.Read":             "reads a file that a TPM wrapped on this machine; asks the TPM, some milliseconds a time, before it believes it",
	"internal/release.VerifyDir":               "opens a folder and hands it to Verify, which is fuzzed",
	"internal/trust.Verified.UnmarshalJSON":    "refuses whatever it is given: TestS4VerifiedIsNotReadFromJSON",
}

// TestEveryDecoderIsFuzzed finds every exported decoder of outside bytes.
func TestEveryDecoderIsFuzzed(t *testing.T) {
	tr := load(t)
	var decoders []Decoder
	var targets []Target
	for _, name := range tr.files {
		if !strings.HasPrefix(name, "internal/") && !strings.HasPrefix(name, "reconcile/") && !strings.HasPrefix(name, "nodesdk/") || !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			continue
		}
		if strings.HasSuffix(name, "_test.go") {
			found := testkit.Value(Targets(name, tr.read(t, name)))(t)
			targets = append(targets, found...)
			continue
		}
		found := testkit.Value(Decoders(name, tr.read(t, name)))(t)
		decoders = append(decoders, found...)
	}
	if len(decoders) < 20 || len(targets) < 10 {
		t.Fatalf("only %d decoders and %d fuzz tests found: the rule would see nothing", len(decoders), len(targets))
	}
	report(t, CalledByFuzz(decoders, targets, unfuzzed))
}

// TestEveryFuzzTestHasACorpus: what a search found once is in the tree, and each
// run of the tests begins with it.
func TestEveryFuzzTestHasACorpus(t *testing.T) {
	tr := load(t)
	corpora := map[string]bool{}
	for _, name := range tr.files {
		if strings.Contains(name, "/testdata/fuzz/") {
			corpora[path.Dir(name)] = true
		}
	}
	for _, name := range tr.files {
		if !strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue
		}
		found := testkit.Value(Targets(name, tr.read(t, name)))(t)
		for _, target := range found {
			if dir := path.Dir(name) + "/testdata/fuzz/" + target.Name; !corpora[dir] {
				t.Errorf("%s: %s has no corpus: commit some inputs of a search below %s", name, target.Name, dir)
			}
		}
	}
}

func TestFuzzRule(t *testing.T) {
	decoders := func(src string) []Decoder {
		t.Helper()
		found := testkit.Value(Decoders("internal/a/a.go", []byte("package a\n"+src)))(t)
		return found
	}
	targets := func(file, src string) []Target {
		t.Helper()
		found := testkit.Value(Targets(file, []byte(src)))(t)
		return found
	}
	for _, none := range []string{
		"func parse(b []byte) {}", "func Parse(n int) {}", "func Make(b []byte) {}", "func Decoders(b []byte) {}", "func Open(name string) {}",
		"func (h hidden) Parse(b []byte) {}", "type R struct{}\nfunc (r *R) Read(p []byte) (int, error) { return 0, nil }",
	} {
		if found := decoders(none); len(found) != 0 {
			t.Errorf("%s: %v", none, found)
		}
	}
	parse, method := decoders("func ParseX(s string) {}"), decoders("type T struct{}\nfunc (t *T) UnmarshalText(b []byte) {}\n")
	if len(parse) != 1 || len(method) != 1 || method[0].Key() != "internal/a.T.UnmarshalText" {
		t.Fatalf("%v %v", parse, method)
	}
	for _, arg := range []string{"json.RawMessage", "io.Reader", "fs.FS", "[]byte"} {
		if len(decoders("func Decode(x "+arg+") {}")) != 1 {
			t.Errorf("Decode of %s is no decoder", arg)
		}
	}
	inside := targets("internal/a/a_test.go", "package a\nfunc FuzzX(f *testing.F) { f.Fuzz(func() { ParseX(s) }) }\nfunc TestX() { y.UnmarshalText(b) }")
	outside := targets("internal/b/b_test.go", "package b\nimport \""+Module+"/internal/a\"\nfunc FuzzY(f *testing.F) { a.ParseX(s); x.UnmarshalText(b) }")
	stranger := targets("internal/c/c_test.go", "package c\nfunc FuzzZ(f *testing.F) { ParseX(s); x.UnmarshalText(b) }")
	one(t, CalledByFuzz(parse, inside, nil))
	one(t, CalledByFuzz(parse, outside, nil))
	one(t, CalledByFuzz(parse, stranger, nil), "internal/a.ParseX")
	one(t, CalledByFuzz(method, inside, nil), "T.UnmarshalText")
	one(t, CalledByFuzz(method, outside, nil))
	one(t, CalledByFuzz(method, stranger, nil), "T.UnmarshalText")
	long := "a reason that says something"
	one(t, CalledByFuzz(parse, nil, map[string]string{"internal/a.ParseX": long}))
	one(t, CalledByFuzz(parse, nil, map[string]string{"internal/a.ParseX": "no"}), "without a reason")
	one(t, CalledByFuzz(parse, inside, map[string]string{"internal/a.ParseX": long}), "take the exception away")
	one(t, CalledByFuzz(nil, nil, map[string]string{"internal/a.Gone": long}), "no decoder is named")
}
