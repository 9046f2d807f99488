package nodesdk_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/nodesdk"
)

func TestDecodeMessage(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"welcome","welcome":{"session":1,"new":[{}]},"more":1}`: "",
		`{"type":"a","type":"b"}`:                "twice",
		`{"type":"a","x":{"y":[{"z":1,"z":1}]}}`: "twice",
		`{"type":"a"} {}`:                        "after its end",
		`{"type":"a"`:                            "malformed",
		`[]`:                                     "no JSON object",
		``:                                       "no JSON object",
		`{}`:                                     "no type",
		`{"type":"hello","hello":{"node":7}}`:    "wrong type",
		`{"type":"a","x":` + deep(nodesdk.MaxDepth-1): "",
		`{"type":"a","x":` + deep(nodesdk.MaxDepth):   "too deep",
	} {
		_, err := nodesdk.DecodeMessage([]byte(raw))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, expected %q", raw, err, want)
		}
	}
}

// deep closes the object in which it stands.
func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }

// FuzzDecodeMessage: what is read is the same after it was written, and of bounded depth.
func FuzzDecodeMessage(f *testing.F) {
	f.Add([]byte(`{"type":"request","id":3,"request":{"apply":{"op":1,"term":1,"kind":"flow","id":"a","config":{"a":1}}}}`))
	f.Add([]byte(`{"type":"refused","refused":{"code":"retired","message":"","final":true}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := nodesdk.DecodeMessage(raw)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := nodesdk.DecodeMessage(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		third, err := json.Marshal(b)
		if err != nil || !reflect.DeepEqual(again, third) {
			t.Fatalf("%s and %s, %v", again, third, err)
		}
	})
}
