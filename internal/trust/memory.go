package trust

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
)

// Memory keeps what a Verifier found to be so, for whoever checks the same documents
// again and again: signatures that held, each with its key and every byte that it
// covers, and the roots that were opened. What was refused is not kept: it is checked
// in full every time. It is bounded, and no State: who begins without one comes to the
// same answers. It is one goroutine's; the zero value is empty, nil keeps nothing.
type Memory struct {
	known map[[sha256.Size]byte]bool
	roots []ownRoot
}

// ownRoot is a root that was checked against its own keys.
type ownRoot struct {
	fleet string
	env   []byte
	ring  *keyring
}

// Bounds of a Memory: what comes after them is kept in the place of what came before.
const (
	maxKnown = 1024
	maxRoots = 8
)

// NewVerifier is NewVerifier of a verifier that keeps what it finds in m.
func (m *Memory) NewVerifier(fleetName string, s State) (Verifier, error) {
	if len(s.Root) == 0 {
		return Verifier{}, refuse(RootInvalid, "no trusted root; enrol the host, or give the fleet's 1.root.json")
	}
	if ring := m.root(fleetName, s.Root); ring != nil {
		return Verifier{fleet: fleetName, state: s, ring: ring, memory: m}, nil
	}
	e, err := ParseEnvelope(s.Root)
	if err != nil {
		return Verifier{}, err
	}
	ring, err := openRoot(fleetName, e)
	if err != nil {
		return Verifier{}, err
	}
	if err := m.verify(e.only(RoleRoot, ring), RoleRoot, ring); err != nil {
		return Verifier{}, err
	}
	m.keep(fleetName, s.Root, ring)
	return Verifier{fleet: fleetName, state: s, ring: ring, memory: m}, nil
}

// root returns the keys of a root that was opened before, or nil.
func (m *Memory) root(fleetName string, env []byte) *keyring {
	if m != nil {
		for i := range m.roots {
			if o := &m.roots[i]; o.fleet == fleetName && bytes.Equal(o.env, env) {
				return o.ring
			}
		}
	}
	return nil
}

func (m *Memory) keep(fleetName string, env []byte, ring *keyring) {
	if m == nil {
		return
	}
	if len(m.roots) == maxRoots {
		m.roots = m.roots[1:]
	}
	m.roots = append(m.roots, ownRoot{fleetName, bytes.Clone(env), ring})
}

// knows reports whether sig is the key's signature of message.
func (m *Memory) knows(pub ed25519.PublicKey, message, sig []byte) bool {
	if m == nil || len(pub) != ed25519.PublicKeySize || len(sig) != ed25519.SignatureSize {
		return ed25519.Verify(pub, message, sig)
	}
	h := sha256.New() // of two parts of fixed size and the rest: no two triples are alike
	h.Write(pub)
	h.Write(sig)
	h.Write(message)
	key := [sha256.Size]byte(h.Sum(nil))
	if m.known[key] {
		return true
	}
	if !ed25519.Verify(pub, message, sig) {
		return false
	}
	if m.known == nil || len(m.known) == maxKnown {
		m.known = map[[sha256.Size]byte]bool{}
	}
	m.known[key] = true
	return true
}
