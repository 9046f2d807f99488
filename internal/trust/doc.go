// Package trust decides which documents may reach an effect. Everything is
// signed as a DSSE envelope over the bytes as received: signatures are checked
// before a payload is parsed, and nothing is ever encoded again to be checked.
//
// The order of a client's work is fixed. A chain of roots gives the keys; a
// timestamp names the newest snapshot; the snapshot (fleet.resolved) lists the
// valid manifests; a manifest binds each host's leaf by a Merkle root; a leaf
// names the bundle; a bundle names its blobs. Each step takes the verified
// result of the one before, so that parts of two releases cannot mix.
//
// Only this package can make a Verified value that holds something. The memory
// that makes old documents useless is State: the caller persists the State a
// call returned, atomically, before it uses the result of that call.
package trust
