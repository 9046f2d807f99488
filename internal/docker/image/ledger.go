package image

// This file remembers which images the agent made or took on its engine: in
// one file, written whole and made durable before a change counts. Losing it
// costs work (an image is pulled or built again) and never removes anything.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/disk"
)

// Image is one image that is or was what a resource stands for.
type Image struct {
	Kind string `json:"kind"`
	Name string `json:"name"` // of the resource, or of what a base was pulled for
	Ref  string `json:"ref"`
	ID   string `json:"id"` // on the engine
	// Fetched means that the agent brought it here; one that was there before is
	// never removed.
	Fetched bool `json:"fetched,omitempty"`
	// Identity is the digest of what it was made from.
	Identity digest.Digest `json:"identity,omitempty"`
	Tags     []string      `json:"tags,omitempty"`  // further names
	Bases    []string      `json:"bases,omitempty"` // references that it was built on
	Run      string        `json:"run,omitempty"`
	Nonce    string        `json:"nonce,omitempty"`
	Take     int64         `json:"take,omitempty"`
	At       clock.Instant `json:"at"` // wall clock
	// N orders entries; given by the file.
	N int64 `json:"n"`
}

func (i Image) same(o Image) bool {
	return i.Kind == o.Kind && i.Name == o.Name && i.Ref == o.Ref && i.ID == o.ID
}

// File is a ledger in a file.
type File struct {
	path string

	mu   sync.Mutex
	list []Image
}

type document struct {
	Version int     `json:"version"`
	Images  []Image `json:"images"`
}

const version = 1

// Open reads the file, or begins a new one where there is none.
func Open(path string) (*File, error) {
	f := &File{path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ledger of images: %w", err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("the ledger of images %s is damaged: move it away, then images are looked up or made again: %w", path, err)
	}
	if d.Version != version {
		return nil, fmt.Errorf("the ledger of images %s has version %d, this agent writes %d: move it away, or run the agent that wrote it", path, d.Version, version)
	}
	f.list = d.Images
	return f, nil
}

// Newest is the newest entry of a resource under a reference.
func (f *File) Newest(_ context.Context, kind, name, ref string) (Image, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out Image
	for _, i := range f.list {
		if i.Kind == kind && i.Name == name && i.Ref == ref && i.N > out.N {
			out = i
		}
	}
	return out, out.N > 0, nil
}

// Add writes an entry as the newest. One of the same resource, reference and ID
// is replaced; that the agent fetched it stays.
func (f *File) Add(_ context.Context, i Image) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := make([]Image, 0, len(f.list)+1)
	i.N = 1
	for _, have := range f.list {
		i.N = max(i.N, have.N+1)
		if have.same(i) {
			i.Fetched = i.Fetched || have.Fetched
			continue
		}
		next = append(next, have)
	}
	return f.write(append(next, i))
}

// All lists every entry, oldest first.
func (f *File) All(context.Context) ([]Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(slices.Values(f.list), func(a, b Image) int { return cmp.Compare(a.N, b.N) }), nil
}

// Drop forgets one entry.
func (f *File) Drop(_ context.Context, i Image) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(f.list), i.same)
	if len(next) == len(f.list) {
		return nil
	}
	return f.write(next)
}

// write replaces the file; the old one stays until the new one is durable.
func (f *File) write(list []Image) error {
	text, err := json.Marshal(document{version, list})
	if err == nil {
		err = disk.Replace(f.path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the ledger of images: %w", err)
	}
	f.list = list
	return nil
}
