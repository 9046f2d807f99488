package keyring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

const now = clock.Instant(1_800_000_000_000)

// TestInitMakesATrustedRoot checks that the root trusts each role's own key.
func TestInitMakesATrustedRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "keys")
	made := testkit.Value(keyring.Init(dir, "acme", keyring.RootLife, now))(t)
	roots, err := keyring.Roots(dir)
	if err != nil || len(roots) != 1 {
		t.Fatalf("%d roots: %v", len(roots), err)
	}
	if _, err := trust.Begin("acme", roots[0], ""); err != nil {
		t.Fatalf("the root is not trusted: %v", err)
	}
	for _, role := range trust.Roles() {
		s, err := keyring.Signer(dir, role)
		if err != nil || s.KeyID() != made.Keys[role] {
			t.Errorf("the %s key is %s, not %s: %v", role, s.KeyID(), made.Keys[role], err)
		}
		info, err := os.Stat(filepath.Join(dir, keyring.KeyFile(role)))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the %s key has mode %v: %v", role, info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the keys are %v: %v", entries, err)
	}
}

func TestInitRefuses(t *testing.T) {
	used := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(used, "root.key"), nil, 0o600))
	for name, c := range map[string]struct{ dir, fleet, want string }{
		"a used folder": {used, "acme", "keys are never overwritten"},
		"a bad name":    {t.TempDir(), "Acme", `"Acme" is not a name`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keyring.Init(c.dir, c.fleet, keyring.RootLife, now)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, expected %q", err, c.want)
			}
		})
	}
	if _, err := keyring.Signer(t.TempDir(), trust.RoleEnrol); err == nil || !strings.Contains(err.Error(), "steady keys init makes the keys of a new fleet: name the folder") {
		t.Errorf("a missing key: %v", err)
	}
	if _, err := keyring.Roots(t.TempDir()); err == nil || !strings.Contains(err.Error(), "steady keys init makes it") {
		t.Errorf("a missing root: %v", err)
	}
}

// TestTheFirstRootNeedsItsThreshold: however many holders bring a key, the first root
// counts exactly when the threshold of them has signed.
func TestTheFirstRootNeedsItsThreshold(t *testing.T) {
	base := t.TempDir()
	var holders, keys []string
	for i := range 3 {
		holders = append(holders, filepath.Join(base, "holder", strconv.Itoa(i)))
		share := testkit.Value(keyring.MakeShare(holders[i]))(t)
		keys = append(keys, share.Public)
	}
	for brought := 1; brought <= len(keys); brought++ {
		for shares := brought; shares <= brought+1; shares++ {
			for threshold := 1; threshold <= shares; threshold++ {
				t.Run(fmt.Sprintf("%d of %d, %d brought", threshold, shares, brought), func(t *testing.T) {
					meetsThreshold(t, keyring.Holders{Threshold: threshold, Shares: shares, ShareKeys: keys[:brought]}, holders[:brought])
				})
			}
		}
	}
}

// meetsThreshold has holders hand back a signed copy one after the other.
func meetsThreshold(t *testing.T, h keyring.Holders, holders []string) {
	dir := filepath.Join(t.TempDir(), "keys")
	made := testkit.Value(keyring.InitShared(dir, "acme", keyring.RootLife, now, h))(t)
	signed := h.Shares - len(holders) // those made here
	check := func(p keyring.Pending) {
		_, err := keyring.Newest(dir)
		if done := signed >= h.Threshold; p.Done != done || (err == nil) != done {
			t.Fatalf("%d shares signed: done %t, the root is taken: %v", signed, p.Done, err)
		}
	}
	check(made.First)
	for _, who := range holders {
		if signed >= h.Threshold {
			return
		}
		copied := filepath.Join(t.TempDir(), "copy")
		raw, err := os.ReadFile(made.Root)
		if err == nil {
			err = os.WriteFile(copied, raw, 0o600)
		}
		testkit.Must(t, err)
		testkit.Value(keyring.SignFile(who, copied))(t)
		p, err := keyring.AddSignatures(dir, copied)
		testkit.Must(t, err)
		signed++
		check(p)
	}
}
