package state

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

// anchoredStore opens a folder of incarnation 1 as an agent does, and says whether it is parked.
func anchoredStore(t *testing.T, dir string) (*Store, *agent.Parked) {
	t.Helper()
	s := testkit.Value(Open(t.Context(), dir, Options{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s, testkit.Value(s.Anchor(t.Context(), 1))(t)
}

func begun(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s := testkit.Value(Open(t.Context(), dir, Options{}))(t)
	testkit.Must(t, s.Tx(t.Context(), func(tx *sql.Tx) error { return Begin(t.Context(), tx, Link{Hash: make([]byte, hashSize)}) }))
	testkit.Must(t, s.Close())
	s, parked := anchoredStore(t, dir)
	if parked != nil {
		t.Fatalf("the first start is parked: %s", parked.Message())
	}
	return s, dir
}

func record(t *testing.T, s *Store, n int) {
	t.Helper()
	for range n {
		testkit.Must(t, s.Tx(t.Context(), func(tx *sql.Tx) error { return Append(t.Context(), tx, 1, event.RepairOver{Detail: "x"}) }))
	}
}

// cutOff copies a folder as a machine that lost its power leaves it, and lets damage at it.
func cutOff(t *testing.T, dir string, damage func(dir string)) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{"agent.db", "agent.db-wal", "anchor"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			testkit.Must(t, os.WriteFile(filepath.Join(to, name), b, 0o600))
		}
	}
	damage(to)
	return to
}

// TestF10LostTailOfAnAgentIsKnown damages what a killed agent left: whatever of its chain
// is gone, the anchor tells.
func TestF10LostTailOfAnAgentIsKnown(t *testing.T) {
	s, dir := begun(t)
	record(t, s, 3)
	testkit.Must(t, s.Rest(t.Context()))
	earlier := cutOff(t, dir, func(string) {})
	record(t, s, 4)
	rename := func(from, to string) func(string) {
		return func(dir string) { testkit.Must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to))) }
	}
	for name, c := range map[string]struct {
		damage func(dir string)
		code   string
	}{
		"as it was left":     {func(string) {}, ""},
		"the log is gone":    {rename("agent.db-wal", "gone"), host.ParkedBehind},
		"the end is cut off": {func(dir string) { testkit.Must(t, os.Truncate(filepath.Join(dir, "agent.db-wal"), 5000)) }, host.ParkedBehind},
		"the anchor is gone": {rename("anchor", "gone"), host.ParkedUnreadable},
		"the anchor is zeroes": {func(dir string) {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "anchor"), make([]byte, 8192), 0o600))
		}, host.ParkedUnreadable},
		"an older database": {func(dir string) {
			rename("agent.db-wal", "gone")(dir)
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "agent.db"), testkit.Value(os.ReadFile(filepath.Join(earlier, "agent.db")))(t), 0o600))
		}, host.ParkedBehind},
		"an older anchor": {func(dir string) {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "anchor"), testkit.Value(os.ReadFile(filepath.Join(earlier, "anchor")))(t), 0o600))
		}, ""},
	} {
		to := cutOff(t, dir, c.damage)
		for range 2 { // it stays so, and a start writes no other anchor
			s, parked := anchoredStore(t, to)
			if c.code == "" != (parked == nil) || parked != nil && parked.Code != c.code {
				t.Errorf("%s: parked is %+v, expected %q", name, parked, c.code)
			}
			testkit.Must(t, s.Close())
		}
	}
}

// TestFolderOfAnAgentWithoutAnchorIsTakenOver: 0.1.0 wrote none.
func TestFolderOfAnAgentWithoutAnchorIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	s := testkit.Value(Open(t.Context(), dir, Options{}))(t)
	testkit.Must(t, s.Tx(t.Context(), func(tx *sql.Tx) error { return Begin(t.Context(), tx, Link{Hash: make([]byte, hashSize)}) }))
	record(t, s, 2)
	testkit.Must(t, s.Close())
	for range 2 {
		s, parked := anchoredStore(t, dir)
		if parked != nil {
			t.Fatalf("parked: %s", parked.Message())
		}
		testkit.Must(t, s.Close())
	}
}

// TestEnrolmentAfterTheAnchor: the anchor of an earlier enrolment says nothing, that of a
// later one that the database is old.
func TestEnrolmentAfterTheAnchor(t *testing.T) {
	s, dir := begun(t)
	record(t, s, 2)
	for incarnation, parks := range map[uint64]bool{0: true, 1: false, 2: false} {
		s := testkit.Value(Open(t.Context(), cutOff(t, dir, func(string) {}), Options{}))(t)
		if parked := testkit.Value(s.Anchor(t.Context(), incarnation))(t); (parked != nil) != parks {
			t.Errorf("enrolment %d: parked is %+v", incarnation, parked)
		}
		testkit.Must(t, s.Close())
	}
}

// TestF11TurnedBitOfADocumentIsFound turns each bit of a stored document: it reads as
// before or not at all. What an older agent wrote has no checksum.
func TestF11TurnedBitOfADocumentIsFound(t *testing.T) {
	s := testkit.Value(Open(t.Context(), t.TempDir(), Options{}))(t)
	defer func() { _ = s.Close() }()
	ctx := context.WithoutCancel(t.Context())
	type doc struct {
		Phase string `json:"phase"`
		Seq   uint64 `json:"seq"`
	}
	want := doc{"converged", 17}
	testkit.Must(t, s.Tx(ctx, func(tx *sql.Tx) error { return PutDoc(ctx, tx, "k", want) }))
	var raw []byte
	testkit.Must(t, s.db.QueryRowContext(ctx, "SELECT value FROM kv WHERE key = 'k'").Scan(&raw))
	for bit := range len(raw) * 8 {
		turned := bytes.Clone(raw)
		turned[bit/8] ^= 1 << (bit % 8)
		testkit.Must(t, s.exec(ctx, "UPDATE kv SET value = ? WHERE key = 'k'", turned))
		var got doc
		if _, err := s.Get(ctx, "k", &got); err == nil && got != want {
			t.Fatalf("with bit %d turned it reads %+v: %s", bit, got, turned)
		}
	}
	testkit.Must(t, s.exec(ctx, "UPDATE kv SET value = ? WHERE key = 'k'", []byte(`{"phase":"soaking","seq":3}`)))
	var got doc
	if _, err := s.Get(ctx, "k", &got); err != nil || got != (doc{"soaking", 3}) {
		t.Errorf("what an older agent wrote reads %+v, %v", got, err)
	}
}
