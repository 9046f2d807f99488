// Package spec holds what is declared of containers on a host: networks,
// volumes, images, workspaces, snapshots and routes. A Set is read from a
// Compose file into a signed bundle, or set resource by resource in the managed
// layer. Values are canonical: integers only, sets sorted and without repeats,
// order kept where it means something. The package knows no engine.
//
// Everything that is to be said of a kind is a row of the Table in kinds.go and the
// methods of its Resource, one file for each kind: its form, what it needs and takes,
// what is wrong with it, and what the signed bounds of the managed layer let it be.
package spec

import "github.com/steadyfleet/steady/internal/core/digest"

// Blob is content that travels beside a bundle.
type Blob struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
}

// Desired is what the owner asks of one resource's reconciler. A Run with another
// name has the resource observed again; it never changes what is wanted.
type Desired[S any] struct {
	Spec S      `json:"spec"`
	Run  string `json:"run"`
	// Suspended keeps what exists and stops what runs: the resource belongs to the
	// generation that was left, which may come back.
	Suspended bool `json:"suspended,omitempty"`
	// Verb asks for something once, such as redeploy; Nonce tells one asking from
	// the next.
	Verb  string `json:"verb,omitempty"`
	Nonce string `json:"nonce,omitempty"`
	// Version is that of the managed layer which set this or asked for Verb; 0:
	// none did. It is for reports alone.
	Version uint64 `json:"version,omitempty"`
}
