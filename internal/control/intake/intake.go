// Package intake checks what comes from outside, before the reducer is asked: a
// pushed release against what the fleet trusts, a batch of a host's events
// against the host's chain. It reads published views, keeps a verified release's
// files as blobs, and returns as data what is to be recorded. It holds no state,
// appends nothing, and does not know how a refusal is answered.
package intake
