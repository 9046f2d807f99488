package container

import (
	"cmp"
	"slices"
	"strings"
)

// Blobs lists the content that the set needs, by digest, each once: build
// contexts, archives to load and files put into containers.
func (s *Set) Blobs() []Blob {
	if s == nil {
		return nil
	}
	var out []Blob
	for i := range s.Images {
		switch im := &s.Images[i]; {
		case im.Build != nil && im.Build.Context != nil:
			out = append(out, *im.Build.Context)
		case im.Load != nil:
			out = append(out, im.Load.Archive)
		}
	}
	for i := range s.Workspaces {
		for _, c := range s.Workspaces[i].Contents {
			if c.Blob != nil {
				out = append(out, *c.Blob)
			}
		}
	}
	slices.SortFunc(out, func(x, y Blob) int {
		return cmp.Or(strings.Compare(string(x.Digest), string(y.Digest)), cmp.Compare(x.Size, y.Size))
	})
	return slices.Compact(out)
}
