package api

import "cmp"

// Connections bounds how many connections are open at a time: in all, and of one
// address. Above All less Reserved only an address that has few is let in, so that
// operators still are while some addresses take all they can.
type Connections struct {
	All, PerAddress, Reserved int
}

// few is how many connections an operator's programs have open, generously.
const few = 8

// WithDefaults fills in what is zero: 65536 in all, 4096 of one address, and of the
// first a sixteenth reserved.
func (c Connections) WithDefaults() Connections {
	c.All = cmp.Or(c.All, 1<<16)
	c.PerAddress = cmp.Or(c.PerAddress, 1<<12)
	c.Reserved = cmp.Or(c.Reserved, max(1, c.All/16))
	return c
}

// Admit reports whether one more connection is taken of an address that has mine of all
// that are open. Local says that it is this machine's own, where a proxy may speak for
// everybody: only All bounds it.
func (c Connections) Admit(open, mine int, local bool) bool {
	switch {
	case open >= c.All:
		return false
	case mine < few:
		return true
	}
	return open < c.All-c.Reserved && (local || mine < c.PerAddress)
}
