package spec

import (
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// MaxKeep is how long the data of a session's volume may stay after it.
const MaxKeep = 30 * clock.Day

// LabelPod is the label of a session's volume that says SESSION/PART/POD.
const LabelPod = "steady.pod"

// SecretOwner is the session that a secret is of, by its reference. One of a host's own store is of
// none: names there have no slash.
func SecretOwner(ref string) (of Owner, is bool) {
	rest, is := strings.CutPrefix(ref, OwnerSession+"/")
	if !is {
		return Operators, false
	}
	name, _, _ := strings.Cut(rest, "/")
	return SessionOwner(name), true
}

// Secrets lists the secrets that a workspace names, in order.
func (w *Workspace) Secrets() []string {
	var names []string
	for i := range w.Env {
		names = append(names, w.Env[i].Secret)
	}
	for i := range w.Contents {
		names = append(names, w.Contents[i].Secret)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// CheckSet finds what an owner's resources may not have, whatever the bounds allow: sessions have
// secrets of their own alone, and only what is of a session is kept for a time.
func (o Owner) CheckSet(s *Set) []Problem {
	var out []Problem
	c := Checker{out: &out}
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		for _, name := range w.Secrets() {
			switch of, is := SecretOwner(name); {
			case o == Operators && is:
				c.In("workspaces", w.Name).Addf("secret %q is of %s: expected one of the host's own store", name, of)
			case o != Operators && of != o:
				c.In("workspaces", w.Name).Addf("secret %q is not of %s, which has secrets of its own alone", name, o)
			}
		}
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; o == Operators && v.Keep != 0 {
			c.In("volumes", v.Name).Addf("keep is for volumes of sessions: expected none")
		}
	}
	return out
}
