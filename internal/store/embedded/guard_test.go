package embedded_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestSQLiteVersion: before 3.51.3 a reset of the WAL could corrupt the file.
func TestSQLiteVersion(t *testing.T) {
	db := testkit.Value(sql.Open("sqlite", ":memory:"))(t)
	defer db.Close()
	var version string
	testkit.Must(t, db.QueryRow(`SELECT sqlite_version()`).Scan(&version))
	var major, minor, patch int
	testkit.Value(fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch))(t)
	if major*1_000_000+minor*1000+patch < 3_051_003 {
		t.Errorf("SQLite %s is older than 3.51.3", version)
	}
}

// TestLibcVersion: modernc.org/sqlite is generated against one version of
// modernc.org/libc and supports no other.
func TestLibcVersion(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-json", "modernc.org/sqlite").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var mod struct{ GoMod, Dir string }
	testkit.Must(t, json.Unmarshal(out, &mod))
	if mod.GoMod == "" {
		t.Fatal("modernc.org/sqlite is not in the module cache, of which this test is built: go mod download")
	}
	ours, err := exec.Command("go", "env", "GOMOD").Output()
	testkit.Must(t, err)
	want, got := libc(t, mod.GoMod), libc(t, strings.TrimSpace(string(ours)))
	if want != got {
		t.Errorf("go.mod has modernc.org/libc %s, modernc.org/sqlite wants %s", got, want)
	}
}

func libc(t *testing.T, path string) string {
	t.Helper()
	b := testkit.Value(os.ReadFile(path))(t)
	m := regexp.MustCompile(`(?m)^(?:require)?\s+modernc\.org/libc (v\S+)`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("%s does not require modernc.org/libc", path)
	}
	return string(m[1])
}

// TestSettings: every connection has the settings that durability rests on.
func TestSettings(t *testing.T) {
	st := open(t, t.TempDir(), embedded.Options{})
	defer st.Close()
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "wal_autocheckpoint": "0",
	} {
		w, r := embedded.Pragmas(t, st, pragma)
		if w != want || r != want {
			t.Errorf("%s is %s for the writer and %s for readers; want %s", pragma, w, r, want)
		}
	}
	if _, r := embedded.Pragmas(t, st, "query_only"); r != "1" {
		t.Error("readers may write")
	}
}

// TestMigrations: a store of a newer version, and one whose migration was
// another text, are refused with the reason; opening again changes nothing.
func TestMigrations(t *testing.T) {
	for query, want := range map[string]string{
		`UPDATE migrations SET digest = 'sha256:00' WHERE number = 1`:               "was made by migration 0001_log.sql",
		`INSERT INTO migrations VALUES (99, '0099_later.sql', 'sha256:00')`:         "does not know",
		`UPDATE migrations SET number = 7 WHERE number = 1`:                         "was made by migration 0001_log.sql",
		`INSERT INTO leases (term, holder, at) VALUES (77, 'nobody in the way', 1)`: "",
	} {
		dir := t.TempDir()
		testkit.Must(t, open(t, dir, embedded.Options{}).Close())
		tamper(t, dir, query)
		st, err := embedded.Open(t.Context(), dir, embedded.Options{})
		if err == nil {
			err = st.Close()
			if want != "" || err != nil {
				t.Errorf("%s: opened, %v", query, err)
			}
		} else if want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestOddPath: a directory name is no part of a query.
func TestOddPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?mode=ro&c#d%41'")
	st := open(t, dir, embedded.Options{})
	lead(t, st)
	testkit.Must(t, st.Close())
	if _, err := os.Stat(filepath.Join(dir, "log.db")); err != nil {
		t.Error(err)
	}
}
