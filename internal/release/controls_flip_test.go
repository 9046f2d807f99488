package release

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// TestEverySingleBitFlipOfControlsIsRefused is exhaustive over 4 KiB of controls.
func TestEverySingleBitFlipOfControlsIsRefused(t *testing.T) {
	c := fleet.Controls{Type: fleet.TypeControls, Controls: []fleet.Control{{ID: "c-1", Title: "t", Expression: "true",
		Severity: "high", Mode: fleet.Enforce, Selector: fleet.Selector{All: true}}}}
	short := testkit.Value(trust.Canonical(c))(t)
	c.Controls[0].Title = strings.Repeat("t", 1+4096-len(short))
	raw, err := trust.Canonical(c)
	if err != nil || len(raw) != 4096 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	m := &fleet.Manifest{Controls: digest.Of(raw)}
	read := func(b []byte) error {
		file := fstest.MapFS{ControlsPath(m.Controls): {Data: b}}
		_, err := (&verification{Verified: &Verified{fsys: file}, used: map[string]bool{}}).controls(m)
		return err
	}
	if err := read(raw); err != nil {
		t.Fatalf("the unchanged controls are refused: %v", err)
	}
	b := bytes.Clone(raw)
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if read(b) == nil {
			t.Fatalf("bit %d flipped and accepted", bit)
		}
		b[bit/8] = raw[bit/8]
	}
}
