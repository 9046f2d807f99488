package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/testkit"
)

// fileCase is a file that a program owns, one edit of an object through the command line, and the
// file after it: empty where the push is refused with words.
type fileCase struct {
	node, file, text string
	options          []string
	object           string
	command          []string // of the command line; NAME is the object's there
	want             string
	refused          []string
	byHand           [3]string // the text that a person replaces afterwards, with what, and the object that drifts
}

var fileCases = []fileCase{
	{node: "null-yaml", file: "otel.yaml", options: []string{"at=receivers"}, object: "otlp", command: []string{"edit", "NAME", "--set", "protocols.grpc.endpoint=0.0.0.0:4317"},
		text: "receivers:\n  otlp:\n    protocols:\n      grpc:\n      http:\n", want: "receivers:\n  otlp:\n    protocols:\n      grpc:\n        endpoint: 0.0.0.0:4317\n      http:\n"},
	{node: "null-json", file: "in.json", object: "a", command: []string{"edit", "NAME", "--set", "x=2"},
		text: `{"a": {"x": 1, "tls": null}}` + "\n", want: `{"a": {"x": 2, "tls": null}}` + "\n"},
	{node: "tags", file: "ha.yaml", options: []string{"at=doors"}, object: "front", command: []string{"edit", "NAME", "--set", `users=["bob"]`},
		text:    "doors:\n  front:\n    code: !secret front_code\n    users: [!secret alice, !secret bob]\n  back: {code: !secret back_code}\n",
		refused: []string{`{"!secret":"bob"}`}, byHand: [3]string{"!secret back_code", "back_code", "back"}},
	{node: "tag-kept", file: "ha.yaml", options: []string{"at=doors"}, object: "side", command: []string{"edit", "NAME", "--set", `users=[{"!secret":"bob"}]`},
		text: "doors:\n  side:\n    code: !secret side_code\n    users: [!secret alice, !secret bob]\n", want: "doors:\n  side:\n    code: !secret side_code\n    users: [!secret bob]\n"},
	{node: "words", file: "in.yaml", object: "a", command: []string{"edit", "NAME", "--set", `region="NO"`, "--set", `at="22:30:00"`, "--set", `mode="off"`, "--set", `eq="="`},
		text: "a:\n  x: 1\n", want: "a:\n  x: 1\n  at: \"22:30:00\"\n  eq: \"=\"\n  mode: \"off\"\n  region: \"NO\"\n"},
	{node: "comments", file: "in.yaml", object: "a", command: []string{"edit", "NAME", "--set", `l=["two","three"]`},
		text: "a:\n  l:\n    - one    # the first\n    - two    # the second\n    - three  # the third\nb: {x: 2}\n", want: "a:\n  l:\n    - two    # the second\n    - three  # the third\nb: {x: 2}\n"},
	{node: "null-object", file: "mediamtx.yml", options: []string{"at=paths"}, object: "all_others", command: []string{"edit", "NAME", "--set", "record=true"},
		text: "paths:\n  cam:\n    source: rtsp://10.0.0.1/s\n  # everything else\n  all_others:\n", want: "paths:\n  cam:\n    source: rtsp://10.0.0.1/s\n  # everything else\n  all_others:\n    record: true\n"},
	{node: "merge-keys", file: "in.yaml", options: []string{"at=cams"}, object: "a", command: []string{"edit", "NAME", "--set", "fps=6"},
		text: "x-base: &base\n  codec: h264\ncams:\n  a:\n    <<: *base\n    fps: 5\n  b: {fps: 6}\n", want: "x-base: &base\n  codec: h264\ncams:\n  a:\n    <<: *base\n    fps: 6\n  b: {fps: 6}\n"},
	{node: "unread", file: "in.yaml", object: "bad", command: []string{"edit", "NAME", "--set", "x=2"},
		text: "bad:\n  x: 1\n  x: 2\ngood: {x: 1}\n", refused: []string{"line 3", "stands twice"}},
	{node: "merged", file: "in.yaml", options: []string{"at=cams"}, object: "c", command: []string{"edit", "NAME", "--set", "codec=h265"},
		text: "x-base: &base\n  codec: h264\ncams:\n  c:\n    <<: *base\n    fps: 5\n", refused: []string{"merge key", "line 5"}},
	{node: "numbers", file: "in.yaml", options: []string{"identity=id"}, object: "20", command: []string{"edit", "NAME", "--set", "name=phones"},
		text: "- id: 10\n  name: users\n- id: 20\n  name: voice\n", want: "- id: 10\n  name: users\n- id: 20\n  name: phones\n"},
	{node: "toml-inline", file: "in.toml", options: []string{"at=jobs"}, object: "nightly", command: []string{"edit", "NAME", "--set", "n=2"},
		text: "[jobs]\nnightly = { n = 1, ratio = 1.0, since = 2024-05-01, mask = 0o755, big = 1_000_000 } # keep\n", want: "[jobs]\nnightly = { n = 2, ratio = 1.0, since = 2024-05-01, mask = 0o755, big = 1_000_000 } # keep\n"},
	{node: "toml-date", file: "in.toml", options: []string{"at=jobs"}, object: "nightly", command: []string{"edit", "NAME", "--set", `since="2024-06-01"`},
		text: "[jobs]\nnightly = { since = 2024-05-01 }\nweekly = { since = 2024-05-02 }\n", refused: []string{`{"!date":"2024-06-01"}`}, byHand: [3]string{"2024-05-02", "'2024-05-02'", "weekly"}},
	{node: "toml-element", file: "in.toml", options: []string{"at=jobs"}, object: "a", command: []string{"edit", "NAME", "--set", `runs=[{"at":{"!time":"07:30:00"}},{"at":{"!time":"09:00:00"}}]`},
		text: "[jobs.a]\n# twice\n[[jobs.a.runs]]\nat = 07:30:00 # early\n\n# the rest\n[z]\n", want: "[jobs.a]\n# twice\n[[jobs.a.runs]]\nat = 07:30:00 # early\n\n[[jobs.a.runs]]\nat = 09:00:00\n\n# the rest\n[z]\n"},
	{node: "toml-last", file: "in.toml", options: []string{"at=a/list", "identity=name"}, object: "x", command: []string{"rm", "NAME"},
		text: "[a]\nb = 1\n[[a.list]]\nname = \"x\"\n", want: "[a]\nb = 1\nlist = []\n"},
	{node: "number-keys", file: "in.yaml", object: "a", command: []string{"edit", "NAME", "--set", "ports.443=tls"},
		text: "a:\n  ports:\n    80: web # plain\n    443: x\n    true: y\nb: {1: x}\n", want: "a:\n  ports:\n    80: web # plain\n    443: tls\n    true: y\nb: {1: x}\n", byHand: [3]string{"80:", `"80":`, "a"}},
	{node: "text-keys", file: "z2m.yaml", options: []string{"at=groups"}, object: "!str 1", command: []string{"edit", "NAME", "--set", "members.2=lamp"},
		text: "groups:\n  '1':\n    members:\n      '1': door\n", refused: []string{"members/2", `"!str 2"`}},
	{node: "surrogate", file: "in.json", object: "a", command: []string{"edit", "NAME", "--set", "x=2"},
		text: `{"a": {"t": "\ud800"}, "b": {"big": 1E400}}` + "\n", refused: []string{"line 1", "surrogate"}, byHand: [3]string{"1E400", "1E401", "b"}},
	{node: "toml-dots", file: "in.toml", options: []string{"at=s"}, object: "a", command: []string{"edit", "NAME", "--set", "n=2"},
		text: "[s.a]\nn = 1\n[s.b]\nk.j = 1 # dots\n", want: "[s.a]\nn = 2\n[s.b]\nk.j = 1 # dots\n", byHand: [3]string{"k.j", `"k.j"`, "b"}},
	{node: "documents", file: "k8s.yaml", options: []string{"document=*", "identity=kind,metadata/name"}, object: "ConfigMap/web", command: []string{"edit", "NAME", "--set", "data.mode=NO"},
		text: "# shop\n---\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  mode: x # m\n---\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n", want: "# shop\n---\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  mode: \"NO\" # m\n---\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n", byHand: [3]string{"port: 80", "port: '80'", "Service/web"}},
	{node: "json-comments", file: "in.json", options: []string{"at=o"}, object: "a", command: []string{"edit", "NAME", "--set", "y=1.0"},
		text: "{\r\n\t// all of them\r\n\t\"o\": {\r\n\t\t\"a\": {\r\n\t\t\t\"x\": 1.50, // x\r\n\t\t},\r\n\t},\r\n}\r\n", want: "{\r\n\t// all of them\r\n\t\"o\": {\r\n\t\t\"a\": {\r\n\t\t\t\"x\": 1.50, // x\r\n\t\t\t\"y\": 1.0,\r\n\t\t},\r\n\t},\r\n}\r\n"},
}

