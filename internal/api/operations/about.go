package operations

import (
	"context"
	"slices"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

// topic is a subject. A host that was renamed was another one before.
type topic struct {
	event.Subject
	former []plan.FormerName
}

// subjects are those under which the index has the topic.
func (t *topic) subjects() []event.Subject {
	out := []event.Subject{t.Subject}
	for _, was := range t.former {
		out = append(out, event.HostSubject(was.Name))
	}
	return out
}

// covers reports whether a record, which is about some things, is about the topic. What another
// machine did or met that took a former name since is not.
func (t *topic) covers(r *event.Record, about []event.Subject) bool {
	if slices.Contains(about, t.Subject) {
		return true
	}
	return slices.ContainsFunc(t.former, func(was plan.FormerName) bool {
		if r.HostSeq != 0 { // its instant is on the host's clock
			return r.Host() == was.Name && r.Incarnation <= was.Incarnation
		}
		return r.At <= was.Until && slices.Contains(about, event.HostSubject(was.Name))
	})
}

// topicsOf reads what events are to be about. What a digest names may be given in the short
// form that screens print.
func (h *Handler) topicsOf(ctx context.Context, about []string) ([]topic, error) {
	if len(about) > maxAbout {
		return nil, wire.Refuse(wire.ErrInvalid, "%d things are asked for at once: at most %d", len(about), maxAbout)
	}
	var f []topic
	for _, a := range about {
		s, err := event.ParseSubject(a)
		if err == nil {
			s, err = h.whole(ctx, s)
		} else {
			err = &wire.Refusal{Kind: wire.ErrInvalid, Message: err.Error()}
		}
		if err != nil {
			return nil, err
		}
		f = append(f, topic{Subject: s})
	}
	if !slices.ContainsFunc(f, func(t topic) bool { return t.Kind == event.KindHost }) {
		return f, nil
	}
	err := h.c.View(ctx, func(s *plan.State) {
		for i := range f {
			if known := s.Hosts[f[i].Name]; f[i].Kind == event.KindHost && known != nil {
				f[i].former = known.FormerNames()
			}
		}
	})
	return f, err
}

// whole completes a digest that was given without its prefix, or its first digits alone.
func (h *Handler) whole(ctx context.Context, s event.Subject) (event.Subject, error) {
	if !slices.Contains(plan.NamedByDigest, s.Kind) {
		return s, nil
	}
	for _, name := range []string{s.Name, digest.Prefix + s.Name} {
		if d, err := digest.Parse(name); err == nil {
			s.Name = string(d)
			return s, nil
		}
	}
	var found []digest.Digest
	if err := h.c.View(ctx, func(state *plan.State) { found = state.FindDigest(s.Kind, s.Name) }); err != nil {
		return s, err
	}
	switch len(found) {
	case 0:
		return s, wire.Refuse(wire.ErrNotFound, "no %s %q is known; give its whole digest, sha256:…", s.Kind, s.Name)
	case 1:
		s.Name = string(found[0])
		return s, nil
	}
	return s, wire.Refuse(wire.ErrInvalid, "%d of kind %s begin with %s; give the whole digest, sha256:…", len(found), s.Kind, s.Name)
}

// known refuses an empty answer about what does not exist: it would look as if nothing
// had happened to it.
func (h *Handler) known(ctx context.Context, f []topic) error {
	if len(f) == 0 {
		return nil
	}
	sources, err := h.c.Sources(ctx)
	if err != nil {
		return err
	}
	var missing []event.Subject
	err = h.c.View(ctx, func(s *plan.State) {
		for i := range f {
			if !h.exists(s, sources, f[i].Subject) {
				missing = append(missing, f[i].Subject)
			}
		}
	})
	for _, s := range missing {
		if err != nil {
			break
		}
		var once []event.Record
		if once, err = h.c.RecordsAbout(ctx, s, 0, 1); err == nil && len(once) == 0 {
			err = unknown(s)
		}
	}
	return err
}

// exists reports whether there is something that events could be about. What is over
// may be in the log alone.
func (h *Handler) exists(s *plan.State, sources []control.SourceState, subject event.Subject) bool {
	switch name := subject.Name; subject.Kind {
	case event.KindHost:
		_, declared := h.c.Roster()[name]
		return declared || s.Hosts[name] != nil
	case event.KindRollout:
		_, pruned := s.FindPruned(name)
		_, queued := h.c.Explain(s).FindQueued(name)
		return pruned || queued || s.Find(name) != nil
	case event.KindChannel:
		return s.Channels[name] != nil
	case event.KindRelease:
		return s.Release.Ref == name
	case event.KindSource:
		return slices.ContainsFunc(sources, func(x control.SourceState) bool { return x.Name == name })
	default:
		return len(s.FindDigest(subject.Kind, name)) > 0
	}
}

func unknown(s event.Subject) error {
	switch s.Kind {
	case event.KindHost:
		return unknownHost(s.Name)
	case event.KindRollout:
		return unknownRollout(s.Name)
	case event.KindRelease:
		return wire.Refuse(wire.ErrNotFound, "no release %s is in the log; releases are named by their ref, such as that of steady status", s.Name)
	}
	return wire.Refuse(wire.ErrNotFound, "there is no %s %s, and no event of the log is about one", s.Kind, s.Name)
}
