package file

import (
	"os"
	"strings"
	"testing"
)

// yamlEdits are edits of one object, named a unless it is in a list, each with what the file is
// after it; empty is a refusal with the words.
var yamlEdits = []struct {
	name, text string
	o          Config
	id, to     string
	want       string
	refused    []string
}{
	// Null is a value, and the empty member stays.
	{name: "null member stays", text: "r:\n  a:\n    p:\n      grpc:\n      http:\n", o: Config{At: "r"}, to: `{"p":{"grpc":{"e":"0.0.0.0:4317"},"http":null}}`,
		want: "r:\n  a:\n    p:\n      grpc:\n        e: 0.0.0.0:4317\n      http:\n"},
	{name: "null in flow", text: "r: {a: {p: {grpc: , http: }}}\n", o: Config{At: "r"}, to: `{"p":{"grpc":1,"http":null}}`, want: "r: {a: {p: {grpc: 1, http: }}}\n"},
	{name: "member without colon", text: "a: {x, y}\n", to: `{"x":1,"y":null}`, want: "a: {x: 1, y}\n"},
	{name: "null list element", text: "a:\n  l:\n  -\n  - ~ # t\n", to: `{"l":[null,2]}`, want: "a:\n  l:\n  -\n  - 2 # t\n"},
	{name: "to null", text: "a:\n  x: 1 # c\n", to: `{"x":null}`, want: "a:\n  x: null # c\n"},
	{name: "null object gets a field", text: "p:\n  c: {s: 1}\n  # everything else\n  a: # c\n# end\n", o: Config{At: "p"}, to: `{"x":1}`, want: "p:\n  c: {s: 1}\n  # everything else\n  a: # c\n    x: 1\n# end\n"},
	{name: "null object stays", text: "p:\n  a:\n", o: Config{At: "p"}, to: `{}`, want: "p:\n  a:\n"},
	{name: "null object at the end", text: "p:\n  a:", o: Config{At: "p"}, to: `{"x":1}`, want: "p:\n  a:\n    x: 1"},
	{name: "object emptied", text: "p:\n  a: # c\n    x: 1 # d\n  b: {}\n", o: Config{At: "p"}, to: `{}`, want: "p:\n  a: {} # c\n  b: {}\n"},
	// Tags.
	{name: "tagged member stays", text: "d:\n  a:\n    code: !secret c\n    u: [!secret x, !secret y]\n", o: Config{At: "d"}, to: `{"code":{"!secret":"c"},"u":[{"!secret":"y"}]}`,
		want: "d:\n  a:\n    code: !secret c\n    u: [!secret y]\n"},
	{name: "tag lost in place", text: "a:\n  code: !secret c\n", to: `{"code":"d"}`, refused: []string{"code", `{"!secret":"d"}`}},
	{name: "tag lost by a move", text: "a:\n  u: [!secret x, !secret y]\n", to: `{"u":["y"]}`, refused: []string{"!secret", `{"!secret":"y"}`}},
	{name: "tag lost on a map", text: "a:\n  m: !vault\n    x: 1\n", to: `{"m":{"x":2}}`, refused: []string{`{"!vault":{"x":2}}`}},
	{name: "tagged map edited", text: "a:\n  m: !vault # v\n    x: 1\n", to: `{"m":{"!vault":{"x":2,"l":[1]}}}`, want: "a:\n  m: !vault # v\n    x: 2\n    l:\n      - 1\n"},
	{name: "tagged text edited", text: "a: {code: !secret c}\n", to: `{"code":{"!secret":"d e"}}`, want: "a: {code: !secret d e}\n"},
	{name: "tag replaced by another kind", text: "a:\n  code: !secret c # k\n", to: `{"code":5}`, want: "a:\n  code: 5 # k\n"},
	{name: "new tag", text: "a:\n  code: c # k\n", to: `{"code":{"!env":"C"}}`, want: "a:\n  code: !env C # k\n"},
	{name: "tag without value", text: "a:\n  p: !reset\n  x: 1\n", to: `{"p":{"!reset":null},"x":2}`, want: "a:\n  p: !reset\n  x: 2\n"},
	{name: "standard tag", text: "a:\n  p: !!str 5\n", to: `{"p":"6"}`, want: "a:\n  p: !!str \"6\"\n"},
	{name: "binary", text: "a:\n  p: !!binary aGk=\n  x: 1\n", to: `{"p":{"!!binary":"aGk="},"x":2}`, want: "a:\n  p: !!binary aGk=\n  x: 2\n"},
	{name: "key with an exclamation mark", text: "a:\n  m:\n    \"!x\": 1\n", to: `{"m":{"!map":{"!x":2}}}`, want: "a:\n  m:\n    \"!x\": 2\n"},
	// Words of YAML 1.1.
	{name: "words", text: "a:\n  x: 1\n", to: `{"region":"NO","at":"22:30:00","eq":"=","m":"<<","nn":"1_000","o":"0b1","d":"2024-05-01","x":1,"yy":"y","z":"017","e":"1e3","i":".inf"}`,
		want: "a:\n  x: 1\n  at: \"22:30:00\"\n  d: \"2024-05-01\"\n  e: \"1e3\"\n  eq: \"=\"\n  i: \".inf\"\n  m: \"<<\"\n  nn: \"1_000\"\n  o: \"0b1\"\n  region: \"NO\"\n  yy: \"y\"\n  z: \"017\"\n"},
	{name: "word for a word", text: "a:\n  x: no\n  t: 21:00:00\n  y: no\n", to: `{"x":"off","t":"22:30:00","y":"12:00"}`, want: "a:\n  x: off\n  t: 22:30:00\n  y: \"12:00\"\n"},
	{name: "a boolean is no word for a word", text: "a: {x: no}\n", to: `{"x":"true"}`, want: "a: {x: \"true\"}\n"},
	// Numbers.
	{name: "numbers stay as written", text: "a:\n  o: 0o17\n  h: 0xFF\n  u: 1_000\n  f: 1.50\n  e: 1e3\n  n: .NaN\n  i: -.Inf\n  b: 123456789012345678901234567890\n  p: +5\n  x: 1\n",
		to:   `{"o":15,"h":255,"u":"1_000","f":1.5,"e":1000.0,"n":{"!float":"nan"},"i":{"!float":"-inf"},"b":123456789012345678901234567890,"p":5,"x":2}`,
		want: "a:\n  o: 0o17\n  h: 0xFF\n  u: 1_000\n  f: 1.50\n  e: 1e3\n  n: .NaN\n  i: -.Inf\n  b: 123456789012345678901234567890\n  p: +5\n  x: 2\n"},
	{name: "a float stays one", text: "a: {x: 1}\n", to: `{"x":1.0}`, want: "a: {x: 1.0}\n"},
	{name: "special float", text: "a: {x: 1}\n", to: `{"x":{"!float":"inf"},"v":1e30}`, want: "a: {x: .inf, v: 1.0e+30}\n"},
	{name: "special float for a text", text: "a: {x: .nan}\n", to: `{"x":"nan"}`, refused: []string{`{"!float":"nan"}`}},
	// Lists and comments.
	{name: "first element removed", text: "a:\n  l:\n    - one    # the first\n    - two    # the second\n    - three  # the third\nb: {x: 2}\n", to: `{"l":["two","three"]}`,
		want: "a:\n  l:\n    - two    # the second\n    - three  # the third\nb: {x: 2}\n"},
	{name: "elements moved", text: "a:\n  l:\n  # about one\n  - one\n  - two # the second\n  - three\n", to: `{"l":["three","one","two"]}`,
		want: "a:\n  l:\n  - three\n  # about one\n  - one\n  - two # the second\n"},
	{name: "element inserted", text: "a:\n  l:\n  -   one # 1\n  -   two\n", to: `{"l":["zero","one","x","two"]}`, want: "a:\n  l:\n  -   zero\n  -   one # 1\n  -   x\n  -   two\n"},
	{name: "element changed and removed", text: "a:\n  l:\n  - name: x # X\n    v: 1\n  - name: y # Y\n    v: 2\n", to: `{"l":[{"name":"y","v":3}]}`, want: "a:\n  l:\n  - name: y # Y\n    v: 3\n"},
	{name: "list in a list", text: "a:\n  l:\n  - - 1\n    - 2 # b\n  - [3, 4]\n", to: `{"l":[[2],[3,5,4]]}`, want: "a:\n  l:\n  - - 2 # b\n  - [3, 5, 4]\n"},
	{name: "first member of an element removed", text: "a:\n  l:\n  - x: 1 # X\n    y: 2 # Y\n", to: `{"l":[{"y":2}]}`, want: "a:\n  l:\n  - y: 2 # Y\n"},
	{name: "list emptied", text: "a:\n  l: # L\n  - 1\n  # loose\n  x: 1\n", to: `{"l":[],"x":1}`, want: "a:\n  l: [] # L\n  # loose\n  x: 1\n"},
	{name: "empty list filled", text: "a:\n  l: [] # L\n  x: 1\n", to: `{"l":[1,{"a":2,"b":[3]}],"x":1}`, want: "a:\n  l: # L\n    - 1\n    - a: 2\n      b:\n        - 3\n  x: 1\n"},
	{name: "multi-line flow list", text: "a:\n  l: [\n    one, # 1\n    # about two\n    two, # 2\n    three # 3\n  ]\n", to: `{"l":["three","two","four"]}`,
		want: "a:\n  l: [\n    three, # 3\n    # about two\n    two, # 2\n    four\n  ]\n"},
	{name: "trailing comma", text: "a: {\n  x: 1,\n  y: 2,\n}\n", to: `{"x":1,"z":3}`, want: "a: {\n  x: 1,\n  z: 3,\n}\n"},
	{name: "flow members", text: "a: { x: 1,y: 2, z: 3 } # c\n", to: `{"x":1,"z":4,"w":[1]}`, want: "a: { x: 1, z: 4, w: [1] } # c\n"},
	{name: "JSON in YAML", text: "{\"a\": {\"x\":1,\"y\":\"t\"}}\n", to: `{"x":2,"y":"u","z":"v"}`, want: "{\"a\": {\"x\":2,\"y\":\"u\",\"z\": \"v\"}}\n"},
	// Layout.
	{name: "comments at the end", text: "o:\n  a:\n    x: 1\n    # y: 2\n\n    # the end of a\n\n  # about b\n  b: {}\n", o: Config{At: "o"}, to: `{"x":1,"z":3}`,
		want: "o:\n  a:\n    x: 1\n    z: 3\n    # y: 2\n\n    # the end of a\n\n  # about b\n  b: {}\n"},
	{name: "line ends and a byte order mark", text: bom + "a:\r\n    x: 1 # c\r\n    l:\r\n        - 1\r\n", to: `{"x":2,"l":[1,2],"new":{"m":1}}`, want: bom + "a:\r\n    x: 2 # c\r\n    l:\r\n        - 1\r\n        - 2\r\n    new:\r\n        m: 1\r\n"},
	{name: "quotes", text: "a:\n  s: 'it''s'\n  d: \"a\\tb\"\n  p: plain\n", to: `{"s":"that's","d":"a\tc","p":"a: b","q":"#x"}`, want: "a:\n  s: 'that''s'\n  d: \"a\\tc\"\n  p: \"a: b\"\n  q: \"#x\"\n"},
	{name: "block scalar edited", text: "a:\n  s: | # c\n    one\n    two\n\n  f: >-\n    a b\n    c\n  x: 1\n", to: `{"s":"one\n three\n","f":"a b\nd","x":1}`, want: "a:\n  s: | # c\n    one\n     three\n\n  f: >-\n    a b\n\n    d\n  x: 1\n"},
	{name: "block scalar kept", text: "a:\n  s: |2+\n      x\n\n  y: 1\n", to: `{"s":"  x\n\n","y":2}`, want: "a:\n  s: |2+\n      x\n\n  y: 2\n"},
	{name: "block scalar to number", text: "a:\n  s: |\n    one\n  x: 1\n", to: `{"s":5,"x":1}`, want: "a:\n  s: 5\n  x: 1\n"},
	{name: "map to text", text: "a:\n  m: # c\n    x: 1\n    y: 2\n  z: 3\n", to: `{"m":"t","z":3}`, want: "a:\n  m: t # c\n  z: 3\n"},
	{name: "text to map", text: "a:\n  m: t # c\n  z: 3\n", to: `{"m":{"x":1},"z":3}`, want: "a:\n  m: # c\n    x: 1\n  z: 3\n"},
	{name: "plain text over lines", text: "a:\n  m: one\n    two\n  z: 3\n", to: `{"m":"t","z":3}`, want: "a:\n  m: t\n  z: 3\n"},
	{name: "directive and markers", text: "%YAML 1.2\n--- # d\na: {x: 1}\n...\n", to: `{"x":2}`, want: "%YAML 1.2\n--- # d\na: {x: 2}\n...\n"},
	{name: "flow root", text: "--- {a: {x: 1}, b: {}}\n", to: `{"x":2}`, want: "--- {a: {x: 2}, b: {}}\n"},
	{name: "quoted and number keys", text: "a:\n  80: x\n  443: y\n", to: `{"80":"z","8080":"w"}`, want: "a:\n  80: z\n  8080: w\n"},
	{name: "text keys of digits", text: "a:\n  '80': x\n  443: y\n", to: `{"!str 80":"z","443":"w"}`, want: "a:\n  '80': z\n  443: w\n"},
	{name: "new text key of digits", text: "a:\n  '1': x\n", to: `{"!str 1":"x","!str 2":"w"}`, want: "a:\n  '1': x\n  '2': w\n"},
	{name: "a number next to texts of digits", text: "a:\n  '1': x\n", to: `{"!str 1":"x","2":"y"}`, refused: []string{"2", `"!str 2"`}},
	{name: "a text next to numbers", text: "a:\n  1: x\n", to: `{"1":"x","!str 2":"y"}`, refused: []string{"write the new one as 2"}},
	{name: "a number in JSON", text: "{\"a\": {\"x\": 1}}\n", to: `{"x":1,"2":"y"}`, refused: []string{`"!str 2"`}},
	{name: "a number becomes a text", text: "a:\n  1: x\n  2: y\n", to: `{"!str 1":"x","2":"y"}`, refused: []string{"numbers there"}},
	{name: "keys of other kinds", text: "a:\n  true: x\n  ~: y\n  1.50: z\n  .inf: i\n  0x10: h\n  yes: t\n  2024-05-01: d\n", to: `{"!bool true":"X","!null null":"y","!float 1.5":"z","!float inf":"i","16":"H","yes":"t","2024-05-01":"d","!float nan":1,"true":2}`,
		want: "a:\n  true: X\n  ~: y\n  1.50: z\n  .inf: i\n  0x10: H\n  yes: t\n  2024-05-01: d\n  .nan: 1\n  \"true\": 2\n"},
	{name: "a key that begins as a mark", text: "a:\n  x: 1\n", to: `{"x":1,"!str !str 1":2,"!str 5":3}`, want: "a:\n  x: 1\n  \"!str 1\": 2\n  \"5\": 3\n"},
	{name: "only key is a number's text", text: "a:\n  m: {'80': x}\n", to: `{"m":{"!str 80":"w"}}`, want: "a:\n  m: {'80': w}\n"},
	{name: "no tag", text: "a: {p: ! 5, q: 1}\n", to: `{"p":"6","q":1}`, want: "a: {p: ! \"6\", q: 1}\n"},
	{name: "explicit key", text: "a:\n  ? x\n  : 1\n  y: 2\n", to: `{"x":3,"y":2,"z":1}`, want: "a:\n  ? x\n  : 3\n  y: 2\n  z: 1\n"},
	// Anchors and merge keys.
	{name: "anchor with users", text: "a: &x {p: 1}\nb: *x\n", to: `{"p":2}`, refused: []string{"&x", "line 2"}},
	{name: "anchored object removed", text: "a: &x {p: 1}\nb: *x\n", to: "", refused: []string{"&x"}},
	{name: "anchor without users", text: "a: &x\n  p: &y 1\n", to: `{"p":2}`, want: "a: &x\n  p: &y 2\n"},
	{name: "alias of a map", text: "b: &x {p: 1}\na: {m: *x}\n", to: `{"m":{"p":2}}`, refused: []string{"*x"}},
	{name: "alias of a text", text: "b: {v: &x t}\na: {m: *x, n: 1}\n", to: `{"m":"t","n":2}`, want: "b: {v: &x t}\na: {m: *x, n: 2}\n"},
	{name: "own member beside a merge key", text: "b: &b {codec: h264}\na:\n  <<: *b\n  fps: 5\n", to: `{"codec":"h264","fps":6,"new":1}`, want: "b: &b {codec: h264}\na:\n  <<: *b\n  fps: 6\n  new: 1\n"},
	{name: "merged member", text: "b: &b {codec: h264}\na:\n  <<: *b\n  fps: 5\n", to: `{"codec":"h265","fps":5}`, refused: []string{"merge key", "line 3", "codec"}},
	{name: "merged member removed", text: "b: &b {codec: h264}\na:\n  <<: *b\n  fps: 5\n", to: `{"fps":5}`, refused: []string{"merge key"}},
	{name: "member over a merged one removed", text: "b: &b {codec: h264}\na:\n  <<: [*b]\n  codec: x\n  fps: 5\n", to: `{"fps":5}`, refused: []string{"merge key"}},
	// Identities.
	{name: "number as identity", text: "- id: 10\n  name: users # u\n- id: 20\n", o: Config{Identity: "id"}, id: "10", to: `{"name":"x"}`, want: "- id: 10\n  name: x # u\n- id: 20\n"},
	{name: "new number as identity", text: "- id: 10\n", o: Config{Identity: "id"}, id: "30", to: `{"name":"x"}`, want: "- id: 10\n- id: 30\n  name: x\n"},
	{name: "text of a number as identity", text: "- id: '10'\n  v: 1\n- id: b\n", o: Config{Identity: "id"}, id: "10", to: `{"id":"10","v":2}`, want: "- id: '10'\n  v: 2\n- id: b\n"},
	{name: "number for the text of one", text: "- id: '10'\n  v: 1\n", o: Config{Identity: "id"}, id: "10", to: `{"v":2}`, refused: []string{"named by texts", `"10"`}},
	{name: "number among texts", text: "- id: b\n", o: Config{Identity: "id"}, id: "10", to: `{"v":2}`, refused: []string{`such as "b"`}},
	{name: "text among texts", text: "- id: b\n", o: Config{Identity: "id"}, id: "10", to: `{"id":"10"}`, want: "- id: b\n- id: \"10\"\n"},
	{name: "number removed", text: "- id: 10\n# the second\n- id: 20\n", o: Config{Identity: "id"}, id: "20", to: "", want: "- id: 10\n"},
	{name: "last object removed", text: "o:\n  a:\n    x: 1\ny: 1\n", o: Config{At: "o"}, to: "", want: "o: {}\ny: 1\n"},
	{name: "first object", text: "o: {} # c\ny: 1\n", o: Config{At: "o"}, to: `{"x":1}`, want: "o: # c\n  a:\n    x: 1\ny: 1\n"},
	{name: "only object of the file", text: "# head\na: {x: 1}\n# tail\n", to: "", want: "# head\n{}\n# tail\n"},
}

func TestYAMLEdits(t *testing.T) {
	t.Parallel()
	for _, c := range yamlEdits {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := driver(t, "f.yaml", c.text, c.o)
			id := c.id
			if id == "" {
				id = "a"
			}
			err := do(t, d, id, c.to)
			got, readErr := os.ReadFile(d.o.Path)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if c.refused != nil {
				for _, word := range c.refused {
					if err == nil || !strings.Contains(err.Error(), word) {
						t.Errorf("it is refused with %v, without %s", err, word)
					}
				}
				if string(got) != c.text {
					t.Errorf("a refused edit changed the file to\n%s", got)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("it is\n%s\nand not\n%s\n%v", got, c.want, err)
			}
		})
	}
}
