package model

import (
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// signed reads an operator's signed word.
func (f *facts) signed(ev event.OverrideAccepted) {
	f.words = append(f.words, ev)
	if r := f.find(ev.Manifest); r != nil {
		r.paused = r.paused || ev.Action == fleet.OverridePause
		r.ordered = r.ordered || ev.Action == fleet.OverrideRollback && r.reverting
	}
}

// epoch ends the words of earlier epochs. What they quarantined stays.
func (f *facts) epoch(now uint64) {
	var kept []event.OverrideAccepted
	for _, o := range f.words {
		if c := f.channels[o.Channel]; o.Epoch < now && c != nil && o.Host == "" && o.Bundle != "" && f.says(fleet.OverrideQuarantine, o.Channel, "", o.Bundle, "") {
			c.quarantine[o.Bundle] = true
		}
		if o.Epoch >= now {
			kept = append(kept, o)
		}
	}
	f.words = kept
}

// matter is what the words of an action are about: what ends another word is about
// the same as that one.
func matter(a fleet.OverrideAction) fleet.OverrideAction {
	switch a {
	case fleet.OverrideResume:
		return fleet.OverridePause
	case fleet.OverrideUnquarantine:
		return fleet.OverrideQuarantine
	case fleet.OverrideUnfreeze:
		return fleet.OverrideFreeze
	}
	return a
}

// last returns the last signed of all words on one matter, or nil.
func (f *facts) last(a fleet.OverrideAction, channel string, manifest, bundle digest.Digest, host, wave string) *event.OverrideAccepted {
	var last *event.OverrideAccepted
	for i := range f.words {
		o := &f.words[i]
		if matter(o.Action) != matter(a) || o.Manifest != manifest || o.Bundle != bundle || o.Host != host || o.Wave != wave || manifest == "" && o.Channel != channel {
			continue
		}
		if last == nil || o.Version > last.Version || o.Version == last.Version && o.Action.Holds() {
			last = o
		}
	}
	return last
}

// says reports whether of all words on one matter the last signed one is this.
func (f *facts) says(a fleet.OverrideAction, channel string, manifest, bundle digest.Digest, host string) bool {
	last := f.last(a, channel, manifest, bundle, host, "")
	return last != nil && last.Action == a
}

// held reports whether a signed word keeps a rollout from giving anything.
func (f *facts) held(r *rolloutFacts) bool {
	d := r.manifest.Digest
	return f.says(fleet.OverridePause, "", d, "", "") || f.says(fleet.OverrideCancel, "", d, "", "") ||
		f.says(fleet.OverrideRollback, "", d, "", "") || f.says(fleet.OverrideFreeze, r.channel, "", "", "")
}

// quarantined reports whether a bundle is refused to a host on a channel.
func (f *facts) quarantined(channel string, bundle digest.Digest, host string) bool {
	return f.channels[channel].quarantine[bundle] || f.says(fleet.OverrideQuarantine, channel, "", bundle, "") ||
		f.says(fleet.OverrideQuarantine, channel, "", bundle, host)
}
