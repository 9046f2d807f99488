package file

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// textCase is a file before and after one edit, to the byte. An edit without config deletes; one
// whose want is empty is refused, with words that have all of the others.
type textCase struct {
	what, at, identity, text, id, config, want string
	words                                      []string
}

func (c *textCase) run(t *testing.T, name string) {
	t.Helper()
	d := driver(t, name, c.text, Config{At: c.at, Identity: c.identity})
	err := do(t, d, c.id, c.config)
	got, readErr := os.ReadFile(d.o.Path)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if c.want == "" {
		if err == nil || string(got) != c.text {
			t.Errorf("%s: it is done, %v:\n%s", c.what, err, got)
			return
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the refusal lacks %q: %v", c.what, w, err)
			}
		}
		return
	}
	if err != nil || string(got) != c.want {
		t.Errorf("%s: %v\n%s", c.what, err, cmp.Diff(c.want, string(got)))
		return
	}
	s, err := d.Snapshot(t.Context())
	if err != nil && c.config != "" {
		t.Errorf("%s: %v", c.what, err)
		return
	}
	for _, it := range s.Items {
		if want, err := nodeconfig.Canonical(json.RawMessage(c.config)); it.ID == c.id && (err != nil || !canonicallyEqual(t, d.Normalize(it).Config, want)) {
			t.Errorf("%s: it is read as %s", c.what, it.Config)
		}
	}
}

func canonicallyEqual(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	x, err := nodeconfig.Canonical(a)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, b)
}

