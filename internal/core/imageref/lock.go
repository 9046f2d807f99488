package imageref

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Lock gives the digest of what a reference named when it was locked, by the full
// form of the reference with its tag.
type Lock map[string]string

// Key is how a lock names a reference: in full form, with the tag that an engine
// would take, without a digest.
func Key(ref string) (string, error) {
	r, err := Parse(ref)
	r.Tag, r.Digest = cmp.Or(r.Tag, "latest"), ""
	return r.String(), err
}

// Pinned reports whether a reference names its image by digest.
func Pinned(ref string) bool {
	r, err := Parse(ref)
	return err == nil && r.Digest != ""
}

// Pin adds the digest that is locked to a reference as it is written, tag and all.
// Not ok: it has none, and stays as it is.
func (l Lock) Pin(ref string) (pinned string, ok bool) {
	if Pinned(ref) {
		return ref, true
	}
	key, err := Key(ref)
	if d := l[key]; err == nil && validDigest(d) {
		return ref + "@" + d, true
	}
	return ref, false
}

// Untagged is a reference that has a digest without its tag, as engines name it in
// their events.
func Untagged(ref string) string {
	name, digest, pinned := strings.Cut(ref, "@")
	if i := strings.LastIndexByte(name, ':'); pinned && i > strings.LastIndexByte(name, '/') {
		return name[:i] + "@" + digest
	}
	return ref
}

// Brief is a reference for people, with as much of its digest as tells images apart.
func Brief(ref string) string {
	name, digest, pinned := strings.Cut(ref, "@")
	if algorithm, hex, ok := strings.Cut(digest, ":"); pinned && ok && len(hex) > 12 {
		return name + "@" + algorithm + ":" + hex[:12]
	}
	return ref
}

// Valid says what is wrong with an entry of a lock; empty: nothing.
func (l Lock) Valid(key string) string {
	full, err := Key(key)
	switch {
	case err != nil:
		return err.Error()
	case full != key:
		return "the reference is written " + key + ": expected " + full
	case !validDigest(l[key]):
		return "the digest is \"" + l[key] + "\": expected sha256: and 64 of 0-9 a-f"
	}
	return ""
}

// Change is what a new lock has for one reference. Before is empty for a new one,
// After for one that is used no more.
type Change struct {
	Image  string `json:"image"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Missing lists the references in use whose digest has to be asked for: those
// that are not locked, and those that are to be asked for again. Used are keys.
func (l Lock) Missing(used []string, again func(key string) bool) []string {
	var out []string
	for _, key := range used {
		if _, known := l[key]; !known || again(key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Renew gives the lock of the references in use, with the digests that were found
// over those of before, and every reference with what became of it, sorted.
func (l Lock) Renew(used []string, found map[string]string) (Lock, []Change) {
	next := Lock{}
	for _, key := range used {
		if d := cmp.Or(found[key], l[key]); d != "" {
			next[key] = d
		}
	}
	both := maps.Clone(next)
	maps.Copy(both, l)
	var changes []Change
	for _, key := range slices.Sorted(maps.Keys(both)) {
		changes = append(changes, Change{Image: key, Before: l[key], After: next[key]})
	}
	return next, changes
}
