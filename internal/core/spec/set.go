package spec

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
)

// ID names a resource by kind and name.
type ID struct{ Kind, Name string }

func (i ID) String() string { return i.Kind + "/" + i.Name }

// Compare orders by kind, as in Kinds, and name.
func (i ID) Compare(o ID) int {
	return cmp.Or(cmp.Compare(slices.Index(Kinds, i.Kind), slices.Index(Kinds, o.Kind)), strings.Compare(i.Name, o.Name))
}

// Need is what has to be there before a resource can be deployed. Condition is
// set for workspaces alone; the others have to be converged.
type Need struct {
	ID
	Condition Condition
	Required  bool
}

// SnapshotImage begins the Image of a workspace that runs from a snapshot.
const SnapshotImage = "snapshot/"

// SharePrefix begins a namespace mode that shares the one of a workspace.
const SharePrefix = "workspace:"

// Set is every container resource of one owner: a bundle, or the managed layer
// of a host. Each list is sorted by name; names are unique within a kind.
type Set struct {
	Networks   []Network   `json:"networks"`
	Volumes    []Volume    `json:"volumes"`
	Images     []Image     `json:"images"`
	Workspaces []Workspace `json:"workspaces"`
	Snapshots  []Snapshot  `json:"snapshots"`
	Routes     []Route     `json:"routes"`
	// Others are the resources of kinds without a list above, by kind. Who does not
	// know one of the kinds refuses the whole set.
	Others map[string][]json.RawMessage `json:"others,omitempty"`
	// ConfigureGPUs lets the host's own toolkit set up the engine's runtime and CDI specs
	// for GPUs. Only a bundle says so.
	ConfigureGPUs bool `json:"configureGPUs,omitempty"`
}

// All visits every resource, in order of kind and, in a normalized set, name; a nil
// set has none.
func (s *Set) All() iter.Seq2[ID, Resource] {
	return func(yield func(ID, Resource) bool) {
		if s == nil {
			return
		}
		for _, k := range Known.All() {
			for _, r := range k.Of(s) {
				if !yield(ID{k.Name, *r.Named()}, r) {
					return
				}
			}
		}
	}
}

// Add takes in the resources of another set; both stay in their order.
func (s *Set) Add(more *Set) {
	for _, k := range Known.All() {
		k.Storage.put(s, k.Name, append(k.Of(s), k.Of(more)...))
	}
}

// Remove takes a resource out of the set.
func (s *Set) Remove(id ID) {
	if k := Known.Kind(id.Kind); k != nil {
		k.Storage.put(s, k.Name, slices.DeleteFunc(k.Of(s), func(r Resource) bool { return *r.Named() == id.Name }))
	}
}

// Without returns the set without some of its resources.
func (s *Set) Without(gone []ID) *Set {
	out := &Set{ConfigureGPUs: s.ConfigureGPUs}
	for _, k := range Known.All() {
		k.Storage.put(out, k.Name, slices.DeleteFunc(k.Of(s), func(r Resource) bool { return slices.Contains(gone, ID{k.Name, *r.Named()}) }))
	}
	return out
}

// Empty reports whether the set declares nothing.
func (s *Set) Empty() bool { return s == nil || len(s.Others) == 0 && len(s.IDs()) == 0 }

// IDs lists every resource, in order of kind and name; a nil set has none.
func (s *Set) IDs() []ID {
	var out []ID
	for id := range s.All() {
		out = append(out, id)
	}
	return out
}

// Find finds a resource of a normalized set; nil if there is none.
func (s *Set) Find(id ID) Resource {
	if s == nil {
		return nil
	}
	if k := Known.Kind(id.Kind); k != nil {
		return k.Storage.find(s, k.Name, id.Name)
	}
	return nil
}

// Has reports whether the set declares the resource; a nil set has none.
func (s *Set) Has(id ID) bool { return s.Find(id) != nil }

// Workspace finds a workspace by name; nil if there is none.
func (s *Set) Workspace(name string) *Workspace {
	w, _ := s.Find(ID{KindWorkspace, name}).(*Workspace)
	return w
}

// Dependencies gives for every resource of the set what it needs first.
func Dependencies(s *Set) map[ID][]Need {
	out := map[ID][]Need{}
	for id, r := range s.All() {
		out[id] = r.Needs()
	}
	return out
}

// Ordered lists the resources so that each comes behind what it needs, and else by kind and name.
// Of a circle none comes first; the host says what is wrong with it.
func Ordered(s *Set) []ID {
	needs := Dependencies(s)
	ids := slices.SortedFunc(maps.Keys(needs), func(a, b ID) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	out := make([]ID, 0, len(ids))
	seen := map[ID]bool{}
	var visit func(id ID)
	visit = func(id ID) {
		if _, there := needs[id]; !there || seen[id] {
			return
		}
		seen[id] = true
		for _, n := range needs[id] {
			visit(n.ID)
		}
		out = append(out, id)
	}
	for _, id := range ids {
		visit(id)
	}
	return out
}

// Blobs lists the content that the set needs, by digest, each once: build
// contexts, archives to load and files put into containers.
func (s *Set) Blobs() []Blob {
	var out []Blob
	for _, r := range s.All() {
		out = append(out, r.Blobs()...)
	}
	slices.SortFunc(out, func(x, y Blob) int {
		return cmp.Or(strings.Compare(string(x.Digest), string(y.Digest)), cmp.Compare(x.Size, y.Size))
	})
	return slices.Compact(out)
}

// Normalize puts the set into its one canonical form: lists sorted, sets without
// repeats, spelled-out defaults left out. Two sets that ask for the same end
// equal.
func (s *Set) Normalize() {
	for _, k := range Known.All() {
		list := k.Of(s)
		for _, r := range list {
			r.Normalize()
		}
		k.Storage.put(s, k.Name, ordered(list, func(r Resource) string { return *r.Named() }))
	}
}

// Sorted reports whether every list is in order of name, as look-ups need it.
func (s *Set) Sorted() bool {
	var last ID
	for id := range s.All() {
		if id.Kind == last.Kind && id.Name < last.Name {
			return false
		}
		last = id
	}
	return true
}
