package container

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one finding on a set or a resource. Path leads to it by the names
// of the JSON form; within a Set a list's entry is named by the resource's name,
// deeper ones by position.
type Problem struct {
	Path  []string `json:"path"`
	Words string   `json:"words"`
}

func (p Problem) String() string { return strings.Join(p.Path, ".") + ": " + p.Words }

// listOf names the list of a Set that holds a kind.
var listOf = map[string]string{
	KindNetwork: "networks", KindVolume: "volumes", KindImage: "images",
	KindWorkspace: "workspaces", KindSnapshot: "snapshots", KindRoute: "routes",
}

// Checker collects problems below a path.
type Checker struct {
	at  []string
	out *[]Problem
}

// NewChecker returns one that adds to out, at the empty path.
func NewChecker(out *[]Problem) Checker { return Checker{out: out} }

// In goes down the path.
func (c Checker) In(parts ...string) Checker {
	return Checker{append(slices.Clip(slices.Clone(c.at)), parts...), c.out}
}

// Item goes down to an entry of a list.
func (c Checker) Item(key string, i int) Checker { return c.In(key, strconv.Itoa(i)) }

// Of goes from a set down to a resource.
func (c Checker) Of(id ID) Checker { return c.In(listOf[id.Kind], id.Name) }

// Addf adds a problem at the path.
func (c Checker) Addf(format string, args ...any) {
	*c.out = append(*c.out, Problem{Path: c.at, Words: fmt.Sprintf(format, args...)})
}
