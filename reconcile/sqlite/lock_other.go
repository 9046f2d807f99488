//go:build !unix

package sqlite

// lockFile claims within the process: there is no lock here that a crash frees.
func lockFile(path string) (release func(), err error) { return claimWithin(path) }
