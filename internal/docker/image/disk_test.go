package image

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/disk"
)

func TestShortageAgreesWithItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := disk.Space{Size: rapid.Int64Range(0, 1<<44).Draw(t, "size")}
		s.Free = rapid.Int64Range(0, s.Size).Draw(t, "free")
		short := shortage(s) != ""
		if short && s.Free >= s.Size {
			t.Fatalf("short with all of %+v", s)
		}
		if more := (disk.Space{Free: s.Free + 1, Size: s.Size}); !short && shortage(more) != "" {
			t.Fatalf("more is short, %+v is not", s)
		}
		if !short && s.Size > 0 && (s.Free < min(gib, s.Size/10) || s.Free < s.Size/100*5) {
			t.Fatalf("not short with %+v", s)
		}
	})
}

type tank struct{ free int64 }

func (d *tank) measure(context.Context) (disk.Space, error) {
	return disk.Space{Free: d.free, Size: 1000}, nil
}

func TestRelieveCollectsOnlyWhenShort(t *testing.T) {
	d, calls := &tank{free: 500}, 0
	g := NewGuard(d.measure, func(context.Context) error { calls++; d.free += 60; return nil })
	if words, err := g.Relieve(t.Context()); words != "" || err != nil || calls != 0 {
		t.Fatalf("%q %v after %d", words, err, calls)
	}
	d.free = 20
	if words, err := g.Relieve(t.Context()); words == "" || err != nil || calls != 1 {
		t.Fatalf("80 of 1000 is short: %q %v after %d", words, err, calls)
	}
	if words, err := g.Relieve(t.Context()); words != "" || err != nil || calls != 2 {
		t.Fatalf("%q %v after %d", words, err, calls)
	}
	fails := errors.New("fails")
	g = NewGuard((&tank{}).measure, func(context.Context) error { return fails })
	if words, err := g.Relieve(t.Context()); words == "" || !errors.Is(err, fails) {
		t.Fatalf("%q %v", words, err)
	}
}
