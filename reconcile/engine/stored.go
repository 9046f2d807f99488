package engine

import (
	"errors"
	"slices"
)

// Errors of stores.
var (
	// ErrNotFound: no row has this ref.
	ErrNotFound = errors.New("no such resource")
	// ErrConflict: the row changed since it was loaded; the turn is dropped and taken again.
	ErrConflict = errors.New("the resource changed meanwhile")
)

// Committed is what a Commit wrote.
type Committed struct {
	Transitions []Transition // of the row and of its children
	Raised      []Raise      // with N set
}

// Opened is the state at start.
type Opened struct {
	Refs   []OpenRef
	Raised []Raise
}

// OpenRef is a row that is not terminal.
type OpenRef struct {
	Ref    Ref
	Acting bool // left in the middle of an act
}

// Filter selects rows; zero fields select all.
type Filter struct {
	Kind   string
	Parent Ref
	Phases []Phase
}

// Accepts reports whether the row is among those that are read.
func (f *Filter) Accepts(row *Row) bool {
	return (f.Kind == "" || f.Kind == row.Ref.Kind) && (f.Parent.IsZero() || f.Parent == row.Parent) &&
		(len(f.Phases) == 0 || slices.Contains(f.Phases, row.Phase))
}
