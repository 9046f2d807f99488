package storage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
)

// Binned is a volume of a session that is over, whose data stays until then.
type Binned struct {
	Title   string        `json:"title"` // on the engine
	ID      string        `json:"id"`    // that, without the host's prefix
	Volume  string        `json:"volume"`
	Session string        `json:"session"`
	Pod     string        `json:"pod,omitempty"` // SESSION/PART/POD
	Since   clock.Instant `json:"since"`
	Until   clock.Instant `json:"until"`
}

func binned(n *spec.Volume, title string, now clock.Instant) Binned {
	return Binned{Title: title, ID: cmp.Or(n.Title, n.Name), Volume: n.Name, Session: n.Owner.Name(), Pod: n.Labels[spec.LabelPod], Since: now, Until: now.Add(n.Keep)}
}

// Bin lists them, in a file. The volumes stay where they are: what is in the bin is on this list.
type Bin struct {
	path    string // empty: it is forgotten with the process
	changed func() // may be nil

	mu   sync.Mutex
	list map[string]Binned // by title
}

// OpenBin reads the list. Changed, which may be nil, is called after each change.
func OpenBin(path string, changed func()) (*Bin, error) {
	b := &Bin{path: path, changed: changed, list: map[string]Binned{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b.list)
	}
	if err != nil {
		return nil, fmt.Errorf("the list of kept volumes %s cannot be read: move it away, then these volumes are reported as orphans: %w", path, err)
	}
	return b, nil
}

// List is what is in the bin, what goes first in front.
func (b *Bin) List() []Binned {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.list), func(x, y Binned) int {
		return cmp.Or(cmp.Compare(x.Until, y.Until), cmp.Compare(x.Title, y.Title))
	})
}

// Find finds a volume by its title.
func (b *Bin) Find(title string) (x Binned, in bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, in = b.list[title]
	return x, in
}

// put adds a volume; one that is in the bin goes when it was to go.
func (b *Bin) put(x Binned) error {
	return b.change(func(list map[string]Binned) {
		if _, in := list[x.Title]; !in {
			list[x.Title] = x
		}
	})
}

// take takes a volume off the list.
func (b *Bin) take(title string) error {
	return b.change(func(list map[string]Binned) { delete(list, title) })
}

// change is durable when it returns.
func (b *Bin) change(edit func(map[string]Binned)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := maps.Clone(b.list)
	edit(next)
	if b.path != "" {
		raw, err := json.Marshal(next)
		if err != nil {
			return err
		}
		if err := disk.Replace(b.path, raw, 0o600); err != nil {
			return fmt.Errorf("write the list of kept volumes: %w", err)
		}
	}
	if b.list = next; b.changed != nil {
		b.changed()
	}
	return nil
}
