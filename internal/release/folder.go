package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/trust"
)

// Paths of the files that every release has. The first two are envelopes.
const (
	ResolvedPath    = "fleet.resolved.json"
	TimestampPath   = "timestamp.json"
	RosterPath      = "roster.json"
	RevocationsPath = "revocations.json"

	payloadEnd = ".payload.json"
	leavesEnd  = ".leaves.json"
)

// ManifestPath is where the envelope of a rollout's manifest is, by the
// rollout's name.
func ManifestPath(rollout string) string { return "rollouts/" + rollout + ".json" }

// LeavesPath is where the leaves of a rollout's manifest are.
func LeavesPath(rollout string) string { return "rollouts/" + rollout + leavesEnd }

// BundlePath is where a bundle is.
func BundlePath(d digest.Digest) string { return "bundles/" + d.Hex() + ".json" }

// BlobPath is where the content of a bundle's file is.
func BlobPath(d digest.Digest) string { return "blobs/" + d.Hex() }

// NarPath is where an archive of a store path is.
func NarPath(d digest.Digest) string { return narsFolder + "/" + d.Hex() }

const narsFolder = "nars"

func isNar(name string) bool { return strings.HasPrefix(name, narsFolder+"/") }

// BudgetPath is where a budget's member list is.
func BudgetPath(d digest.Digest) string { return "budgets/" + d.Hex() + ".json" }

// RootPath is where the root of a version is.
func RootPath(version uint64) string { return fmt.Sprintf("%d.root.json", version) }

func payloadName(envelope string) string { return strings.TrimSuffix(envelope, ".json") + payloadEnd }
func isPayload(name string) bool         { return strings.HasSuffix(name, payloadEnd) }
func joinLeaves(leaves [][]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(leaves, []byte(",")), []byte("]"))
}

// splitLeaves takes a leaves file apart without changing a byte of a leaf.
func splitLeaves(raw []byte) ([][]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("the leaves are not a JSON list: %w", err)
	}
	leaves := make([][]byte, len(parts))
	for i, p := range parts {
		leaves[i] = p
	}
	if !bytes.Equal(joinLeaves(leaves), raw) {
		return nil, errors.New("the list of leaves is not in its canonical form")
	}
	return leaves, nil
}

// Caps of a release folder.
const (
	MaxFiles = 100_000
	MaxTotal = 4 << 30 // bytes, of all but archives of store paths
	MaxNars  = 64 << 30
)

type nameInUse struct {
	pattern *regexp.Regexp
	limit   int64
}

var namesInUse = sync.OnceValue(func() []nameInUse {
	return []nameInUse{
		{regexp.MustCompile(`^(fleet\.resolved|timestamp)(\.payload)?\.json$`), trust.MaxEnvelope},
		{regexp.MustCompile(`^[1-9][0-9]{0,15}\.root\.json$`), trust.MaxEnvelope},
		{regexp.MustCompile(`^(roster|revocations)\.json$`), trust.MaxList},
		{regexp.MustCompile(`^rollouts/[a-z0-9][a-z0-9._-]{0,62}@[a-z0-9][a-z0-9._-]{0,62}\.json$`), trust.MaxList},
		{regexp.MustCompile(`^bundles/[0-9a-f]{64}\.json$`), trust.MaxBundle},
		{regexp.MustCompile(`^budgets/[0-9a-f]{64}\.json$`), trust.MaxList},
		{regexp.MustCompile(`^controls/[0-9a-f]{64}\.json$`), trust.MaxList},
		{regexp.MustCompile(`^blobs/[0-9a-f]{64}$`), fleetdir.MaxBlob},
		{regexp.MustCompile(`^nars/[0-9a-f]{64}$`), fleet.MaxNar},
	}
})

// FileCap returns the most bytes that a file of a release may have; not ok when
// no such file belongs into one.
func FileCap(name string) (limit int64, ok bool) {
	for _, n := range namesInUse() {
		if n.pattern.MatchString(name) {
			return n.limit, true
		}
	}
	return 0, false
}

// readFile reads a file of a release within its cap. Archives are not read whole.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	limit, ok := FileCap(name)
	if !ok || isNar(name) {
		return nil, fmt.Errorf("%q has no place in a release", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, disk.Cause(err))
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", name, disk.Cause(err))
	case int64(len(raw)) > limit:
		return nil, fmt.Errorf("%s has more than the %d bytes that are allowed", name, limit)
	}
	return raw, nil
}

// fileNames lists the files of a release folder, sorted. It refuses what does
// not belong into one, links, and more than MaxFiles.
func fileNames(fsys fs.FS) ([]string, error) {
	var names []string
	err := fs.WalkDir(fsys, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if p != "." && !slices.Contains(folders, p) {
				return fmt.Errorf("folder %q has no place in a release", p)
			}
			return nil
		}
		if _, ok := FileCap(p); !ok || !e.Type().IsRegular() {
			return fmt.Errorf("%q has no place in a release", p)
		}
		if names = append(names, p); len(names) > MaxFiles {
			return fmt.Errorf("a release has at most %d files", MaxFiles)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

var folders = []string{"blobs", "budgets", "bundles", "controls", narsFolder, "rollouts"}

// Open opens a release folder for reading. Nothing outside it can be reached.
// Close the root when done.
func Open(dir string) (*os.Root, fs.FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("release folder %s cannot be opened: %w; steady release build makes one", dir, disk.Cause(err))
	}
	return root, root.FS(), nil
}

// Write makes or replaces the release folder dir, whole or not at all. It refuses a
// folder that holds anything but a release.
func Write(dir string, files map[string][]byte, nars ...fleetdir.Nar) error {
	return WriteKeeping(dir, files, "", nars...)
}

// WriteKeeping is Write that keeps the folder of before under another name, in place
// of what that name had.
func WriteKeeping(dir string, files map[string][]byte, keep string, nars ...fleetdir.Nar) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	_, err := staging{dir: dir, keep: keep, fill: writing(files, nars)}.run()
	return err
}

// WriteSigned is Write and Sign in one.
func WriteSigned(dir string, files map[string][]byte, o SignOptions, nars ...fleetdir.Nar) (*Verified, error) {
	if err := replaceable(dir); err != nil {
		return nil, err
	}
	return staging{dir: dir, fill: writing(files, nars), change: o.sign}.run()
}

// replaceable refuses a folder that is neither new nor empty nor a release.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s cannot be used for a release: %w", dir, disk.Cause(err))
	}
	for _, e := range entries {
		name := e.Name()
		_, ok := FileCap(name)
		if !ok && !(e.IsDir() && slices.Contains(folders, name)) {
			return fmt.Errorf("%s contains %q and is no release folder: expected a new, an empty or a release folder", dir, name)
		}
	}
	return nil
}

// IsFolder reports whether a release may have a folder of this name.
func IsFolder(name string) bool { return slices.Contains(folders, name) }
