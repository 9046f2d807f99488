package file

import (
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

const manifests = `# the shop
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web   # front
data:
  80: plain
  mode: "no"
---
# Source: chart/empty.yaml
---
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2 # two
  args: |
    --- is no marker here, for it is indented
...
%YAML 1.2
---
kind: ConfigMap
metadata:
  name: db
data: {x: 1}
---
`

// TestDocuments edits one document of a file, and each where all are objects; the bytes of the
// others stay.
func TestDocuments(t *testing.T) {
	t.Parallel()
	crlf := strings.ReplaceAll(manifests, "\n", "\r\n")
	for _, c := range []struct {
		what, text string
		o          Config
		id, to     string
		old, want  string // replaced in the text; want is a refusal where old is empty
	}{
		{what: "by number", o: Config{Document: "2", At: "spec"}, id: "tmpl", to: `{"k":1}`, old: "here, for it is indented\n", want: "here, for it is indented\n  tmpl:\n    k: 1\n"},
		{what: "by members", o: Config{Document: "kind=ConfigMap,metadata/name=db"}, id: "data", to: `{"x":2}`, old: "x: 1", want: "x: 2"},
		{what: "with other line ends", text: crlf, o: Config{Document: "kind=ConfigMap,metadata/name=web"}, id: "data", to: `{"80":"plain","mode":"no","num":1}`, old: "mode: \"no\"\r\n", want: "mode: \"no\"\r\n  num: 1\r\n"},
		{what: "each an object", o: Config{Document: "*", Identity: "kind,metadata/name"}, id: "Deployment/web", to: `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3,"args":"--- is no marker here, for it is indented\n"}}`, old: "replicas: 2", want: "replicas: 3"},
		{what: "one goes", o: Config{Document: "*", Identity: "kind,metadata/name"}, id: "ConfigMap/db", old: "%YAML 1.2\n---\nkind: ConfigMap\nmetadata:\n  name: db\ndata: {x: 1}\n", want: ""},
		{what: "the first goes", o: Config{Document: "*", Identity: "kind,metadata/name"}, id: "ConfigMap/web", old: "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web   # front\ndata:\n  80: plain\n  mode: \"no\"\n", want: ""},
		{what: "one comes", o: Config{Document: "*", Identity: "kind,metadata/name"}, id: "Secret/k", to: `{"kind":"Secret","metadata":{"name":"k"},"data":{"a":"NO"}}`, old: "data: {x: 1}\n---\n", want: "data: {x: 1}\n---\n---\ndata:\n  a: \"NO\"\nkind: Secret\nmetadata:\n  name: k\n"},
		{what: "one whose name it is not", o: Config{Document: "*", Identity: "kind,metadata/name"}, id: "Secret/k", to: `{"kind":"Secret","metadata":{"name":"j"}}`, want: "not the object's name"},
		{what: "one without its name", o: Config{Document: "*", Identity: "kind,metadata/name"}, id: "Secret/k", to: `{"kind":"Secret"}`, want: "not the object's name"},
		{what: "none is chosen", o: Config{}, id: "data", to: `{}`, want: "it has 3 documents, the second begins at line 13: name the one"},
		{what: "two are chosen", o: Config{Document: "kind=ConfigMap"}, id: "data", to: `{}`, want: "2 of its documents are kind=ConfigMap"},
		{what: "one that is not there", o: Config{Document: "4"}, id: "data", to: `{}`, want: "none of its documents is 4: it has 3"},
		{what: "a document that the edit would take from its choice", o: Config{Document: "kind=Deployment"}, id: "metadata", to: `{"name":"x","labels":{"a":null}}`, old: "{name: web}\nspec", want: "{name: x, labels: {a: null}}\nspec"},
		{what: "empty ones around", text: "---\n# head\n---\na: {x: 1}\n---\n", id: "a", to: `{"x":2}`, old: "x: 1", want: "x: 2"},
		{what: "a line of one that cannot be read", text: "k: 1\n---\na: {x: 1}\nb: {x: 1, x: 2}\n", o: Config{Document: "2"}, id: "b", to: `{"x":2}`, want: "line 4"},
		{what: "no YAML in another", text: "a: {x: 1}\n---\nb: [\n", o: Config{Document: "1"}, id: "a", to: `{"x":2}`, want: "line 4"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			text := c.text
			if text == "" {
				text = manifests
			}
			d := driver(t, "f.yaml", text, c.o)
			_, err := d.Snapshot(t.Context())
			if err == nil {
				err = do(t, d, c.id, c.to)
			}
			want := strings.Replace(text, c.old, c.want, 1)
			if c.old == "" {
				want = text
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("it is refused with %v", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if got := testkit.Value(os.ReadFile(d.o.Path))(t); string(got) != want {
				t.Errorf("it is\n%s\nand not\n%s", got, want)
			}
		})
	}
	for _, o := range []Config{{Path: "f.json", Document: "1"}, {Path: "f.yaml", Document: "*"}, {Path: "f.yaml", Document: "*", Identity: "k", At: "x"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
