package wire_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/wire"
)

func TestKnownIsWhatIsSent(t *testing.T) {
	if wire.Version != strconv.Itoa(wire.Known.Newest) || wire.Known.Newest-wire.Known.Oldest > 1 || wire.Known.Oldest < 1 {
		t.Errorf("an agent sends %s, and versions %+v are known: the current one and the one before", wire.Version, wire.Known)
	}
}

// TestNeighboursSpeak: two ends that know a version and the one before understand each other
// exactly when they are neighbours or the same, and speak the older one's newest.
func TestNeighboursSpeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := func(newest int) wire.Range { return wire.Range{Oldest: max(1, newest-1), Newest: newest} }
		a, s := rapid.IntRange(1, 9).Draw(t, "agent"), rapid.IntRange(1, 9).Draw(t, "server")
		n, err := of(s).Speak(strconv.Itoa(a))
		ok := err == nil && of(a).Understands(strconv.Itoa(n)) == nil
		if ok != (a-s <= 1 && s-a <= 1) {
			t.Fatalf("agent %d and server %d: %v (%d, %v)", a, s, ok, n, err)
		}
		if ok && n != min(a, s) {
			t.Fatalf("agent %d and server %d speak %d", a, s, n)
		}
	})
	for _, said := range []string{"", "x", "0", "-1", "1.0"} {
		if _, err := wire.Known.Speak(said); err == nil {
			t.Errorf("an agent that says %q is served", said)
		}
	}
	if err := wire.Known.Understands(""); err != nil {
		t.Errorf("a server of 0.1.0, which says nothing: %v", err)
	}
}
