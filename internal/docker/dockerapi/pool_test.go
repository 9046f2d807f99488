package dockerapi_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// TestBoundAndWake: never more inside than places, and whoever was refused is
// told as soon as a place is free.
func TestBoundAndWake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var told []string
		size := rapid.IntRange(0, 3).Draw(t, "size")
		p := dockerapi.NewPool(size, func(r string) { told = append(told, r) })
		var leaves []func()
		var refused []string
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			changed := false
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				ref := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "ref")
				room := len(leaves) < max(1, size)
				leave, ok := p.TryEnter(ref)
				if ok != room {
					t.Fatalf("entered %v with room %v", ok, room)
				}
				if ok {
					leaves = append(leaves, leave)
					refused = slices.DeleteFunc(refused, func(r string) bool { return r == ref })
				} else if !slices.Contains(refused, ref) {
					refused = append(refused, ref)
				}
			case 2:
				if len(leaves) > 0 {
					i := rapid.IntRange(0, len(leaves)-1).Draw(t, "who")
					leaves[i]()
					leaves[i]() // the second call does nothing
					leaves = slices.Delete(leaves, i, i+1)
					changed = true
				}
			case 3:
				size = rapid.IntRange(-1, 4).Draw(t, "size")
				p.Resize(size)
				changed = true
			}
			if free := max(1, size) - len(leaves); changed && len(told) != min(max(0, free), len(refused)) {
				t.Fatalf("%d places are free, %v wait, and %v were told", free, refused, told)
			}
			for _, r := range told {
				if len(refused) == 0 || refused[0] != r {
					t.Fatalf("told %s, want the first of %v", r, refused)
				}
				refused = refused[1:]
			}
			told = nil
		}
	})
}
