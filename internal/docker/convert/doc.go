// Package convert writes what is desired of containers, networks and volumes, and
// what an engine shows of them, in the one normal form of package diff. It also
// writes the engine's requests from the same desires, so that what is asked for
// and what is compared cannot part. It calls no engine.
//
// Both sides are complete: what an image or the engine fills in for a field that
// is not set is filled in on the desired side too. Values that are or look like
// secrets stand as a keyed digest.
package convert
