package image

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestShortAgreesWithItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := DiskBytes{Total: rapid.Int64Range(0, 1<<44).Draw(t, "total")}
		b.Free = rapid.Int64Range(0, b.Total).Draw(t, "free")
		l := DiskLimits{Percent: rapid.IntRange(-1, 100).Draw(t, "percent"), Bytes: rapid.Int64Range(-1, 1<<40).Draw(t, "bytes")}
		short := Short(b, l) != ""
		if short && b.Free >= b.Total || short && l.Percent < 0 && l.Bytes < 0 {
			t.Fatalf("short with %+v under %+v", b, l)
		}
		if more := (DiskBytes{b.Free + 1, b.Total}); !short && Short(more, l) != "" {
			t.Fatalf("more is short, %+v is not", b)
		}
		if !short && b.Total > 0 && (l.Bytes > 0 && b.Free < min(l.Bytes, b.Total) || l.Percent > 0 && b.Free < b.Total/100*int64(l.Percent)) {
			t.Fatalf("not short with %+v under %+v", b, l)
		}
	})
}

func TestFolder(t *testing.T) {
	b, err := DiskFolder(t.TempDir()).Free(t.Context())
	if err != nil || b.Total <= 0 || b.Free < 0 || b.Free > b.Total {
		t.Fatalf("%+v %v", b, err)
	}
	if _, err := DiskFolder("/nowhere/at/all").Free(t.Context()); err == nil {
		t.Fatal("a folder that is not there has no free space")
	}
}

type tank struct{ free int64 }

func (d *tank) Free(context.Context) (DiskBytes, error) { return DiskBytes{d.free, 1000}, nil }

func TestRelieveCollectsOnlyWhenShort(t *testing.T) {
	d, calls := &tank{free: 500}, 0
	g := NewGuard(d, DiskLimits{Percent: 10, Bytes: -1}, func(context.Context) error { calls++; d.free += 60; return nil })
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
	g = NewGuard(&tank{}, DiskLimits{}, func(context.Context) error { return fails })
	if words, err := g.Relieve(t.Context()); words == "" || !errors.Is(err, fails) {
		t.Fatalf("%q %v", words, err)
	}
}

func TestRunRelievesUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &tank{free: 20}
		g := NewGuard(d, DiskLimits{Percent: 10, Bytes: -1}, func(context.Context) error { d.free += 50; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		var said []bool
		g.Run(ctx, time.Minute, func(words string, err error) {
			said = append(said, words != "")
			if len(said) == 3 {
				cancel()
			}
		})
		if len(said) != 3 || !said[0] || said[1] || said[2] {
			t.Fatalf("short: %v", said)
		}
	})
}
