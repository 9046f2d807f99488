//go:build !unix

package command

// watch does nothing where a change of size is not told.
func (t *terminal) watch(func(rows, cols int)) (stop func()) { return func() {} }