// cli runs a command of an operator.
func (p *plant) cli(args ...string) (string, error) {
	cmd := exec.CommandContext(p.t.Context(), testkit.Value(os.Executable())(p.t), args...)
	cmd.Env = append(os.Environ(), actAsSteady+"=1", "STEADY_CONTEXT="+p.where.Context, "HOME="+p.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// leg is the one of an object of a node.
func (p *plant) leg(node, id string) (drift.LegRow, bool) {
	d, err := p.client.Node(p.t.Context(), node)
	if err != nil {
		return drift.LegRow{}, false
	}
	for _, l := range d.Objects {
		if l.ID == id {
			return l, true
		}
	}
	return drift.LegRow{}, false
}

// TestFilesOfOthers edits files as programs ship them through a real server and a real node: what
// was not edited stays, and what cannot be kept is refused before anything is changed.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	for _, c := range fileCases {
		t.Run(c.node, func(t *testing.T) { c.run(t, p.of(t)) })
	}
	p.whole()
}

func (c *fileCase) run(t *testing.T, p *plant) {
	path := filepath.Join(p.dir, c.node+".files", c.file)
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testkit.Must(t, os.WriteFile(path, []byte(c.text), 0o600))
	n := p.node(c.node, "file", append([]string{"path=" + path}, c.options...)...)
	n.p = p
	n.start()
	if out, err := p.cli("node", "adopt", c.node, "--reason", "trial"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, there := p.leg(c.node, c.object)
	if !there {
		t.Fatalf("%s has no object %s", c.node, c.object)
	}
	args := []string{"flow"}
	for _, a := range c.command {
		args = append(args, strings.ReplaceAll(a, "NAME", l.Name))
	}
	if out, err := p.cli(append(args, "--reason", "trial")...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testkit.Eventually(t, "the push to "+c.node+" ended", func() bool {
		l, there = p.leg(c.node, c.object)
		return !there || l.Error != "" || l.Status == drift.Pushed && readFile(path) != c.text
	})
	want := c.want
	if c.refused != nil {
		want = c.text
	} else if l.Error != "" {
		t.Errorf("it is refused: %s", l.Error)
	}
	for _, word := range c.refused {
		if !strings.Contains(l.Error, word) {
			t.Errorf("it is refused with %q, without %s", l.Error, word)
		}
	}
	if got := readFile(path); got != want {
		t.Errorf("the file is\n%s\nand not\n%s", got, want)
	}
	if c.byHand[0] != "" {
		testkit.Must(t, os.WriteFile(path, []byte(strings.Replace(want, c.byHand[0], c.byHand[1], 1)), 0o600))
		p.episode(c.node, c.byHand[2], drift.Mismatched)
	}
}

func readFile(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
