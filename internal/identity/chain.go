package identity

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// The domains keep one kind of hash or signature from passing for another.
const (
	domainGenesis = "steady/host-chain/genesis/v1"
	domainLink    = "steady/host-chain/link/v1"
	domainHead    = "steady/host-chain/head/v1"
)

// Chain is where a host's chain of events stands: the number of the last event
// and the hash over all of them. An incarnation is one life of a host's state
// folder; each has a chain of its own that starts at Genesis.
type Chain struct {
	Seq  uint64
	Hash [32]byte
}

// Genesis returns the chain before its first event.
func Genesis(fleetName, host string, incarnation uint64) Chain {
	h := begin(domainGenesis)
	field(h, []byte(fleetName))
	field(h, []byte(host))
	number(h, incarnation)
	return Chain{Hash: sum(h)}
}

// Next returns the chain after one more event, whose number is c.Seq + 1. Body
// is the event's JSON exactly as kept and sent.
func (c Chain) Next(at clock.Instant, eventType string, body []byte) Chain {
	h := begin(domainLink)
	h.Write(c.Hash[:])
	number(h, c.Seq+1)
	number(h, uint64(at))
	field(h, []byte(eventType))
	field(h, body)
	return Chain{Seq: c.Seq + 1, Hash: sum(h)}
}

// SignHead signs where a chain stands with the host's event key, Ed25519. At
// enrolment the head of Genesis proves that the host holds the key.
func SignHead(key crypto.Signer, fleetName, host string, incarnation uint64, head Chain) ([]byte, error) {
	if _, ok := key.Public().(ed25519.PublicKey); !ok {
		return nil, fmt.Errorf("a host signs its events with an Ed25519 key, not %T", key.Public())
	}
	return key.Sign(rand.Reader, headMessage(fleetName, host, incarnation, head), crypto.Hash(0))
}

// VerifyHead checks such a signature.
func VerifyHead(pub ed25519.PublicKey, fleetName, host string, incarnation uint64, head Chain, sig []byte) error {
	if len(pub) != ed25519.PublicKeySize {
		return fmt.Errorf("an Ed25519 public key has %d bytes, not %d", ed25519.PublicKeySize, len(pub))
	}
	if !ed25519.Verify(pub, headMessage(fleetName, host, incarnation, head), sig) {
		return errors.New("the signature over the head of the host's events is not valid")
	}
	return nil
}

func headMessage(fleetName, host string, incarnation uint64, head Chain) []byte {
	h := begin(domainHead)
	field(h, []byte(fleetName))
	field(h, []byte(host))
	number(h, incarnation)
	number(h, head.Seq)
	h.Write(head.Hash[:])
	digest := sum(h)
	return append([]byte(domainHead+"\x00"), digest[:]...)
}

func begin(domain string) hash.Hash {
	h := sha256.New()
	field(h, []byte(domain))
	return h
}

// field writes a length before the bytes, so that no two lists of fields have
// the same encoding.
func field(h hash.Hash, b []byte) {
	number(h, uint64(len(b)))
	h.Write(b)
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

func sum(h hash.Hash) [32]byte { return [32]byte(h.Sum(nil)) }
