package engine

import "cmp"

// Ref names one resource. It is comparable and is the key of the queue.
type Ref struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// String prints kind/id.
func (r Ref) String() string {
	if r.IsZero() {
		return ""
	}
	return r.Kind + "/" + r.ID
}

// IsZero reports whether r names nothing; a root has a zero parent.
func (r Ref) IsZero() bool { return r == Ref{} }

// Compare orders refs by kind, then id.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Kind, o.Kind), cmp.Compare(r.ID, o.ID))
}

// Hash is a stable 64-bit FNV-1a hash of r: the same in every process, which is
// what makes jitter replayable.
func (r Ref) Hash() uint64 {
	h := fnvString(fnvOffset, r.Kind)
	h = fnvByte(h, '/')
	return mix(fnvString(h, r.ID))
}

const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

func fnvByte(h uint64, b byte) uint64 { return (h ^ uint64(b)) * fnvPrime }

func fnvString(h uint64, s string) uint64 {
	for i := 0; i < len(s); i++ {
		h = fnvByte(h, s[i])
	}
	return h
}

// mix spreads the weak low bits of FNV over the word (the finalizer of splitmix64).
func mix(h uint64) uint64 {
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9
	h = (h ^ (h >> 27)) * 0x94d049bb133111eb
	return h ^ (h >> 31)
}
