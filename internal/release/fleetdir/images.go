package fleetdir

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// LockFile names the digests of images in the fleet folder. People review it with
// what it locks, and a build that reads it asks no registry.
const LockFile = "images.lock"

type lockDecl struct {
	Images imageref.Lock `json:"images"`
}

// readLock reads LockFile of a fleet folder; without one nothing is locked.
func readLock(root *disk.Folder) (imageref.Lock, []strictyaml.Problem) {
	data, err := root.ReadFile(LockFile, strictyaml.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) && !root.Hides(LockFile) {
		return nil, nil
	}
	if err != nil {
		return nil, []strictyaml.Problem{{File: LockFile, Message: fmt.Sprintf("%v: expected the file that steady image lock writes", err)}}
	}
	doc, problems := strictyaml.Parse(LockFile, data)
	if doc == nil {
		return nil, problems
	}
	var decl lockDecl
	if err := doc.Decode(&decl); err != nil {
		return nil, append(problems, doc.At(nil, fmt.Sprintf("it does not decode: %v: expected what steady image lock writes: images, with a digest for each reference", err)))
	}
	for _, key := range slices.Sorted(maps.Keys(decl.Images)) {
		if words := decl.Images.Valid(key); words != "" {
			problems = append(problems, doc.At([]string{"images", key}, words))
		}
	}
	return decl.Images, problems
}

// LockText is LockFile's content, one reference a line and in order, so that two
// people's changes merge.
func LockText(l imageref.Lock) []byte {
	var b strings.Builder
	b.WriteString("# What the tags of images named when they were locked. Written by: steady image lock\nimages:\n")
	for _, key := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "  %q: %s\n", key, l[key])
	}
	return []byte(b.String())
}

// pins names the images that bundles pull by digest.
type pins struct {
	lock   imageref.Lock
	moving bool            // references without a digest are only warned of
	used   map[string]bool // keys of references that have no digest of their own
}

// pin gives a reference as the bundle is to have it. Problem is nil if it has a
// digest then.
func (p *pins) pin(ref string) (pinned string, problem *strictyaml.Problem) {
	if key, err := imageref.Key(ref); err == nil && !imageref.Pinned(ref) {
		p.used[key] = true
	}
	pinned, ok := p.lock.Pin(ref)
	switch {
	case ok:
		return pinned, nil
	case p.moving:
		return ref, &strictyaml.Problem{IsWarning: true, Message: fmt.Sprintf("image %q has no digest, so hosts run what its tag means when they pull it, which no release signs: "+
			"expected it in %s; steady image lock writes it", ref, LockFile)}
	}
	return ref, &strictyaml.Problem{Message: fmt.Sprintf("image %q has no digest, and its tag may mean another image when a host pulls it: "+
		"expected it in %s, which steady image lock writes, or allowMovingTags: true in %s", ref, LockFile, FleetFile)}
}

// References lists the images that the bundles of a fleet folder name without a
// digest, as keys of a lock. What LockFile has plays no part.
func References(dir string) ([]string, []strictyaml.Problem) {
	p := &pins{moving: true, used: map[string]bool{}}
	src, problems := load(dir, p, []string{"."})
	if src == nil || strictyaml.Fatal(problems) {
		return nil, problems
	}
	return slices.Sorted(maps.Keys(p.used)), nil
}

// WriteLock puts LockFile into a fleet folder, whole or not at all.
func WriteLock(dir string, l imageref.Lock) error {
	return disk.Replace(filepath.Join(dir, LockFile), LockText(l), 0o644)
}

// LockOf reads LockFile of the fleet folder dir.
func LockOf(dir string) (imageref.Lock, []strictyaml.Problem) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, []strictyaml.Problem{{File: dir, Message: fmt.Sprintf("the folder cannot be opened: %v: expected a folder with %s", disk.Cause(err), FleetFile)}}
	}
	defer root.Close()
	return readLock(disk.PlainFolder(root))
}
