//go:build !linux

package release

func exchange(next, dir string) (old string, err error) { return renameOver(next, dir) }
