package spec

import (
	"bytes"
	"testing"
)

// FuzzRead: a spec that is taken is alone in its set, passes every rule, and
// its canonical form is its own.
func FuzzRead(f *testing.F) {
	f.Add(KindVolume, "data", []byte(`{}`))
	f.Add(KindVolume, "data", []byte(`{"name":"other"}`))
	f.Add(KindNetwork, "net", []byte(`{"unknown":1}`))
	f.Add(KindWorkspace, "web", []byte(`{"image":"nginx","ports":[{"container":80,"host":8080}]}`))
	f.Add(KindRoute, "web", []byte(`{"host":"a.example","workspace":"web","port":80}`))
	f.Add(KindImage, "app", []byte(`{"reference":"nginx:1"}{}`))
	f.Add("unknown", "x", []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind, name string, raw []byte) {
		set, canonical, err := Known.Read(kind, name, raw)
		if err != nil {
			return
		}
		n := len(set.IDs())
		if n != 1 || len(raw) > MaxSpec {
			t.Fatalf("%d resources of %d bytes", n, len(raw))
		}
		_, again, err := Known.Read(kind, name, canonical)
		if err != nil && len(canonical) <= MaxSpec || err == nil && !bytes.Equal(again, canonical) {
			t.Fatalf("%s became %s, %v", canonical, again, err)
		}
	})
}
