package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
)

// Room is what a file system has to take before a system is switched to.
type Room struct {
	Dir        string
	Need, Free int64 // in bytes; Free with what the boot loader removes first
	What       string
}

// Lacks is how many bytes are missing.
func (r *Room) Lacks(margin int64) int64 { return max(0, r.Need+margin-r.Free) }

// copiesTo are the folders below that of the boot loader in which the loaders of NixOS keep
// copies of kernels and initrds: systemd-boot, GRUB, and extlinux with its kind. The first
// removes what belongs to none of its entries before it copies, the others afterwards.
var copiesTo = []struct {
	dir, entries string
}{
	{"EFI/nixos", "loader/entries"}, {"efi/EFI/nixos", "efi/loader/entries"}, {"kernels", ""}, {"nixos", ""},
}

// bootFiles are copied to the boot loader's folder for each generation.
var bootFiles = []string{"kernel", "initrd"}

// RoomToBoot is what the boot loader needs for a path that is in the store: its kernel and its
// initrd, unless they are copied already. It is nil where nothing is copied: without such a folder,
// or where that is on the file system of the store.
func RoomToBoot(n *fleet.Nix) (*Room, error) {
	l := loader{dir: n.BootFolder()}
	for _, at := range copiesTo {
		if folder := filepath.Join(n.BootFolder(), at.dir); l.read(folder) {
			if l.dir = folder; at.entries != "" {
				l.entries = filepath.Join(n.BootFolder(), at.entries)
			}
			break
		}
	}
	var boot, store unix.Stat_t
	if unix.Stat(l.dir, &boot) != nil || unix.Stat(n.Path, &store) != nil || boot.Dev == store.Dev {
		return nil, nil
	}
	return l.room(n)
}

// loader is what a boot loader has of systems.
type loader struct {
	dir, entries string // entries is empty of one that cleans up after it copied
	copies       []bootCopy
}

// read lists the copies in a folder, and says whether it is there.
func (l *loader) read(folder string) bool {
	files, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			l.copies = append(l.copies, bootCopy{file: filepath.Join(folder, f.Name()), name: f.Name(), size: info.Size()})
		}
	}
	return true
}

func (l *loader) room(n *fleet.Nix) (*Room, error) {
	r := &Room{Dir: l.dir, What: "the kernel and the initrd of " + n.Path}
	for _, f := range bootFiles {
		if c, found := bootFile(n.Path, f); found && !slices.ContainsFunc(l.copies, c.is) {
			r.Need += c.size
		}
	}
	if r.Need == 0 {
		return nil, nil
	}
	space, err := disk.SpaceOf(l.dir)
	if err != nil {
		return nil, fmt.Errorf("check the free space of %s: %w", l.dir, err)
	}
	all, err := generationsOf(n.Profile)
	if err != nil {
		return nil, err
	}
	r.Free = space.Free + l.removedFirst(n, all)
	return r, nil
}

// bootCopy is a file that a boot loader starts: in the store, or as its copy.
type bootCopy struct {
	file string
	name string // of a copy, as the loader makes it of the path in the store
	size int64
}

// is reports whether a copy is of a file of the store, by the name that loaders give it or by
// its content: a loader may append secrets to an initrd.
func (c bootCopy) is(copied bootCopy) bool {
	return c.name != "" && strings.Contains(copied.name, c.name) || c.size == copied.size && sameContent(c.file, copied.file)
}

// bootFile finds a kernel or an initrd of a system.
func bootFile(system, name string) (bootCopy, bool) {
	file, err := filepath.EvalSymlinks(filepath.Join(system, name))
	if err != nil {
		return bootCopy{}, false
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return bootCopy{}, false
	}
	c := bootCopy{file: file, size: info.Size()}
	parts := strings.Split(file, "/")
	if i := slices.IndexFunc(parts, storeHash.MatchString); i >= 0 {
		c.name = strings.Join(parts[i:], "-")
	}
	return c, true
}

// removedFirst is what a loader that cleans up before it copies will free: copies of systems that
// it has no entry for any more. Where it has entries for fewer generations than the profile has, it is
// bounded, and the oldest entry makes room for the new one.
func (l *loader) removedFirst(n *fleet.Nix, all []generationAt) (free int64) {
	if l.entries == "" {
		return 0
	}
	kept := len(all)
	if found, err := filepath.Glob(filepath.Join(l.entries, "nixos-generation-*.conf")); err == nil && len(found) > 0 && len(found) < len(all) {
		kept = len(found) - 1 // and the new one
	}
	paths := []string{n.Path}
	for _, g := range all[:kept] {
		paths = append(paths, g.path)
	}
	for _, c := range l.copies {
		if !slices.ContainsFunc(paths, c.belongs) {
			free += c.size
		}
	}
	return free
}

// belongs reports whether a copy is of a system.
func (c bootCopy) belongs(system string) bool {
	for _, f := range bootFiles {
		if of, found := bootFile(system, f); found && of.is(c) {
			return true
		}
	}
	return false
}

// unpacked fetches nothing: Nix counts what it would fetch.
const unpacked = `nix-store --option narinfo-cache-negative-ttl 0 --realise --dry-run "$1" 2>&1 | grep -o '[0-9.]* [KMGT]iB unpacked'`

// RoomInStore is what the store takes on for a path: its closure in the bundle, or what the host's
// substituters have of it. It is nil where that is not known, or nothing.
func (h Host) RoomInStore(ctx context.Context, bundle digest.Digest, n *fleet.Nix) (*Room, error) {
	if _, err := os.Lstat(n.Path); err == nil || n.Paths != nil { // whose sizes are asked for with them
		return nil, nil
	}
	r := &Room{Dir: filepath.Dir(n.Path), What: "what " + n.Path + " needs"}
	if n.Closure != nil {
		r.Need = n.Closure.Size // an export holds its paths as they are, with little around them
	} else {
		out, err := Run(ctx, Command{Argv: []string{"/bin/sh", "-c", unpacked, "sh", n.Path}, Dir: h.Root, Env: nixEnvironment(h, bundle)})
		if err != nil {
			return nil, err
		}
		r.Need = sizeOf(out.Tail)
	}
	if r.Need == 0 {
		return nil, nil // there are no substituters, or none has it, which fetching says
	}
	space, err := disk.SpaceOf(r.Dir)
	if err != nil {
		return nil, err
	}
	r.Free = space.Free
	return r, nil
}

// sizeOf reads a size as Nix writes it; 0 is none.
func sizeOf(words string) int64 {
	fields := strings.Fields(words)
	if len(fields) < 2 {
		return 0
	}
	amount, err := strconv.ParseFloat(fields[0], 64)
	power := strings.Index("KMGT", fields[1][:1])
	if err != nil || power < 0 {
		return 0
	}
	return int64(amount * float64(int64(1)<<(10*(power+1))))
}
