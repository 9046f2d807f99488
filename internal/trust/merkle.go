package trust

import (
	"crypto/sha256"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Proof shows that a leaf is in a manifest's tree, at Index counting from zero.
// Hashes go from the leaf up.
type Proof struct {
	Index  uint64   `json:"index"`
	Hashes [][]byte `json:"hashes"`
}

// Tree keeps every hash of an RFC 6962 Merkle tree, so that a proof costs
// log(n) look-ups: about 64 bytes a leaf. It does not change once built and is
// safe for concurrent use.
type Tree struct {
	// levels[k][i] covers leaves [i<<k, (i+1)<<k); only full subtrees are kept.
	levels [][][sha256.Size]byte
}

// NewTree builds the tree over the leaves' bytes, in order.
func NewTree(leaves [][]byte) *Tree {
	level := make([][sha256.Size]byte, len(leaves))
	var buf []byte
	for i, leaf := range leaves {
		buf = append(append(buf[:0], rfc6962.RFC6962LeafHashPrefix), leaf...)
		level[i] = sha256.Sum256(buf)
	}
	t := &Tree{}
	for len(level) > 0 {
		t.levels = append(t.levels, level)
		next := make([][sha256.Size]byte, len(level)/2)
		for i := range next {
			buf = append(buf[:0], rfc6962.RFC6962NodeHashPrefix)
			buf = append(append(buf, level[2*i][:]...), level[2*i+1][:]...)
			next[i] = sha256.Sum256(buf)
		}
		level = next
	}
	return t
}

// Size returns the number of leaves.
func (t *Tree) Size() uint64 {
	if len(t.levels) == 0 {
		return 0
	}
	return uint64(len(t.levels[0]))
}

// Root returns the tree's root hash, 32 bytes.
func (t *Tree) Root() []byte {
	h := rfc6962.DefaultHasher
	ids := compact.RangeNodes(0, t.Size(), nil)
	if len(ids) == 0 {
		return h.EmptyRoot()
	}
	root := t.node(ids[len(ids)-1])
	for i := len(ids) - 2; i >= 0; i-- {
		root = h.HashChildren(t.node(ids[i]), root)
	}
	return append([]byte(nil), root...)
}

// InclusionProof returns the proof for the leaf at index, or an error when the
// tree has no such leaf.
func (t *Tree) InclusionProof(index uint64) (Proof, error) {
	nodes, err := proof.Inclusion(index, t.Size())
	if err != nil {
		return Proof{}, fmt.Errorf("leaf %d: %w", index, err)
	}
	hashes := make([][]byte, len(nodes.IDs))
	for i, id := range nodes.IDs {
		hashes[i] = t.node(id)
	}
	hashes, err = nodes.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return Proof{}, fmt.Errorf("leaf %d: %w", index, err)
	}
	return Proof{Index: index, Hashes: hashes}, nil
}

func (t *Tree) node(id compact.NodeID) []byte { return t.levels[id.Level][id.Index][:] }

// LeavesRoot returns the root over the leaves' bytes, as Manifest.LeavesRoot
// holds it in hexadecimal.
func LeavesRoot(leaves [][]byte) []byte { return NewTree(leaves).Root() }
