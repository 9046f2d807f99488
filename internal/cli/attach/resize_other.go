//go:build !unix

package attach

// watch does nothing where a change of size is not told.
func (t *terminal) watch(func(rows, cols int)) (stop func()) { return func() {} }
