package managed

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// What is decided of a resource besides the verbs of its kind.
const (
	VerbSet    = "set"
	VerbRemove = "remove"
)

// ResourceVerb reports whether operators can have a verb carried out on a resource now.
type ResourceVerb struct {
	Verb     string `json:"verb"`
	Possible bool   `json:"possible"`
	// Message reports why it is not possible, or why it would change nothing.
	Message string `json:"message,omitempty"`
}

// idle are the verbs that change nothing in a state that the host reports, and only those that need one.
var idle = map[string]spec.State{spec.VerbStart: spec.RunningState, spec.VerbStop: spec.StoppedState}
var needs = map[string]spec.State{spec.VerbCancel: spec.ImageBuilding}

// VerbsOf reports for every verb of a resource's kind, of setting and of removing it whether operators can
// have it carried out: what decides on each is asked, and decides nothing. State is what the host
// reported last.
func VerbsOf(s *State, t *Target, kind, name, state string) []ResourceVerb {
	k := spec.Known.Kind(kind)
	if k == nil {
		return nil
	}
	var out []ResourceVerb
	add := func(verb string, err error) {
		v := ResourceVerb{Verb: verb, Possible: err == nil}
		switch at, needed := needs[verb]; {
		case err != nil:
			v.Message = err.Error()
		case idle[verb] != "" && string(idle[verb]) == state, needed && string(at) != state:
			v.Possible, v.Message = false, verb+" changes nothing of "+ID(kind, name)+", which is "+state
		}
		out = append(out, v)
	}
	for _, verb := range k.VerbNames() {
		_, err := RequestVerb(s, t, kind, name, verb, "", Change{})
		add(verb, err)
	}
	add(VerbSet, s.maySet(t, kind, name))
	_, err := Remove(s, t, kind, name, true, Change{})
	add(VerbRemove, err)
	return out
}

// maySet reports why operators set no entry of a name, if they do not: what it would hold is not judged.
func (s *State) maySet(t *Target, kind, name string) error {
	e, there := s.Hosts[t.Host].entry(kind, name)
	if !there {
		return t.missing(kind, name)
	}
	_, err := Set(s, t, Input{Kind: kind, Name: name, Spec: e.Spec, NotAfter: e.NotAfter, Envelope: e.Envelope}, Change{})
	var r *Refusal
	if errors.As(err, &r) && (r.Code == OutOfBounds || r.Code == Invalid) {
		return nil
	}
	return err
}
