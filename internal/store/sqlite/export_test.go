package sqlite

import (
	"fmt"
	"testing"
)

// FlushEvery makes s write the ends of chains after every n events.
func FlushEvery(s *Store, n uint64) { s.flushEvery = n }

// Pragmas returns a setting of the writer and of a reader.
func Pragmas(t *testing.T, s *Store, name string) (writer, reader string) {
	t.Helper()
	row, err := s.w.row("PRAGMA " + name)
	if err != nil || row == nil {
		t.Fatalf("%s: %v, %v", name, row, err)
	}
	if err := s.readers.QueryRow("PRAGMA " + name).Scan(&reader); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(row[0]), reader
}
