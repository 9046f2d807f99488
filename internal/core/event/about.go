package event

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Kinds of things, other than hosts, that events are about. A rollout is named
// CHANNEL@REF, manifests and bundles by their digest, a release by its ref, an
// override by its digest; of the log there are checkpoints. Package nodeconfig reserves
// these words: any other may be a kind of objects that nodes have.
const (
	KindRollout  = "rollout"
	KindChannel  = "channel"
	KindManifest = "manifest"
	KindBundle   = "bundle"
	KindRelease  = "release"
	KindSource   = "source"
	KindOverride = "override"
	KindLog      = "log"
	KindNode     = "node"
	KindSession  = "session"
	KindTemplate = "template" // of sessions
	KindQuota    = "quota"    // of those who ask for them
)

// Kinds lists what an event may be about in every fleet. Drivers have words of their own beside these.
func Kinds() []string {
	return append([]string{KindHost, KindRollout, KindChannel, KindManifest, KindBundle, KindRelease, KindSource, KindOverride, KindLog, KindNode, KindSession, KindTemplate, KindQuota}, nodeconfig.KindNames()...)
}

// maxSubjects bounds what one event is about.
const maxSubjects = 1000

// Actor is who decided on an event, as its body has it: an operator, or a part of the server; ""
// where nobody is named.
func Actor(e *Entry) string {
	var b struct {
		Actor string `json:"actor"`
	}
	if !bytes.Contains(e.Body, []byte(`"actor"`)) || json.Unmarshal(e.Body, &b) != nil {
		return ""
	}
	return b.Actor
}

// isName reports whether events can be about something of this name.
func isName(name string) bool {
	return name != "" && len(name) <= 255 && utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}

// names are the members of bodies that name things.
type names struct {
	Rollout  string `json:"rollout"`
	Channel  string `json:"channel"`
	Manifest string `json:"manifest"`
	Digest   string `json:"digest"`
	Target   string `json:"target"`
	Ref      string `json:"ref"`
	Waiting  string `json:"target_ref"`
	Dropped  string `json:"droppedRollout"`
	Host     string `json:"host"`
	Override string `json:"override"`
	Source   string `json:"source"`
	Channels []struct {
		Channel string `json:"channel"`
	} `json:"channels"`
	Bundle  any        `json:"bundle"` // a name in some types, a flag in others
	Skipped []string   `json:"skippedHosts"`
	Waits   []HostWait `json:"waits"`
	SyncOf
	Legs []struct {
		Node string `json:"node"`
	} `json:"legs"`
}

// member is a member of a body that names a thing of a kind.
type member struct {
	kind string
	name func(*names) string
}

var (
	rollout  = member{KindRollout, func(n *names) string { return n.Rollout }}
	channel  = member{KindChannel, func(n *names) string { return n.Channel }}
	manifest = member{KindManifest, func(n *names) string { return n.Manifest }}
	refused  = member{KindBundle, func(n *names) string { return n.Digest }}
	target   = member{KindBundle, func(n *names) string { return n.Target }}
	release  = member{KindRelease, func(n *names) string { return n.Ref }}
	waiting  = member{KindRollout, func(n *names) string { return n.Waiting }}
	dropped  = member{KindRollout, func(n *names) string { return n.Dropped }}
	source   = member{KindSource, func(n *names) string { return n.Source }}
	signed   = member{KindOverride, func(n *names) string { return n.Override }}
	accepted = member{KindOverride, func(n *names) string { return n.Digest }}
	named    = member{KindHost, func(n *names) string { return n.Host }}
	bundle   = member{KindBundle, func(n *names) string { s, _ := n.Bundle.(string); return s }}
	node     = member{KindNode, func(n *names) string { return n.Node }}
	flow     = member{nodeconfig.Flow, func(n *names) string { return n.Flow }}
	tunnel   = member{nodeconfig.Tunnel, func(n *names) string { return n.Tunnel }}
	document = member{nodeconfig.Document, func(n *names) string { return n.Document }}
	// object is what a driver has a word of its own for, which the body names.
	object = member{"", func(n *names) string { return n.Of }}
)

// About returns what an entry is about, each once: its subject, and the things that
// its body names. A name that is no text of 1 to 255 bytes is left out, and so is
// what a body of a type that is not known may name.
func About(e *Entry) []Subject { return AppendAbout(nil, e) }

// AppendAbout appends what About returns to dst, which must be empty.
func AppendAbout(dst []Subject, e *Entry) []Subject {
	t := types[e.Type]
	if (t == nil || t.about == nil) && e.Subject != (Subject{}) {
		return append(dst, e.Subject)
	}
	out := dst
	add := func(kind, name string) {
		s := Subject{Kind: kind, Name: name}
		if isName(name) && len(out) < maxSubjects && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	add(e.Subject.Kind, e.Subject.Name)
	if t == nil || t.about == nil {
		return out
	}
	var n names
	_ = json.Unmarshal(e.Body, &n) // the folds judge bodies; what can be read counts here
	for _, m := range t.about {
		add(cmp.Or(m.kind, n.Kind), m.name(&n))
	}
	for _, c := range n.Channels {
		add(KindChannel, c.Channel)
	}
	for _, host := range n.Skipped {
		add(KindHost, host)
	}
	for _, l := range n.Legs {
		add(KindNode, l.Node)
	}
	for i := range n.Waits {
		for _, host := range n.Waits[i].Hosts {
			add(KindHost, host)
		}
	}
	return out
}

// OfRollout is an event about a rollout that has opened, with its name and manifest; an
// old log may have no manifest.
type OfRollout interface {
	Event
	Of() (rollout string, manifest digest.Digest)
}

func (e RolloutMoved) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e RolloutReverting) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e RolloutPaused) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e RolloutResumed) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e RolloutRetried) Of() (string, digest.Digest)   { return e.Rollout, e.Manifest }
func (e RolloutCancelled) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e RolloutPruned) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e WavePromoted) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e WaveForced) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e WaveBlocked) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e BreakGlassUsed) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }

func (e Granted) Of() (string, digest.Digest) { return e.Rollout, e.Manifest }
