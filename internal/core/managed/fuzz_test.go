package managed

import (
	"bytes"
	"testing"

	"github.com/steadyfleet/steady/internal/core/container"
)

// FuzzReadSpec: a spec that is taken is alone in its set, passes every rule, and
// its canonical form is its own.
func FuzzReadSpec(f *testing.F) {
	f.Add(container.KindVolume, "data", []byte(`{}`))
	f.Add(container.KindVolume, "data", []byte(`{"name":"other"}`))
	f.Add(container.KindNetwork, "net", []byte(`{"unknown":1}`))
	f.Add(container.KindWorkspace, "web", []byte(`{"image":"nginx","ports":[{"container":80,"host":8080}]}`))
	f.Add(container.KindRoute, "web", []byte(`{"host":"a.example","workspace":"web","port":80}`))
	f.Add(container.KindImage, "app", []byte(`{"reference":"nginx:1"}{}`))
	f.Add("unknown", "x", []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind, name string, raw []byte) {
		set, canonical, err := ReadSpec(kind, name, raw)
		if err != nil {
			return
		}
		n := len(set.Networks) + len(set.Volumes) + len(set.Images) + len(set.Workspaces) + len(set.Snapshots) + len(set.Routes)
		if n != 1 || len(raw) > MaxSpec {
			t.Fatalf("%d resources of %d bytes", n, len(raw))
		}
		_, again, err := ReadSpec(kind, name, canonical)
		if err != nil && len(canonical) <= MaxSpec || err == nil && !bytes.Equal(again, canonical) {
			t.Fatalf("%s became %s, %v", canonical, again, err)
		}
	})
}
