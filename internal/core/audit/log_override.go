package audit

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// overrideEvent takes an operator's signed word.
func (l *Log) overrideEvent(ev event.Event) bool {
	o, is := ev.(event.OverrideAccepted)
	if !is {
		return false
	}
	l.must(o.Actor != "" && o.Envelope != "" && o.Digest != "", "S18", "override %s was accepted of nobody, or without what was signed", o.ID)
	l.must(o.Epoch == l.epoch, "S5", "override %s of epoch %d was accepted in epoch %d", o.ID, o.Epoch, l.epoch)
	for i := range l.words {
		w := &l.words[i]
		l.must(w.Digest != o.Digest, "S18", "override %s was accepted twice", o.ID)
		l.must(!sameMatter(&w.Override, &o.Override) || w.Version <= o.Version, "S18", "override %s was accepted after the later %s", o.ID, w.ID)
	}
	l.words = append(l.words, o)
	if r, _ := l.of(o.Manifest); r != nil {
		switch o.Action {
		case fleet.OverridePause:
			r.paused = true
		case fleet.OverrideRollback:
			r.ordered = r.ordered || r.reverting
		}
	}
	return true
}

func sameMatter(a, b *fleet.Override) bool {
	return loosenedBy(a.Action) == loosenedBy(b.Action) && a.Manifest == b.Manifest && a.Bundle == b.Bundle && a.Host == b.Host && a.Channel == b.Channel && a.Wave == b.Wave
}

// loosenedBy names the action that ends what a holds; an action that nothing ends
// stands for itself.
func loosenedBy(a fleet.OverrideAction) fleet.OverrideAction {
	switch a {
	case fleet.OverridePause:
		return fleet.OverrideResume
	case fleet.OverrideQuarantine:
		return fleet.OverrideUnquarantine
	case fleet.OverrideFreeze:
		return fleet.OverrideUnfreeze
	}
	return a
}

// epochBegins ends the words of epochs before. What they quarantined stays.
func (l *Log) epochBegins(epoch uint64) {
	var kept []event.OverrideAccepted
	for i := range l.words {
		o := &l.words[i]
		if o.Epoch >= epoch {
			kept = append(kept, *o)
		} else if c := l.channels[o.Channel]; c != nil && o.Action == fleet.OverrideQuarantine && o.Host == "" && l.held(o.Channel, "", o.Bundle, "") != nil {
			c.quarantine[o.Bundle] = true
		}
	}
	l.epoch, l.words = epoch, kept
}

// held looks through every word for what holds one thing now: a manifest if one
// is given, else a bundle on a channel for a host, else the channel.
func (l *Log) held(channel string, manifest, bundle digest.Digest, host string) *event.OverrideAccepted {
	var newest *event.OverrideAccepted
	for i := range l.words {
		o := &l.words[i]
		about := o.Manifest == manifest && o.Bundle == bundle && o.Host == host && (manifest != "" || o.Channel == channel)
		ended := o.Action == fleet.OverrideCancel || o.Action == fleet.OverrideRollback ||
			o.Action == fleet.OverridePromote || o.Action == fleet.OverrideBreakGlass
		if !about || ended {
			continue
		}
		if newest == nil || o.Version > newest.Version || o.Version == newest.Version && !newest.Action.Holds() {
			newest = o
		}
	}
	if newest == nil || !newest.Action.Holds() {
		return nil
	}
	return newest
}

// permitted checks that no signed word keeps a host from a rollout's bundle.
func (l *Log) permitted(h *hostFacts, r *rolloutFacts, target digest.Digest) {
	for _, o := range []*event.OverrideAccepted{l.held("", r.manifest.Digest, "", ""), l.held(r.channel, "", "", "")} {
		if o != nil {
			l.addf("S18", "host %s was let into rollout %s against override %s (%s)", h.name, r.name, o.ID, o.Action)
		}
	}
	for i := range l.words {
		if o := &l.words[i]; o.Manifest == r.manifest.Digest && (o.Action == fleet.OverrideCancel || o.Action == fleet.OverrideRollback) {
			l.addf("S18", "host %s was let into rollout %s against override %s (%s)", h.name, r.name, o.ID, o.Action)
		}
	}
	l.unbanned(h, r.channel, target)
}

// unbanned checks that no signed word quarantines a bundle for a host.
func (l *Log) unbanned(h *hostFacts, channel string, target digest.Digest) {
	for _, o := range []*event.OverrideAccepted{l.held(channel, "", target, ""), l.held(channel, "", target, h.name)} {
		if o != nil {
			l.addf("S17", "host %s was let onto bundle %s against override %s", h.name, target.Short(), o.ID)
		}
	}
}

// rolledBack checks that a revert which names an override rests on it.
func (l *Log) rolledBack(r *rolloutFacts, ev event.RolloutReverting) {
	found := l.signed(ev.Override, fleet.OverrideRollback, r.manifest.Digest)
	l.must(found && ev.Actor != "", "S21", "rollout %s reverts on override %s, which is no rollback of it", r.name, ev.Override.Short())
	r.reverting, r.ordered = true, true
}

// signed says whether a word in force does something to a manifest.
func (l *Log) signed(word digest.Digest, action fleet.OverrideAction, manifest digest.Digest) bool {
	return slices.ContainsFunc(l.words, func(o event.OverrideAccepted) bool {
		return o.Digest == word && o.Action == action && o.Manifest == manifest
	})
}

func (l *Log) waveOf(word digest.Digest) string {
	for i := range l.words {
		if l.words[i].Digest == word {
			return l.words[i].Wave
		}
	}
	return ""
}

// brokenGlass checks that waves are opened at once on a signed word alone.
func (l *Log) brokenGlass(r *rolloutFacts, ev event.GlassBroken) {
	l.must(ev.Actor != "" && ev.Reason != "" && l.signed(ev.Override, fleet.OverrideBreakGlass, r.manifest.Digest), "S40",
		"every wave of %s was opened on override %s, which does not say so", r.name, ev.Override.Short())
	last := len(r.manifest.Header.Waves) - 1
	l.must(ev.Wave == last, "S40", "wave %d of %s was opened as its last, which is %d", ev.Wave, r.name, last)
	r.cursor, r.held, r.glass = max(r.cursor, ev.Wave), "", true
}
