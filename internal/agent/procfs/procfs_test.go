package procfs

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

func TestNumbers(t *testing.T) {
	for in, want := range map[string]uint64{"0.15": 150, "12": 12000, "1.2345": 1234, "0.009": 9, "7.": 7000} {
		if got, ok := Milli([]byte(in)); !ok || got != want {
			t.Errorf("%q is %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", ".", ".5", "-1", "1.x", "1e3", "nan"} {
		if got, ok := Milli([]byte(in)); ok {
			t.Errorf("%q is taken for %d", in, got)
		}
	}
	if Add(math.MaxUint64, 1) != math.MaxUint64 || Mul(1<<40, 1<<40) != math.MaxUint64 || Mul(3, 4) != 12 {
		t.Error("numbers wrap around")
	}
}

func TestEachNamesWhatAFolderHolds(t *testing.T) {
	var names []string
	if err := new(Files).Each(t.TempDir(), func(name []byte) { names = append(names, string(name)) }); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(names); !slices.Equal(names, []string{".", ".."}) {
		t.Errorf("an empty folder holds %q", names)
	}
}

func FuzzParseDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x18\x00\x04self\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseDirents(b, func(name []byte) {
			if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 {
				t.Errorf("the name is %q", name)
			}
		})
	})
}
