package spec

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
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

// FuzzSpan: what is read of a duration, as a text or as milliseconds, is read again from what is written of it.
func FuzzSpan(f *testing.F) {
	for _, s := range []string{`"10m"`, `600000`, `"0s"`, `-1`, `null`, `"x"`, `1.5`, `{}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s, again, text Span
		if s.UnmarshalJSON(raw) != nil {
			return
		}
		written, err := json.Marshal(s)
		if err != nil || again.UnmarshalJSON(written) != nil || again != s {
			t.Fatalf("%s became %s and %d, %v", raw, written, again, err)
		}
		if s >= 0 && s <= Span(365*clock.Day) && (text.UnmarshalJSON([]byte(`"`+clock.Duration(s).String()+`"`)) != nil || text != s) {
			t.Fatalf("%s is written as %s", raw, clock.Duration(s))
		}
	})
}
