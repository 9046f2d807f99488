package disk_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	first  = disk.Migration{Name: "0001_a", SQL: `CREATE TABLE a (n INTEGER)`}
	second = disk.Migration{Name: "0002_b", SQL: `ALTER TABLE a ADD COLUMN m INTEGER`}
	other  = disk.Migration{Name: "0001_other", SQL: `CREATE TABLE other (n INTEGER)`}
	broken = disk.Migration{Name: "0002_broken", SQL: `CREATE TABLE b (n INTEGER); SELECT * FROM absent`}
)

// migrate runs the steps in a transaction, which it keeps only if all went well.
func migrate(t *testing.T, db *sql.DB, steps ...disk.Migration) error {
	t.Helper()
	tx := testkit.Value(db.BeginTx(context.Background(), nil))(t)
	if err := disk.Migrate(t.Context(), tx, steps); err != nil {
		testkit.Must(t, tx.Rollback())
		return err
	}
	return tx.Commit()
}

// TestMigrate: steps run once each and in order, one by one or at once; a database that
// is not what earlier steps of this program made of it is refused and left as it is.
func TestMigrate(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after []disk.Migration
		refused       string
		columns       int // of table a, afterwards
	}{
		{"empty", nil, []disk.Migration{first, second}, "", 2},
		{"again", []disk.Migration{first, second}, []disk.Migration{first, second}, "", 2},
		{"one more", []disk.Migration{first}, []disk.Migration{first, second}, "", 2},
		{"newer database", []disk.Migration{first, second}, []disk.Migration{first}, "0002_b, which this version does not know", 2},
		{"another's", []disk.Migration{first}, []disk.Migration{other}, "made by migration 0001_a", 1},
		{"changed text", []disk.Migration{first}, []disk.Migration{{Name: first.Name, SQL: first.SQL + " "}}, "made by migration 0001_a", 1},
		{"a step that fails", []disk.Migration{first}, []disk.Migration{first, broken}, "migration 0002_broken", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := testkit.Value(sql.Open("sqlite", ":memory:"))(t)
			db.SetMaxOpenConns(1) // each connection has a memory of its own
			defer db.Close()
			testkit.Must(t, migrate(t, db, c.before...))
			err := migrate(t, db, c.after...)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v, expected %q", err, c.refused)
			}
			var columns, extra int
			testkit.Must(t, db.QueryRow(`SELECT count(*) FROM pragma_table_info('a')`).Scan(&columns))
			testkit.Must(t, db.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name IN ('b', 'other')`).Scan(&extra))
			if columns != c.columns || extra != 0 {
				t.Errorf("%d columns and %d other tables, expected %d and none", columns, extra, c.columns)
			}
		})
	}
}
