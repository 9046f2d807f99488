package storage

// This file holds mounts of the host to the folder that allows them: engines
// follow links wherever they lead.

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckBeneath refuses a path that a link leads out of its folder, or elsewhere in it. Folder
// itself is taken as it is. What is missing is no link: the engine makes a folder, or
// refuses it. Both are clean and absolute, and name is the folder or below it.
func CheckBeneath(folder, name string) error {
	rest, below := strings.CutPrefix(name, strings.TrimSuffix(folder, "/")+"/")
	if !below {
		if name == folder {
			return nil
		}
		return fmt.Errorf("%s is not below %s, which the host's declaration allows", name, folder)
	}
	root, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: folder, Err: err}
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	for part := rest; part != "."; part = path.Dir(part) {
		fd, err := unix.Openat2(root, part, &how)
		switch {
		case errors.Is(err, unix.ENOENT):
			continue // look at what holds it
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
			return linked(folder, part)
		case err != nil:
			return &os.PathError{Op: "open", Path: path.Join(folder, part), Err: err}
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return &os.PathError{Op: "stat", Path: path.Join(folder, part), Err: err}
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return linked(folder, part)
		}
		return nil
	}
	return nil
}

func linked(folder, part string) error {
	return fmt.Errorf("%s is a link, or reached by one: in the managed layer a mount below %s leads through folders alone; remove the link, or mount what it leads to, if the host's declaration allows that",
		path.Join(folder, part), folder)
}