// TestTextOfTOML: an edit changes what it must, and everything else stays as it is spelled.
func TestTextOfTOML(t *testing.T) {
	t.Parallel()
	const values = `ratio = 1.0, since = 2024-05-01, mask = 0o755, big = 1_000_000, at = 07:32:00, when = 1979-05-27 07:32:00.50+00:00, none = nan, far = -inf, t = 'C:\x'`
	const asked = `"ratio":1.0,"since":{"!date":"2024-05-01"},"mask":493,"big":1000000,"at":{"!time":"07:32:00"},"when":{"!datetime":"1979-05-27 07:32:00.50+00:00"},"none":{"!float":"nan"},"far":{"!float":"-inf"},"t":"C:\\x"`
	const list = "# head\n[a]\nb = 1\n\n# first\n[[a.list]]\nname = 'x'\nn = 0x10\n  # inner\n  [a.list.sub]\n  d = 2024-05-01\n\n# second\n[[a.list]] # s\nname = 'y'\n[[a.list.in]]\nk = 1.0\n[[a.list.in]]\nk = 2.0 # two\n\n# tail\n"
	for _, c := range []textCase{
		{what: "a member of an inline table", text: "[jobs]\nnightly = { n = 1, " + values + " } # keep\n", at: "jobs", id: "nightly", config: `{"n":2,` + asked + `}`, want: "[jobs]\nnightly = { n = 2, " + values + " } # keep\n"},
		{what: "a member comes into an inline table", text: "[jobs]\nnightly = {" + values + "}\n", at: "jobs", id: "nightly", config: `{"n":null,` + asked + `}`, words: []string{"n: ", "TOML has no null"}},
		{what: "the last member of an inline table goes", text: "[jobs]\nnightly = { " + values + ", n = 1 }\n", at: "jobs", id: "nightly", config: `{` + asked + `}`, want: "[jobs]\nnightly = { " + values + " }\n"},
		{what: "a dotted member of an inline table", text: "[j]\na = { x.y = 1.0, z = 1, x.w = 0x1 }\n", at: "j", id: "a", config: `{"x":{"y":1.0,"w":2,"v":3},"z":1}`, want: "[j]\na = { x.y = 1.0, z = 1, x.w = 2, x.v = 3 }\n"},
		{what: "a list in lines", text: "[o.a]\nl = [ # of\n  0x1, # one\n  # about two\n  0x2,\n\n  # rest\n] # end\n", at: "o", id: "a", config: `{"l":[1,3]}`, want: "[o.a]\nl = [ # of\n  0x1, # one\n  # about two\n  3,\n\n  # rest\n] # end\n"},
		{what: "an element goes with its comments", text: "[o.a]\nl = [\n  0x1, # one\n  # about two\n  0x2, # two\n  0x3 # three\n]\n", at: "o", id: "a", config: `{"l":[1,3]}`, want: "[o.a]\nl = [\n  0x1, # one\n  0x3 # three\n]\n"},
		{what: "a float that looks like a date", text: "[o.a]\nf = 1_0e-3\nk = 1\n", at: "o", id: "a", config: `{"f":0.01,"k":2}`, want: "[o.a]\nf = 1_0e-3\nk = 2\n"},
		{what: "a comment apart from the element that goes", text: "[o.a]\nl = [\n  0x1,\n\n  # apart\n\n  # two\n  0x2,\n  0x3,\n]\n", at: "o", id: "a", config: `{"l":[1,3]}`, want: "[o.a]\nl = [\n  0x1,\n\n  # apart\n\n  0x3,\n]\n"},
		{what: "a comment apart from the last element, which goes", text: "[o.a]\nl = [\n  0x1,\n\n  # apart\n\n  0x2\n]\n", at: "o", id: "a", config: `{"l":[1]}`, want: "[o.a]\nl = [\n  0x1\n\n  # apart\n\n]\n"},
		{what: "an element comes first", text: "[o.a]\nl = [0x1, 0x2]\n", at: "o", id: "a", config: `{"l":[0,1,2]}`, want: "[o.a]\nl = [0, 0x1, 0x2]\n"},
		{what: "elements change places", text: "[o.a]\nl = [0x1, 2024-05-01, { a = 1.0 }]\n", at: "o", id: "a", config: `{"l":[{"a":1.0},1,{"!date":"2024-05-01"}]}`, want: "[o.a]\nl = [{ a = 1.0 }, 0x1, 2024-05-01]\n"},
		{what: "a text in the place of a date", text: "[o.a]\nd = 2024-05-01\n", at: "o", id: "a", config: `{"d":"2024-05-02"}`, words: []string{`{"!date":"2024-05-02"}`}},
		{what: "a date", text: "[o.a]\nd = 2024-05-01 # d\n", at: "o", id: "a", config: `{"d":{"!date":"2024-05-02"}}`, want: "[o.a]\nd = 2024-05-02 # d\n"},
		{what: "no date", text: "[o.a]\nd = 2024-05-01\n", at: "o", id: "a", config: `{"d":{"!date":"2024-05-77"}}`, words: []string{"d: ", "2024-05-77", "expected one such as"}},
		{what: "a tag of another format", text: "[o.a]\nd = 1\n", at: "o", id: "a", config: `{"d":{"!secret":"x"}}`, words: []string{"!secret"}},
		{what: "integers beyond 64 bits that stand there", text: "[o.a]\nn = 18446744073709551616\nm = [{ x = 0xFFFFFFFFFFFFFFFFFF }]\nk = 1\n", at: "o", id: "a", config: `{"n":18446744073709551616,"m":[{"x":4722366482869645213695}],"k":2}`, want: "[o.a]\nn = 18446744073709551616\nm = [{ x = 0xFFFFFFFFFFFFFFFFFF }]\nk = 2\n"},
		{what: "an integer beyond 2^53", text: "[o.a]\nn = 9007199254740993\nk = 1\n", at: "o", id: "a", config: `{"n":9007199254740993,"k":-9223372036854775808}`, want: "[o.a]\nn = 9007199254740993\nk = -9223372036854775808\n"},
		{what: "an integer beyond 64 bits", text: "[o.a]\nn = 1\n", at: "o", id: "a", config: `{"n":9223372036854775808}`, words: []string{"n: ", "64 bits"}},
		{what: "a float that no float is", text: "[o.a]\nn = 1.0\n", at: "o", id: "a", config: `{"n":0.12345678901234567890123}`, words: []string{"n: ", "another number"}},
		{what: "null within a list", text: "[o.a]\nl = [{ x = 1 }]\n", at: "o", id: "a", config: `{"l":[{"x":1},{"y":[null]}]}`, words: []string{"l/1/y/0", "null"}},
		{what: "a float becomes an integer, as asked", text: "[o.a]\nn = 1.0\n", at: "o", id: "a", config: `{"n":1}`, want: "[o.a]\nn = 1\n"},
		{what: "the quotes of a text", text: "[o.a]\nt = 'C:\\x'\nu = \"\"\"\na\\\\b\nb\"\"\"\n", at: "o", id: "a", config: `{"t":"C:\\y","u":"a\\b\nc\t"}`, want: "[o.a]\nt = 'C:\\y'\nu = \"\"\"\na\\\\b\nc\\t\"\"\"\n"},
		{what: "the last element of a nested array", text: "[a]\nb = 1\n[[a.list]]\nname = \"x\"\n", at: "a/list", identity: "name", id: "x", want: "[a]\nb = 1\nlist = []\n"},
		{what: "the last element where its table has no header", text: "[[a.list]]\nname = \"x\"\n\n[a.other]\nk = 1\n", at: "a/list", identity: "name", id: "x", want: "[a]\nlist = []\n\n[a.other]\nk = 1\n"},
		{what: "an element with its tables and comments goes", text: list, at: "a/list", identity: "name", id: "x", want: strings.Replace(list, list[strings.Index(list, "# first"):strings.Index(list, "# second")], "", 1)},
		{what: "a table below an element", text: list, at: "a/list", identity: "name", id: "x", config: `{"n":16,"sub":{"d":{"!date":"2024-05-01"},"e":true}}`, want: strings.Replace(list, "  d = 2024-05-01\n", "  d = 2024-05-01\n  e = true\n", 1)},
		{what: "an inner element comes first", text: list, at: "a/list", identity: "name", id: "y", config: `{"in":[{"k":0.5},{"k":1.0},{"k":2.0}]}`, want: strings.Replace(list, "[[a.list.in]]\nk = 1.0", "\n[[a.list.in]]\nk = 0.5\n\n[[a.list.in]]\nk = 1.0", 1)},
		{what: "inner elements change places", text: list, at: "a/list", identity: "name", id: "y", config: `{"in":[{"k":2.0},{"k":1.0}]}`, want: strings.Replace(list, "[[a.list.in]]\nk = 1.0\n[[a.list.in]]\nk = 2.0 # two\n", "[[a.list.in]]\nk = 2.0 # two\n\n[[a.list.in]]\nk = 1.0\n", 1)},
		{what: "an element comes last", text: list, at: "a/list", identity: "name", id: "z", config: `{"n":1}`, want: strings.Replace(list, "k = 2.0 # two\n", "k = 2.0 # two\n\n[[a.list]]\nn = 1\nname = \"z\"\n", 1)},
		{what: "dotted keys", text: "[s]\na.x = 1 # x\na.y.z = 0x2\nb.x = 3\n", at: "s", id: "a", config: `{"x":1,"y":{"z":2,"w":"v"}}`, want: "[s]\na.x = 1 # x\na.y.z = 0x2\na.y.w = \"v\"\nb.x = 3\n"},
		{what: "dotted keys that get empty", text: "[s]\na.x = 1\nb.x = 3\n", at: "s", id: "a", config: `{}`, want: "[s]\na = {}\nb.x = 3\n"},
		{what: "dotted keys in the document", text: "s.a.x = 1\n\n[other]\nk = 1\n", at: "s", id: "b", config: `{"x":2}`, want: "s.a.x = 1\ns.b = { x = 2 }\n\n[other]\nk = 1\n"},
		{what: "line ends and the mark stay", text: "\ufeff[s.a]\r\nx = 1 # x\r\n\r\n[s.b]\r\ny = 1\r\n", at: "s", id: "a", config: `{"x":2,"t":"a\nb"}`, want: "\ufeff[s.a]\r\nx = 2 # x\r\nt = \"a\\nb\"\r\n\r\n[s.b]\r\ny = 1\r\n"},
		{what: "a file without a last line break", text: "[s.a]\nx = 1\n\n[s.b]\ny = 1", at: "s", id: "b", want: "[s.a]\nx = 1"},
		{what: "a new object in a file without a last line break", text: "[s.a]\nx = 1", at: "s", id: "b", config: `{"y":1}`, want: "[s.a]\nx = 1\n\n[s.b]\ny = 1"},
		{what: "an object goes with its comments, and no other", text: "# of the file\n\n# of a\n[s.a]\n# of x\nx = 1\n# end of a\n\n# apart\n\n# of b\n[s.b]\ny = 1\n\n# of the end\n", at: "s", id: "a", want: "# of the file\n\n# apart\n\n# of b\n[s.b]\ny = 1\n\n# of the end\n"},
		{what: "a real key with a mark", text: "[s.a]\n\"!date\" = '2024-05-01'\n", at: "s", id: "a", config: `{"!map":{"!date":"2024-05-02"}}`, want: "[s.a]\n\"!date\" = '2024-05-02'\n"},
		{what: "indented tables", text: "[h]\n  [h.r]\n    [h.r.a]\n      rule = \"x\"\n", at: "h/r", id: "b", config: `{"rule":"y"}`, want: "[h]\n  [h.r]\n    [h.r.a]\n      rule = \"x\"\n\n    [h.r.b]\n      rule = \"y\"\n"},
	} {
		c.run(t, "f.toml")
	}
}

