package managed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/validate"
)

// ReadSpec reads the spec of one resource strictly: a field that is not known is
// an error, never dropped. The resource comes back in its canonical form, alone
// in a set, and as JSON. A spec may leave out its name.
func ReadSpec(kind, name string, raw []byte) (*container.Set, json.RawMessage, error) {
	var s container.Set
	switch kind {
	case container.KindNetwork:
		s.Networks = make([]container.Network, 1)
		return readSpec(raw, name, &s, &s.Networks[0], &s.Networks[0].Name)
	case container.KindVolume:
		s.Volumes = make([]container.Volume, 1)
		return readSpec(raw, name, &s, &s.Volumes[0], &s.Volumes[0].Name)
	case container.KindImage:
		s.Images = make([]container.Image, 1)
		return readSpec(raw, name, &s, &s.Images[0], &s.Images[0].Name)
	case container.KindWorkspace:
		s.Workspaces = make([]container.Workspace, 1)
		return readSpec(raw, name, &s, &s.Workspaces[0], &s.Workspaces[0].Name)
	case container.KindSnapshot:
		s.Snapshots = make([]container.Snapshot, 1)
		return readSpec(raw, name, &s, &s.Snapshots[0], &s.Snapshots[0].Name)
	case container.KindRoute:
		s.Routes = make([]container.Route, 1)
		return readSpec(raw, name, &s, &s.Routes[0], &s.Routes[0].Name)
	}
	return nil, nil, fmt.Errorf("unknown kind %q: expected one of %v", kind, container.Kinds)
}

// readSpec decodes into a resource of the set s.
func readSpec(raw []byte, name string, s *container.Set, into any, named *string) (*container.Set, json.RawMessage, error) {
	if len(raw) > MaxSpec {
		return nil, nil, fmt.Errorf("the spec has %d bytes: expected at most %d", len(raw), MaxSpec)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return nil, nil, fmt.Errorf("the spec cannot be read: %w", err)
	}
	if d.More() {
		return nil, nil, errors.New("the spec goes on after its first JSON value")
	}
	if *named != "" && *named != name {
		return nil, nil, fmt.Errorf("the spec is of %q: expected %q, or no name", *named, name)
	}
	*named = name
	if problems := validate.Spec(into); len(problems) > 0 {
		return nil, nil, problemsError(problems)
	}
	s.Normalize()
	canonical, err := json.Marshal(into)
	if err != nil {
		return nil, nil, fmt.Errorf("the spec cannot be written: %w", err)
	}
	return s, canonical, nil
}

// maxProblems is how many findings one refusal tells.
const maxProblems = 8

func problemsError(problems []container.Problem) error {
	words := make([]string, 0, maxProblems+1)
	for i, p := range problems {
		if i == maxProblems {
			words = append(words, fmt.Sprintf("and %d more", len(problems)-i))
			break
		}
		words = append(words, p.String())
	}
	return errors.New(strings.Join(words, "; "))
}

// holds reports whether a set declares a resource.
func holds(s *container.Set, kind, name string) bool {
	if s == nil {
		return false
	}
	has := func(n int, at func(int) string) bool {
		for i := range n {
			if at(i) == name {
				return true
			}
		}
		return false
	}
	switch kind {
	case container.KindNetwork:
		return has(len(s.Networks), func(i int) string { return s.Networks[i].Name })
	case container.KindVolume:
		return has(len(s.Volumes), func(i int) string { return s.Volumes[i].Name })
	case container.KindImage:
		return has(len(s.Images), func(i int) string { return s.Images[i].Name })
	case container.KindWorkspace:
		return has(len(s.Workspaces), func(i int) string { return s.Workspaces[i].Name })
	case container.KindSnapshot:
		return has(len(s.Snapshots), func(i int) string { return s.Snapshots[i].Name })
	case container.KindRoute:
		return has(len(s.Routes), func(i int) string { return s.Routes[i].Name })
	}
	return false
}
