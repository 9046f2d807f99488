package embedded_test

import (
	"database/sql"
	"slices"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestSQLiteIsNotTooOld: before 3.51.3 resetting the WAL could corrupt an index.
func TestSQLiteIsNotTooOld(t *testing.T) {
	db := testkit.Value(sql.Open("sqlite", ":memory:"))(t)
	defer db.Close()
	var version string
	testkit.Must(t, db.QueryRow("select sqlite_version()").Scan(&version))
	if !atLeast(t, version, "3.51.3") {
		t.Errorf("SQLite %s is linked: require a modernc.org/sqlite that holds 3.51.3 or newer", version)
	}
}

func TestVersionOrder(t *testing.T) {
	for older, newer := range map[string]string{"3.51.2": "3.51.3", "3.9.9": "3.51.3", "3.51": "3.51.3"} {
		if atLeast(t, older, newer) || !atLeast(t, newer, older) || !atLeast(t, newer, newer) {
			t.Errorf("%s and %s are in the wrong order", older, newer)
		}
	}
}

// atLeast compares versions number by number.
func atLeast(t *testing.T, version, least string) bool {
	return slices.Compare(numbers(t, version), numbers(t, least)) >= 0
}

func numbers(t *testing.T, version string) []int {
	t.Helper()
	parts := []int{0}
	for _, r := range version {
		switch {
		case r == '.':
			parts = append(parts, 0)
		case r >= '0' && r <= '9':
			parts[len(parts)-1] = parts[len(parts)-1]*10 + int(r-'0')
		default:
			t.Fatalf("%q is not a version of numbers and dots", version)
		}
	}
	return parts
}