// TestTextOfJSON is the same for JSON, with comments too.
func TestTextOfJSON(t *testing.T) {
	t.Parallel()
	const odd = `"n": 1, "tls": null, "f": 1.50, "e": 1E3, "big": 123456789012345678901234567890, "u": "\u00e9\ufffd\/", "s":[1,2 ]`
	const asked = `"tls":null,"f":1.5,"e":1e3,"big":123456789012345678901234567890,"u":"é\ufffd/","s":[1,2]`
	const lines = "// head\n{\n  \"a\": 1, // one\n\n  /* the objects */\n  \"o\": {\n    // about a\n    \"a\": { \"x\": 1 }, // a\n    // about b\n    \"b\": {\n      \"l\": [\n        1, // one\n        2, // two\n      ],\n    }, // b\n    // end\n  },\n}\n// tail\n"
	for _, c := range []textCase{
		{what: "null stays", text: `{"a": {"x": 1, "tls": null}}`, id: "a", config: `{"x":2,"tls":null}`, want: `{"a": {"x": 2, "tls": null}}`},
		{what: "null goes when it is asked", text: `{"a": {"x": 1, "tls": null}}`, id: "a", config: `{"x":1}`, want: `{"a": {"x": 1}}`},
		{what: "spellings stay", text: `{"a": {` + odd + `}}`, id: "a", config: `{"n":2,` + asked + `}`, want: `{"a": {` + strings.Replace(odd, `"n": 1`, `"n": 2`, 1) + `}}`},
		{what: "a member comes", text: `{"a":{"x":1}}`, id: "a", config: `{"x":1,"y":{"z":[1.0,null]}}`, want: `{"a":{"x":1,"y":{"z":[1.0,null]}}}`},
		{what: "an element of a list changes", text: lines, at: "o", id: "b", config: `{"l":[1,3]}`, want: strings.Replace(lines, "2, // two", "3, // two", 1)},
		{what: "an element comes", text: lines, at: "o", id: "b", config: `{"l":[0,1,2,3]}`, want: strings.Replace(strings.Replace(lines, "        1, // one\n", "        0,\n        1, // one\n", 1), "2, // two\n", "2, // two\n        3,\n", 1)},
		{what: "the last object goes with its comments", text: lines, at: "o", id: "b", want: strings.Replace(lines, lines[strings.Index(lines, "    // about b"):strings.Index(lines, "    // end")], "", 1)},
		{what: "the first object goes with its comments", text: lines, at: "o", id: "a", want: strings.Replace(lines, lines[strings.Index(lines, "    // about a"):strings.Index(lines, "    // about b")], "", 1)},
		{what: "an object comes", text: lines, at: "o", id: "c", config: `{"k":{}}`, want: strings.Replace(lines, "    }, // b\n", "    }, // b\n    \"c\": {\n      \"k\": {}\n    },\n", 1)},
		{what: "line ends, tabs and the mark stay", text: "\ufeff{\r\n\t\"a\": {\r\n\t\t\"x\": 1\r\n\t}\r\n}", id: "b", config: `{"y":1}`, want: "\ufeff{\r\n\t\"a\": {\r\n\t\t\"x\": 1\r\n\t},\r\n\t\"b\": {\r\n\t\t\"y\": 1\r\n\t}\r\n}"},
		{what: "the last one goes, one comes", text: "{\n  \"o\": {\n    \"a\": {}\n  }\n}\n", at: "o", id: "a", want: "{\n  \"o\": {}\n}\n"},
		{what: "the first one comes", text: "{\n  \"o\": {}\n}\n", at: "o", id: "a", config: `{"x":1}`, want: "{\n  \"o\": {\n    \"a\": {\n      \"x\": 1\n    }\n  }\n}\n"},
		{what: "tabs after colons", text: "{\n\t\"a\":\t{\n\t\t\"x\":\t[1, 2]\n\t}\n}\n", id: "a", config: `{"x":[1,2,3],"y":{"z":1}}`, want: "{\n\t\"a\":\t{\n\t\t\"x\":\t[1, 2, 3],\n\t\t\"y\":\t{\"z\":\t1}\n\t}\n}\n"},
		{what: "a type that JSON has not", text: `{"a": {"x": 1}}`, id: "a", config: `{"x":{"!date":"2024-05-01"}}`, words: []string{"x: ", "!date"}},
		{what: "a real key with a mark", text: `{"a": {"!x": 1}}`, id: "a", config: `{"!map":{"!x":2}}`, want: `{"a": {"!x": 2}}`},
		{what: "an object goes from among some without a name", text: `{"l": [{"name": "a"}, {"x": 1}, {"name": ""}]}`, at: "l", identity: "name", id: "a", want: `{"l": [{"x": 1}, {"name": ""}]}`},
		{what: "a member that stands twice next to another object", text: "{\n \"a\": {\"x\": 1, \"x\": 2},\n \"b\": {\"y\": 1}\n}", id: "b", config: `{"y":2}`, want: "{\n \"a\": {\"x\": 1, \"x\": 2},\n \"b\": {\"y\": 2}\n}"},
		{what: "a member that stands twice", text: "{\n \"a\": {\"x\": 1,\n \"x\": 2},\n \"b\": {\"y\": 1}\n}", id: "a", config: `{"x":2}`, words: []string{"line 3", "twice"}},
	} {
		c.run(t, "f.json")
	}
}

// TestTOMLByAnotherParser: a parser that made no edit reads the kinds that were asked.
func TestTOMLByAnotherParser(t *testing.T) {
	t.Parallel()
	d := driver(t, "f.toml", "[o.a]\nv = [1.0, 2024-05-01, 07:32:00, 1979-05-27T07:32:00Z, 1979-05-27T07:32:00, inf, 0o17, 'x']\n", Config{At: "o"})
	const v = `["new",1.0,{"!date":"2024-05-01"},{"!time":"07:32:00"},{"!datetime":"1979-05-27T07:32:00Z"},{"!datetime":"1979-05-27T07:32:00"},{"!float":"inf"},15,"x",2,-0.0,{"!date":"2030-01-02"},{"!float":"-inf"},9223372036854775807]`
	if err := do(t, d, "a", `{"v":`+v+`}`); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(d.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := foreignTOML(raw)
	want, err2 := nodeconfig.Decode([]byte(`{"o":{"a":{"v":` + v + `}}}`))
	if diff := cmp.Diff(spelled(want), spelled(got)); err != nil || err2 != nil || diff != "" {
		t.Errorf("%v, %v: %s", err, err2, diff)
	}
}
