package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

func testLeaves(n int) [][]byte {
	leaves := make([][]byte, n)
	for i := range leaves {
		leaves[i] = binary.BigEndian.AppendUint64([]byte("leaf"), uint64(i))
	}
	return leaves
}

// rfcRoot is the definition in RFC 6962, 2.1, word for word.
func rfcRoot(d [][]byte) []byte {
	h := sha256.New()
	switch n := len(d); {
	case n == 0:
	case n == 1:
		h.Write([]byte{0})
		h.Write(d[0])
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		h.Write([]byte{1})
		h.Write(rfcRoot(d[:k]))
		h.Write(rfcRoot(d[k:]))
	}
	return h.Sum(nil)
}

func TestTreeProvesEveryLeafAndNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		leaves := testLeaves(n)
		tree := NewTree(leaves)
		root := tree.Root()
		if !bytes.Equal(root, rfcRoot(leaves)) || !bytes.Equal(root, LeavesRoot(leaves)) || tree.Size() != uint64(n) {
			t.Fatal("the root is not the one of RFC 6962")
		}
		i := rapid.Uint64Range(0, uint64(n-1)).Draw(t, "i")
		p := testkit.Value(tree.InclusionProof(i))(t)
		holds := func(leaf []byte, index uint64, hashes [][]byte) bool {
			return proof.VerifyInclusion(rfc6962.DefaultHasher, index, uint64(n), rfc6962.DefaultHasher.HashLeaf(leaf), hashes, root) == nil
		}
		if p.Index != i || !holds(leaves[i], i, p.Hashes) {
			t.Fatalf("leaf %d of %d is not proved", i, n)
		}
		j := rapid.Uint64Range(0, uint64(n-1)).Draw(t, "j")
		if j != i && (holds(leaves[j], i, p.Hashes) || holds(leaves[i], j, p.Hashes)) {
			t.Fatalf("the proof of leaf %d of %d proves leaf %d", i, n, j)
		}
		if _, err := tree.InclusionProof(uint64(n)); err == nil {
			t.Fatal("a proof for a leaf that is not there")
		}
	})
}

func TestEmptyTree(t *testing.T) {
	const want = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := hex.EncodeToString(LeavesRoot(nil)); got != want {
		t.Errorf("got %s", got)
	}
	if _, err := NewTree(nil).InclusionProof(0); err == nil {
		t.Error("a proof from an empty tree")
	}
}

func BenchmarkInclusionProof100000(b *testing.B) {
	tree := NewTree(testLeaves(100_000))
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		testkit.Value(tree.InclusionProof(i % 100_000))(b)
		i += 7919
	}
}

func BenchmarkTree100000(b *testing.B) {
	leaves := testLeaves(100_000)
	b.ReportAllocs()
	for b.Loop() {
		NewTree(leaves)
	}
}
