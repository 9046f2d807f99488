package apply

import (
	"bytes"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// FuzzRead: of a file that is taken without a problem every resource is there
// once, and its spec is the canonical one that the server takes too.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"kind: volume\nname: data\nspec: {}\n", "kind: volume\nname: data\nspec: {}\n---\nkind: volume\nname: data\nspec: {}\n",
		"kind: workspace\nname: web\nspec: {image: nginx, memory: 512m}\n", "kind: other\n", "---\n---\n", `{"kind":"network","name":"n","spec":{}}`} {
		f.Add([]byte(s), "web-1")
	}
	f.Fuzz(func(t *testing.T, raw []byte, host string) {
		found, problems := Read(spec.Known, "f.yaml", raw, host)
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Message == "" {
					t.Fatal("a problem without words")
				}
			}
			return
		}
		seen := map[string]bool{}
		for i := range found {
			r := &found[i]
			if seen[r.FullName()] || host != "" && r.Host != host {
				t.Fatalf("%s twice, or of another host than %q", r.FullName(), host)
			}
			seen[r.FullName()] = true
			if _, again, err := spec.Known.Read(r.Kind, r.Name, r.Spec); err != nil || !bytes.Equal(again, r.Spec) {
				t.Fatalf("%s: %s became %s, %v", r.FullName(), r.Spec, again, err)
			}
		}
		if len(found) == 0 || len(found) > maxDocuments {
			t.Fatalf("%d resources", len(found))
		}
	})
}
