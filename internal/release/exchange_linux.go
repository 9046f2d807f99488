package release

import "golang.org/x/sys/unix"

// exchange swaps two folders in one step; old is where the first one is then.
func exchange(next, dir string) (old string, err error) {
	if unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE) == nil {
		return next, nil
	}
	return renameOver(next, dir) // a file system that cannot
}
