package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir := testkit.Value(os.MkdirTemp("", "ledger"))(t)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "images")
		f := testkit.Value(Open(path))(t)
		newest := map[string]Image{}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			i := Image{Kind: "image", Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Ref: rapid.SampledFrom([]string{"r:1", "r:2"}).Draw(t, "ref"),
				ID: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "id"), Run: rapid.StringMatching("[a-z]").Draw(t, "run")}
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				testkit.Must(t, f.Drop(t.Context(), i))
				if newest[i.Name+i.Ref].ID == i.ID {
					delete(newest, i.Name+i.Ref)
				}
				continue
			}
			testkit.Must(t, f.Add(t.Context(), i))
			newest[i.Name+i.Ref] = i
		}
		again := testkit.Value(Open(path))(t)
		a, _ := f.All(t.Context())
		b, _ := again.All(t.Context())
		if d := cmp.Diff(a, b); len(a)+len(b) > 0 && d != "" {
			t.Fatal(d)
		}
		for key, want := range newest {
			got, ok, err := again.Newest(t.Context(), "image", key[:1], key[1:])
			if err != nil || !ok || got.ID != want.ID || got.Run != want.Run {
				t.Fatalf("newest of %s is %+v %v %v, expected %+v", key, got, ok, err, want)
			}
		}
	})
}

func TestFetchedStays(t *testing.T) {
	f := testkit.Value(Open(filepath.Join(t.TempDir(), "images")))(t)
	for _, fetched := range []bool{true, false} {
		testkit.Must(t, f.Add(t.Context(), Image{Kind: "image", Name: "a", Ref: "r", ID: "x", Fetched: fetched}))
	}
	if i, ok, _ := f.Newest(t.Context(), "image", "a", "r"); !ok || !i.Fetched {
		t.Fatalf("%+v %v", i, ok)
	}
}

func TestDamagedFileSaysWhatToDo(t *testing.T) {
	for _, text := range []string{"{", `{"version": 9}`} {
		path := filepath.Join(t.TempDir(), "images")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
