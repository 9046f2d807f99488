package embedded

import (
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// Pragmas returns a setting of the writer and of a reader.
func Pragmas(t *testing.T, s *Store, name string) (writer, reader string) {
	t.Helper()
	row, err := s.w.row("PRAGMA " + name)
	if err != nil || row == nil {
		t.Fatalf("%s: %v, %v", name, row, err)
	}
	testkit.Must(t, s.readers.QueryRow("PRAGMA "+name).Scan(&reader))
	return fmt.Sprint(row[0]), reader
}
