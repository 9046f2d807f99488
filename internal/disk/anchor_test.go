package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// imageOf is the file after the payloads were written, one after the other.
func imageOf(payloads [][]byte) []byte {
	image := encodeAnchor(payloads[0])
	for i, p := range payloads[1:] {
		copy(image[(i%2)*anchorBlock:], encodeSlot(uint64(i+2), p))
	}
	return image
}

// TestS33AnchorIsNeverWrong turns bits of an anchor and cuts it: what is read is the newest
// payload, or the one before it and damaged, or nothing and unreadable.
func TestS33AnchorIsNeverWrong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payloads := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, MaxAnchor), 1, 5).Draw(t, "payloads")
		image := imageOf(payloads)
		newest := payloads[len(payloads)-1]
		before := newest
		if len(payloads) > 1 {
			before = payloads[len(payloads)-2]
		}
		at := rapid.IntRange(0, 2*anchorSlot-1).Draw(t, "byte of a slot")
		if at >= anchorSlot {
			at += anchorBlock - anchorSlot
		}
		hurt := bytes.Clone(image)
		hurt[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		newestAt := len(payloads) % 2
		want := newest
		if at/anchorBlock == newestAt {
			want = before
		}
		if _, got, state := decodeAnchor(hurt); state != AnchorDamaged || !bytes.Equal(got, want) {
			t.Fatalf("bit of slot %d turned: %q %s, want %q damaged", at/anchorBlock, got, state, want)
		}
		cut := rapid.IntRange(0, len(image)-1).Draw(t, "cut")
		_, got, state := decodeAnchor(image[:cut])
		switch {
		case cut < anchorSlot:
			if state != AnchorUnreadable || got != nil {
				t.Fatalf("cut at %d: %q %s", cut, got, state)
			}
		case cut < anchorBlock+anchorSlot:
			if state != AnchorDamaged || !bytes.Equal(got, newest) && !bytes.Equal(got, before) {
				t.Fatalf("cut at %d: %q %s", cut, got, state)
			}
		}
	})
}

func TestAnchorIsWrittenInTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "anchor")
	a, err := OpenAnchor(path)
	if err != nil {
		t.Fatal(err)
	}
	var written [][]byte
	for i := range 5 {
		p := bytes.Repeat([]byte{byte('a' + i)}, 5-i)
		if err := a.Write(p); err != nil {
			t.Fatal(err)
		}
		written = append(written, p)
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, imageOf(written)) {
			t.Fatalf("after %d writes the file is another one: %v", i+1, err)
		}
		if i%2 == 1 {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if a, err = OpenAnchor(path); err != nil {
				t.Fatal(err)
			}
		}
		if got, state := a.Last(); state != AnchorWhole || !bytes.Equal(got, p) {
			t.Fatalf("%q %s, want %q", got, state, p)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnchorStates(t *testing.T) {
	two, four := encodeAnchor([]byte("old")), encodeAnchor([]byte("old"))
	copy(four[anchorBlock:], encodeSlot(5, []byte("new")))
	copy(two, encodeSlot(2, []byte("new")))
	swapped := append(bytes.Clone(two[anchorBlock:]), two[:anchorBlock]...)
	for name, c := range map[string]struct {
		image []byte
		want  AnchorState
		last  string
	}{
		"whole":                       {two, AnchorWhole, "new"},
		"a slot of long ago":          {four, AnchorDamaged, "new"},
		"slots at each other's place": {swapped, AnchorUnreadable, ""},
		"empty":                       {nil, AnchorUnreadable, ""},
		"zeros":                       {make([]byte, anchorSize), AnchorUnreadable, ""},
	} {
		path := filepath.Join(t.TempDir(), "anchor")
		if err := os.WriteFile(path, c.image, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := OpenAnchor(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, state := a.Last(); state != c.want || string(got) != c.last {
			t.Errorf("%s: %q %s, want %q %s", name, got, state, c.last, c.want)
		}
		if err := a.Write([]byte("after")); err != nil {
			t.Fatal(err)
		}
		_ = a.Close()
		if a, err = OpenAnchor(path); err != nil {
			t.Fatal(err)
		}
		if got, state := a.Last(); state != AnchorWhole || string(got) != "after" {
			t.Errorf("%s, written again: %q %s", name, got, state)
		}
	}
	a, err := OpenAnchor(filepath.Join(t.TempDir(), "anchor"))
	if err != nil {
		t.Fatal(err)
	}
	if got, state := a.Last(); got != nil || state != AnchorAbsent {
		t.Errorf("without a file: %q %s", got, state)
	}
	if err := a.Write(make([]byte, MaxAnchor+1)); err == nil {
		t.Error("a payload that is too long was written")
	}
}
