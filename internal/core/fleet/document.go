// Package fleet holds what a fleet declares and what a release signs: the
// declaration as people write it, and the documents that servers and agents
// read. It decides nothing about time and touches nothing outside itself.
package fleet

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Types of the signed documents. The type is part of every payload and of the
// bytes under the signature, so that one cannot pass for another.
const (
	TypeResolved    = "steady/fleet.resolved/v1"
	TypeManifest    = "steady/manifest/v1"
	TypeTimestamp   = "steady/timestamp/v1"
	TypeRevocations = "steady/revocations/v1"
	TypeRoster      = "steady/roster/v1"
	TypeBundle      = "steady/bundle/v1"
	TypeBudget      = "steady/budget/v1"
)

// Document opens every signed payload.
type Document struct {
	Type  string `json:"_type"`
	Fleet string `json:"fleet"`
	// Epoch is the key epoch: it rises when keys are replaced because one may
	// be stolen, and ends everything signed before.
	Epoch uint64 `json:"epoch"`
	// Version rises with every document of this type within an epoch.
	Version  uint64        `json:"version"`
	IssuedAt clock.Instant `json:"issuedAt"`
	// Critical names fields that a reader must understand or refuse the whole.
	Critical []string `json:"critical,omitempty"`
}

// ManifestRef points a channel at one manifest that is valid now.
type ManifestRef struct {
	// Rollout is the display name, "<channel>@<ref>".
	Rollout string        `json:"rollout"`
	Digest  digest.Digest `json:"digest"`
	Version uint64        `json:"version"`
}

// ResolvedChannel is one channel of the snapshot.
type ResolvedChannel struct {
	Ref               string         `json:"ref"`
	FreshnessWindow   clock.Duration `json:"freshnessWindow"`
	SigningInterval   clock.Duration `json:"signingInterval"`
	ReconcileInterval clock.Duration `json:"reconcileInterval"`
	OnNewRef          OnNewRef       `json:"onNewRef"`
	// Manifests lists what is valid now: first the one to roll out, then
	// earlier ones that returning hosts may still be given.
	Manifests []ManifestRef `json:"manifests"`
}

// Resolved is fleet.resolved.json, the snapshot of a release: it lists the
// valid manifests by digest, so that parts of two releases never mix.
type Resolved struct {
	Document
	Ref          string                     `json:"ref"`
	Roster       digest.Digest              `json:"roster"`
	Revocations  digest.Digest              `json:"revocations"`
	Channels     map[string]ResolvedChannel `json:"channels"`
	ChannelEdges []Edge                     `json:"channelEdges"`
	// Servers are the addresses at which hosts look for their server; without any they
	// keep those that they have.
	Servers []string `json:"servers,omitempty"`
}

// Origin tells what a release was built upon, and of which sources.
type Origin struct {
	// Follows are the releases before this one, newest first: its base, and what that
	// followed, MaxFollows at most. A first release follows none.
	Follows []ReleaseRef `json:"follows"`
	// Commit is that of the sources, where nothing in the checkout differed; a rollback has
	// that of the release before it.
	Commit string `json:"commit,omitempty"`
}

// MaxFollows bounds how many releases a release names that it follows.
const MaxFollows = 12

// ReleaseRef names a release by its snapshot.
type ReleaseRef struct {
	Epoch   uint64        `json:"epoch"`
	Version uint64        `json:"version"`
	Digest  digest.Digest `json:"digest"`
}

// After is the origin of a release that is built of the commit upon this one, whose base is named by ref.
func (o *Origin) After(ref ReleaseRef, commit string) *Origin {
	line := []ReleaseRef{ref}
	if o != nil {
		line = append(line, o.Follows...)
	}
	return &Origin{line[:min(len(line), MaxFollows)], commit}
}

// RosterHost is one declared host.
type RosterHost struct {
	Channel string        `json:"channel"`
	Tags    []string      `json:"tags"`
	Bundle  digest.Digest `json:"bundle"`
	// Managed lists the kinds that the managed layer may set on this host.
	Managed []string `json:"managed"`
	// Delegation is what the server may do without a signature; nil is nothing.
	Delegation *Delegation `json:"delegation,omitempty"`
	// Removed says that the host leaves the fleet, and how.
	Removed Workloads `json:"removed,omitempty"`
	// RenamedFrom is the name that the machine had before.
	RenamedFrom string `json:"renamedFrom,omitempty"`
}

// Roster lists every host of the fleet. It is a file of its own, named by digest in
// Resolved, so that the snapshot, which every host fetches, stays small.
type Roster struct {
	Document
	// Origin is nil in releases of builds that do not tell it.
	Origin *Origin               `json:"origin,omitempty"`
	Hosts  map[string]RosterHost `json:"hosts"`
}

// Timestamp states that a snapshot was the newest at IssuedAt.
type Timestamp struct {
	Document
	Resolved        digest.Digest `json:"resolved"`
	ResolvedVersion uint64        `json:"resolvedVersion"`
}

// Revocation ends the certificates of a host issued before NotBefore.
type Revocation struct {
	Host      string        `json:"host"`
	NotBefore clock.Instant `json:"notBefore"`
	Reason    string        `json:"reason"`
}

// Revocations lists hosts whose identity was withdrawn.
type Revocations struct {
	Document
	Revoked []Revocation `json:"revoked"`
}

// CheckName refuses a name that is unsafe or ambiguous as a path, label or
// certificate identity.
func CheckName(s string) error { return spec.CheckName(s) }

// RolloutName is the display name of a rollout. The manifest digest, not this
// name, is its identity.
func RolloutName(channel, ref string) string { return channel + "@" + ref }

// TypeManagedEntry is the type of an entry of the managed layer that an operator
// signed.
const TypeManagedEntry = "steady/managed.entry/v1"

// ManagedEntry is one entry of one host's managed layer, for hosts whose signed
// declaration asks for operators' signatures. Of two for one resource the higher
// version counts.
type ManagedEntry struct {
	Document
	Host string `json:"host"`
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Spec is the resource as JSON text.
	Spec     string        `json:"spec"`
	NotAfter clock.Instant `json:"notAfter,omitempty"`
}
