package netconf

import (
	"bufio"
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// FuzzReply: whatever a device sends is refused, or is data that come back from XML as they are.
func FuzzReply(f *testing.F) {
	f.Add([]byte("\n#4\n<a/>\n##\n"), true)
	f.Fuzz(func(t *testing.T, wire []byte, chunked bool) {
		raw, err := (&frames{in: bufio.NewReader(bytes.NewReader(wire)), chunked: chunked}).read()
		if err != nil {
			return
		}
		e, err := parse(raw)
		if err != nil {
			return
		}
		data := form{types: map[string]string{"n": typeNumber}, lists: map[string]string{"l": "k"}}
		v, err := data.value(e, "")
		m, is := v.(map[string]any)
		if err != nil || !is {
			return
		}
		want := data.normal(m, "")
		again, err := data.element(e.Name, want, "")
		if err != nil {
			return // a name that YANG has not
		}
		var b strings.Builder
		again.write(&b, "")
		back, err := parse([]byte(b.String()))
		if err != nil {
			t.Fatalf("%q is written as %q: %v", raw, b.String(), err)
		}
		got, err := data.value(back, "")
		if err != nil || !reflect.DeepEqual(data.normal(got, ""), want) {
			t.Fatalf("%q is %v, and %v after it was written as %q: %v", raw, want, got, b.String(), err)
		}
	})
}
